"""What a search has to say about its plan, as the page tells it."""

from typing import Any

from tilewright.planning import Planned
from tilewright.search.explanation.explain import MOST_BOUNDARIES, Explanation

ENGINES = {"matrix": "matrix engines", "vector": "vector engines", "compute": "all engines"}
LOWERED_TASKS = 12_000  # of all trials beside a plan, about; `tilewright explain` makes them all


def cheap_boundaries(planned: Planned) -> int:
    """Boundaries whose reasons take a few seconds: each is two trials of all tasks, about, or three
    where one is on fewer cores. Counted and not timed, so that equal runs write equal files."""
    tasks = max(1, len(planned.placed.program.tasks))
    trials = 2 if len(planned.machine.cores) == 1 else 3
    return min(MOST_BOUNDARIES, LOWERED_TASKS // (trials * tasks))


def story_of(planned: Planned, explanation: Explanation | None, remedies: bool) -> dict[str, Any]:
    """Rivals, what each technique buys, bounds, and reasons (of trials with `remedies` or
    without)."""
    bounds, account = planned.bounds, planned.account
    moved = account.dram_read_bytes + account.dram_write_bytes
    rivals = planned.found.rivals if planned.found is not None else ()
    steps = planned.ablation.steps if planned.ablation is not None else ()
    return {
        "rivals": [
            *([rival.name, rival.cycles, rival.dram_bytes] for rival in rivals),
            ["this plan", account.latency_cycles, moved],
        ],
        "ablation": [[step.name, step.cycles, step.dram_bytes] for step in steps],
        "bounds": [[ENGINES.get(name, name), cycles] for name, cycles in bounds.parts],
        "reasons": [] if explanation is None else _reasons(planned, explanation),
        "tried": "" if explanation is None else _tried(explanation, remedies),
    }


def _tried(explanation: Explanation, remedies: bool) -> str:
    """How many boundaries were tried for the reasons, and who tries more."""
    left, all_of_them = explanation.left_out, len(explanation.boundaries)
    if not left and remedies:
        return ""
    which = f"{left} of {all_of_them} boundaries, of the smaller tensors, were not tried"
    parts = [which if left else "", "" if remedies else "what does not fit was not spilled to fit"]
    more = "tilewright explain --all" if left else "tilewright explain"
    return f"{', and '.join(filter(None, parts))}: `{more}` does that."


def _reasons(planned: Planned, explanation: Explanation) -> list[dict[str, Any]]:
    """Why two groups are not one, with the tensors between them."""
    groups = planned.plan.groups
    return [
        {
            "boundary": ", ".join(boundary.tensors),
            "before": groups[boundary.edge.before].nodes[0],
            "after": groups[boundary.edge.after].nodes[0],
            "text": boundary.text,
            "kind": boundary.kind.value,
            "trial_cycles": None if boundary.trial is None else boundary.trial.cycles,
        }
        for boundary in explanation.boundaries
    ]
