"""Cost of a piece of work, and the work itself as plain numbers: no graph, no names, no identity.

Two tiles with the same numbers are the same work, so a model computes each once.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, prod
from typing import NamedTuple

from tilewright.errors import TilewrightError


class CostError(TilewrightError):
    """No engine or model can cost the work."""


class WorkKind(StrEnum):
    """The class of work, as engines tell them apart; a matrix product is a 1x1 convolution."""

    CONV = "conv"
    FIRST_CONV = "first_conv"  # few input channels, packed instead of padded
    DEPTHWISE = "depthwise"  # average pooling too
    POOL = "pool"
    ELTWISE = "eltwise"
    VECTOR = "vector"  # anything else, by operator class


class Workload(NamedTuple):
    """One tile of one operator. Pads are top, bottom, left, right. `operator` is the vector class
    (`softmax`, `add`); a tensor that is no image puts all of its elements into the channels."""

    kind: WorkKind
    dtype: str
    out_channels: int
    in_channels: int = 1
    out_height: int = 1
    out_width: int = 1
    in_height: int = 1
    in_width: int = 1
    kernel_height: int = 1
    kernel_width: int = 1
    stride_height: int = 1
    stride_width: int = 1
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    batch: int = 1
    groups: int = 1
    operator: str = ""
    rest: int = 0  # positions of pointwise work that its rectangle leaves over
    rest_shape: tuple[int, int] = (0, 0)  # height and width they are seen in; none: one row
    dilation_height: int = 1  # steps from one tap to the next
    dilation_width: int = 1
    added: int = 0  # elements of other tensors that the output stage reads

    @property
    def positions(self) -> int:
        """Output positions of one image."""
        return self.out_height * self.out_width + self.rest

    @property
    def dense(self) -> bool:
        """Whether every output channel sums over input channels: convolutions, matrix products."""
        return self.kind in (WorkKind.CONV, WorkKind.FIRST_CONV)

    @property
    def product(self) -> bool:
        """Whether it multiplies by weights: dense work, and depthwise that is no pooling."""
        return self.dense or (self.kind is WorkKind.DEPTHWISE and self.operator != "pool")

    @property
    def pointwise(self) -> bool:
        """Whether every position reads its own alone: positions may be seen in any shape."""
        return self.taps == 1 and self.stride_height == self.stride_width == 1

    @property
    def taps(self) -> int:
        """Kernel positions."""
        return self.kernel_height * self.kernel_width

    @property
    def out_elements(self) -> int:
        """Elements written."""
        return self.batch * self.positions * self.out_channels

    @property
    def in_elements(self) -> int:
        """Elements of the (first) data input, without padding."""
        return self.batch * (self.in_height * self.in_width + self.rest) * self.in_channels

    @property
    def macs(self) -> int:
        """Multiply-accumulates; windows that do not mix channels count their taps."""
        if self.kind in (WorkKind.CONV, WorkKind.FIRST_CONV):
            return self.out_elements * self.taps * (self.in_channels // self.groups)
        if self.kind in (WorkKind.DEPTHWISE, WorkKind.POOL):
            return self.out_elements * self.taps
        return 0

    @property
    def weights(self) -> int:
        """Elements of the weights."""
        if self.dense:
            return self.out_channels * self.taps * (self.in_channels // self.groups)
        return self.out_channels * self.taps if self.kind is WorkKind.DEPTHWISE else 0

    def as_view(self, height: int, width: int, rest_shape: tuple[int, int] = (0, 0)) -> "Workload":
        """The same 1x1 work with its positions seen as another height and width; what is left
        over, less than a row, is a row of its own, or in a shape that holds as much or more: that
        computes the last positions before it again."""
        rest = self.positions - height * width
        held = prod(rest_shape)
        fits = rest <= held <= self.positions if held else rest < width
        if not self.pointwise or rest < 0 or not fits:
            raise CostError(f"work on {self.out_height}x{self.out_width} is not {height}x{width}")
        return self._replace(
            out_height=height,
            out_width=width,
            in_height=height,
            in_width=width,
            rest=rest,
            rest_shape=rest_shape if rest else (0, 0),
        )

    @property
    def pieces(self) -> "tuple[Workload, ...]":
        """The work as rectangles of positions."""
        if not self.rest:
            return (self,)
        height, width = self.rest_shape if prod(self.rest_shape) else (1, self.rest)
        first = self._replace(rest=0, rest_shape=(0, 0))
        return (first, first.rectangle(height, width))

    def rectangle(self, height: int, width: int) -> "Workload":
        """The same 1x1 work on other positions."""
        return self._replace(out_height=height, out_width=width, in_height=height, in_width=width)


def matrix_product(rows: int, inner: int, columns: int, dtype: str, batch: int = 1) -> Workload:
    """[rows, inner] x [inner, columns] as the 1x1 convolution of one column of positions."""
    return Workload(
        WorkKind.CONV,
        dtype,
        out_channels=columns,
        in_channels=inner,
        out_height=rows,
        in_height=rows,
        batch=batch,
    )


VIEW_WIDTHS = (1, 2, 4, 8, 16, 32, 64)


def view_shapes(work: Workload) -> list[tuple[int, int]]:
    """Heights and widths in which the positions of pointwise work may be seen; none of others."""
    positions = work.positions
    if work.kind is not WorkKind.CONV or not work.pointwise or work.groups > 1:
        return []
    return [(positions // width, width) for width in VIEW_WIDTHS if width <= positions]


def views_of(work: Workload) -> list[Workload]:
    """The work itself first, then every other shape of its positions."""
    return [work, *(work.as_view(*shape) for shape in view_shapes(work))]


class Copy(NamedTuple):
    """One copy: `run_bytes` contiguous bytes, repeated by `repeats` (outermost first)."""

    run_bytes: int
    repeats: tuple[int, ...] = ()

    @property
    def runs(self) -> int:
        """Contiguous pieces."""
        return prod(self.repeats)

    @property
    def bytes(self) -> int:
        """Bytes that arrive."""
        return self.run_bytes * self.runs


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of the reference clock, energy, and the share of the engine's peak that is useful."""

    cycles: int
    energy_pj: float
    utilisation: float


