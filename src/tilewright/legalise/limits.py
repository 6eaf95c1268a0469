"""Which of the array's limits an operator, or one tile of it, meets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.cost.from_graph import reads_given
from tilewright.cost.limits import squarest
from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval
from tilewright.graph.ops import SPECS
from tilewright.graph.ops.spec import Engine, Op, OpSpec, Tile
from tilewright.graph.ops.windows import FIRST_SPATIAL, WindowParameters, window_of
from tilewright.machine.machine import Limits, Machine

ALIGNMENT = "channel_alignment"
PACKED = "packed: the array reads the network's input so"
_REDUCTION = "inner"


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """One limit against one tile: the worst value of it, what is allowed, and, where that is
    broken, how it is legalised."""

    limit: str
    value: int
    allowed: int
    met: bool
    remedy: str = ""

    def __str__(self) -> str:
        relation = "multiple of" if self.limit == ALIGNMENT else "<=" if self.met else ">"
        text = f"{self.limit} {self.value} {relation} {self.allowed}"
        if self.limit == ALIGNMENT and not self.met:
            text = f"{self.limit} {self.value} is no multiple of {self.allowed}"
        return f"{text}: {self.remedy}" if self.remedy else text


def fits_limits(op: Op, tile: Tile | None, machine: Machine) -> list[LimitCheck]:
    """The limits that a tile (None: the whole operator) breaks on the engine it has to run on.

    A vector operator breaks none, and channels are aligned by the layout: both are legal.
    """
    spec = SPECS.get(op.kind)
    if spec is None or (spec.engine is not Engine.MATRIX and has_vector_engine(machine)):
        return []
    return [c for c in array_limits(op, tile, machine) if not c.met and c.limit != ALIGNMENT]


def array_limits(op: Op, tile: Tile | None, machine: Machine) -> tuple[LimitCheck, ...]:
    """Every limit of the matrix array that applies to a tile (None: the whole operator).

    Pools are checked too, since an array can run them; for other vector work there are none.
    """
    spec, limits = SPECS.get(op.kind), machine.limits
    if spec is None or (spec.engine is not Engine.MATRIX and spec.pool is None):
        return ()
    window = pool_window(op) if spec.pool is not None else window_of(op)
    checks: list[LimitCheck] = []
    if window is not None:
        checks += _window_checks(spec, op, window, _pads(window, tile), limits)
    extents = _extents(spec, op, tile)
    if spec.engine is Engine.MATRIX:
        checks += _dimension(extents, limits)
    checks += _alignment(extents, limits, is_packed(op, machine))
    return tuple(checks)


def is_packed(op: Op, machine: Machine) -> bool:
    """Whether the array reads the network's input as it lies there: few channels, not expanded."""
    return reads_given(SPECS[op.kind], op) and op.shape(0)[1] <= machine.packed_channels


def has_vector_engine(machine: Machine) -> bool:
    """Whether every core can run what the array cannot."""
    return all(core.engine("vector") is not None for core in machine.cores)


def too_long(value: int, limit: int | None) -> bool:
    """Whether a value is beyond a limit that there is."""
    return limit is not None and value > limit


def taken_kernel(window: WindowParameters, axis: int, limits: Limits) -> int:
    """The kernel that the array runs along an axis: expanded where it cannot dilate."""
    expanded = too_long(window.dilations[axis], limits.dilation)
    return window.spans[axis] if expanded else window.kernel[axis]


def pool_window(op: Op) -> WindowParameters | None:
    """The window of a pool; a global one has all of its input's space."""
    window = window_of(op)
    if window is not None:
        return window
    space = op.shape(0)[FIRST_SPATIAL:]
    one, none = (1,) * len(space), (0,) * len(space)
    return WindowParameters(space, one, one, none, none)


def _pads(window: WindowParameters, tile: Tile | None) -> tuple[int, ...]:
    """The larger pad of each axis."""
    reaches = tile.inputs[0] if tile is not None else None
    if reaches is None:
        return tuple(map(max, zip(window.before, window.after, strict=True)))
    return tuple(max(r.before, r.after) for r in reaches[FIRST_SPATIAL:])


