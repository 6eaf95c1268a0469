"""From a model and a machine to a plan that has been executed: the steps of `tilewright plan`."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.api import Model
from tilewright.errors import TilewrightError, VerificationError
from tilewright.execute.compare import Difference, compare
from tilewright.execute.runtime import run
from tilewright.execute.vm import Executed, VirtualMachine
from tilewright.frontend.normalize import normalize
from tilewright.frontend.save import save_onnx
from tilewright.frontend.weights import seeded_inputs
from tilewright.graph.graph import Array, Graph
from tilewright.machine.dtypes import rate_class
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan, PlanError, read_plan
from tilewright.program.account import Account, account_of
from tilewright.program.lower import Watch, lowered
from tilewright.program.place import Placed
from tilewright.program.verify import verify_placed, verify_program
from tilewright.search.layers import LayerPlanner
from tilewright.shrink.choose import silent

TOLERANCE = 1e-4  # of the largest magnitude of an output

Arrays = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Numbers:
    """What an execution took in and has to give. `zoo` names the network whose seeded weights are
    `weights`; it is None where they are the model's own, or seeded into a file's empty ones."""

    seed: int
    zoo: str | None
    seeded: bool
    inputs: Arrays
    weights: Arrays
    expected: Arrays


@dataclass(frozen=True, slots=True)
class Verified:
    """An execution that gave the original's numbers."""

    difference: Difference
    tasks: int


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, what became of it, and (unless left out) the proof that it runs."""

    plan: Plan
    machine: Machine
    opset: int
    placed: Placed
    account: Account
    numbers: Numbers | None
    verified: Verified | None


def plan_model(
    model: Model,
    machine: Machine,
    *,
    layer_by_layer: bool = False,
    plan: Path | None = None,
    dtype: str | None = None,
    without: frozenset[str] = frozenset(),
    verify: bool = True,
    seed: int = 0,
    watch: Watch | None = None,
    progress: Callable[[str], None] = silent,
) -> Planned:
    """Plan (or read a plan), lower, place, schedule, validate, execute and compare.

    `without` names passes to leave out; `watch` sees the program after every step.
    """
    if plan is None and not layer_by_layer:
        raise TilewrightError(
            "the search for fused groups comes later: give --layer-by-layer, or --plan plan.yaml"
        )
    if plan is not None and layer_by_layer:
        raise TilewrightError("give either --layer-by-layer or --plan, not both")
    elements = rate_class(dtype) if dtype is not None else None
    progress("reading the network")
    # Seeded before it is normalised: weights that are folded together then fit each other.
    numbered = model.with_numbers(seed) if verify else model.graph
    graph = normalize(numbered)
    if plan is not None:
        decided = read_plan_for(plan, graph)
        elements = elements or rate_class(decided.dtype)
        decided = replace(decided, model=model.name, machine=machine.name, dtype=elements)
    else:
        progress("choosing tiles")
        elements = elements or rate_class(machine.dtype)
        decided = LayerPlanner(graph, machine, elements).plan(model.name)
    progress("lowering, placing and scheduling")
    placed = lowered(graph, machine, decided, without, watch)
    progress("validating")
    validate(placed, machine)
    account = account_of(placed, machine)
    planned = Planned(decided, machine, graph.opset, placed, account, None, None)
    if not verify:
        return planned
    progress("running the original in onnxruntime")
    numbers = _numbers(model, numbered, graph, seed)
    progress(f"executing {len(placed.program.tasks)} tasks on the virtual machine")
    verified = execute(placed, machine, graph.opset, account, numbers)
    return replace(planned, numbers=numbers, verified=verified)


def validate(placed: Placed, machine: Machine) -> None:
    """Raise `VerificationError` where a validator finds a fault in a placed program."""
    verify_program(placed.program, machine)
    verify_placed(placed, machine)


def execute(
    placed: Placed, machine: Machine, opset: int, account: Account, numbers: Numbers
) -> Verified:
    """Run the tasks at their addresses; raise unless numbers and bytes are as they should be."""
    done: Executed = VirtualMachine(placed, machine, opset).run(numbers.inputs, numbers.weights)
    main = machine.main_memory.name
    counted = (done.read_bytes[main], done.write_bytes[main])
    listed = (account.dram_read_bytes, account.dram_write_bytes)
    if counted != listed:
        raise VerificationError(
            f"the virtual machine read and wrote {counted} bytes of {main}, "
            f"the task list says {listed}"
        )
    return Verified(compare(numbers.expected, done.outputs, TOLERANCE), done.tasks)


def read_plan_for(path: Path, graph: Graph) -> Plan:
    """A plan file that names every node of the (normalised) network once, in an order that runs."""
    plan = read_plan(path)
    home: dict[str, int] = {}
    for number, group in enumerate(plan.groups):
        for name in group.nodes:
            if name not in graph.index:
                raise PlanError(f"'{path}': groups[{number}] names '{name}': no such node")
            if name in home:
                raise PlanError(f"'{path}': '{name}' is in groups[{home[name]}] and [{number}]")
            home[name] = number
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
                    f"'{path}': groups[{home[node.name]}] needs '{value}', "
                    f"which groups[{before}] makes only later"
                )
    return plan


def _numbers(model: Model, numbered: Graph, graph: Graph, seed: int) -> Numbers:
    """Seeded inputs, the weights of the program, and what onnxruntime makes of them with the
    untouched model."""
    seeded = numbered is not model.graph
    inputs = seeded_inputs(numbered, seed)
    if model.path is not None and not seeded and not model.reshaped:
        expected = run(model.path, inputs)
    else:
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            original = Path(folder) / "original.onnx"
            save_onnx(numbered, original)
            expected = run(original, inputs)
    weights = {
        name: constant.data
        for name, constant in graph.constants.items()
        if constant.data is not None
    }
    zoo = model.name if model.path is None else None
    return Numbers(seed, zoo, seeded, inputs, weights, expected)
