"""OpSpec: everything Tilewright knows about a kind of operator, in one record.

Nothing outside `graph/ops` compares operator names; it asks the spec. Adding an operator is one
entry in the module of its family and one test.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import mul
from typing import NamedTuple

import numpy as np

from tilewright.geometry.access import Access, AxisRule, Reach, Same, Whole
from tilewright.geometry.box import Box
from tilewright.graph.graph import Array, Attribute, Attributes, Graph, Node
from tilewright.graph.types import TensorType


class Engine(Enum):
    """The class of engine an operator needs."""

    MATRIX = "matrix"
    VECTOR = "vector"
    MOVE = "move"  # data movement, or nothing at all once layouts are chosen


@dataclass(frozen=True, slots=True)
class Operand:
    """An input as its operator sees it: a type, and the numbers if they are constant and known.
    `given` marks the network's own inputs, and images of them."""

    type: TensorType
    constant: bool
    value: Array | None
    given: bool = False


@dataclass(frozen=True, slots=True)
class Op(Attributes):
    """A node together with the types of what it reads and writes."""

    kind: str
    attributes: Mapping[str, Attribute]
    inputs: tuple[Operand | None, ...]
    outputs: tuple[TensorType | None, ...]
    opset: int

    def shape(self, index: int) -> tuple[int, ...]:
        """Shape of an input that is there."""
        operand = self.inputs[index]
        assert operand is not None
        return operand.type.shape

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def value_of(self, index: int) -> Array | None:
        """The numbers of a constant input, None if absent, variable or left out."""
        operand = self.inputs[index] if index < len(self.inputs) else None
        return None if operand is None else operand.value

    def result(self, index: int = 0) -> TensorType:
        kind = self.outputs[index]
        assert kind is not None
        return kind


# What a tile is made of when written back as operators: an input is the number of the operator's
# own (sliced) input, a new constant, a name made by an earlier step, or None if absent.
StepInput = int | str | Array | None


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of a tile; outputs are the operator's own (by number) or a local name, whose
    shape is then `local_shape`."""

    kind: str
    attributes: Mapping[str, Attribute]
    inputs: tuple[StepInput, ...]
    outputs: tuple[int | str, ...] = (0,)
    local_shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile of one operator, complete in itself: what it writes (per output, None where the
    output is absent) and what it reads (per input, per axis; None for absent or no-data inputs)."""

    outputs: tuple[Box | None, ...]
    inputs: tuple[tuple[Reach, ...] | None, ...]

    @property
    def output(self) -> Box:
        """Region of the first output that is there."""
        return next(box for box in self.outputs if box is not None)

    def input_box(self, index: int) -> Box | None:
        """Region of an input, without padding."""
        reaches = self.inputs[index]
        return None if reaches is None else Box(tuple([reach[0] for reach in reaches]))

    def input_shape(self, index: int) -> tuple[int, ...] | None:
        """Extents of that region."""
        reaches = self.inputs[index]
        if reaches is None:
            return None
        return tuple([max(0, stop - start) for (start, stop), _, _ in reaches])


