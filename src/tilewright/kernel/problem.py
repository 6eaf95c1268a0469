"""The problem of a fused kernel: a stride-1 convolution with its bias, ReLU and max-pool.

A matrix product A (M x K) times B (K x N) is the 1x1 convolution of an image with K channels,
N rows and one column: rows are what a tile holds many of.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from tilewright.errors import TilewrightError
from tilewright.machine.dtypes import element_bits, rate_class

Extents = str | tuple[int, int, int] | None
ELEMENTS = ("fp32", "fp16", "bf16")


class KernelError(TilewrightError):
    """A kernel that was asked for does not exist: its text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class KernelProblem:
    """What is computed. `pads` are rows above, columns left, rows below, columns right.

    Pooling windows do not overlap and need no part of a window: rows and columns left over are
    not computed.
    """

    in_channels: int
    height: int
    width: int
    out_channels: int
    kernel: tuple[int, int] = (3, 3)
    batch: int = 1
    pool: int = 1
    dtype: str = "fp16"
    bias: bool = True
    relu: bool = False
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    kind: str = "conv2d"
    strides: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        sizes = {
            "number of input channels": self.in_channels,
            "height": self.height,
            "width": self.width,
            "number of output channels": self.out_channels,
            "kernel height": self.kernel[0],
            "kernel width": self.kernel[1],
            "vertical stride": self.strides[0],
            "horizontal stride": self.strides[1],
            "batch": self.batch,
            "pool": self.pool,
        }
        for name, size in sizes.items():
            if size < 1:
                raise KernelError(f"the {name} has to be at least 1, is {size}")
        if min(self.pads) < 0:
            raise KernelError(f"a padding cannot be negative, is {min(self.pads)}")
        if self.out_height < 1 or self.out_width < 1:
            raise KernelError(
                f"the kernel {self.kernel[0]}x{self.kernel[1]} is larger than the image "
                f"{self.height}x{self.width} with its padding"
            )
        if self.rows < 1 or self.cols < 1:
            raise KernelError(
                f"the pool {self.pool}x{self.pool} is larger than the result "
                f"{self.out_height}x{self.out_width}"
            )

    @property
    def out_height(self) -> int:
        """Rows of the convolution."""
        padded = self.height + self.pads[0] + self.pads[2]
        return (padded - self.kernel[0]) // self.strides[0] + 1

    @property
    def out_width(self) -> int:
        """Columns of the convolution."""
        padded = self.width + self.pads[1] + self.pads[3]
        return (padded - self.kernel[1]) // self.strides[1] + 1

    @property
    def rows(self) -> int:
        """Rows of the convolution that reach the result."""
        return self.out_height // self.pool * self.pool

    @property
    def cols(self) -> int:
        """Columns of the convolution that reach the result."""
        return self.out_width // self.pool * self.pool

    def reach(self, axis: int, span: tuple[int, int], tap: int | None) -> tuple[int, int]:
        """Rows (axis 0) or columns of the input, from the first to behind the last, that a span of
        the convolution reads with one tap of the filter, or with all; padding counts, as negative
        ones and as those beyond the image."""
        stride, before = self.strides[axis], self.pads[axis]
        first, last = span[0] * stride - before, (span[1] - 1) * stride - before
        return (first, last + self.kernel[axis]) if tap is None else (first + tap, last + tap + 1)

    @property
    def taps(self) -> int:
        """Positions of the filter."""
        return self.kernel[0] * self.kernel[1]

    def taps_inside(self, around: Collection[str]) -> int:
        """Positions of the filter that what stands inside some loops covers."""
        high, wide = (
            1 if loop in around else extent
            for loop, extent in zip(("fh", "fw"), self.kernel, strict=True)
        )
        return high * wide

    @property
    def macs(self) -> int:
        """Multiply-accumulates of what reaches the result."""
        per_position = self.in_channels * self.out_channels * self.taps
        return self.batch * per_position * self.rows * self.cols

    @property
    def result_shape(self) -> tuple[int, int, int, int]:
        """Shape of what is written."""
        rows, cols = self.rows // self.pool, self.cols // self.pool
        return self.batch, self.out_channels, rows, cols

    @property
    def image(self) -> str:
        """The image's size as text."""
        return f"{self.height}x{self.width}"

    def text(self) -> str:
        """The problem in a line."""
        if self.kind == "matmul":
            return (
                f"matmul {self.out_channels}x{self.in_channels} times "
                f"{self.in_channels}x{self.height}, {self.dtype}"
            )
        parts = [
            f"conv2d {self.in_channels}x{self.image} -> {self.out_channels} channels",
            f"{self.kernel[0]}x{self.kernel[1]}",
            *([f"stride {'x'.join(map(str, self.strides))}"] if max(self.strides) > 1 else []),
            *([f"pads {self.pads}"] if any(self.pads) else []),
            *(["bias"] if self.bias else []),
            *(["relu"] if self.relu else []),
            *([f"max-pool {self.pool}"] if self.pool > 1 else []),
            f"batch {self.batch}",
            self.dtype,
        ]
        return ", ".join(parts)


