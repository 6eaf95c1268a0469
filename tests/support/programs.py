"""Networks lowered layer by layer, placed and executed: what tests of programs start from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np

from tilewright import api
from tilewright.execute.runtime import run
from tilewright.execute.vm import Executed, VirtualMachine
from tilewright.frontend.builder import Builder as GraphBuilder
from tilewright.frontend.normalize import normalize
from tilewright.frontend.save import serialize
from tilewright.frontend.weights import seeded, seeded_inputs
from tilewright.graph.graph import Array, Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.program.lower import lowered as lowered_plan
from tilewright.program.place import Placed
from tilewright.program.program import Program, Task, View
from tilewright.schedule.problem import Problem, Schedule
from tilewright.search.candidates.layers import layer_by_layer
from tilewright.tiling.grid import Split


@dataclass(frozen=True, slots=True)
class Lowered:
    """A network, with numbers, and its placed program."""

    original: Graph
    graph: Graph
    machine: Machine
    placed: Placed

    @property
    def program(self) -> Program:
        """The program without addresses and times."""
        return self.placed.program

    def feeds(self) -> dict[str, Array]:
        """Seeded inputs."""
        return seeded_inputs(self.original, 0)

    def execute(self, placed: Placed | None = None) -> Executed:
        """Run the placed program, or another in its place."""
        weights = {n: c.data for n, c in self.graph.constants.items() if c.data is not None}
        machine = VirtualMachine(placed or self.placed, self.machine, self.graph.opset)
        return machine.run(self.feeds(), weights)

    def reference(self) -> Mapping[str, Array]:
        """The untouched network in onnxruntime."""
        return run(serialize(self.original), self.feeds())


def bytes_of(view: View) -> set[int]:
    """Every byte of a view, one by one."""
    found: set[int] = set()
    for index in product(*map(range, view.shape)):
        start = view.offset + sum(i * s for i, s in zip(index, view.strides, strict=True))
        found.update(range(start, start + view.item))
    return found


def lower(graph: Graph, machine_name: str, splits: tuple[Split, ...] = ()) -> Lowered:
    """Plan layer by layer, lower, place. With splits, all groups are cut so, the tiles of the last
    one spread over the cores."""
    machine = load_machine(machine_name)
    normal = normalize(graph)
    plan = layer_by_layer(normal, machine, machine.dtype, graph.name)
    if splits:
        cut = (replace(group, splits=splits, core_split=len(splits) - 1) for group in plan.groups)
        plan = replace(plan, groups=tuple(cut))
    return Lowered(graph, normal, machine, lowered_plan(normal, machine, plan))


@cache
def lowered(name: str, machine: str) -> Lowered:
    """A network by name: of the zoo, or of this module."""
    return lower(_graph(name), machine)


@cache
def quartered(name: str, machine: str) -> Lowered:
    """A small network of images whose layers are all cut in two over channels and over rows."""
    return lower(_graph(name), machine, (Split(1, 2), Split(2, 2)))


@cache
def _graph(name: str) -> Graph:
    return seeded(OWN[name]() if name in OWN else api.load(name).graph)


def residual_network() -> Graph:
    """Two convolutions with activations around a shortcut, a difference that is not symmetric."""
    b = GraphBuilder("residual")
    x = b.input("input", (1, 8, 24, 24))
    x = b.op("Relu", b.conv(x, 16, 3, pads=1, bias=True, name="conv1"))
    y = b.op("Relu", b.conv(x, 16, 3, pads=1, bias=True, name="conv2"))
    y = b.conv(y, 16, 3, pads=1, bias=True, name="conv3")
    x = b.op("Relu", b.op("Sub", y, x, name="difference"))
    return b.finish(b.pool("MaxPool", x, 2, 2, 0, name="pool"))


def transformer_block() -> Graph:
    """One encoder layer of 48 features and 4 heads on 20 tokens."""
    b = GraphBuilder("transformer_block")
    x = b.input("input", (1, 20, 48))
    y = b.layer_norm(x, 1e-6, "norm1")
    query, key, value = (b.heads(b.linear(y, 48, name=n), 4) for n in ("query", "key", "value"))
    x = b.op("Add", b.linear(b.attention(query, key, value), 48, name="out"), x, name="add1")
    y = b.op("Gelu", b.linear(b.layer_norm(x, 1e-6, "norm2"), 192, name="fc1"))
    return b.finish(b.op("Add", b.linear(y, 48, name="fc2"), x, name="add2"))


OWN = {"residual": residual_network, "transformer_block": transformer_block}


def relative_error(actual: Mapping[str, Array], expected: Mapping[str, Array]) -> float:
    """The worst difference of an output over the largest number in it; infinite where an output
    has another shape or is not a number."""
    worst = 0.0
    for name, want in expected.items():
        got = actual[name]
        if got.shape != want.shape:
            return np.inf
        with np.errstate(all="ignore"):
            error = float(np.abs(got - want).max() / np.abs(want).max())
        if np.isnan(error):
            return np.inf
        worst = max(worst, error)
    return worst


# Other versions of a placed program: one thing changed, everything else left as it was.


def with_task(placed: Placed, number: int, task: Task) -> Placed:
    """Another task in the place of one."""
    tasks = list(placed.program.tasks)
    tasks[number] = task
    return replace(placed, program=replace(placed.program, tasks=tuple(tasks)))


def rearranged(placed: Placed, order: list[int]) -> Placed:
    """The tasks of these numbers in this order (left out or twice where the list says so), with
    their edges and times; edges to tasks that are gone go too."""
    new_of = {old: new for new, old in reversed(list(enumerate(order)))}
    problem, tasks = placed.problem, placed.program.tasks
    changed = [
        replace(
            tasks[old], after=tuple(new_of[need] for need in tasks[old].after if need in new_of)
        )
        for old in order
    ]
    needs = [[new_of[n] for n in problem.needs_of(old) if n in new_of] for old in order]
    # Problems do not take edges that point forwards; the program keeps them, to be found there.
    backwards = [[n for n in row if n < new] for new, row in enumerate(needs)]
    picked = np.array(order, dtype=np.int64)
    return replace(
        placed,
        program=replace(placed.program, tasks=tuple(changed)),
        problem=Problem.of(
            problem.resources,
            problem.engine[picked].tolist(),
            problem.duration[picked].tolist(),
            backwards,
            transfer=problem.transfer[picked].tolist(),
        ),
        schedule=Schedule(placed.schedule.start[picked], placed.schedule.end[picked]),
    )


def without_edge(placed: Placed, before: int, after: int) -> Placed:
    """The schedule's problem without one edge; the program as it was."""
    problem = placed.problem
    needs = [problem.needs_of(task) for task in range(problem.count)]
    needs[after].remove(before)
    fewer = Problem.of(
        problem.resources,
        problem.engine.tolist(),
        problem.duration.tolist(),
        needs,
        transfer=problem.transfer.tolist(),
    )
    return replace(placed, problem=fewer)


def without_wait(placed: Placed, before: int, after: int) -> Placed:
    """The program without one data dependency; the schedule's problem as it was."""
    task = placed.program.tasks[after]
    kept = tuple(need for need in task.after if need != before)
    return with_task(placed, after, replace(task, after=kept))


def with_address(placed: Placed, buffer: int, address: int) -> Placed:
    """One buffer elsewhere, and highest addresses that go with it."""
    addresses = list(placed.address)
    addresses[buffer] = address
    return replace(placed, address=tuple(addresses), highest=highest_of(placed, addresses))


def highest_of(placed: Placed, addresses: list[int]) -> tuple[tuple[str, int], ...]:
    """The highest byte used in each memory."""
    highest = dict.fromkeys((name for name, _ in placed.highest), 0)
    for buffer, start in zip(placed.program.buffers, addresses, strict=True):
        highest[buffer.memory] = max(highest[buffer.memory], start + buffer.size)
    return tuple(highest.items())


def with_times(placed: Placed, task: int, start: int, end: int) -> Placed:
    """One task at another time."""
    starts, ends = placed.schedule.start.copy(), placed.schedule.end.copy()
    starts[task], ends[task] = start, end
    return replace(placed, schedule=Schedule(starts, ends))