@dataclass(frozen=True, slots=True)
class Strides:
    """How a tensor lies: offset of its first element, strides per axis and element size, in
    bytes."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int

    def at(self, position: Iterable[int]) -> int:
        """Where an element lies."""
        return self.offset + sum(map(mul, position, self.strides))


class Pool(Enum):
    """What a pool makes of its window."""

    MAXIMUM = "maximum"
    AVERAGE = "average"
    NORM = "norm"


class Filter(NamedTuple):
    """The inputs of a convolution that hold its filter, the filter's zero point and the data's
    (None: zero is zero). A transposed one steps through its result."""

    weight: int
    weight_zero: int | None = None
    data_zero: int | None = None
    transposed: bool = False


AccessFunction = Callable[[Op, int], Access | None]
TileFunction = Callable[[Op, Tile], tuple[Step, ...]]
CountFunction = Callable[[Op, Box], int]
ViewFunction = Callable[[Op, Strides, int], Strides | None]
BehindFunction = Callable[[Op, Strides], Strides | None]
PartsFunction = Callable[[Op, Strides], tuple[Strides, ...]]

# The class of vector work, as machine files give rates for it, where an operator has none of its
# own; what is not here has the file's default.
_CLASS_OF_FAMILY = {
    "normalisation": "norm",
    "reduction": "reduce",
    "element-wise": "add",
    "layout": "copy",
}


def no_macs(op: Op, box: Box) -> int:
    """The operator multiplies no matrices."""
    return 0


def in_shape(op: Op, tile: Tile, kind: str) -> tuple[Step, ...]:
    """The tile is an operator that is told the shape of its result."""
    return (Step(kind, {}, (0, ints(tile.output.shape))),)


def same_operator(op: Op, tile: Tile) -> tuple[Step, ...]:
    """The tile is the operator itself on smaller inputs."""
    inputs = tuple(i if operand is not None else None for i, operand in enumerate(op.inputs))
    outputs = tuple(i if kind is not None else "" for i, kind in enumerate(op.outputs))
    return (Step(op.kind, op.attributes, inputs, outputs),)


class Finishing(NamedTuple):
    """What an output stage does to run an operator, as machine files call it, and to which of its
    operands: the product may be any of these."""

    finish: str
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpSpec:
    """What Tilewright knows about one kind of operator.

    How it can be cut: `access` gives the access relation of an output, or None where this very node
    cannot be cut (it then runs whole); `tile` writes a tile as operators; `axes` says how a person
    splits it: the table of `show ops`.
    What it costs: `macs` counts multiply-accumulates of an output box; `rate` is its class of
    vector work, `pool` and `filter` what its window is for, `pairs` whether arrays take two whole
    tensors through it, `adds_up` whether results over parts of its reduction add up to the whole
    (a bias going to one of them).
    What becomes of it: `view` gives the result as another look at the first input's bytes, `behind`
    that input as one at the result's, `parts` the inputs as parts of the result's; with
    `keeps_order` the result has the input's elements in their order. `finish` is what the output
    stage of an array would do to run it on the way out of a product: `clamp`, `activation`, `add`
    (of two), `scale` (a product of two).
    """

    family: str
    engine: Engine
    kind: str
    axes: str
    access: AccessFunction
    tile: TileFunction = same_operator
    macs: CountFunction = no_macs
    domains: tuple[str, ...] = field(default=("",))
    finish: str = ""
    pairs: bool = False
    adds_up: bool = False
    rate: str = ""
    pool: Pool | None = None
    filter: Filter | None = None
    view: ViewFunction | None = None
    behind: BehindFunction | None = None
    parts: PartsFunction | None = None
    keeps_order: bool = False

    @property
    def vector_class(self) -> str:
        """The class of vector work that machine files give rates for."""
        return self.rate or _CLASS_OF_FAMILY.get(self.family, "default")

    def finishing(self, op: Op) -> Finishing | None:
        """How the output stage of an array could run this very operator, if at all."""
        if self.finish not in ("add", "scale"):
            return Finishing(self.finish, (0,)) if self.finish else None
        if not op.has(0) or not op.has(1) or len(op.inputs) != 2 or op.outputs[0] is None:
            return None
        shape = op.result().shape
        pair = [operand for operand in op.inputs if operand is not None]
        data = tuple(k for k, o in enumerate(pair) if not o.constant and o.type.shape == shape)
        if len(data) != 1:
            return Finishing("add", data) if data and self.finish == "add" else None
        other = pair[1 - data[0]]
        if is_bias(other.type.shape, shape):
            finish = self.finish if self.finish == "scale" else "bias" if other.constant else ""
        else:
            finish = "add" if self.finish == "add" and other.type.shape == shape else ""
        return Finishing(finish, data) if finish else None

    @property
    def rewrites(self) -> bool:
        """Whether results can be written over an operand: element by element, or by a softmax or a
        norm, which read a row before they write it."""
        by_rows = self.family == "normalisation" or self.rate == "softmax"
        return self.engine is Engine.VECTOR and (by_rows or self.family == "element-wise")

    def in_place(self, op: Op, access: Access) -> tuple[int, ...]:
        """Inputs whose bytes the only result may take over as it is written: they have its type,
        and every element is read where its own result goes; `access` is the relation of the
        result."""
        if not self.rewrites or len(op.outputs) != 1:
            return ()
        result = op.result()
        same = same_rules(len(result.shape))
        return tuple(
            index
            for index, (operand, rules) in enumerate(zip(op.inputs, access.inputs, strict=True))
            if operand is not None and operand.type == result and rules == same
        )


IMAGE_RANKS = range(3, 6)  # of what windows read: a batch, channels, and one to three axes of space


def channel_axis(rank: int) -> int:
    """The axis that filters make: images have it second, all others last."""
    return 1 if rank == 4 else rank - 1


def is_bias(shape: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Whether a shape has one number for each channel of a result."""
    if not 0 < len(shape) <= len(result):
        return False
    axis = channel_axis(len(result)) - len(result)
    others = [extent for k, extent in enumerate(shape) if k - len(shape) != axis]
    return -axis <= len(shape) and shape[axis] == result[axis] and set(others) <= {1}


