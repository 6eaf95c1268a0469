"""A tiny program for two cores that every pass changes: what their goldens and tests look at."""

from dataclasses import dataclass, field
from functools import cache

from support.builder import GraphBuilder
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.planning import prepared
from tilewright.program.lower import stages
from tilewright.program.lowering import Lowering
from tilewright.program.program import Program, Task
from tilewright.tiling.grid import Split


def two_cores_network() -> Graph:
    """Images of 8x8: a product with bias and activation, vector work, another product."""
    b = GraphBuilder()
    x = b.input(1, 16, 8, 8, name="x")
    x = b.add("Conv", x, b.weight(16, 16, 1, 1), b.weight(16), name="conv")
    x = b.add("Softmax", b.add("Relu", x, name="relu"), axis=1, name="soft")
    return b.graph(b.add("Conv", x, b.weight(16, 16, 1, 1), name="last"))


@dataclass(frozen=True, slots=True)
class TwoCores:
    """The network on its machine: three operators in four tiles, the last in two, each core with
    half of them."""

    graph: Graph
    machine: Machine
    plan: Plan
    steps: dict[str, Program] = field(default_factory=dict)

    def before(self, step: str) -> Program:
        """The program as a pass finds it."""
        names = list(self.steps)
        return self.steps[names[names.index(step) - 1]]

    def after(self, step: str) -> Program:
        """What the pass makes of it."""
        return self.steps[step]


@cache
def two_cores() -> TwoCores:
    """All stages, worked out once."""
    machine = load_machine("npu-2.7")
    graph = prepared(two_cores_network(), machine, machine.dtype).graph
    names = tuple(node.name for node in graph.nodes)
    fused, last = (Split(2, 4),), (Split(2, 2),)
    groups = (GroupPlan(names[:3], fused, 0), GroupPlan(names[3:], last, 0))
    plan = Plan("two_cores", machine.name, machine.dtype, groups)
    found = dict(stages(Lowering(graph, machine, machine.dtype), plan))
    return TwoCores(graph, machine, plan, found)


def titled(program: Program, word: str) -> list[Task]:
    """The tasks whose name begins so."""
    return [task for task in program.tasks if task.name.startswith(word)]


def place_of(program: Program, name: str) -> int:
    """When a task is issued."""
    return [task.name for task in program.tasks].index(name)
