"""Resize: nearest, linear and cubic interpolation along each axis."""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor

from tilewright.geometry.access import Access, AxisRule, Resampled, Same, Whole
from tilewright.graph.ops.spec import Engine, Op, OpSpec, Step, StepInput, Tile, ints, of_first

_SHIFT_INVARIANT = ("half_pixel", "asymmetric", "pytorch_half_pixel")


def _scalings(op: Op) -> list[Fraction | None] | None:
    """Exact scale per axis, None where a tile of it interpolates with other weights."""
    shape, result = op.shape(0), op.result().shape
    given = op.value_of(2)
    if op.str_of("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        return None
    if op.int_of("antialias", 0) or op.ints_of("axes") is not None:
        return None
    if op.str_of("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    if given is None and op.value_of(3) is None:
        return None
    mode = op.str_of("coordinate_transformation_mode", "half_pixel")
    linear = op.str_of("mode", "nearest") != "nearest"
    found: list[Fraction | None] = []
    for axis, (extent, out) in enumerate(zip(shape, result, strict=True)):
        scale = Fraction(out, extent)
        consistent = True
        if given is not None and given.size:
            consistent = float(scale) == float(given.reshape(-1)[axis])
        factor = scale.numerator * scale.denominator
        # Interpolation weights of a shifted tile are the same numbers only for powers of two.
        exact = factor & (factor - 1) == 0 if linear else scale.denominator == 1
        single = mode == "pytorch_half_pixel" and out == 1
        cuttable = exact and mode in _SHIFT_INVARIANT and not single
        found.append(scale if consistent and (cuttable or scale == 1) else None)
    return found


_ROUNDED: dict[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda place: ceil(place - Fraction(1, 2)),
    "round_prefer_ceil": lambda place: floor(place + Fraction(1, 2)),
    "floor": floor,
    "ceil": ceil,
}


def _halo(op: Op, up: int, down: int) -> tuple[int, int]:
    """Rows that a block of `up` results reads before and behind its own `down` ones, counted in
    whole blocks: what a tile reads has to be a multiple of them."""
    middle = op.str_of("coordinate_transformation_mode", "half_pixel") != "asymmetric"
    half = Fraction(1, 2) if middle else Fraction(0)
    taps: list[int] = []
    for place in range(up):
        exact = (place + half) * down / up - half
        taps += _taps(op, exact)
    before, after = max(0, -min(taps)), max(0, max(taps) - (down - 1))
    return -(-before // down) * down, -(-after // down) * down


def _taps(op: Op, place: Fraction) -> range:
    """The positions that a result at this place of the input is made of."""
    mode = op.str_of("mode", "nearest")
    if mode == "nearest":
        taken = _ROUNDED[op.str_of("nearest_mode", "round_prefer_floor")](place)
        return range(taken, taken + 1)
    first, last = floor(place), ceil(place)
    return range(first, last + 1) if mode == "linear" else range(first - 1, first + 3)


def _resize_access(op: Op, output: int) -> Access | None:
    scalings = _scalings(op)
    if scalings is None:
        return None
    shape, result = op.shape(0), op.result().shape
    grain: list[int] = []
    rules: list[AxisRule] = []
    for axis, scale in enumerate(scalings):
        if scale is None:
            grain.append(result[axis])
            rules.append(Whole(shape[axis]))
        elif scale == 1:
            grain.append(1)
            rules.append(Same(axis))
        else:
            up, down = scale.numerator, scale.denominator
            grain.append(up)
            rules.append(Resampled(axis, up, down, *_halo(op, up, down), shape[axis]))
    return of_first(op, result, tuple(grain), rules)


def _resize_tile(op: Op, tile: Tile) -> tuple[Step, ...]:
    """Resize the region with its halo, then crop what the halo gave."""
    scalings, reaches = _scalings(op), tile.inputs[0]
    assert scalings is not None and reaches is not None
    box = tile.output
    sizes: list[int] = []
    crops: list[tuple[int, int, int]] = []
    for axis, (scale, reach) in enumerate(zip(scalings, reaches, strict=True)):
        if scale is None or scale == 1:
            sizes.append(box[axis].length)
            continue
        size = int(reach.interval.length * scale)
        sizes.append(size)
        start = int(reach.before * scale)
        if size != box[axis].length:
            crops.append((axis, start, start + box[axis].length))
    given = op.value_of(2)
    inputs: tuple[StepInput, ...] = (0, None, None, ints(sizes))
    if given is not None and given.size:
        inputs = (0, None, given)
    attributes = op.attributes
    if not crops:
        return (Step("Resize", attributes, inputs),)
    axes, starts, stops = zip(*crops, strict=True)
    return (
        Step("Resize", attributes, inputs, ("resized",), tuple(sizes)),
        Step("Slice", {}, ("resized", ints(starts), ints(stops), ints(axes))),
    )


SPECS = (
    OpSpec(
        "layout",
        Engine.VECTOR,
        "Resize",
        "axes with whole (linear: power of two) factors",
        _resize_access,
        _resize_tile,
    ),
)
