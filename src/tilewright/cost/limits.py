"""Which limit of a matrix array a piece of work is beyond."""

from functools import lru_cache
from math import isqrt

from tilewright.cost.base import WorkKind, Workload
from tilewright.machine.machine import Limits

_DENSE = (WorkKind.CONV, WorkKind.FIRST_CONV)
_WINDOWS = (*_DENSE, WorkKind.DEPTHWISE, WorkKind.POOL)


@lru_cache(maxsize=65536)
def broken_limit(work: Workload, limits: Limits) -> str:
    """The first limit that keeps the work off arrays, in words; nothing where there is none."""
    if work.kind not in _WINDOWS:
        return ""
    sides = (
        (work.kernel_height, work.dilation_height, work.stride_height, work.pads[:2]),
        (work.kernel_width, work.dilation_width, work.stride_width, work.pads[2:]),
    )
    for kernel, dilation, stride, pads in sides:
        if limits.kernel is not None and kernel > limits.kernel:
            return f"kernel {kernel} is beyond {limits.kernel}"
        if limits.dilation is not None and dilation > limits.dilation:
            return f"dilation {dilation} is beyond {limits.dilation}"
        if limits.stride is not None and stride > limits.stride:
            return f"stride {stride} is beyond {limits.stride}"
        half = ((kernel - 1) * dilation + 1) // 2
        if limits.pad_half_kernel and max(pads) > half:
            return f"pad {max(pads)} is beyond {half}"
    longest = max(_extents(work))
    if limits.dimension is not None and longest > limits.dimension:
        return f"dimension {longest} is beyond {limits.dimension}"
    return ""


def _extents(work: Workload) -> tuple[int, ...]:
    """What the array has to count. Positions of pointwise work may be seen as any height and
    width, pools go through it row by row."""
    channels = (work.in_channels, work.out_channels)
    if work.operator == "pool":
        return (1,)
    space = (work.in_height, work.in_width, work.out_height, work.out_width)
    if work.pointwise:
        space = (squarest(work.out_height * work.out_width),)
    return (*channels, *space)


def squarest(positions: int) -> int:
    """The side of the smallest square that holds all positions: pointwise work can be seen so, the
    last row filled up. Fewer positions never need a longer one."""
    return max(1, isqrt(max(0, positions - 1)) + 1)