def whole_rules(shape: tuple[int, ...]) -> tuple[AxisRule, ...]:
    """Rules of an input that every tile needs entirely."""
    return tuple(Whole(extent) for extent in shape)


def same_rules(rank: int) -> tuple[AxisRule, ...]:
    """Rules of an input that has the output's very shape."""
    return tuple(Same(axis) for axis in range(rank))


def rules_but(shape: tuple[int, ...], whole: Collection[int]) -> tuple[AxisRule, ...]:
    """Rules of an input that follows the output but along axes that are needed whole."""
    return tuple(Whole(n) if axis in whole else Same(axis) for axis, n in enumerate(shape))


def broadcast_rules(shape: tuple[int, ...], result: tuple[int, ...]) -> tuple[AxisRule, ...]:
    """Rules of an input that is broadcast to the result, aligned at the last axis."""
    offset = len(result) - len(shape)
    return tuple(
        Whole(extent) if extent != result[offset + axis] else Same(offset + axis)
        for axis, extent in enumerate(shape)
    )


def free(shape: tuple[int, ...], whole: Collection[int] = ()) -> tuple[int, ...]:
    """Grain of an output that can be cut anywhere but along some axes."""
    return tuple(extent if axis in whole else 1 for axis, extent in enumerate(shape))


def of_first(
    op: Op, result: tuple[int, ...], grain: tuple[int, ...], rules: Iterable[AxisRule]
) -> Access:
    """The access relation of an operator whose other inputs are no data."""
    return Access(result, grain, (tuple(rules), *[None] * (len(op.inputs) - 1)))


def op_of(graph: Graph, node: Node) -> Op | None:
    """The node with its types, or None where a type it needs is unknown."""

    def operand(name: str) -> Operand | None:
        constant = graph.constants.get(name)
        numbers = constant.data if constant else None
        return Operand(graph.types[name], constant is not None, numbers, is_given(graph, name))

    if node.captures or any(name and name not in graph.types for name in node.inputs):
        return None
    if any(name and name not in graph.types for name in node.outputs):
        return None
    return Op(
        node.kind,
        node.attributes,
        tuple(operand(name) if name else None for name in node.inputs),
        tuple(graph.types[name] if name else None for name in node.outputs),
        graph.opset,
    )


def is_given(graph: Graph, name: str) -> bool:
    """Whether a value is the network's own input, or some images of one."""
    if name in graph.inputs:
        return True
    maker = graph.producer.get(name)
    if maker is None or graph.nodes[maker].kind != "Slice":
        return False
    source, kind = graph.nodes[maker].inputs[0], graph.types.get(name)
    whole = graph.types.get(source) if source in graph.inputs else None
    return whole is not None and kind is not None and whole.shape[1:] == kind.shape[1:]


def ints(values: object) -> Array:
    """A constant list of integers, as operators take them."""
    return np.asarray(values, dtype=np.int64)
