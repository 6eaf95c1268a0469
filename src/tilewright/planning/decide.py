"""Decide: a plan for a prepared network, from a search, a person, or layer by layer."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tilewright.cost.base import CostError
from tilewright.cost.from_graph import workload_of
from tilewright.cost.models import CostModels
from tilewright.errors import TilewrightError, TilingError, VerificationError
from tilewright.graph.graph import Graph
from tilewright.graph.ops.spec import Engine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Place, Plan, PlanError, group_label
from tilewright.program.metrics import Objective
from tilewright.search.batch import search_batch
from tilewright.search.candidates.layers import layer_by_layer as plan_layers
from tilewright.search.effort import Effort
from tilewright.search.explanation.ablation import Ablation, ablate
from tilewright.search.found import Found
from tilewright.search.fusion import Fusion
from tilewright.search.grouping.patterns import Pattern
from tilewright.search.progress import Tell
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.group import exports, typed_group, whole_tile
from tilewright.tiling.images import by_image
from tilewright.units import noun


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may ask of a plan. `name` is what the network is called, `dtype` the element
    type (None: the machine's, or the given plan's); `plan` is one to be taken as it is, which
    errors call `plan_name`; `patterns` say what to fuse and what to keep apart; `ablation` plans
    with one technique more at a time; `without` names passes to leave out."""

    name: str = ""
    dtype: str | None = None
    objective: Objective = Objective.LATENCY
    effort: Effort = Effort.NORMAL
    layer_by_layer: bool = False
    plan: Plan | None = None
    plan_name: str = "the plan"
    patterns: tuple[Pattern, ...] = ()
    ablation: bool = False
    without: frozenset[str] = frozenset()

    def check(self, machine: Machine) -> None:
        """Raise where two wishes exclude each other, or the machine has no figures for one."""
        if self.objective.counts_energy and not machine.counts_energy:
            raise TilewrightError(
                f"--objective {self.objective.value}: {machine.name} has no energy figures (key "
                "`energy` of its file)"
            )
        if self.plan is not None and self.layer_by_layer:
            raise TilewrightError("give either --layer-by-layer or --plan, not both")
        if (self.plan is not None or self.layer_by_layer) and (self.patterns or self.ablation):
            what = "--patterns" if self.patterns else "--ablation"
            raise TilewrightError(f"{what} is for a search: not with --layer-by-layer or --plan")


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
    graph: Graph, machine: Machine, dtype: str, options: Options, progress: Tell
) -> Decision:
    """The plan that the options ask for."""
    name, without = options.name, options.without
    given = options.plan
    if given is not None:
        graph = _repeated(graph, given, options.plan_name)
        check_plan(given, options.plan_name, graph)
        notes = given.notes
        if given.machine != machine.name:
            notes = (
                *notes,
                f"{options.plan_name} was made for {given.machine}, not for {machine.name}",
            )
        notes += tuple(_in_vain(given, graph, options.plan_name))
        taken = replace(given, model=name, machine=machine.name, dtype=dtype)
        return Decision(taken, graph, without, notes=notes)
    if options.layer_by_layer or not graph.nodes:  # where nothing is computed, nothing is searched
        progress("choosing tiles")
        return Decision(plan_layers(graph, machine, dtype, name), graph, without)
    if options.ablation:
        compared, found = ablate(
            graph,
            machine,
            dtype,
            name,
            options.objective,
            effort=options.effort,
            without=without,
            patterns=options.patterns,
            progress=progress,
        )
        last = compared.steps[-1]
        return Decision(last.plan, graph, last.without, found, compared)
    search = Fusion(
        graph,
        machine,
        dtype,
        name,
        options.objective,
        without=without,
        patterns=options.patterns,
        progress=progress,
    )
    searched = search_batch(search, options.effort)
    plan = searched.found.best.plan
    return Decision(plan, searched.graph, without, searched.found, notes=searched.notes)


def _repeated(graph: Graph, plan: Plan, label: str) -> Graph:
    """The network of a plan, its nodes repeated for so many images as it says."""
    if plan.images == 1:
        return graph
    try:
        return by_image(graph, plan.images, plan.batched).graph
    except TilingError as error:
        raise PlanError(f"{label}: {error}") from None


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
        if options.plan is None:
            raise
        raise PlanError(f"{options.plan_name}: {error}") from None


