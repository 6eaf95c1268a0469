"""Walk: the loops of a nest, iteration by iteration, calling what stands at each place.

Who runs a nest (with numbers, or as tasks of engines) is a subclass that says what happens.
"""

from itertools import product

from tilewright.kernel.nest import KERNEL, Nest
from tilewright.kernel.problem import KernelProblem, parts

Key = tuple[int, int, int, int]  # image, output tile, block, row tile
Span = tuple[int, int]


class Walk:
    """The iteration that every loop is in, and the parts of the problem that follow from it."""

    def __init__(self, problem: KernelProblem, nest: Nest) -> None:
        self.problem, self.nest = problem, nest
        self.ins = parts(problem.in_channels, nest.tile_in)
        self.outs = parts(problem.out_channels, nest.tile_out)
        rows = parts(problem.rows, nest.block_rows)
        self.blocks = tuple(product(rows, parts(problem.cols, nest.tile_cols)))
        self.at: dict[str, int] = {}

    def run(self) -> None:
        """The whole kernel."""
        if self.problem.bias:
            self.load_bias()
        self._begin(KERNEL)
        self._loop(0)
        self._end(KERNEL)

    # ---- what happens: for subclasses

    def load_bias(self) -> None:
        """All of the bias arrives."""
        raise NotImplementedError

    def load_input(self) -> None:
        """The input that the loops inside need arrives."""
        raise NotImplementedError

    def copy_input(self) -> None:
        """The input is copied inside SBUF."""
        raise NotImplementedError

    def load_weights(self) -> None:
        """The weights that the loops inside need arrive."""
        raise NotImplementedError

    def cast_weights(self) -> None:
        """Weights are cast."""
        raise NotImplementedError

    def transpose_weights(self) -> None:
        """Weights become stationary tiles."""
        raise NotImplementedError

    def multiply(self) -> None:
        """One product."""
        raise NotImplementedError

    def flush(self) -> None:
        """All accumulators are added to the sums in SBUF."""
        raise NotImplementedError

    def finish(self) -> None:
        """All sums are complete."""
        raise NotImplementedError

    # ---- what subclasses ask

    def chosen(self, loop: str, count: int) -> range:
        """The iteration a loop is in, or all of them where it runs further inside."""
        now = self.at.get(loop)
        return range(count) if now is None else range(now, now + 1)

    def chosen_inputs(self) -> list[tuple[int, int]]:
        """Images and tiles of input channels that an action covers."""
        images = self.chosen("image", self.problem.batch)
        return list(product(images, self.chosen("in", len(self.ins))))

    def chosen_weights(self) -> list[tuple[int, int]]:
        """Tiles of output and input channels that an action covers."""
        outs = self.chosen("out", len(self.outs))
        return list(product(outs, self.chosen("in", len(self.ins))))

    def taps(self) -> tuple[range, range]:
        """Filter rows and columns that an action covers."""
        kernel = self.problem.kernel
        return self.chosen("fh", kernel[0]), self.chosen("fw", kernel[1])

    def key(self) -> Key:
        """The tile that is worked on, inside all loops."""
        return self.at["image"], self.at["out"], self.at["block"], self.at["row"]

    def tiles(self, block: int) -> tuple[Span, ...]:
        """Rows of the tiles of a block."""
        (start, stop), _ = self.blocks[block]
        return tuple((start + a, start + b) for a, b in parts(stop - start, self.nest.tile_rows))

    def tile_shape(self, key: Key) -> tuple[int, int]:
        """Rows and columns of a tile."""
        (top, bottom), (left, right) = self.tiles(key[2])[key[3]], self.blocks[key[2]][1]
        return bottom - top, right - left

    def extent(self, axis: int) -> Span:
        """Rows (axis 0) or columns of the input, padding counted, that the loops inside need."""
        block = self.at.get("block")
        span = (0, (self.problem.rows, self.problem.cols)[axis])
        if block is not None:
            span = self.blocks[block][axis]
            row = self.at.get("row")
            if row is not None and axis == 0:
                span = self.tiles(block)[row]
        return self.problem.reach(axis, span, self.at.get(("fh", "fw")[axis]))

    def inside(self, axis: int) -> Span:
        """The part of the extent that exists."""
        first, last = self.extent(axis)
        size = (self.problem.height, self.problem.width)[axis]
        start = max(first, 0)
        return start, max(start, min(last, size))

    # ---- the loops

    def _values(self, loop: str) -> range:
        counts = {
            "image": self.problem.batch,
            "out": len(self.outs),
            "block": len(self.blocks),
            "in": len(self.ins),
            "fh": self.problem.kernel[0],
            "fw": self.problem.kernel[1],
        }
        if loop == "row":
            return range(len(self.tiles(self.at["block"])))
        return range(counts[loop])

    def _loop(self, depth: int) -> None:
        if depth == len(self.nest.order):
            self.multiply()
            return
        loop = self.nest.order[depth]
        for value in self._values(loop):
            self.at[loop] = value
            self._begin(loop)
            self._loop(depth + 1)
            self._end(loop)
        del self.at[loop]

    def _begin(self, place: str) -> None:
        nest = self.nest
        if place == nest.x_at:
            self.load_input()
        if place == nest.x_copy_at:
            self.copy_input()
        if place == nest.w_at:
            self.load_weights()
        if place == nest.w_cast_at:
            self.cast_weights()
        if place == nest.w_transpose_at:
            self.transpose_weights()

    def _end(self, place: str) -> None:
        if place == self.nest.flush_at:
            self.flush()
        if place == self.nest.finished_at:
            self.finish()
