"""What a plan on many cores says of itself: figures for programs, lines and tables for people."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table

from tilewright.manycore.copies import peaks_of
from tilewright.manycore.evaluate import Evaluator, TimedAllocation
from tilewright.manycore.machine import core_name
from tilewright.manycore.plan import CorePlan
from tilewright.manycore.state import COMPUTE
from tilewright.report.verified import REFERENCES, failure_json, proof_line
from tilewright.schedule.waits import Waits
from tilewright.units import format_bytes, noun

MORE = 2  # times its size: what more of a memory would buy


@dataclass(frozen=True, slots=True)
class CoreUse:
    """How a core spends the time: busy cycles, and idle ones by what it waited for."""

    name: str
    busy: int
    idle: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """A memory's peak against its size in bytes, and the latency if it were twice as large (None:
    it would not matter, as it never was full)."""

    name: str
    peak: int
    size: int
    larger: int | None

    def gain(self, latency: int) -> str:
        """What more of it would buy."""
        if self.larger is None:
            return "no change: it is never full"
        less = latency - self.larger
        return f"{less:,} cycles less" if less > 0 else "no gain"


def core_uses(plan: CorePlan) -> list[CoreUse]:
    """Busy and idle time of every core within the latency, read off the placed program."""
    placed, machine = plan.lowered.placed, plan.lowered.machine
    names = [*(engine.core for engine in machine.engines), *(link.name for link in machine.links)]
    waits = Waits(placed.problem, placed.schedule)
    found: list[CoreUse] = []
    for number, engine in enumerate(machine.engines):
        busy, waited = _spent(waits, number)
        idle = {f"waiting for {names[other]}": cycles for other, cycles in waited.items()}
        idle["nothing left to do"] = plan.best.latency - busy - sum(waited.values())
        rows = tuple(sorted(((w, c) for w, c in idle.items() if c), key=lambda item: -item[1]))
        found.append(CoreUse(engine.core, busy, rows))
    return found


def _spent(waits: Waits, engine: int) -> tuple[int, Counter[int]]:
    """Busy cycles of an engine, and idle ones by the engine that it waits for."""
    own = sorted(
        (t for t, used in enumerate(waits.engine) if used == engine), key=waits.start.__getitem__
    )
    waited: Counter[int] = Counter()
    now = busy = 0
    for task in own:
        for late, since, until in waits.before(task, now):
            waited[waits.engine[late]] += until - since
        now = waits.end[task]
        busy += now - waits.start[task]
    return busy, waited


def memory_uses(plan: CorePlan) -> list[MemoryUse]:
    """Peaks, and what twice the size would buy for memories that were nearly full."""
    evaluator, best = plan.evaluator, plan.best
    peaks = peaks_of(evaluator, best)
    unit = evaluator.graph.unit
    found: list[MemoryUse] = []
    for number, place in enumerate(plan.fabric.places):
        if number == 0:
            continue
        peak, larger = int(peaks[number]), None
        if 2 * peak > place.bits // unit:
            larger = _latency_with(evaluator, best, number)
        found.append(MemoryUse(place.name, peak * unit // 8, place.bits // 8, larger))
    return found


def _latency_with(evaluator: Evaluator, best: TimedAllocation, place: int) -> int | None:
    """The latency of the same allocation with more of one memory."""
    timed = evaluator.varied(larger=(place, MORE)).timed(best.core_of, rule=best.rule)
    return timed.latency if isinstance(timed, TimedAllocation) else None


def allocation(plan: CorePlan) -> dict[str, list[int]]:
    """Layer -> the cores of its parts, by their numbers in the file."""
    tiles, numbers = plan.tiles, [number for number, _ in plan.fabric.cores]
    found: dict[str, list[int]] = {layer.name: [] for layer in plan.workload.layers}
    for part, core in enumerate(plan.best.core_of):
        name = plan.workload.layers[int(tiles.part_layer[part])].name
        found[name].append(numbers[core])
    return found


def traffic(plan: CorePlan) -> dict[str, int]:
    """Bytes over every carrier, and those read and written outside."""
    best, evaluator = plan.best, plan.evaluator
    copies = best.kind != COMPUTE
    sizes = evaluator.graph.piece_size[best.item[copies]] * evaluator.graph.unit // 8
    found = {"read outside": 0, "written outside": 0}
    numbers: list[int] = best.way[copies].tolist()
    for way_number, size in zip(numbers, sizes.tolist(), strict=True):
        way = evaluator.ways[way_number]
        name = plan.fabric.carriers[way.carrier].name
        found[name] = found.get(name, 0) + size
        if way.source == 0:
            found["read outside"] += size
        if way.target == 0:
            found["written outside"] += size
    return found


def summary(plan: CorePlan) -> dict[str, Any]:
    """Everything a program may want to know."""
    found, best, tiles = plan.found, plan.best, plan.tiles
    return {
        "model": plan.model,
        "accelerator": plan.fabric.accelerator.name,
        "mode": "fused" if plan.fused else "lbl",
        "objective": plan.objective,
        "final_write": plan.evaluator.write_final,
        "core_costs": "model" if plan.costs_from is None else str(plan.costs_from),
        "latency_cycles": best.latency,
        "latency_with_final_write_cycles": plan.lowered.placed.schedule.makespan,
        "energy_pj": best.energy,
        "bound_cycles": found.bounds.cycles,
        "bound_reason": found.bounds.reason,
        "gap": found.gap,
        "exact": found.exact,
        "interrupted": plan.interrupted,
        "allocations": found.space,
        "evaluated": found.evaluations,
        "tiles": len(tiles.tiles),
        "edges": int(tiles.reads.size),
        "transfers": int(np.count_nonzero(best.kind != COMPUTE)),
        "spills": best.spills,
        "allocation": allocation(plan),
        "cut": {
            layer.name: {"inter": cut.inter, "intra": cut.intra}
            for layer, cut in zip(plan.workload.layers, tiles.cuts, strict=True)
        },
        "choice": plan.choice.name,
        "alternatives": [{"name": a.name, "latency_cycles": a.latency} for a in plan.alternatives],
        "cores": [
            {"name": u.name, "busy_cycles": u.busy, "idle_cycles": dict(u.idle)}
            for u in core_uses(plan)
        ],
        "memories": [
            {
                "name": m.name,
                "peak_bytes": m.peak,
                "size_bytes": m.size,
                "latency_if_twice_cycles": m.larger,
            }
            for m in memory_uses(plan)
        ],
        "traffic_bytes": traffic(plan),
        "front": [
            {
                "latency_cycles": p.latency,
                "energy_pj": p.energy,
                "memory_bytes": p.memory // 8,
                "allocation": [plan.fabric.cores[core][0] for core in p.core_of],
            }
            for p in found.front
        ],
        "verified": None
        if plan.verified is None
        else {
            "max_rel_error": plan.verified.difference.max_rel_error,
            "tasks_executed": plan.verified.tasks,
        },
        "failure": failure_json(plan.failure),
        "notes": list(plan.notes),
    }


def headline(plan: CorePlan) -> str:
    """The result in one line."""
    found, best = plan.found, plan.best
    how = "all allocations looked at or bounded" if found.exact else "seeded search"
    if plan.interrupted:
        how = "interrupted: the best of those looked at"
    return (
        f"{plan.model} on {plan.fabric.accelerator.name}: {best.latency:,} cycles, "
        f"{best.energy / 1e6:,.2f} uJ; best of {_count(found.space)} ({how}); bound "
        f"{found.bounds.cycles:,} ({found.bounds.reason}), {found.gap + 1:.2f}x"
    )


def _count(space: int) -> str:
    number = f"{space:,}" if space < 10**7 else f"{float(space):.1e}"
    return f"{number} {noun(space, 'allocation')}"


def lines(plan: CorePlan) -> list[str]:
    """The lines behind the headline."""
    best, tiles = plan.best, plan.tiles
    copies = int(np.count_nonzero(best.kind != COMPUTE))
    told = [
        f"{len(tiles.tiles)} tiles, {tiles.reads.size} edges, {copies} transfers, "
        f"{best.spills} {noun(best.spills, 'spill')}; {plan.choice.name}"
    ]
    moved = traffic(plan)
    told.append(
        f"outside: {format_bytes(moved['read outside'])} read, "
        f"{format_bytes(moved['written outside'])} written"
    )
    if not plan.evaluator.write_final:
        with_write = plan.lowered.placed.schedule.makespan
        told.append(f"without the final write; with it {with_write:,} cycles")
    for other in plan.alternatives:
        if len(plan.alternatives) > 1:
            cycles = "does not fit" if other.latency is None else f"{other.latency:,} cycles"
            told.append(f"  {other.name}: {cycles}")
    told.append(proof_line(plan.verified, plan.failure, REFERENCES[False]))
    return told


def cores_table(plan: CorePlan) -> Table:
    """Layers and idle time of every core."""
    table = Table("core", "layers", "busy", "idle, and why")
    layers: dict[str, list[str]] = {}
    for part, core in enumerate(plan.best.core_of):
        name = core_name(plan.fabric, core)
        layers.setdefault(name, []).append(plan.tiles.part_name(part))
    total = max(1, plan.best.latency)
    for use in core_uses(plan):
        names = layers.get(use.name, [])
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        why = "; ".join(f"{cycles:,} {text}" for text, cycles in use.idle[:3])
        table.add_row(use.name, shown, f"{use.busy / total:.0%}", why)
    return table


def memories_table(plan: CorePlan) -> Table:
    """Peaks of the memories."""
    table = Table("memory", "peak", "of", "twice as large would give")
    for use in memory_uses(plan):
        gain = use.gain(plan.best.latency)
        table.add_row(use.name, format_bytes(use.peak), format_bytes(use.size), gain)
    return table
