"""From a tile of an operator to the work of an engine: the only part of cost that knows graphs."""

from dataclasses import dataclass
from math import prod

from tilewright.cost.base import WorkKind, Workload, matrix_product
from tilewright.geometry.access import Access, AxisRule, Scaled, TransposedWindow, Whole, Window
from tilewright.graph.ops.spec import Engine, Op, OpSpec, Pool, Tile
from tilewright.graph.types import FLOATS, QUANTISED
from tilewright.machine.ranges import MOST_PACKED

_FIRST_SPATIAL = 2


@dataclass(frozen=True, slots=True)
class _Image:
    """A tensor of batch, channels and space seen as an image: one axis is a row, more are folded
    into the height."""

    batch: int
    channels: int
    height: int
    width: int

    @property
    def extents(self) -> tuple[int, int]:
        return self.height, self.width

    @staticmethod
    def of(shape: tuple[int, ...]) -> "_Image":
        space = shape[_FIRST_SPATIAL:]
        return _Image(shape[0], shape[1], prod(space[:-1]), space[-1] if space else 1)


def workload_of(
    spec: OpSpec, op: Op, tile: Tile, dtype: str | None = None, access: Access | None = None
) -> Workload:
    """The work of one tile, in the planned element type where it differs from the graph's. Who has
    the first output's access relation at hand saves the time to derive it."""
    element = element_of(op, dtype)
    access = access or spec.access(op, 0)
    rules = access.inputs[0] if access is not None and access.inputs else None
    if rules is None or tile.inputs[0] is None:
        return _vector(spec, tile, element)
    # Whether something slides over, or takes all of, the axes behind the channels.
    sliding = (isinstance(rule, Window | TransposedWindow | Whole) for rule in rules[2:])
    if spec.family == "window" and any(sliding):
        return _window(spec, op, tile, rules, element)
    if spec.engine is Engine.MATRIX:
        return _product(tile, rules, element)
    return _vector(spec, tile, element)


def element_of(op: Op, planned: str | None) -> str:
    """The element type that an operator computes with: the planned one, unless it reads and writes
    quantised numbers alone."""
    if planned is None:
        return op.result().dtype
    data = [o.type.dtype for o in op.inputs if o is not None and not o.constant]
    made = [kind.dtype for kind in op.outputs if kind is not None]
    quantised = data and data[0] in QUANTISED and not any(d in FLOATS for d in (*data, *made))
    return data[0] if quantised else planned


def _window(spec: OpSpec, op: Op, tile: Tile, rules: tuple[AxisRule, ...], dtype: str) -> Workload:
    reaches, source = tile.inputs[0], tile.input_shape(0)
    assert reaches is not None and source is not None
    out, data = _Image.of(tile.output.shape), _Image.of(source)
    kind, groups = _mixing(spec, op, rules[1], out.channels)
    sides = [_side(rule) for rule in rules[_FIRST_SPATIAL:]]
    kernels, strides, dilations = zip(*sides, strict=True)
    pads = (0, 0, 0, 0)
    if len(reaches) == _FIRST_SPATIAL + 2 and not isinstance(rules[-1], TransposedWindow):
        rows, columns = reaches[_FIRST_SPATIAL:]
        pads = (rows.before, rows.after, columns.before, columns.after)
    return Workload(
        *(kind, dtype, out.channels, data.channels, *out.extents, *data.extents),
        kernel_height=prod(kernels[:-1]),
        kernel_width=kernels[-1],
        stride_height=prod(strides[:-1]),
        stride_width=strides[-1],
        pads=pads,
        batch=out.batch,
        groups=groups,
        operator="" if spec.engine is Engine.MATRIX else "pool",
        dilation_height=max(dilations[:-1], default=1),
        dilation_width=dilations[-1],
    )


def _mixing(spec: OpSpec, op: Op, channel: AxisRule, channels: int) -> tuple[WorkKind, int]:
    """The kind of window by how channels depend on each other, and the groups of the tile."""
    if spec.engine is not Engine.MATRIX:
        return WorkKind.POOL if spec.pool is Pool.MAXIMUM else WorkKind.DEPTHWISE, 1
    if not isinstance(channel, Scaled):
        return WorkKind.FIRST_CONV if reads_given(spec, op) else WorkKind.CONV, 1
    if channel.numerator == 1:
        return WorkKind.DEPTHWISE, 1
    return WorkKind.CONV, max(1, channels // channel.denominator)


def reads_given(spec: OpSpec, op: Op) -> bool:
    """Whether a convolution reads the network's own input, which arrays may take packed."""
    data = op.inputs[0]
    if data is None or not data.given or spec.filter is None or spec.filter.transposed:
        return False
    # Of so few channels the machine's own limit decides.
    return data.type.shape[1] <= MOST_PACKED and op.int_of("group", 1) == 1


def _side(rule: AxisRule) -> tuple[int, int, int]:
    """Along one axis, the kernel's taps, its step, and the steps between its taps. A transposed
    convolution steps through its output; where a machine cannot dilate, legalisation has filled
    the holes."""
    if not isinstance(rule, Window | TransposedWindow):
        return rule.extent if isinstance(rule, Whole) else 1, 1, 1
    stride = rule.stride if isinstance(rule, Window) else 1
    return rule.kernel, stride, rule.dilation if rule.kernel > 1 else 1


def _product(tile: Tile, rules: tuple[AxisRule, ...], dtype: str) -> Workload:
    """A matrix product: rows are positions, in one column until a view is chosen."""
    shape = (1, *tile.output.shape)
    rows = shape[-2]
    inner = [rule.extent for rule in rules if isinstance(rule, Whole)][-1]
    return matrix_product(rows, inner, shape[-1], dtype, prod(shape[:-2]))


def _vector(spec: OpSpec, tile: Tile, dtype: str) -> Workload:
    shape = tile.output.shape
    size = prod(shape)
    shapes = [tile.input_shape(index) for index in range(len(tile.inputs))]
    inputs = [prod(extents) for extents in shapes if extents is not None]
    largest = max(inputs, default=size)
    # Scales and zero points are part of the instruction.
    inputs = [elements for elements in inputs if elements > 1 or size == 1]
    operator = spec.vector_class
    if spec.pairs and inputs == [size, size] and len(shape) == 4:
        image = _Image.of(shape)
        sides = image.channels, image.channels, *image.extents, *image.extents
        return Workload(WorkKind.ELTWISE, dtype, *sides, batch=image.batch, operator=operator)
    return Workload(WorkKind.VECTOR, dtype, size, largest, operator=operator)