def _window_checks(
    spec: OpSpec, op: Op, window: WindowParameters, pads: tuple[int, ...], limits: Limits
) -> Iterator[LimitCheck]:
    axes = range(len(window.kernel))
    pool, transposed = spec.pool is not None, spec.filter is not None and spec.filter.transposed
    kernels = [taken_kernel(window, a, limits) for a in axes]
    patches = all(span <= stride for span, stride in zip(window.spans, window.strides, strict=True))
    remedy = "taken as patches: space to depth, then a 1x1 kernel"
    if pool:
        remedy = "a cascade of smaller pools, else the vector engine"
    elif not spec.adds_up:
        remedy = f"none for {op.kind}"
    elif not patches:
        remedy = f"a sum of convolutions over kernel parts of at most {limits.kernel}"
    yield from _most("kernel", kernels, limits.kernel, remedy)
    dilations = [d for d, k in zip(window.dilations, window.kernel, strict=True) if k > 1]
    other = "the vector engine" if pool else "space to batch, or the filter is expanded with zeros"
    yield from _most("dilation", dilations or [1], limits.dilation, other)
    if transposed:
        return  # it steps through its result, and its pads crop it
    if spec.adds_up:
        remedy = "taken as patches" if patches else "kernel parts, each taken as patches"
    yield from _most("stride", window.strides, limits.stride, remedy)
    if limits.pad_half_kernel:
        # The axis with the least room decides.
        halves = [span // 2 for span in window.spans]
        room, pad, half = min((h - p, p, h) for h, p in zip(halves, pads, strict=True))
        remedy = "the vector engine" if pool else f"a Pad before writes {-room} of it"
        yield LimitCheck("pads", pad, half, room >= 0, "" if room >= 0 else remedy)


def _most(
    limit: str, values: Sequence[int], allowed: int | None, remedy: str
) -> Iterator[LimitCheck]:
    if allowed is not None:
        met = max(values) <= allowed
        yield LimitCheck(limit, max(values), allowed, met, "" if met else remedy)


def _extents(spec: OpSpec, op: Op, tile: Tile | None) -> dict[str, int]:
    """What the array has to count: channels, space; for a product its inner extent and columns."""
    result = tile.output.shape if tile is not None else op.result().shape
    source = tile.input_box(0) if tile is not None else None
    data = source.shape if source is not None else op.shape(0)
    if spec.family != "window":
        result = (1, *result)
        return {
            _REDUCTION: spec.macs(op, Box((Interval(0, 1),) * len(op.result().shape))),
            "columns": result[-1],
            "rows": squarest(result[-2]),
        }
    space = (*data[FIRST_SPATIAL:], *result[FIRST_SPATIAL:])
    return {"input channels": data[1], "output channels": result[1], "space": max(space, default=1)}


def _dimension(extents: dict[str, int], limits: Limits) -> Iterator[LimitCheck]:
    most = limits.dimension
    if most is None:
        return
    name = next((name for name, extent in extents.items() if extent > most), "")
    if not name:
        yield LimitCheck("dimension", max(extents.values()), most, True)
        return
    reduced = name in (_REDUCTION, "input channels")
    parts = -(-extents[name] // most)
    remedy = f"a sum over {parts} parts" if reduced else f"tiles with fewer {name}"
    yield LimitCheck("dimension", extents[name], most, False, remedy)


def _alignment(extents: dict[str, int], limits: Limits, packed: bool) -> Iterator[LimitCheck]:
    grain = limits.channel_alignment
    if grain <= 1:
        return
    channels = {name: e for name, e in extents.items() if name not in ("space", "rows")}
    if packed:
        few = channels.pop("input channels")
        yield LimitCheck(ALIGNMENT, few, grain, False, f"input channels ({few}) stay {PACKED}")
    odd = [extent for extent in dict.fromkeys(channels.values()) if extent % grain]
    for extent in odd:
        remedy = f"{extent} -> {aligned(extent, grain)} channels in memory"
        yield LimitCheck(ALIGNMENT, extent, grain, False, remedy)
    if not odd and not packed:
        yield LimitCheck(ALIGNMENT, next(iter(channels.values())), grain, True)


def aligned(extent: int, grain: int) -> int:
    """The extent, rounded up."""
    return -(-extent // grain) * grain
