"""The listing of a nest: pseudo-code, with what every line moves and how long its engine works."""

from dataclasses import dataclass

from tilewright.kernel.assess import Assessment
from tilewright.kernel.nest import KERNEL
from tilewright.kernel.space import TileSpace
from tilewright.kernel.transfers import OperandTransfers
from tilewright.units import format_bytes


@dataclass(frozen=True, slots=True)
class ListingLine:
    """A line of pseudo-code. `count` is how often it runs, all loops together; `bytes` and `run`
    are of transfers; `held` is what it keeps of a partition of SBUF."""

    depth: int
    kind: str  # loop, load, store or work
    text: str
    engine: str = ""
    count: int = 0
    bytes: int = 0
    run: int = 0
    seconds: float = 0.0
    held: int = 0


def listing(assessment: Assessment) -> tuple[ListingLine, ...]:
    """All lines, outer loops first."""
    return tuple(_Listing(assessment).lines())


def listing_text(assessment: Assessment) -> str:
    """The listing for a terminal: code on the left, figures on the right."""
    rows = [("  " * line.depth + line.text, _figures(line)) for line in listing(assessment)]
    width = max(len(code) for code, _ in rows) + 2
    return "\n".join(f"{code:{width}}{figures}".rstrip() for code, figures in rows) + "\n"


def _figures(line: ListingLine) -> str:
    if line.kind == "loop":
        return ""
    found = [f"{line.engine} {line.count:,}x"]
    if line.bytes:
        found.append(f"{format_bytes(line.bytes)} in runs of {line.run:,} B")
    found.append(f"{line.seconds * 1e6:.1f} us")
    if line.held:
        found.append(f"holds {line.held:,} B")
    return "# " + ", ".join(found)