class CostModel(ABC):
    """Costs work on one engine, each distinct work once. `floor` is not above the sum of `cost`
    over any tiles that cover the work's positions and output channels, halos and views of positions
    included."""

    def __init__(self) -> None:
        self._known: dict[Workload, Cost] = {}
        self._seen: dict[Workload, Workload] = {}

    @abstractmethod
    def supports(self, work: Workload) -> bool:
        """Whether the engine can run the work."""

    @abstractmethod
    def floor(self, work: Workload) -> float:
        """Cycles no tiling of the work can undercut."""

    @abstractmethod
    def makespan(self, work: Workload, engines: int) -> float:
        """Cycles in which so many of these engines can have done the work at best."""

    @abstractmethod
    def compute(self, work: Workload) -> Cost:
        """The cost of work that is not known yet."""

    def cost(self, work: Workload) -> Cost:
        """The work's cost."""
        found = self._known.get(work)
        if found is None:
            found = self._known[work] = self.compute(work)
        return found

    def cycles(self, work: Workload) -> int:
        """The work's cycles: of many views, only those of the best need a cost."""
        return self.cost(work).cycles

    def grains(self, dtype: str) -> frozenset[int]:
        """Multiples that positions, rows, columns or channels of work are rounded up to."""
        return frozenset()

    def views(self, work: Workload) -> list[Workload]:
        """Shapes in which the positions of work may be seen, in order of preference."""
        return views_of(work)

    def seen(self, work: Workload) -> Workload:
        """Pointwise work with its positions in the shape that costs least."""
        found = self._seen.get(work)
        if found is None:
            views = self.views(work)
            found = min(views, key=self.cycles) if views[1:] else views[0]
            self._seen[work] = found
        return found


MOST_CYCLES = 1 << 53  # beyond it floats do not count one by one


def whole_cycles(cycles: float) -> int:
    """Cycles as a whole number, rounded up; the last bits of a float do not count."""
    if not cycles < MOST_CYCLES:
        raise CostError(f"a single task takes {cycles:g} cycles: more than can be counted")
    return max(1, ceil(round(cycles, 6)))
