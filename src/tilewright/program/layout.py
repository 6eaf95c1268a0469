"""How tensors lie in memory: images channels-last with aligned channels, the rest row by row."""

from dataclasses import dataclass
from math import prod

from tilewright.geometry.box import Box
from tilewright.graph.types import BITS, FLOATS, TensorType
from tilewright.machine.dtypes import element_bits
from tilewright.machine.machine import Machine
from tilewright.program.program import View

_IMAGE = 4


@dataclass(frozen=True, slots=True)
class Layouts:
    """Element sizes and layouts under one machine and element type."""

    machine: Machine
    dtype: str

    def item(self, kind: TensorType) -> int:
        """Bytes of one element: floats in the planned type, everything else as it is."""
        bits = element_bits(self.dtype) if kind.dtype in FLOATS else BITS[kind.dtype]
        return max(1, bits // 8)

    def strides(
        self, kind: TensorType, shape: tuple[int, ...], *, aligned: bool
    ) -> tuple[int, ...]:
        """Byte strides of a tensor (or tile) of this shape, for itself alone."""
        item = self.item(kind)
        if len(shape) != _IMAGE:
            return _dense(shape, item)
        batch, channels, height, width = shape
        if aligned:
            grain = self.machine.limits.channel_alignment
            channels = -(-channels // grain) * grain
        pixel = channels * item
        del batch
        return (height * width * pixel, item, width * pixel, pixel)

    def bytes(self, kind: TensorType, shape: tuple[int, ...], *, aligned: bool) -> int:
        """Bytes such a tensor takes, alignment of channels included."""
        strides = self.strides(kind, shape, aligned=aligned)
        if len(shape) == _IMAGE:
            return max(1, shape[0] * strides[0])
        return max(1, prod(shape) * self.item(kind))

    def whole(self, buffer: int, kind: TensorType, *, aligned: bool) -> View:
        """A view of all of a tensor that starts its buffer."""
        strides = self.strides(kind, kind.shape, aligned=aligned)
        return View(buffer, 0, kind.shape, strides, kind.dtype, self.item(kind))


def part(view: View, outer: Box, inner: Box) -> View:
    """The region `inner` of a view that holds `outer`."""
    local = inner.within(outer)
    offset = sum(i.start * s for i, s in zip(local, view.strides, strict=True))
    return View(view.buffer, view.offset + offset, inner.shape, view.strides, view.dtype, view.item)


def _dense(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    strides: list[int] = []
    step = item
    for extent in reversed(shape):
        strides.append(step)
        step *= max(1, extent)
    return tuple(reversed(strides))
