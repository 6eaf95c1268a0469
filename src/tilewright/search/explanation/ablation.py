"""What each technique buys: the same network planned with one more of them at a time."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tilewright.plan.plan import Plan
from tilewright.search.effort import Effort
from tilewright.search.found import Found
from tilewright.search.fusion import Fusion
from tilewright.search.progress import Tell, silent

RESHAPE, PIPELINING = "implicit-reshape", "pipelining"
_NEXT = (
    ("+ vertical fusion", frozenset({RESHAPE, PIPELINING})),
    ("+ implicit reshape", frozenset({PIPELINING})),
    ("+ matrix/vector pipelining", frozenset[str]()),
)
PUBLISHED = (55.0, 31.0, 26.0, 21.0)  # ms, of a block and a machine that are not named
PUBLISHED_FOR = ("sd15_down_block", "sd15_unet")


@dataclass(frozen=True, slots=True)
class AblationStep:
    """A plan with the techniques up to here; `without` are the passes left out. `kept` says which
    earlier plan was kept because the search found no better one."""

    name: str
    plan: Plan
    without: frozenset[str]
    cycles: int
    dram_bytes: int
    kept: str = ""


@dataclass(frozen=True, slots=True)
class Ablation:
    """All steps; `layers` are the cycles of layer by layer without and with pipelining."""

    steps: tuple[AblationStep, ...]
    layers: tuple[int, int]

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the reader of the table."""
        apart, piped = self.layers
        text = "without fusion the pipelining switch does nothing: there is one operator a group"
        if apart != piped:
            text = f"without fusion the pipelining switch gives {apart:,} -> {piped:,} cycles"
        return (text, *(f"{step.name}: {step.kept}" for step in self.steps if step.kept))


def ablate(
    searching: Callable[[frozenset[str], Tell], Fusion],
    effort: Effort = Effort.NORMAL,
    without: frozenset[str] = frozenset(),
    progress: Tell = silent,
) -> tuple[Ablation, Found]:
    """Every step, and what the last search found. `searching` begins a search without some passes;
    `without` are passes that no step has.

    A step is never slower than the one before: it may keep that one's plan and passes.
    """
    steps: list[AblationStep] = []
    layers = (0, 0)
    found: Found | None = None
    for name, left_out in _NEXT:

        def tell(text: str, share: float | None = None, /, name: str = name) -> None:
            progress(f"{name}: {text}", share)

        passes = without | left_out
        search = searching(passes, tell)
        found = search.run(effort)
        if not steps:
            apart = next((r for r in found.rivals if r.name == "layer by layer"), found.best)
            steps.append(AblationStep("none", apart.plan, passes, apart.cycles, apart.dram_bytes))
            piped = searching(passes - {PIPELINING}, silent).evaluate(apart.plan)
            layers = (apart.cycles, 0 if piped is None else piped.cycles)
        best = found.best
        fresh = AblationStep(name, best.plan, passes, best.cycles, best.dram_bytes)
        steps.append(_better(search, fresh, steps[-1]))
        if found.interrupted:
            break
    assert found is not None
    return Ablation(tuple(steps), layers), found


def _better(search: Fusion, fresh: AblationStep, before: AblationStep) -> AblationStep:
    """The fastest of a new plan, the one before with the new pass, and the one before as it was."""
    metrics = search.evaluate(before.plan)
    choices = [fresh]
    if metrics is not None and before.plan != fresh.plan:
        kept = f"the plan of the step before was kept ({fresh.cycles:,} cycles searched anew)"
        figures = metrics.cycles, metrics.dram_bytes
        choices.append(AblationStep(fresh.name, before.plan, fresh.without, *figures, kept))
    with_it = min(step.cycles for step in choices)
    kept = f"the step before was kept: the pass only cost time here ({with_it:,} cycles with it)"
    choices.append(replace(before, name=fresh.name, kept=kept))
    return min(choices, key=lambda step: step.cycles)
