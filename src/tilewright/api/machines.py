"""What is done on a machine: plan a network, explain the plan, verify it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, cast

from tilewright.errors import TilewrightError
from tilewright.machine.load import load_machine, machine_of
from tilewright.machine.machine import Machine
from tilewright.model import ShapesLike, load_model
from tilewright.plan.plan import Plan
from tilewright.plan.read import plan_of, read_plan
from tilewright.planning import Options, Planned, plan_model
from tilewright.processor.load import list_processors
from tilewright.program.lower import Watch
from tilewright.program.metrics import Objective
from tilewright.program.pipeline import PASSES
from tilewright.program.place import Placed
from tilewright.results.explained import Explained
from tilewright.results.planned import PlanResult
from tilewright.runs.saved import (
    PLAN_FILE,
    Rechecked,
    SavedRun,
    check_run,
    is_run,
    load_run,
    recheck,
    sense,
)
from tilewright.search.effort import Effort, effort_of
from tilewright.search.explanation.applied import apply as apply_trials
from tilewright.search.explanation.explain import MOST_BOUNDARIES, Explanation
from tilewright.search.explanation.explain import explain as explain_plan
from tilewright.search.grouping.patterns import Pattern, apart_edges, read_patterns
from tilewright.search.progress import Tell, interrupted_between, silent
from tilewright.units import parse_bytes

if TYPE_CHECKING:
    from tilewright.manycore.result import CoresResult

_Choice = TypeVar("_Choice", bound=StrEnum)

_Kind = TypeVar("_Kind")

MachineLike = str | Path | Mapping[str, Any] | Machine
PlanLike = str | Path | Mapping[str, Any] | Plan | PlanResult


def machine(name: MachineLike) -> Machine:
    """A machine: one that comes with Tilewright, a YAML file, or the mapping such a file holds.

    >>> npu = tilewright.machine("npu-2.7")
    >>> len(npu.cores), npu.main_memory.name
    (2, 'ddr')
    >>> small = tilewright.machine({"extends": "mcu", "name": "slow", "clock": "100 MHz"})
    >>> small.name, small.clock_hz
    ('slow', 100000000.0)
    """
    if isinstance(name, Machine):
        return name
    if isinstance(name, Mapping):
        return machine_of({"name": "machine", **name}, "the machine")
    expected = "a machine's name, a .yaml file, a mapping, or a machine"
    called = str(of_type(name, (str, Path), "machine", expected))
    if called in list_processors():
        only = "counts kernels, FLOPs and bytes on it; plans need a machine with cores"
        raise TilewrightError(f"'{called}' is a processor: `partition` {only}")
    return load_machine(called)


def plan(
    model: Any,
    on: MachineLike,
    *,
    plan: PlanLike | None = None,
    layer_by_layer: bool = False,
    dtype: str | None = None,
    objective: str | Objective = Objective.LATENCY,
    effort: str | Effort = Effort.NORMAL,
    fast: bool = False,
    verify: bool = True,
    patterns: str | Path | Sequence[Pattern] | None = None,
    ablation: bool = False,
    memory_limit: int | str | None = None,
    without: str | Sequence[str] | frozenset[str] = (),
    seed: int = 0,
    shapes: ShapesLike | None = None,
    watch: Watch | None = None,
    progress: Tell = silent,
) -> PlanResult:
    """How a network runs on a machine: searched (or as `plan` says), lowered, placed, scheduled,
    validated and, unless `verify` is off, executed and compared with onnxruntime.

    `plan` is a plan.yaml, the folder of a run, the mapping that such a file holds, a Plan, or an
    earlier result, and is taken as it is.
    A result whose execution gave other numbers has `verified` False and says in `failure` what and
    where. `effort` is low, normal or high; `fast` is low by an older name. `memory_limit` is what
    the plan may take of each on-chip memory: bytes, or "256KiB".

    Raises `FileError` for a machine file, `PlanFileError` for a plan.yaml and `PlanFaultsError`
    for a plan in memory that are wrong, each with all its `faults`.

    >>> found = tilewright.plan("four_convs@16x16", "npu-2.7", fast=True)
    >>> found.verified, len(found.layers)
    (True, 4)
    >>> sum(found.groups.column("cycles")) == found.latency_cycles
    True
    """
    searched = chosen(Effort, effort, "effort")
    if patterns is not None:
        of_type(patterns, (str, Path, Sequence), "patterns", "a file of patterns, or patterns")
    wanted = Path(patterns) if isinstance(patterns, str | Path) else tuple(patterns or ())
    limit = _limit_of(memory_limit)
    with interrupted_between(progress) as tell:
        loaded, target = load_model(model, shapes), machine(on)
        given = None if plan is None else _plan_given(plan)
        options = Options(
            dtype=dtype,
            objective=chosen(Objective, objective, "objective"),
            effort=effort_of(None if searched is Effort.NORMAL else searched, fast),
            layer_by_layer=layer_by_layer,
            without=_passes(without),
            ablation=ablation,
            memory_limit=limit,
            patterns=read_patterns(wanted) if isinstance(wanted, Path) else wanted,
            plan=read_plan(given) if isinstance(given, Path) else given,
            plan_file=given if isinstance(given, Path) else None,
        )
        seed = seed_of(seed)
        found = plan_model(
            loaded, target, options, verify=verify, seed=seed, watch=watch, progress=tell
        )
    return PlanResult(found)


def allocate(
    model: Any,
    on: str | Path,
    mapping: str | Path,
    *,
    layer_by_layer: bool = False,
    core_costs: str | Path | None = None,
    final_write: bool = True,
    open_tiles: bool = False,
    objective: str | Objective = Objective.LATENCY,
    effort: str | Effort = Effort.NORMAL,
    verify: bool = True,
    seed: int = 0,
    shapes: ShapesLike | None = None,
    progress: Tell = silent,
) -> "CoresResult":
    """Which core runs which layer, tile by tile: a network on an accelerator and a mapping as
    Stream and ZigZag describe them, searched, lowered, validated and, unless `verify` is off,
    executed and compared with onnxruntime.

    `core_costs` is a CSV of tiles' costs from another tool; `open_tiles` searches the sizes of
    tiles within a core too; `final_write=False` leaves the results on the chip, to compare with
    tools that do.

    >>> cores = examples / "manycore"
    >>> found = tilewright.allocate(
    ...     "four_convs@16x16", cores / "three_cores.yaml", cores / "fused.yaml"
    ... )
    >>> found.exact, found.verified, sorted(found.allocation)
    (True, True, ['conv1', 'conv2', 'conv3', 'conv4'])
    """
    from tilewright.manycore.plan import plan_cores
    from tilewright.manycore.result import CoresResult

    wanted = chosen(Objective, objective, "objective")
    if wanted is Objective.TRAFFIC:
        raise TilewrightError(
            "objective traffic is not for many cores: give latency, energy, memory or edp"
        )
    loaded = load_model(model, shapes)
    with interrupted_between(progress) as tell:
        found = plan_cores(
            loaded.name,
            loaded.graph,
            Path(on),
            Path(mapping),
            numbered=loaded.with_numbers(seed_of(seed)) if verify else None,
            fused=not layer_by_layer,
            core_costs=None if core_costs is None else Path(core_costs),
            final_write=final_write,
            open_tiles=open_tiles,
            objective=wanted.value,
            fast=chosen(Effort, effort, "effort") is Effort.LOW,
            seed=seed_of(seed),
            tell=tell,
        )
    return CoresResult(found)


def chosen(kind: type[_Choice], value: str, name: str) -> _Choice:
    """One of the choices there are."""
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(kind)
        raise TilewrightError(f"{name} '{value}': has to be one of {choices}") from None


def _passes(names: str | Sequence[str] | frozenset[str]) -> frozenset[str]:
    """Passes by their names, one or several."""
    given = frozenset([names] if isinstance(names, str) else names)
    known = [step.name for step in PASSES]
    for name in sorted(given.difference(known)):
        raise TilewrightError(f"without '{name}': has to be one of {', '.join(known)}")
    return given


def _plan_given(given: PlanLike) -> Plan | Path:
    """The plan that is meant; a path is one of a file, or of the folder of a run."""
    if isinstance(given, str | Path):
        path = Path(given)
        return path / PLAN_FILE if path.is_dir() else path
    if isinstance(given, Mapping):
        return plan_of(given)
    found = given.plan if isinstance(given, PlanResult) else given
    return of_type(found, Plan, "plan", "a plan.yaml, the folder of a run, or what `plan` gave")


def of_type(
    given: object, kind: type[_Kind] | tuple[type[_Kind], ...], name: str, expected: str
) -> _Kind:
    """Something that a program gave, if it is of a kind."""
    if not isinstance(given, kind):
        shown = repr(given)
        long = "\n" in shown or len(shown) > 80
        told = f"is a {type(given).__name__}" if long else shown
        raise TilewrightError(f"{name} {told}: has to be {expected}")
    return given


def _limit_of(given: object) -> int | None:
    """A limit of memory, if there is one: bytes, or text."""
    if given is None:
        return None
    if isinstance(given, str):
        return parse_bytes(given)
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise TilewrightError(f"memory_limit {given!r}: has to be bytes, or text such as '256KiB'")
    return index(cast(SupportsIndex, given))


def seed_of(given: object) -> int:
    """The seed of random numbers: an integer that is not negative."""
    whole = hasattr(given, "__index__") and not isinstance(given, bool)
    seed = index(cast(SupportsIndex, given)) if whole else -1
    if seed < 0:
        raise TilewrightError(f"seed {given!r}: has to be a whole number, 0 or more")
    return seed


def explain(
    run: str | Path | PlanResult,
    *,
    everything: bool = False,
    apply: bool = False,
    progress: Tell = silent,
) -> Explained:
    """Why the boundaries of a plan are where they are: each is taken away by force and simulated.

    `run` is a result of `plan`, or the folder of one (or a file in it); `everything` tries all
    boundaries, not the 40 of the largest tensors. With `apply`, boundaries that are better joined
    are, one after the other, and `applied.plan` is the plan that gives: for plans edited by hand.

    >>> found = tilewright.plan("four_convs@16x16", "mcu", layer_by_layer=True, verify=False)
    >>> why = tilewright.explain(found)
    >>> why.as_table().column("tensors")
    ['conv1', 'conv2', 'conv3']
    """
    with interrupted_between(progress) as tell:
        if isinstance(run, PlanResult):
            return _explained(run.planned, (), everything, apply, tell)
        folder = _folder(run)
        saved = load_run(folder)
        with sense(folder):
            return _explained(saved, saved.notes, everything, apply, tell)


def _explained(
    run: SavedRun | Planned, notes: tuple[str, ...], everything: bool, apply: bool, progress: Tell
) -> Explained:
    graph, target, without = run.graph, run.machine, run.without
    apart = apart_edges(graph, run.patterns)
    limit = None if everything else MOST_BOUNDARIES

    def explaining(plan: Plan, placed: Placed, tell: Tell) -> Explanation:
        return explain_plan(
            graph, target, plan, placed, without=without, apart=apart, limit=limit, tell=tell
        )

    explanation, applied = explaining(run.plan, run.placed, progress), None
    if apply:
        given = (graph, target, run.plan, explanation, explaining)
        applied = apply_trials(*given, without=without, tell=progress)
    return Explained(run.plan, target, explanation, notes, applied)


def _folder(run: object) -> Path:
    """The folder that a path means: the folder itself, or the one that a file of a run lies in."""
    if not isinstance(run, str | Path):
        from tilewright.manycore.result import CoresResult

        if isinstance(run, CoresResult):
            raise TilewrightError(
                "run is a plan on many cores: it has no boundaries to explain and was verified as "
                "it was made; its `summary` says what every core waits for, `verified` and "
                "`failure` how its execution went"
            )
    path = Path(of_type(run, (str, Path), "run", "the folder of a run, or what `plan` gave"))
    if not path.is_file():
        return path
    if not is_run(path.parent):
        raise TilewrightError(f"'{path}' is no file of a run: give the folder that `plan` wrote")
    return path.parent


def verify(run: str | Path | PlanResult, *, progress: Tell = silent) -> Rechecked:
    """Check a run again: from its folder's files alone, or the result of `plan` at hand.

    >>> found = tilewright.plan("four_convs@16x16", "npu-2.7", layer_by_layer=True)
    >>> tilewright.verify(found).verified is not None
    True
    """
    with interrupted_between(progress) as tell:
        if not isinstance(run, PlanResult):
            return check_run(_folder(run), tell)
        return recheck(run.planned, tell)
