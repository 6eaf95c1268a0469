"""A planned network as JSON and as text."""

from typing import Any

from rich.table import Table

from tilewright.planning import Planned
from tilewright.schedule.timeline import EngineUse, IdleReason
from tilewright.units import format_bytes, format_time


def summary_json(planned: Planned) -> dict[str, Any]:
    """All figures, always in one order."""
    account, machine, placed = planned.account, planned.machine, planned.placed
    verified = planned.verified
    return {
        "model": planned.plan.model,
        "machine": machine.name,
        "dtype": planned.plan.dtype,
        "latency_cycles": account.latency_cycles,
        "latency_ms": round(machine.seconds(account.latency_cycles) * 1e3, 9),
        "lower_bound_cycles": account.lower_bound_cycles,
        "energy_pj": account.energy_pj,
        "dram_read_bytes": account.dram_read_bytes,
        "dram_write_bytes": account.dram_write_bytes,
        "compulsory_bytes": account.compulsory_bytes,
        "peak_bytes": dict(placed.peaks),
        "engines": {
            name: {"busy_cycles": use.busy, "utilisation": round(use.utilisation, 6)}
            for name, use in account.engines
        },
        "groups": len(planned.plan.groups),
        "tasks": len(placed.program.tasks),
        "buffers": len(placed.program.buffers),
        "spills": 0,
        "verified": None
        if verified is None
        else {
            # Two digits: the last bits of a sum may differ from one processor to the next.
            "max_rel_error": float(f"{verified.difference.max_rel_error:.1e}"),
            "tasks_executed": verified.tasks,
        },
    }


def engines_table(planned: Planned) -> Table:
    """How busy every engine and link is, and what it mostly waits for."""
    names = [name for name, _ in planned.account.engines]
    pools = [name for name, _ in planned.machine.groups]
    table = Table("engine")
    table.add_column("busy cycles", justify="right")
    table.add_column("busy", justify="right")
    table.add_column("idle mostly because of")
    for name, use in planned.account.engines:
        table.add_row(name, f"{use.busy:,}", f"{use.utilisation:.1%}", _idle(use, names, pools))
    return table


def _idle(use: EngineUse, names: list[str], pools: list[str]) -> str:
    total = sum(part.cycles for part in use.idle)
    if not total:
        return ""
    worst = max(use.idle, key=lambda part: part.cycles)
    what = worst.reason.value
    if worst.waited_for is not None:
        known = pools if worst.reason is IdleReason.BANDWIDTH else names
        what = f"waiting for {known[worst.waited_for]}"
    return f"{what} ({worst.cycles / total:.0%} of it)"


def memory_table(planned: Planned) -> Table:
    """The peak of every memory."""
    live = dict(planned.placed.most_live)
    table = Table("memory")
    table.add_column("peak", justify="right")
    table.add_column("live at once", justify="right")
    table.add_column("usable", justify="right")
    for name, peak in planned.placed.peaks:
        usable = planned.machine.memory(name).usable
        cells = (format_bytes(amount) for amount in (peak, live.get(name, peak), usable))
        table.add_row(name, *cells)
    return table


def summary_lines(planned: Planned) -> list[str]:
    """What a person wants to know, most important first."""
    account, machine = planned.account, planned.machine
    bound = account.lower_bound_cycles
    gap = f"{account.latency_cycles / bound:.2f}x" if bound else "unknown"
    tasks = len(planned.placed.program.tasks)
    moved = account.dram_read_bytes + account.dram_write_bytes
    times = f" ({moved / account.compulsory_bytes:.1f}x)" if account.compulsory_bytes else ""
    return [
        f"{planned.plan.model} on {machine.name}, {planned.plan.dtype}: "
        f"{len(planned.plan.groups)} groups, {tasks} tasks",
        f"latency      {_time(planned, account.latency_cycles)}",
        f"lower bound  {_time(planned, bound)}; the plan takes {gap} of it",
        f"traffic      {machine.main_memory.name} read {format_bytes(account.dram_read_bytes)}, "
        f"written {format_bytes(account.dram_write_bytes)}; "
        f"at least {format_bytes(account.compulsory_bytes)} have to move{times}",
        f"energy       {account.energy_pj / 1e6:.4g} uJ"
        + (" (estimate)" if machine.energy.estimate else ""),
    ]


def verified_line(planned: Planned) -> str:
    """Whether the plan was executed, and how well it did."""
    verified = planned.verified
    if verified is None:
        return "not executed (--no-verify); validated only"
    return (
        f"verified: {verified.tasks} tasks executed at their addresses; largest difference "
        f"{verified.difference.max_rel_error:.1e} of the largest output"
    )


def _time(planned: Planned, cycles: int) -> str:
    return f"{format_time(planned.machine.seconds(cycles))} ({cycles:,} cycles)"
