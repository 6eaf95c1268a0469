"""Decide: a plan for a prepared network, from a search, a person, or layer by layer."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.cost.base import CostError
from tilewright.cost.models import CostModels
from tilewright.errors import TilewrightError, TilingError, VerificationError
from tilewright.graph.graph import Graph
from tilewright.graph.ops.spec import Engine
from tilewright.legalise import Legalised
from tilewright.machine.document import Document
from tilewright.machine.faults import Keys
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan, PlanError
from tilewright.planning.check import (
    KeyFault,
    PlanFaultsError,
    check_plan,
    in_vain,
    keys_of,
    rewritten_in_vain,
    without_inner,
)
from tilewright.program.faults import TooLargeError
from tilewright.program.metrics import Objective
from tilewright.program.place import DoesNotFitError
from tilewright.program.tile_work import tile_works_of
from tilewright.search.batch import search_batch
from tilewright.search.candidates.candidate import NoPlanFitsError
from tilewright.search.candidates.layers import TooManyTilesError, largest_misfit
from tilewright.search.candidates.layers import layer_by_layer as plan_layers
from tilewright.search.effort import Effort
from tilewright.search.explanation.ablation import Ablation, ablate
from tilewright.search.found import Found
from tilewright.search.fusion import Fusion
from tilewright.search.grouping.patterns import Pattern
from tilewright.search.progress import Tell
from tilewright.tiling.group import typed_group
from tilewright.tiling.images import by_image
from tilewright.units import format_bytes


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may ask of a plan. `name` is what the network is called, `dtype` the element
    type (None: the machine's, or the given plan's); `plan` is one to be taken as it is, read
    from `plan_file` if any; `patterns` say what to fuse and what to keep apart; `ablation` plans
    with one technique more at a time; `without` names passes to leave out; `memory_limit` are the
    bytes that a plan may take of each on-chip memory."""

    name: str = ""
    dtype: str | None = None
    objective: Objective = Objective.LATENCY
    effort: Effort = Effort.NORMAL
    layer_by_layer: bool = False
    plan: Plan | None = None
    plan_file: Path | None = None
    patterns: tuple[Pattern, ...] = ()
    ablation: bool = False
    without: frozenset[str] = frozenset()
    memory_limit: int | None = None

    @property
    def plan_name(self) -> str:
        """What messages call the given plan."""
        return "the plan" if self.plan_file is None else f"'{self.plan_file}'"

    def noted(self, notes: Iterable[KeyFault]) -> tuple[str, ...]:
        """Remarks on keys of the given plan, with the lines of its file."""
        if self.plan_file is None:
            return tuple(f"{self.plan_name}: {text}" for _, text in notes)
        document = Document(self.plan_file, "a plan")
        return tuple(str(document.fault(keys, text)) for keys, text in notes)

    def check(self, machine: Machine) -> None:
        """Raise where two wishes exclude each other, or the machine has no figures for one."""
        if self.objective.counts_energy and not machine.counts_energy:
            raise TilewrightError(
                f"objective {self.objective.value}: {machine.name} has no energy figures (key "
                "`energy` of its file)"
            )
        if self.memory_limit is not None and self.memory_limit < 1:
            raise TilewrightError(
                f"a memory limit of {self.memory_limit} bytes leaves nothing: give one byte or more"
            )
        if self.plan is not None and self.layer_by_layer:
            raise TilewrightError("give either layer by layer or a plan, not both")
        if (self.plan is not None or self.layer_by_layer) and (self.patterns or self.ablation):
            what = "patterns are" if self.patterns else "ablation is"
            raise TilewrightError(f"{what} for a search: not with layer by layer or a plan")


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan and the network it is for (that of the options, or with nodes repeated for images),
    what a search compared it with, the passes it is lowered without, and remarks."""

    plan: Plan
    graph: Graph
    without: frozenset[str]
    found: Found | None = None
    ablation: Ablation | None = None
    notes: tuple[str, ...] = ()


def decide(
    legal: Legalised,
    machine: Machine,
    dtype: str,
    options: Options,
    progress: Tell,
    search: Fusion | None = None,
) -> Decision:
    """The plan that the options ask for, within their limit of memory; `search` has looked at the
    network already."""
    asked = options.memory_limit
    found = _decided(legal, machine.within(asked), dtype, options, progress, search)
    if options.plan is not None:
        notes = options.noted(rewritten_in_vain(options.plan, legal, machine))
        found = replace(found, notes=(*found.notes, *notes))
    found = replace(found, plan=replace(found.plan, rewrites=legal.rewrites))
    limits = [limit for limit in (asked, found.plan.memory_limit) if limit is not None]
    if not limits:
        return found
    plan = replace(found.plan, memory_limit=min(limits))
    text = f"at most {format_bytes(min(limits))} of each on-chip memory (memory_limit of the plan)"
    return replace(found, plan=plan, notes=(*found.notes, text))


def _decided(
    legal: Legalised,
    machine: Machine,
    dtype: str,
    options: Options,
    progress: Tell,
    search: Fusion | None,
) -> Decision:
    name, without, graph = options.name, options.without, legal.graph
    given = options.plan
    if given is not None:
        graph = _repeated(graph, given, options.plan_name)
        check_plan(given, options.plan_name, graph, machine, [name for name, _ in legal.choices])
        given, inner = without_inner(given, graph)
        notes = [*given.notes, *options.noted(inner)]
        if given.machine != machine.name:
            other = f"was made for {given.machine}, not for {machine.name}"
            notes.append(f"{options.plan_name} {other}")
        notes += options.noted(in_vain(given, graph))
        taken = replace(given, model=name, machine=machine.name, dtype=dtype)
        return Decision(taken, graph, without, notes=tuple(notes))
    if options.layer_by_layer or not graph.nodes:  # where nothing is computed, nothing is searched
        progress("choosing tiles")
        return Decision(plan_layers(graph, machine, dtype, name, without, progress), graph, without)
    if options.ablation:

        def searching(passes: frozenset[str], tell: Tell) -> Fusion:
            return search_of(graph, machine, dtype, replace(options, without=passes), tell)

        compared, found = ablate(searching, options.effort, without, progress)
        last = compared.steps[-1]
        return Decision(last.plan, graph, last.without, found, compared)
    search = search or search_of(graph, machine, dtype, options, progress)
    searched = search_batch(search, options.effort)
    plan = searched.found.best.plan
    return Decision(plan, searched.graph, without, searched.found, notes=searched.notes)


def search_of(
    graph: Graph, machine: Machine, dtype: str, options: Options, progress: Tell
) -> Fusion:
    """A search for what the options ask for."""
    return Fusion(
        graph,
        machine,
        dtype,
        options.name,
        options.objective,
        without=options.without,
        patterns=options.patterns,
        progress=progress,
    )


def _repeated(graph: Graph, plan: Plan, label: str) -> Graph:
    """The network of a plan, its nodes repeated for so many images as it says."""
    if plan.images == 1:
        return graph
    try:
        return by_image(graph, plan.images, plan.batched).graph
    except TilingError as error:
        unknown = [place for place, name in enumerate(plan.batched) if name not in graph.index]
        keys: Keys = ("batched", unknown[0]) if unknown else ("images",)
        raise PlanFaultsError(label, [(keys, str(error))]) from None


@contextmanager
def told(graph: Graph, machine: Machine, dtype: str, options: Options) -> Generator[None]:
    """Errors on the way to a program name the operator, or the plan, they are about."""
    try:
        yield
    except CostError as error:
        where = _node_without_engine(graph, machine, dtype, str(error))
        raise CostError(f"{where}{error}") from None
    except (VerificationError, PlanError):
        raise
    except TilewrightError as error:
        given = options.plan
        limits = (options.memory_limit, None if given is None else given.memory_limit)
        limit = min((bytes for bytes in limits if bytes is not None), default=None)
        shortages = NoPlanFitsError | DoesNotFitError | TooLargeError | TooManyTilesError
        limited = isinstance(error, shortages) and machine.within(limit) != machine
        little = f"a memory limit of {format_bytes(limit or 0)} is too small"
        if given is None:
            if not limited:
                raise
            misfit = largest_misfit(graph, machine.within(limit), dtype) or error
            fits = isinstance(misfit, NoPlanFitsError)
            why = f"{misfit.what} fits: {misfit.why}" if fits else str(misfit)
            least = "the objective memory finds the least that there is a plan for"
            raise TilewrightError(f"{little}: {why} ({least})") from None
        keys, text = keys_of(error, given), str(error)
        if limited:
            keys = ("memory_limit",) if limit == given.memory_limit else keys
            text = f"{little} for this plan: {error}"
        raise PlanFaultsError(options.plan_name, [(keys, text)]) from None


def _node_without_engine(graph: Graph, machine: Machine, dtype: str, complaint: str) -> str:
    """The first operator about which the cost models complain in these words."""
    models = CostModels(machine)
    for index, node in enumerate(graph.nodes):
        try:
            (tiled,) = typed_group(graph, [index])
            if tiled.spec.engine is not Engine.MOVE:
                work = tile_works_of(graph, dtype).whole(tiled)
                for core in machine.cores:
                    models.best(core, work)
        except TilingError:
            continue  # it runs whole
        except CostError as error:
            if str(error) == complaint:
                return f"node '{node.name}' ({node.kind}): "
    return ""
