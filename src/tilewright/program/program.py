"""Program: buffers in memories, views of them, and tasks on engines. Complete in itself: it can be
simulated, validated, executed and printed without the plan it came from."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from tilewright.cost.base import Workload
from tilewright.graph.graph import Attribute
from tilewright.graph.ops.spec import Step
from tilewright.graph.types import BITS


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes in one memory. `value` names the tensor of the network it holds (a part of)."""

    name: str
    memory: str
    size: int
    alignment: int
    value: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor laid into a buffer: byte offset, shape, and byte strides per axis. Elements of less
    than a byte have one each where they lie, and share bytes where they move."""

    buffer: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    item: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes that move when all of it does."""
        run, repeats = self.runs()
        return run * prod(repeats)

    def runs(self) -> tuple[int, tuple[int, ...]]:
        """Contiguous bytes, and how often they repeat at each level of stride, outermost first."""
        return runs_of(self.shape, self.strides, self.dtype, self.item)

    def at(self, buffer: int) -> "View":
        """The same in another buffer."""
        return View(buffer, self.offset, self.shape, self.strides, self.dtype, self.item)


@lru_cache(maxsize=4096)
def runs_of(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, item: int
) -> tuple[int, tuple[int, ...]]:
    """The runs of every view that has this shape and these strides, as they move: elements of less
    than a byte side by side, each run in whole bytes."""
    axes = sorted(
        (abs(stride), extent) for stride, extent in zip(strides, shape, strict=True) if extent > 1
    )
    run = item
    levels: list[tuple[int, int]] = []
    for stride, extent in axes:
        if not levels and stride == run:
            run *= extent
        elif levels and stride == levels[-1][0] * levels[-1][1]:
            levels[-1] = (levels[-1][0], levels[-1][1] * extent)
        else:
            levels.append((stride, extent))
    packed = min(run, -(-run * BITS[dtype] // 8))
    return packed, tuple(extent for _, extent in reversed(levels))


@dataclass(frozen=True, slots=True)
class Compute:
    """Steps on an engine: an operator's tile and what is folded into it, the nodes `folded`, in
    this order. Operands of the steps are numbers of the task's reads; results are numbers of its
    writes."""

    steps: tuple[Step, ...]
    workload: Workload
    folded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Transfer:
    """A copy on a link: one read, one write or more (multicast)."""

    route: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Whole:
    """An operator that cannot be cut, on whole tensors of one memory; a runtime executes it.
    Inputs and outputs are numbers of the task's reads and writes (None: absent), `captures` what
    its subgraphs read by name, `route` the memory it passes from and to."""

    kind: str
    domain: str
    attributes: Mapping[str, Attribute]
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    captures: tuple[tuple[str, int], ...]
    route: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Task:
    """Work on one engine. `cycles` is its time (the latency of a transfer), `moved` the bytes a
    transfer moves; `after` are earlier tasks it waits for. `node`, `group` and `tile` say what of
    the network and of the plan it belongs to."""

    name: str
    engine: str
    work: Compute | Transfer | Whole
    reads: tuple[View, ...]
    writes: tuple[View, ...]
    cycles: int
    moved: int = 0
    energy_pj: float = 0.0
    after: tuple[int, ...] = ()
    node: str = ""
    group: int = 0
    tile: int = 0

    def linked(
        self, reads: tuple[View, ...], writes: tuple[View, ...], after: tuple[int, ...]
    ) -> "Task":
        """The same on other views, with other dependencies; `replace` takes three times as long."""
        return Task(
            self.name,
            self.engine,
            self.work,
            reads,
            writes,
            self.cycles,
            self.moved,
            self.energy_pj,
            after,
            self.node,
            self.group,
            self.tile,
        )


@dataclass(frozen=True, slots=True)
class Program:
    """Tasks in order, the buffers they use, and where the network's inputs, weights and outputs
    are to be found before and after."""

    machine: str
    tasks: tuple[Task, ...]
    buffers: tuple[Buffer, ...]
    inputs: tuple[tuple[str, View], ...]
    constants: tuple[tuple[str, View], ...]
    outputs: tuple[tuple[str, View], ...]

    def folded(self) -> dict[str, str]:
        """The nodes that run in an output stage, each with the node whose results pass it."""
        return {
            name: task.node
            for task in self.tasks
            if isinstance(task.work, Compute)
            for name in task.work.folded
        }
