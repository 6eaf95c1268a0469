"""From a model and a machine to a plan that has been executed: the steps of `tilewright plan`."""

import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.api import Model
from tilewright.cost.base import CostError
from tilewright.cost.from_graph import workload_of
from tilewright.cost.models import CostModels
from tilewright.errors import ModelError, TilewrightError, TilingError, VerificationError
from tilewright.execute.compare import Difference, compare
from tilewright.execute.runtime import output_types, run
from tilewright.execute.vm import Executed, VirtualMachine
from tilewright.frontend.normalize import normalize
from tilewright.frontend.save import save_onnx
from tilewright.frontend.single import operator_model
from tilewright.frontend.weights import seeded_inputs
from tilewright.graph.graph import Array, Graph
from tilewright.graph.ops.spec import Engine
from tilewright.graph.types import FLOATS, TensorType
from tilewright.legalise import Legalised, LegalStep, legalise
from tilewright.machine.dtypes import rate_class
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Place, Plan, PlanError, group_label, read_plan
from tilewright.program.account import Account, account_of
from tilewright.program.lower import Watch, lowered
from tilewright.program.metrics import Objective
from tilewright.program.place import Placed
from tilewright.program.program import Whole
from tilewright.program.verify import verify_placed, verify_program
from tilewright.proving import proven
from tilewright.search.ablation import Ablation, ablate
from tilewright.search.bounds import Bounds, bounds_of
from tilewright.search.fusion import Found, Fusion
from tilewright.search.layers import layer_by_layer as plan_layers
from tilewright.search.patterns import Pattern, read_patterns
from tilewright.search.progress import Tell, silent
from tilewright.tiling.group import cut_group, exports, typed_group, whole_tile

PLANNED = frozenset({*FLOATS, "bool", *(f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64))})
TOLERANCE = 1e-4  # of the largest magnitude of an output

Arrays = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Numbers:
    """What an execution took in and has to give. `zoo` names the network whose seeded weights are
    `weights`; it is None where they are the model's own, or seeded into a file's empty ones.
    `as_written`: onnxruntime made `expected` with its optimiser off."""

    seed: int
    zoo: str | None
    seeded: bool
    inputs: Arrays
    weights: Arrays
    expected: Arrays
    as_written: bool = False


