"""Why the boundaries of a plan are where they are, as tables and as JSON."""

from typing import Any

from rich.table import Table

from tilewright.machine.machine import Machine
from tilewright.plan.plan import Place, Plan
from tilewright.report import right
from tilewright.report.plan_summary import folded_lines
from tilewright.search.explanation.explain import (
    RULE_OF_THUMB,
    Boundary,
    Explanation,
    GroupFacts,
    label_of,
)
from tilewright.search.explanation.trials import BoundaryKind, Forced
from tilewright.tables import picked
from tilewright.units import format_bytes, format_time, noun, several


def explanation_json(plan: Plan, machine: Machine, explanation: Explanation) -> dict[str, Any]:
    """All of it, for a program."""
    return {
        "model": plan.model,
        "machine": machine.name,
        "latency_cycles": explanation.cycles,
        "reported_latency_cycles": explanation.reported_cycles,
        "dram_bytes": explanation.dram_bytes,
        "dram_bytes_per_cycle": explanation.bandwidth,
        "rule_of_thumb": RULE_OF_THUMB,
        "boundaries": [_boundary_json(plan, row) for row in explanation.boundaries],
        "boundaries_left_out": explanation.left_out,
        "simulated": explanation.simulated,
        "groups": [_group_json(row) for row in explanation.groups],
    }


def _boundary_json(plan: Plan, boundary: Boundary) -> dict[str, Any]:
    edge = boundary.edge
    return {
        "tensors": [
            {"name": row.tensor, "bytes": row.bytes, "through": row.memory or "the scratchpads"}
            for row in boundary.passing
        ],
        **picked(boundary, "bytes", "resident", "through"),
        "before": [edge.before, label_of(plan.groups[edge.before])],
        "after": [edge.after, label_of(plan.groups[edge.after])],
        "via": list(edge.via),
        "kind": boundary.kind.value,
        "text": boundary.text,
        "saved_dma_cycles": round(boundary.saved_dma, 3),
        "trials": [_trial_json(trial) for trial in boundary.trials],
    }


def _trial_json(trial: Forced) -> dict[str, Any]:
    short, compute = trial.shortage, trial.compute
    return {
        "how": trial.how.value,
        "tensor": trial.tensor or None,
        "cores": list(trial.cores) or None,
        "latency_cycles": trial.cycles,
        "dram_bytes": trial.dram_bytes,
        "obstacle": None if trial.obstacle is None else trial.obstacle[0].value,
        "memory": None if short is None else short.memory,
        "needed_bytes": None if short is None else short.needed,
        "usable_bytes": None if short is None else short.there,
        "short_by_bytes": None if short is None else short.short_by,
        "fused_compute_cycles": None if compute is None else round(compute[0], 3),
        "unfused_compute_cycles": None if compute is None else round(compute[1], 3),
        "limit": trial.limit or None,
    }


def _group_json(facts: GroupFacts) -> dict[str, Any]:
    return {
        "group": facts.number,
        "label": facts.label,
        "place": facts.place.value,
        **picked(facts, "grid", "tiles"),
        "halo_share": round(facts.halo_share, 6),
        **picked(facts, "binding", "binding_cycles"),
        "start_cycle": facts.start,
        "end_cycle": facts.end,
        "adds_cycles": facts.adds,
        "dram_read_bytes": facts.read_bytes,
        "dram_write_bytes": facts.written_bytes,
        "folded": dict(facts.folded),
    }


def explanation_lines(plan: Plan, machine: Machine, explanation: Explanation) -> list[str]:
    """What the tables are about."""
    shown, left_out = explanation.boundaries, explanation.left_out
    groups, trials = len(plan.groups), explanation.simulated
    kinds = [boundary.kind for boundary in shown]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in BoundaryKind if kind in kinds)
    searched = ""
    if explanation.cycles != explanation.reported_cycles:
        searched = (
            f"; {explanation.reported_cycles:,} in the report, for which addresses were searched "
            "longer than for trials"
        )
    lines = [
        f"{plan.model} on {machine.name}: {several(groups, 'group')}, "
        f"{several(len(shown), 'boundary', 'boundaries')}" + (f" ({counts})" if counts else ""),
        f"as it is: {format_time(machine.seconds(explanation.cycles))} "
        f"({explanation.cycles:,} {noun(explanation.cycles, 'cycle')}{searched}), "
        f"{format_bytes(explanation.dram_bytes)} of {machine.main_memory.name}, "
        f"{explanation.bandwidth:.4g} B/cycle; "
        f"{trials} forced {noun(trials, 'trial')} simulated",
        f"the simulated run decides; beside it the rule of thumb: {RULE_OF_THUMB}",
        *folded_lines(dict(pair for facts in explanation.groups for pair in facts.folded), ""),
    ]
    if left_out:
        which = noun(left_out, "boundary of smaller tensors", "boundaries of smaller tensors")
        was, it = noun(left_out, "was", "were"), noun(left_out, "it", "them")
        lines.append(f"{left_out} {which} {was} not tried: `tilewright explain --all` tries {it}")
    return lines


def groups_table(explanation: Explanation) -> Table:
    """Every group on its own."""
    figures = right("adds cycles", "read", "written")
    table = Table("group", "operators", "tiles", *right("halo"), "bound by", *figures)
    for facts in explanation.groups:
        if facts.place is Place.VIEW:
            continue
        table.add_row(
            str(facts.number),
            facts.label,
            facts.grid,
            f"{facts.halo_share:.1%}",
            f"{facts.binding} ({facts.binding_cycles:,})" if facts.binding else "",
            f"{facts.adds:,}",
            format_bytes(facts.read_bytes),
            format_bytes(facts.written_bytes),
        )
    return table


def boundary_lines(plan: Plan, explanation: Explanation) -> list[str]:
    """Every boundary with its reason, for a narrow terminal."""
    lines: list[str] = []
    for boundary in explanation.boundaries:
        lines += [
            f"{_ends(plan, boundary)}: {boundary.kind}",
            f"    {', '.join(boundary.tensors)}: {boundary.bytes:,} bytes through "
            f"{boundary.through}; {boundary.text}",
        ]
    return lines


def _ends(plan: Plan, boundary: Boundary) -> str:
    numbers = (boundary.edge.before, boundary.edge.after)
    return " | ".join(f"{n} {plan.groups[n].nodes[0]}" for n in numbers)


def boundaries_table(plan: Plan, explanation: Explanation) -> Table:
    """Every boundary with its reason."""
    table = Table("tensors", *right("bytes"), "goes through")
    table.add_column("from | to", overflow="fold")
    table.add_column("kind")
    table.add_column("joined, cycles", justify="right")
    table.add_column("reason", overflow="fold")
    for boundary in explanation.boundaries:
        trial = boundary.trial
        table.add_row(
            ", ".join(boundary.tensors),
            f"{boundary.bytes:,}",
            boundary.through,
            _ends(plan, boundary),
            boundary.kind.value,
            "" if trial is None else f"{trial.cycles:,}",
            boundary.text,
        )
    return table
