"""Access relations: which interval of an input axis an interval of an output axis needs.

Every operator Tilewright can tile is separable: an axis of an input depends on at most one axis of
the output. So its access relation is one rule per input axis, and a grid of tiles is evaluated
axis by axis, never tile by tile.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tilewright.geometry.interval import Interval

ANY = Interval(0, 1)
"""Of an output axis, for rules that no axis drives."""


class Reach(NamedTuple):
    """What an output interval needs along one input axis: the part that exists, and the padding on
    either side that takes the place of what does not."""

    interval: Interval
    before: int = 0
    after: int = 0


@dataclass(frozen=True, slots=True)
class Whole:
    """All of the axis, whatever the output interval: reductions, weights' inner axes."""

    extent: int

    @property
    def axis(self) -> None:
        """No output axis drives it."""
        return None

    def reach(self, out: Interval) -> Reach:
        return Reach(Interval(0, self.extent))


@dataclass(frozen=True, slots=True)
class Same:
    """The very interval of the output axis: element-wise operators."""

    axis: int

    def reach(self, out: Interval) -> Reach:
        return Reach(out)


@dataclass(frozen=True, slots=True)
class Scaled:
    """A whole number of input positions (`numerator`) for every `denominator` output positions."""

    axis: int
    numerator: int
    denominator: int

    def reach(self, out: Interval) -> Reach:
        """The interval in input units, rounded outwards."""
        start = out.start * self.numerator // self.denominator
        stop = -(-out.stop * self.numerator // self.denominator)
        return Reach(Interval(start, stop))


@dataclass(frozen=True, slots=True)
class Shifted:
    """The interval moved and clipped: one part of a concat, split or slice, or zero padding."""

    axis: int
    offset: int
    extent: int

    def reach(self, out: Interval) -> Reach:
        """The part that exists; what falls outside is missing before or after."""
        moved = out.shift(self.offset)
        inside = moved.clip(self.extent)
        if inside.empty:
            return Reach(inside)
        return Reach(inside, inside.start - moved.start, moved.stop - inside.stop)


@dataclass(frozen=True, slots=True)
class Strided:
    """Every step-th position from start: a slice with a step, which may be negative."""

    axis: int
    start: int
    step: int

    def reach(self, out: Interval) -> Reach:
        """The hull of the positions taken."""
        if out.empty:
            return Reach(Interval(0, 0))
        first = self.start + out.start * self.step
        last = self.start + (out.stop - 1) * self.step
        return Reach(Interval(min(first, last), max(first, last) + 1))


@dataclass(frozen=True, slots=True)
class _Sliding:
    """The taps of a kernel along one axis, its steps, and what the input has."""

    axis: int
    kernel: int
    stride: int
    dilation: int
    pad_before: int
    extent: int


@dataclass(frozen=True, slots=True)
class Window(_Sliding):
    """A sliding window: convolution and pooling along one axis."""

    def reach(self, out: Interval) -> Reach:
        """Rows the window covers; what lies outside the input is this tile's own padding."""
        start = out[0] * self.stride - self.pad_before
        stop = (out[1] - 1) * self.stride + (self.kernel - 1) * self.dilation + 1
        stop -= self.pad_before
        if start >= 0 and start < stop <= self.extent:
            return Reach(Interval(start, stop))
        inside = Interval(start, stop).clip(self.extent)
        if inside.empty:
            return Reach(inside)
        return Reach(inside, max(0, -start), max(0, stop - self.extent))

    def grow(self, out: Interval, out_extent: int) -> Interval:
        """The interval, enlarged until it touches at least one real input row."""
        tail = (self.kernel - 1) * self.dilation
        first = -(-(self.pad_before - tail) // self.stride)  # the first position with a real row
        last = (self.pad_before + self.extent - 1) // self.stride
        stop = max(out.stop, min(out_extent, first + 1))
        start = min(out.start, max(0, last))
        return Interval(start, stop)


@dataclass(frozen=True, slots=True)
class TransposedWindow(_Sliding):
    """A transposed convolution along one axis. Its padding is what is cropped off the full result
    of the tile, so `before` and `after` are crops (a negative `after` is output padding)."""

    def reach(self, out: Interval) -> Reach:
        """Input rows whose contributions fall into the interval, and the crops."""
        tail = (self.kernel - 1) * self.dilation
        lowest = -(-(out.start + self.pad_before - tail) // self.stride)
        # In a hole between contributions the row before keeps the crop from going negative.
        lowest = min(lowest, (out.start + self.pad_before) // self.stride)
        highest = (out.stop - 1 + self.pad_before) // self.stride
        start = min(max(0, lowest), self.extent - 1)
        inside = Interval(start, max(start + 1, min(highest + 1, self.extent)))
        full_start = inside.start * self.stride - self.pad_before
        full_stop = (inside.stop - 1) * self.stride - self.pad_before + tail + 1
        return Reach(inside, out.start - full_start, full_stop - out.stop)


@dataclass(frozen=True, slots=True)
class Mirrored:
    """Reflect, edge or wrap padding: an interval that touches the padding needs the rows it is
    made from; `before` and `after` are the padding rows of the tile."""

    axis: int
    pad_before: int
    extent: int

    def reach(self, out: Interval) -> Reach:
        """Rows inside; the tile's own padding where it holds the border."""
        moved = out.shift(-self.pad_before)
        inside = moved.clip(self.extent)
        return Reach(inside, max(0, -moved.start), max(0, moved.stop - self.extent))

    def grow(self, out: Interval, out_extent: int) -> Interval:
        """The interval, enlarged to hold the rows that its padding mirrors."""
        border = self.pad_before + self.extent
        while True:
            start, stop = out.start, out.stop
            if start < self.pad_before:
                stop = max(stop, min(out_extent, 2 * self.pad_before - start + 1))
            if stop > border:
                start = min(start, max(0, 2 * border - stop - 1))
            if (start, stop) == (out.start, out.stop):
                return out
            out = Interval(start, stop)


@dataclass(frozen=True, slots=True)
class Resampled:
    """Interpolation by `up`/`down` (output per input positions) that reads so many rows `before`
    and `after` those of its block, clipped at the borders; output intervals start and stop on
    multiples of `up`. Blocks of `down` rows are read whole."""

    axis: int
    up: int
    down: int
    before: int
    after: int
    extent: int

    def reach(self, out: Interval) -> Reach:
        """Input rows with their halo; `before` and `after` count the halo rows present."""
        core = Interval(out.start * self.down // self.up, -(-out.stop * self.down // self.up))
        core = core.clip(self.extent)
        inside = Interval(core.start - self.before, core.stop + self.after).clip(self.extent)
        return Reach(inside, core.start - inside.start, inside.stop - core.stop)


AxisRule = (
    Whole | Same | Scaled | Shifted | Strided | Window | TransposedWindow | Mirrored | Resampled
)


@dataclass(frozen=True)
class Access:
    """The access relation of one output of one operator.

    `shape` is the output's shape. `grain` says in what multiples each output axis can be cut: 1 is
    anywhere, the extent is nowhere. `inputs` has a rule per axis of each input, or None for an
    input that is absent or is no data (a shape, a list of axes).
    """

    shape: tuple[int, ...]
    grain: tuple[int, ...]
    inputs: tuple[tuple[AxisRule, ...] | None, ...]

    @property
    def empty(self) -> bool:
        return 0 in self.shape

    def tileable(self) -> tuple[int, ...]:
        """Output axes that can be cut at all."""
        return tuple(a for a, extent in enumerate(self.shape) if self.grain[a] < extent)

    def grow(self, axis: int, out: Interval) -> Interval:
        """The smallest interval holding `out` that the operator can compute on its own."""
        extent, grain = self.shape[axis], self.grain[axis]
        if out.empty:
            return out
        if grain > 1:
            out = Interval(out.start // grain * grain, min(extent, -(-out.stop // grain) * grain))
        for rule in self._growing.get(axis, ()):
            out = rule.grow(out, extent)
        return out

    def grows(self, axis: int) -> bool:
        """Whether an interval of the axis may have to become larger."""
        return self.grain[axis] > 1 or axis in self._growing

    @cached_property
    def wholes(self) -> tuple[tuple[tuple[Reach], ...] | None, ...]:
        """What all of the output needs, per axis of each input."""
        return tuple(
            None
            if rules is None
            else tuple(
                (rule.reach(ANY if rule.axis is None else Interval(0, self.shape[rule.axis])),)
                for rule in rules
            )
            for rules in self.inputs
        )

    @cached_property
    def _growing(self) -> dict[int, list[Window | Mirrored]]:
        """Rules that may enlarge an interval, by output axis."""
        found: dict[int, list[Window | Mirrored]] = {}
        for rules in self.inputs:
            for rule in rules or ():
                if isinstance(rule, Window | Mirrored):
                    found.setdefault(rule.axis, []).append(rule)
        return found


def only_padding(rules: tuple[AxisRule, ...], shape: tuple[int, ...]) -> bool:
    """Whether no part of the output ever sees the input: every window lies in the padding."""
    windows = (rule for rule in rules if isinstance(rule, Window))
    return any(rule.reach(Interval(0, shape[rule.axis])).interval.empty for rule in windows)