class _Listing:
    def __init__(self, assessment: Assessment) -> None:
        self.given = assessment
        self.nest, self.problem = assessment.nest, assessment.problem
        self.space = TileSpace.of(self.problem, self.nest)
        self.moves = {each.operand: each for each in assessment.transfers}

    def lines(self) -> list[ListingLine]:
        nest, found = self.nest, list[ListingLine]()
        if "bias" in self.moves:
            found.append(self._move(0, "load", "bias[all out]", "bias", "bias"))
        found += self._begin(KERNEL, 0)
        for depth, loop in enumerate(nest.order):
            found.append(ListingLine(depth, "loop", self._loop(loop)))
            found += self._begin(loop, depth + 1)
        deepest = len(nest.order)
        text = f"psum[out, row] += wT[out, in, fh, fw] . {self._moving()}"
        found.append(self._work(deepest, text, "products"))
        for depth in range(deepest, -1, -1):
            place = nest.order[depth - 1] if depth else KERNEL
            found += self._end(place, depth)
        return found

    def _loop(self, loop: str) -> str:
        space, problem = self.space, self.problem
        sizes = {
            "image": (problem.batch, "images"),
            "out": (space.out_sizes.total(), f"tiles of {max(space.out_sizes)} output channels"),
            "block": (space.block_shapes.total(), self._block()),
            "row": (space.tiles_in_block, self._tile()),
            "in": (space.in_sizes.total(), f"tiles of {max(space.in_sizes)} input channels"),
            "fh": (problem.kernel[0], "filter rows"),
            "fw": (problem.kernel[1], "filter columns"),
        }
        trips, what = sizes[loop]
        return f"for {loop} in range({trips}):  # {what}"

    def _block(self) -> str:
        rows, cols = max(self.space.block_shapes)
        return f"blocks of {rows} rows x {cols} columns"

    def _tile(self) -> str:
        rows, cols = max(self.space.tile_shapes)
        return f"tiles of {rows} x {cols} = {rows * cols} positions"

    def _begin(self, place: str, depth: int) -> list[ListingLine]:
        nest, found = self.nest, list[ListingLine]()
        if place == nest.x_at:
            region = f"x{self._window(place)}"
            found.append(self._move(depth, "load", region, "x", "x"))
            if self.given.count("zero borders"):
                found.append(self._work(depth, "zero borders of x", "zero borders"))
        if place == nest.x_copy_at:
            what = "input slices" if self.problem.dtype == nest.compute else "input casts"
            verb = "copy" if what == "input slices" else f"cast to {nest.compute}"
            held = self._held("x copy")
            found.append(self._work(depth, f"x' = {verb} of x{self._window(place)}", what, held))
        if place == nest.w_at:
            found.append(self._move(depth, "load", f"w{self._filters(place)}", "w", "w"))
        if place == nest.w_cast_at:
            text = f"w' = cast of w{self._filters(place)} to {nest.compute}"
            found.append(self._work(depth, text, "weight casts", self._held("w cast")))
        if place == nest.w_transpose_at:
            text = f"transpose w{self._filters(place)} through PSUM"
            found.append(self._work(depth, text, "weight transposes"))
            held = self._held("w transposed")
            found.append(self._work(depth, "wT = copy of them", "transposed weights to SBUF", held))
        return found

    def _end(self, place: str, depth: int) -> list[ListingLine]:
        nest, found = self.nest, list[ListingLine]()
        if place == nest.flush_at:
            text = "sums[out, row] += psum[out, row]"
            found.append(self._work(depth, text, "PSUM added up in SBUF", self._held("sums")))
        if place == nest.finished_at:
            for work in self.given.work:
                if work.what in ("bias", "relu", "max-pool", "copy"):
                    name = f"{work.what} ({nest.bias})" if work.what == "bias" else work.what
                    found.append(self._work(depth, f"out = {name} of the tile", work.what))
        if place == self._stored_at():
            found.append(self._store(depth))
        return found

    def _stored_at(self) -> str:
        """The place at whose end a store is complete: a block's when its last row is."""
        nest = self.nest
        if nest.store == "tile" or "row" in nest.sum_loops:
            return nest.finished_at
        return nest.order[nest.order.index("row") - 1]

    def _store(self, depth: int) -> ListingLine:
        return self._move(depth, "store", f"out[image, out, {self.nest.store}]", "out", "out")

    def _window(self, place: str) -> str:
        """The part of the input that a place covers."""
        around = self.nest.around(place)
        rows = max(stretch.needed for stretch in self.space.input_rows(around))
        cols = max(stretch.needed for stretch in self.space.input_cols(around))
        channels = "in" if "in" in around else "all in"
        image = "image" if "image" in around else "all images"
        return f"[{image}, {channels}, {rows} rows, {cols} cols]"

    def _filters(self, place: str) -> str:
        around = self.nest.around(place)
        names = [name if name in around else f"all {name}" for name in ("out", "in", "fh", "fw")]
        return f"[{', '.join(names)}]"

    def _moving(self) -> str:
        name = "x" if self.nest.x_copy_at is None else "x'"
        high, wide = self.given.problem.strides
        row = "row" if high == 1 else f"{high} row"
        cols = "cols" if wide == 1 else f"{wide} cols"
        return f"{name}[in, {row} + fh, {cols} + fw]"

    def _move(self, depth: int, kind: str, text: str, operand: str, buffer: str) -> ListingLine:
        moves: OperandTransfers = self.moves[operand]
        target = self.given.target
        seconds = sum(target.dma_seconds(*each) for each in moves.kinds)
        verb = "store" if kind == "store" else "load"
        held = self._held(buffer)
        return ListingLine(
            depth,
            kind,
            f"{verb} {text}",
            "dma",
            moves.count,
            moves.bytes,
            moves.run_bytes,
            seconds,
            held,
        )

    def _work(self, depth: int, text: str, what: str, held: int = 0) -> ListingLine:
        rows = [work for work in self.given.work if work.what == what]
        count, seconds = sum(work.count for work in rows), sum(work.seconds for work in rows)
        engine = rows[0].engine if rows else ""
        return ListingLine(depth, "work", text, engine, count, seconds=seconds, held=held)

    def _held(self, name: str) -> int:
        return sum(held.total for held in self.given.ledger.sbuf if held.name == name)
