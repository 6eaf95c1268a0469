"""The window of one call: its padding resolved, its padded input, its taps as views."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tilewright.graph.graph import Array
from tilewright.graph.kernels.call import Call
from tilewright.graph.ops.windows import WindowParameters

LEADING = 2  # batch and channels come before the spatial axes


@dataclass(frozen=True, slots=True)
class Windows(WindowParameters):
    """All positions of a window: with the result's extents along the spatial axes."""

    result: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """Extents that the windows cover, padding included."""
        steps = zip(self.result, self.strides, self.spans, strict=True)
        return tuple(max(0, (out - 1) * s + span) if out > 0 else 0 for out, s, span in steps)

    def padded(self, x: Array, fill: float) -> Array:
        """What the windows cover: the input with `fill` around it, or a part of the input."""
        inside: list[slice] = [slice(None)] * LEADING
        target: list[slice] = [slice(None)] * LEADING
        whole = True
        for before, reach, extent in zip(self.before, self.reach, x.shape[LEADING:], strict=True):
            skipped, start = max(0, -before), max(0, before)
            length = max(0, min(extent - skipped, reach - start))
            inside.append(slice(skipped, skipped + length))
            target.append(slice(start, start + length))
            whole = whole and length == reach
        if whole:
            return x[tuple(inside)]
        result = np.full((*x.shape[:LEADING], *self.reach), fill, dtype=x.dtype)
        result[tuple(target)] = x[tuple(inside)]
        return result

    def columns(self, padded: Array) -> Array:
        """All windows as a view: batch, channels, taps per axis, positions per axis."""
        steps = padded.strides[LEADING:]
        strides = (
            *padded.strides[:LEADING],
            *(step * d for step, d in zip(steps, self.dilations, strict=True)),
            *(step * s for step, s in zip(steps, self.strides, strict=True)),
        )
        shape = (*padded.shape[:LEADING], *self.kernel, *self.result)
        return as_strided(padded, shape, strides, writeable=False)

    def taps(self) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Each tap of the kernel, and where all windows read it in the padded input."""
        for tap in np.ndindex(*self.kernel):
            yield (
                tap,
                tuple(
                    slice(t * d, t * d + (out - 1) * s + 1, s)
                    for t, d, out, s in zip(
                        tap, self.dilations, self.result, self.strides, strict=True
                    )
                ),
            )


def stated(call: Call, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], str]:
    """Strides, dilations, pads and automatic padding of a window, as attributes give them."""
    strides, dilations = call.ints_of("strides"), call.ints_of("dilations")
    mode, pads = call.str_of("auto_pad", "NOTSET"), call.ints_of("pads")
    ones, none = (1,) * rank, (0,) * (2 * rank)
    return strides or ones, dilations or ones, none if mode == "VALID" else pads or none, mode


def window_of(
    call: Call, extents: tuple[int, ...], kernel: tuple[int, ...], *, ceil: bool = False
) -> Windows:
    """The window that a convolution or a pool slides over an input of these spatial extents."""
    rank = len(extents)
    strides, dilations, pads, mode = stated(call, rank)
    before, after, result = list(pads[:rank]), list(pads[rank:]), [0] * rank
    for axis, (extent, k, s, d) in enumerate(zip(extents, kernel, strides, dilations, strict=True)):
        covered = (k - 1) * d + 1
        if mode.startswith("SAME"):
            result[axis] = -(-extent // s)
            total = max(0, (result[axis] - 1) * s + covered - extent)
            before[axis] = total // 2 if mode == "SAME_UPPER" else total - total // 2
            after[axis] = total - before[axis]
            continue
        room = extent + before[axis] + after[axis] - covered
        result[axis] = max(0, (-(-room // s) if ceil else room // s) + 1)
        # A window that ceil mode adds has to start in the input or the padding before it; onnx asks
        # for that from operator set 22 on, runtimes always did so.
        if ceil and (result[axis] - 1) * s >= extent + before[axis]:
            result[axis] -= 1
    return Windows(kernel, strides, dilations, tuple(before), tuple(after), tuple(result))
