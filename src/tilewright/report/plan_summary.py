"""A planned network as JSON and as text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from tilewright.planning import Planned
from tilewright.report import right
from tilewright.report.ablated import ablation_json
from tilewright.report.html.groups import group_parts
from tilewright.report.objective import objective_lines
from tilewright.report.searched import search_json, searched_lines
from tilewright.report.verified import REFERENCES, UNVERIFIED, as_written, failure_json
from tilewright.schedule.timeline import EngineUse, IdleReason
from tilewright.tables import picked
from tilewright.units import format_bytes, format_time, noun, several

TOLD = 3  # of many that the text tells; the JSON has all


def summary_json(planned: Planned) -> dict[str, Any]:
    """All figures, always in one order."""
    account, machine, placed = planned.account, planned.machine, planned.placed
    verified, bound = planned.verified, planned.bounds.cycles
    return {
        "model": planned.plan.model,
        "machine": machine.name,
        "dtype": planned.plan.dtype,
        "latency_cycles": account.latency_cycles,
        "latency_ms": round(machine.seconds(account.latency_cycles) * 1e3, 9),
        "lower_bound_cycles": planned.bounds.cycles,
        "lower_bound": planned.bounds.name,
        "lower_bound_node": planned.bounds.node or None,
        # How far the plan is above the strongest bound, as a share of it.
        "gap": round(account.latency_cycles / bound - 1, 6) if bound else None,
        **picked(account, "energy_pj", "dram_read_bytes", "dram_write_bytes"),
        "compulsory_bytes": planned.bounds.compulsory_bytes,
        "peak_bytes": dict(placed.most_live),
        "highest_address_bytes": dict(placed.highest),
        "engines": {
            name: {"busy_cycles": use.busy, "utilisation": round(use.utilisation, 6)}
            for name, use in account.engines
        },
        "groups": len(planned.plan.groups),
        "tasks": len(placed.program.tasks),
        "buffers": len(placed.program.buffers),
        "spills": len(placed.spills),
        "spilled_bytes": sum(spill.moved for spill in placed.spills),
        "spill_reasons": _spill_reasons(planned),
        "legalisation": [
            {
                **picked(step, "node", "kind", "limit", "outcome", "what", "macs", "bytes"),
                "nodes": list(step.made),
            }
            for step in planned.legalisation
        ],
        "search": search_json(planned),
        "ablation": ablation_json(planned),
        "verified": None
        if verified is None
        else {
            # Two digits: the last bits of a sum may differ from one processor to the next.
            "max_rel_error": float(f"{verified.difference.max_rel_error:.1e}"),
            "tasks_executed": verified.tasks,
            "reference": REFERENCES[as_written(planned)],
        },
        "failure": failure_json(planned.failure),
        "notes": list(planned.notes),
        "warnings": list(planned.warnings),
        "parts": group_parts(planned),
    }


def engines_table(planned: Planned) -> Table:
    """How busy every engine and link is, and what it mostly waits for."""
    names = [name for name, _ in planned.account.engines]
    pools = [name for name, _ in planned.machine.groups]
    table = Table("engine", *right("busy cycles", "busy"), "idle mostly because of")
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
    """The peak of every memory, and how far up buffers lie in it."""
    highest = dict(planned.placed.highest)
    table = Table("memory", *right("peak", "highest address", "usable"))
    for name, peak in planned.placed.most_live:
        usable = planned.machine.memory(name).usable
        table.add_row(name, *(format_bytes(amount) for amount in (peak, highest[name], usable)))
    return table


def summary_lines(planned: Planned) -> list[str]:
    """What a person wants to know, most important first."""
    account, machine = planned.account, planned.machine
    bound, least = planned.bounds.cycles, planned.bounds.compulsory_bytes
    node = f" at '{planned.bounds.node}'" if planned.bounds.node else ""
    # Where there was a choice of rewrites, another one has another bound.
    chosen = planned.plan.rewrites
    of = "" if chosen is None else f", of the network {'as' if chosen else 'not'} rewritten"
    tasks, groups = len(planned.placed.program.tasks), len(planned.plan.groups)
    moved = account.dram_read_bytes + account.dram_write_bytes
    times = f" ({moved / least:.1f}x)" if least else ""
    energy = "not counted: the machine has no figures for it"
    if account.energy_pj is not None:
        estimate = " (estimate)" if machine.energy.estimate else ""
        energy = f"{account.energy_pj / 1e6:.4g} uJ{estimate}"
    return [
        f"{planned.plan.model} on {machine.name}, {planned.plan.dtype}: "
        f"{several(groups, 'group')}, {several(tasks, 'task')}"
        + (f", {UNVERIFIED}" if planned.failure is not None else ""),
        f"latency      {_time(planned, account.latency_cycles)}",
        f"lower bound  {_time(planned, bound)} by {planned.bounds.name}{node}{of}; "
        f"the plan takes {account.latency_cycles / bound:.2f}x of it"
        if bound
        else "lower bound  nothing: no operator is left to run, and no byte to move",
        *objective_lines(planned),
        *searched_lines(planned),
        f"traffic      {machine.main_memory.name} read {format_bytes(account.dram_read_bytes)}, "
        f"written {format_bytes(account.dram_write_bytes)}; "
        f"at least {format_bytes(least)} have to move{times}",
        f"energy       {energy}",
        *_spilled(planned),
        *folded_lines(planned.placed.program.folded(), "      "),
        *_legalised(planned),
    ]


def _spill_reasons(planned: Planned) -> dict[str, int]:
    """How many spills there are for each reason."""
    reasons = sorted(spill.reason for spill in planned.placed.spills)
    return {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}


def _spilled(planned: Planned) -> Iterator[str]:
    """What did not fit and was moved out of the way for a while."""
    spills = planned.placed.spills
    if not spills:
        return
    reasons = ", ".join(f"{n} for {name}" for name, n in _spill_reasons(planned).items())
    moved = format_bytes(sum(spill.moved for spill in spills))
    yield f"spills       {len(spills)} ({reasons}), {moved} moved for them"


def _legalised(planned: Planned) -> list[str]:
    """What was done to meet the machine's limits, rewrites first; all of it is in the JSON."""
    steps = sorted(planned.legalisation, key=lambda step: step.outcome != "rewritten")
    if not steps:
        return []
    told = _few([f"{step.node}: {step.what}" for step in steps])
    return [f"legalised    {several(len(steps), 'step')} ({told})"]


def folded_lines(folded: Mapping[str, str], space: str) -> list[str]:
    """Which operators run in the output stage of another, of which; all of them are in the JSON."""
    if not folded:
        return []
    told = _few([f"{name} into {host}" for name, host in folded.items()])
    count = f"{several(len(folded), 'operator')}"
    return [f"folded{space} {count} into output stages ({told})"]


def _few(texts: Sequence[str]) -> str:
    more = [f"{len(texts) - TOLD} more in summary.json"] if len(texts) > TOLD else []
    return "; ".join([*texts[:TOLD], *more])


def _time(planned: Planned, cycles: int) -> str:
    time = format_time(planned.machine.seconds(cycles))
    return f"{time} ({cycles:,} {noun(cycles, 'cycle')})"
