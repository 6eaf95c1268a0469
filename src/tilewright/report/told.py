"""What a search has to say about its plan, as the report tells it."""

from tilewright.planning import Planned
from tilewright.report.html.story import Bound, BoundaryReason, GroupNote, Rival, Story
from tilewright.search.explanation.explain import MOST_BOUNDARIES, Explanation, group_facts

LOWERED_TASKS = 12_000  # of all trials beside a plan, about; `tilewright explain` makes them all


def cheap_boundaries(planned: Planned) -> int:
    """Boundaries whose reasons take a few seconds: each is two trials of all tasks, about, or three
    where one is on fewer cores. Counted and not timed, so that equal runs write equal files."""
    tasks = max(1, len(planned.placed.program.tasks))
    trials = 2 if len(planned.machine.cores) == 1 else 3
    return min(MOST_BOUNDARIES, LOWERED_TASKS // (trials * tasks))


def told(
    planned: Planned, explanation: Explanation | None = None, *, remedies: bool = True
) -> Story:
    """Rivals, bounds, reasons (of trials with `remedies` or without), facts of the groups, and what
    each technique buys."""
    bounds = planned.bounds
    parts = {
        "matrix engines": bounds.matrix,
        "vector engines": bounds.vector,
        "all engines": bounds.compute,
        "traffic": bounds.traffic,
        "suffix": bounds.suffix,
        "prefix": bounds.prefix,
        "chain": bounds.chain,
    }
    account = planned.account
    moved = account.dram_read_bytes + account.dram_write_bytes
    rivals: list[Rival] = []
    if planned.found is not None:
        rivals = [Rival(t.name, t.cycles, t.dram_bytes) for t in planned.found.rivals]
    rivals.append(Rival("this plan", account.latency_cycles, moved))
    steps = planned.ablation.steps if planned.ablation is not None else ()
    return Story(
        rivals=tuple(rivals),
        bounds=tuple(Bound(name, cycles) for name, cycles in parts.items()),
        reasons=() if explanation is None else _reasons(planned, explanation),
        tried="" if explanation is None else _tried(explanation, remedies),
        notes=_notes(planned),
        ablation=tuple(Rival(step.name, step.cycles, step.dram_bytes) for step in steps),
    )


def _tried(explanation: Explanation, remedies: bool) -> str:
    """How many boundaries were tried for the reasons, and who tries more."""
    left, all_of_them = explanation.left_out, len(explanation.boundaries)
    if not left and remedies:
        return ""
    which = f"{left} of {all_of_them} boundaries, of the smaller tensors, were not tried"
    parts = [which if left else "", "" if remedies else "what does not fit was not spilled to fit"]
    more = "tilewright explain --all" if left else "tilewright explain"
    return f"{', and '.join(filter(None, parts))}: `{more}` does that."


def _reasons(planned: Planned, explanation: Explanation) -> tuple[BoundaryReason, ...]:
    groups = planned.plan.groups
    rows: list[BoundaryReason] = []
    for boundary in explanation.boundaries:
        edge, trial = boundary.edge, boundary.trial
        rows.append(
            BoundaryReason(
                ", ".join(boundary.tensors),
                groups[edge.before].nodes[0],
                groups[edge.after].nodes[0],
                boundary.text,
                boundary.kind.value,
                None if trial is None else trial.cycles,
            )
        )
    return tuple(rows)


def _notes(planned: Planned) -> tuple[GroupNote, ...]:
    facts = group_facts(planned.graph, planned.machine, planned.plan, planned.placed)
    return tuple(
        GroupNote(fact.number, fact.grid, round(fact.halo_share, 6), fact.binding) for fact in facts
    )