def element_type(text: str) -> str:
    """An element type that kernels are planned for."""
    try:
        found = rate_class(text)
    except TilewrightError:
        found = ""
    if found not in ELEMENTS:
        raise KernelError(f"no kernels of element type '{text}': give one of {', '.join(ELEMENTS)}")
    return found


def element_size(dtype: str) -> int:
    """Bytes of one element."""
    return element_bits(dtype) // 8


def matmul_problem(rows: int, depth: int, cols: int, dtype: str = "fp16") -> KernelProblem:
    """A product of (rows x depth) and (depth x cols) as a convolution."""
    for name, size in (("M (rows)", rows), ("K (depth)", depth), ("N (columns)", cols)):
        if size < 1:
            raise KernelError(f"{name} of a product has to be at least 1, is {size}")
    return KernelProblem(
        depth, cols, 1, rows, (1, 1), dtype=element_type(dtype), bias=False, kind="matmul"
    )


def parts(extent: int, size: int) -> tuple[tuple[int, int], ...]:
    """Half-open intervals of `size` that cover an extent; the last may be shorter."""
    cuts = [*range(0, extent, size), extent]
    return tuple(pairwise(cuts))


def image_extents(given: Extents) -> tuple[int, int, int]:
    """Channels, height and width of an image."""
    if given is None:
        raise KernelError(
            "say what is convolved: image (--in) as CxHxW, or model and node (--from, --node)"
        )
    return _extents(given, "an image", "CxHxW such as 256x224x224")


def product_extents(given: Extents) -> tuple[int, int, int]:
    """M, K and N of a product of (M x K) and (K x N)."""
    if given is None:
        raise KernelError("say what is multiplied: size (--size) as MxKxN")
    return _extents(given, "a product", "MxKxN such as 512x256x1024")


def _extents(given: str | tuple[int, int, int], what: str, form: str) -> tuple[int, int, int]:
    if isinstance(given, tuple):
        return given
    match = re.fullmatch(r"\s*(-?\d+)\s*x\s*(-?\d+)\s*x\s*(-?\d+)\s*", given)
    if match is None:
        raise KernelError(f"'{given}' is no size of {what}: write {form}")
    first, second, third = map(int, match.groups())
    return first, second, third


def pair(given: str | int | tuple[int, int], what: str) -> tuple[int, int]:
    """Height and width, as text or as they are."""
    if isinstance(given, tuple):
        return given
    parts = str(given).split("x")
    if len(parts) > 2 or not all(re.fullmatch(r"-?\d+", part.strip()) for part in parts):
        raise KernelError(f"'{given}' is no {what}: write 3 or 3x5")
    return int(parts[0]), int(parts[-1])