@dataclass(frozen=True, slots=True)
class Verified:
    """An execution that gave the original's numbers."""

    difference: Difference
    tasks: int


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan for a (legalised) network, what became of it, what no plan can undercut, what a search
    compared it with, and (unless left out) the proof that it runs. `legalisation` is what was done
    to the network before; `notes` are remarks for the user; `without` are passes left out."""

    plan: Plan
    machine: Machine
    graph: Graph
    placed: Placed
    account: Account
    bounds: Bounds
    found: Found | None
    numbers: Numbers | None
    verified: Verified | None
    legalisation: tuple[LegalStep, ...] = ()
    notes: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    patterns: tuple[Pattern, ...] = ()
    ablation: Ablation | None = None


def prepared(numbered: Graph, machine: Machine, dtype: str) -> Legalised:
    """The network that is planned and run: plain, and within the machine's limits.

    Its weights are seeded before: those that are folded together then fit each other.
    """
    return legalise(normalize(numbered), machine, dtype)


def plan_model(
    model: Model,
    machine: Machine,
    *,
    layer_by_layer: bool = False,
    plan: Path | None = None,
    dtype: str | None = None,
    objective: Objective = Objective.LATENCY,
    fast: bool = False,
    without: frozenset[str] = frozenset(),
    verify: bool = True,
    seed: int = 0,
    patterns: Path | None = None,
    ablation: bool = False,
    watch: Watch | None = None,
    progress: Tell = silent,
) -> Planned:
    """Plan (or read a plan), lower, place, schedule, validate, execute and compare.

    `without` names passes to leave out; `patterns` is a file of what to fuse and what to keep
    apart; `ablation` plans with one technique more at a time; `watch` sees the program after every
    step.
    """
    if plan is not None and layer_by_layer:
        raise TilewrightError("give either --layer-by-layer or --plan, not both")
    if (plan is not None or layer_by_layer) and (patterns is not None or ablation):
        what = "--patterns" if patterns is not None else "--ablation"
        raise TilewrightError(f"{what} is for a search: not with --layer-by-layer or --plan")
    wanted = read_patterns(patterns) if patterns is not None else ()
    given = read_plan(plan) if plan is not None else None
    elements = rate_class(dtype or (machine.dtype if given is None else given.dtype))
    progress("reading the network")
    numbered = model.with_numbers(seed) if verify else model.graph
    legal = prepared(_typed(numbered), machine, elements)
    graph = legal.graph
    _check_known(graph)
    notes: tuple[str, ...] = ()
    found: Found | None = None
    compared: Ablation | None = None
    with _told(graph, machine, elements, plan):
        if given is not None and plan is not None:
            check_plan(given, plan, graph)
            if given.machine != machine.name:
                notes = (f"'{plan}' was made for {given.machine}, not for {machine.name}",)
            decided = replace(given, model=model.name, machine=machine.name, dtype=elements)
        elif layer_by_layer:
            progress("choosing tiles")
            decided = plan_layers(graph, machine, elements, model.name)
        elif ablation:
            compared, found = ablate(
                graph,
                machine,
                elements,
                model.name,
                objective,
                fast=fast,
                without=without,
                patterns=wanted,
                progress=progress,
            )
            decided, without = compared.steps[-1].plan, compared.steps[-1].without
        else:
            search = Fusion(
                graph,
                machine,
                elements,
                model.name,
                objective,
                without=without,
                patterns=wanted,
                progress=progress,
            )
            found = search.run(fast=fast)
            notes = tuple(search.space.notes)
            decided = found.best.plan
        progress("bounding what any plan takes")
        bounds = bounds_of(graph, machine, elements)
        progress("lowering, placing and scheduling")
        placed = lowered(graph, machine, decided, without, watch)
    progress("validating")
    validate(placed, machine)
    account = account_of(placed, machine)
    planned = Planned(
        decided,
        machine,
        graph,
        placed,
        account,
        bounds,
        found,
        None,
        None,
        legal.steps,
        notes,
        without,
        wanted,
        compared,
    )
    if not verify:
        return planned
    progress("running the original in onnxruntime")
    numbers = _numbers(model, numbered, graph, seed)
    progress(f"executing {len(placed.program.tasks)} tasks on the virtual machine")
    done = run_tasks(placed, machine, graph.opsets, account, numbers)
    inputs, weights = numbers.inputs, numbers.weights
    outcome = proven(numbered, graph, numbers.expected, done.outputs, inputs, weights, TOLERANCE)
    difference = outcome.difference
    if outcome.same and outcome.rounded:
        # A saved run is verified later without the original: against what was judged here.
        numbers = replace(numbers, expected=done.outputs)
        planned = replace(planned, notes=(*notes, f"verified by steps: {outcome.told()}"))
    elif not outcome.same:
        # A saturated output can magnify other orders of summation: the operators as they are
        # written decide.
        progress("running the original in onnxruntime, its optimiser off")
        expected = _reference(model, numbered, numbers.inputs, optimise=False)
        numbers = replace(numbers, expected=expected, as_written=True)
        difference = compare(expected, done.outputs, TOLERANCE)
    return replace(planned, numbers=numbers, verified=Verified(difference, done.tasks))


@contextmanager
def _told(graph: Graph, machine: Machine, dtype: str, plan: Path | None) -> Generator[None]:
    """Errors on the way to a program name the operator, or the plan file, they are about."""
    try:
        yield
    except CostError as error:
        where = _node_without_engine(graph, machine, dtype, str(error))
        raise CostError(f"{where}{error}") from None
    except (VerificationError, PlanError):
        raise
    except TilewrightError as error:
        if plan is None:
            raise
        raise PlanError(f"'{plan}': {error}") from None


def _node_without_engine(graph: Graph, machine: Machine, dtype: str, complaint: str) -> str:
    """The first operator about which the cost models complain in these words."""
    models = CostModels(machine)
    for index, node in enumerate(graph.nodes):
        try:
            (tiled,) = typed_group(graph, [index])
            if tiled.spec.engine is not Engine.MOVE:
                work = workload_of(tiled.spec, tiled.op, whole_tile(tiled), dtype)
                models.best(machine.cores[0], work)
        except TilingError:
            continue  # it runs whole
        except CostError as error:
            if str(error) == complaint:
                return f"node '{node.name}' ({node.kind}): "
    return ""


def validate(placed: Placed, machine: Machine) -> None:
    """Raise `VerificationError` where a validator finds a fault in a placed program."""
    verify_program(placed.program, machine)
    verify_placed(placed, machine)


def execute(
    placed: Placed,
    machine: Machine,
    opsets: Mapping[str, int],
    account: Account,
    numbers: Numbers,
) -> Verified:
    """Run the tasks at their addresses; raise unless numbers and bytes are as they should be."""
    done = run_tasks(placed, machine, opsets, account, numbers)
    return Verified(compare(numbers.expected, done.outputs, TOLERANCE), done.tasks)


def run_tasks(
    placed: Placed,
    machine: Machine,
    opsets: Mapping[str, int],
    account: Account,
    numbers: Numbers,
) -> Executed:
    """Run the tasks at their addresses; raise unless the bytes they move are those accounted."""

    def run_whole(
        work: Whole, operands: Sequence[Array], results: Sequence[TensorType]
    ) -> list[Array]:
        return _run_whole(work, operands, results, opsets)

    done: Executed = VirtualMachine(placed, machine, opsets.get("", 13), run_whole).run(
        numbers.inputs, numbers.weights
    )
    main = machine.main_memory.name
    counted = (done.read_bytes[main], done.write_bytes[main])
    listed = (account.dram_read_bytes, account.dram_write_bytes)
    if counted != listed:
        raise VerificationError(
            f"the virtual machine read and wrote {counted} bytes of {main}, "
            f"the task list says {listed}"
        )
    return done


def _run_whole(
    work: Whole,
    operands: Sequence[Array],
    results: Sequence[TensorType],
    opsets: Mapping[str, int],
) -> list[Array]:
    """An operator that runs in one piece, in onnxruntime: it alone, as it is written."""

    def kind(number: int) -> TensorType:
        return TensorType(str(operands[number].dtype), operands[number].shape)

    model, names = operator_model(
        work.kind,
        work.domain,
        work.attributes,
        [None if i is None else kind(i) for i in work.inputs],
        [None if o is None else results[o] for o in work.outputs],
        {name: kind(i) for name, i in work.captures},
        opsets,
    )
    feeds = dict(zip(names, operands, strict=True))
    return list(run(model, feeds, optimise=False).values())


def _typed(graph: Graph) -> Graph:
    """The network with types that only onnxruntime knows: results of its own operators, and what
    follows from them."""
    made = [name for node in graph.nodes for name in node.writes]
    missing = tuple(name for name in made if name not in graph.types)
    if not missing or graph.weightless:
        return graph
    outputs = (*graph.outputs, *(name for name in missing if name not in graph.outputs))
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path = Path(folder) / "typed.onnx"
        save_onnx(replace(graph, outputs=outputs), path)
        found = output_types(path)
    known = {name: found[name] for name in missing if name in found}
    return replace(graph, types={**graph.types, **known})


def _check_known(graph: Graph) -> None:
    """Raise where a result has no size before the network runs, or is no array of numbers."""
    for node in graph.nodes:
        for name in node.writes:
            kind = graph.types.get(name)
            if kind is None:
                raise ModelError(
                    f"node '{node.name}' ({node.kind}): the shape of its result '{name}' is not "
                    "known before it runs, so it cannot be planned"
                )
            if kind.dtype not in PLANNED:
                raise ModelError(
                    f"node '{node.name}' ({node.kind}): its result '{name}' is {kind}, "
                    "which cannot be planned"
                )


def check_plan(plan: Plan, path: Path, graph: Graph) -> None:
    """Raise unless a plan names every node of the (legalised) network once, in an order that
    runs, cuts its groups as they can be cut, and keeps tensors that can be kept."""
    home: dict[str, int] = {}
    for number, group in enumerate(plan.groups):
        for name in group.nodes:
            if name not in graph.index:
                raise PlanError(f"'{path}': groups[{number}] names '{name}': no such node")
            if name in home:
                raise PlanError(f"'{path}': '{name}' is in groups[{home[name]}] and [{number}]")
            home[name] = number
    labels = [group_label(number, group) for number, group in enumerate(plan.groups)]
    missing = [node.name for node in graph.nodes if node.name not in home]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise PlanError(f"'{path}' leaves out node '{missing[0]}'{more}")
    for node in graph.nodes:
        for value in node.reads:
            maker = graph.producer.get(value)
            before = home[graph.nodes[maker].name] if maker is not None else 0
            if before > home[node.name]:
                raise PlanError(
                    f"'{path}': {labels[home[node.name]]} needs '{value}', "
                    f"which {labels[before]} makes only later"
                )
    for group, label in zip(plan.groups, labels, strict=True):
        try:
            if group.place is Place.CORES:
                cut_group(graph, (graph.index[name] for name in group.nodes), group.splits)
        except TilingError as error:
            raise PlanError(f"'{path}': {label}: {error}") from None
    for name in plan.resident:
        fault = _not_resident(plan, graph, home, name)
        if fault:
            raise PlanError(f"'{path}': '{name}' cannot be resident: {fault}")


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


def _numbers(model: Model, numbered: Graph, graph: Graph, seed: int) -> Numbers:
    """Seeded inputs, the weights of the program, and what onnxruntime makes of them with the
    untouched model."""
    seeded = numbered is not model.graph
    inputs = seeded_inputs(numbered, seed)
    expected = _reference(model, numbered, inputs)
    weights = {
        name: constant.data
        for name, constant in graph.constants.items()
        if constant.data is not None
    }
    zoo = model.name if model.path is None else None
    return Numbers(seed, zoo, seeded, inputs, weights, expected)


def _reference(
    model: Model, numbered: Graph, inputs: Arrays, *, optimise: bool = True
) -> dict[str, Array]:
    """What onnxruntime makes of the untouched model."""
    if model.path is not None and numbered is model.graph and not model.reshaped:
        return run(model.path, inputs, optimise=optimise, precise=True)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        original = Path(folder) / "original.onnx"
        save_onnx(numbered, original)
        return run(original, inputs, optimise=optimise, precise=True)
