"""Nest: the loops of a kernel as data, and where in them each thing happens.

Something that stands `at` a loop is done at the start of each of its iterations, and covers what
the loops inside it run over: a load of the input at `in` brings the block with its halo, at `fw`
one window of one filter position. `kernel` is before all loops.
"""

from dataclasses import dataclass

LOOPS = ("image", "out", "block", "row", "in", "fh", "fw")
REDUCTIONS = frozenset({"in", "fh", "fw"})
KERNEL = "kernel"
BIASES = ("tensor_scalar", "tensor_tensor", "activation")
STORES = ("tile", "block")
ENGINES = ("vector", "scalar", "gpsimd")


@dataclass(frozen=True, slots=True)
class Nest:
    """A kernel: tiles, the order of loops (outer first), and the choices at them.

    The loops run over images, tiles of output channels (`out`), blocks of rows (`block`), tiles of
    rows within a block (`row`), tiles of input channels (`in`), and filter rows and columns. A tile
    of `tile_rows` x `tile_cols` positions is one accumulation in PSUM.
    """

    name: str
    order: tuple[str, ...] = LOOPS
    tile_in: int = 128
    tile_out: int = 128
    tile_rows: int = 1
    tile_cols: int = 1
    block_rows: int = 1
    x_at: str = "in"  # where the input is loaded
    x_copy_at: str | None = None  # where it is copied (sliced, cast) inside SBUF
    w_at: str = "in"  # where weights are loaded
    w_cast_at: str | None = None  # where they are cast before they are transposed
    w_transpose_at: str = "fw"  # where slices are transposed, through PSUM
    compute: str = "fp32"  # element type of the operands
    psum: str = "fp32"  # element type of the accumulators
    flush_at: str | None = None  # reduction loop after which PSUM is added up in SBUF
    bias: str = "tensor_tensor"
    pool_first: bool = False  # pool before the bias is added
    store: str = "tile"
    x_buffers: int = 2
    w_buffers: int = 2
    out_buffers: int = 2
    psum_buffers: int = 2
    x_copy_engine: str = "vector"
    w_engine: str = "vector"
    flush_engine: str = "vector"

    def depth(self, place: str) -> int:
        """How many loops are around what stands at a place."""
        return 0 if place == KERNEL else self.order.index(place) + 1

    def around(self, place: str) -> tuple[str, ...]:
        """The loops whose iterations repeat what stands at a place, itself included."""
        return self.order[: self.depth(place)]

    @property
    def finished_at(self) -> str:
        """The place at whose end results are complete: just outside the first reduction loop."""
        first = self._first_reduction
        return KERNEL if first == 0 else self.order[first - 1]

    @property
    def psum_loops(self) -> tuple[str, ...]:
        """The loops over results for all of whose iterations accumulators are live in PSUM."""
        first = self._first_reduction if self.flush_at is None else self.depth(self.flush_at)
        return tuple(loop for loop in self.order[first:] if loop not in REDUCTIONS)

    @property
    def sum_loops(self) -> tuple[str, ...]:
        """The loops over results for all of whose iterations sums are kept, in PSUM or SBUF."""
        first = self._first_reduction
        return tuple(loop for loop in self.order[first:] if loop not in REDUCTIONS)

    @property
    def _first_reduction(self) -> int:
        return min(self.order.index(loop) for loop in REDUCTIONS)