def _node_without_engine(graph: Graph, machine: Machine, dtype: str, complaint: str) -> str:
    """The first operator about which the cost models complain in these words."""
    models = CostModels(machine)
    for index, node in enumerate(graph.nodes):
        try:
            (tiled,) = typed_group(graph, [index])
            if tiled.spec.engine is not Engine.MOVE:
                work = workload_of(tiled.spec, tiled.op, whole_tile(tiled), dtype)
                for core in machine.cores:
                    models.best(core, work)
        except TilingError:
            continue  # it runs whole
        except CostError as error:
            if str(error) == complaint:
                return f"node '{node.name}' ({node.kind}): "
    return ""


def check_plan(plan: Plan, label: object, graph: Graph) -> None:
    """Raise unless a plan names every node of the (legalised) network once, in an order that
    runs, cuts its groups as they can be cut, and keeps tensors that can be kept."""
    home: dict[str, int] = {}
    for number, group in enumerate(plan.groups):
        for name in group.nodes:
            if name not in graph.index:
                raise PlanError(f"{label}: groups[{number}] names '{name}': no such node")
            if name in home:
                raise PlanError(f"{label}: '{name}' is in groups[{home[name]}] and [{number}]")
            home[name] = number
    titles = [group_label(number, group) for number, group in enumerate(plan.groups)]
    missing = [node.name for node in graph.nodes if node.name not in home]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise PlanError(f"{label} leaves out node '{missing[0]}'{more}")
    for node in graph.nodes:
        for value in node.reads:
            maker = graph.producer.get(value)
            before = home[graph.nodes[maker].name] if maker is not None else 0
            if before > home[node.name]:
                raise PlanError(
                    f"{label}: {titles[home[node.name]]} needs '{value}', "
                    f"which {titles[before]} makes only later"
                )
    for group, title in zip(plan.groups, titles, strict=True):
        try:
            if group.place is Place.CORES:
                cut_group(graph, (graph.index[name] for name in group.nodes), group.splits)
        except TilingError as error:
            raise PlanError(f"{label}: {title}: {error}") from None
    for name in plan.resident:
        fault = _not_resident(plan, graph, home, name)
        if fault:
            raise PlanError(f"{label}: '{name}' cannot be resident: {fault}")


def _in_vain(plan: Plan, graph: Graph, label: str) -> Iterator[str]:
    """Resident tensors that nothing on the cores reads: they pass through the main memory."""
    home = {name: group for group in plan.groups for name in group.nodes}
    reloaded = {name: frozenset(nodes) for name, nodes in plan.reloaded}
    for value in plan.resident:
        readers = [graph.nodes[index] for index in graph.consumers.get(value, ())]
        again = reloaded.get(value, frozenset())
        if any(home[r.name].place is Place.CORES and r.name not in again for r in readers):
            continue
        some = ", ".join(
            f"'{reader.name}' ({reader.kind}, "
            f"{'reloaded' if reader.name in again else f'place: {home[reader.name].place}'})"
            for reader in readers
        )
        yield (
            f"{label}: '{value}' is resident to no effect: only {some} "
            f"{noun(len(readers), 'reads', 'read')} it, from the main memory"
        )


def _not_resident(plan: Plan, graph: Graph, home: Mapping[str, int], name: str) -> str:
    """Why a tensor cannot stay in the scratchpads, or nothing."""
    if name in graph.inputs:
        return "it is an input of the network, which the main memory holds"
    if name in graph.constants:
        return "it is a constant, which the main memory holds"
    if name not in graph.producer:
        return "no node makes a tensor of this name"
    maker = graph.producer[name]
    number = home[graph.nodes[maker].name]
    label = group_label(number, plan.groups[number])
    if plan.groups[number].place is not Place.CORES:
        return f"{label} does not run on the cores"
    if not graph.consumers.get(name):
        return "nothing reads it"
    members = [graph.index[node] for node in plan.groups[number].nodes]
    return "" if name in exports(graph, members) else f"only {label} itself reads it"
