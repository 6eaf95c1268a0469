"""Bytes that a group needs at least on every core, told from one tile of each: what surely does not
fit need not be built."""

from collections.abc import Iterator, Sequence

from tilewright.program.build import RowBuilder
from tilewright.program.cut import Index
from tilewright.program.cut_tables import GroupOperator

FEW = 4  # tiles on a core: those are built about as soon as one is looked at

Bytes = dict[tuple[str, int], tuple[int, int]]
"""What is live at once: the memory and the bytes of every buffer, by what it is."""


def exceeds(needed: Sequence[int], room: Sequence[int]) -> bool:
    """Whether any memory has not room for so much."""
    return any(a > b for a, b in zip(needed, room, strict=True))


def least_bytes(builder: RowBuilder, *, shares: bool, in_place: bool) -> list[int]:
    """For every memory: the most bytes that one operator of a tile in the middle of a core's tiles
    has at once, and what is there meanwhile for the tiles before and behind. `shares`: a tile uses
    what the tile before it has loaded; `in_place`: results may lie over operands."""
    found = [0] * len(builder.context.usable)
    if len(builder.cut.turns) <= FEW:
        return found
    turns: dict[int, list[Index]] = {}
    for index, core in builder.cut.turns:
        turns.setdefault(core, []).append(index)
    for core, indices in turns.items():
        if len(indices) > FEW:
            for live in _Middle(builder, core, indices, shares, in_place).live():
                totals = [0] * len(found)
                for memory, size in live.values():
                    totals[memory] += size
                found = [max(pair) for pair in zip(found, totals, strict=True)]
    return found


class _Middle:
    """The tile in the middle of a core's tiles. Operators of neighbouring tiles may overlap: of a
    tile `n` turns later, those are earlier that have `n` changes of the engine less before them."""

    def __init__(
        self,
        builder: RowBuilder,
        core: int,
        indices: Sequence[Index],
        shares: bool,
        in_place: bool,
    ) -> None:
        self.builder, self.core, self.indices, self.shares = builder, core, indices, shares
        self.in_place = in_place
        self.turn = len(indices) // 2
        self.index = indices[self.turn]
        self.ops = [op for op in builder.ops if op.tiles.computes(self.index)]
        self.works = {op.number: builder.tables.work(op, self.index, core) for op in self.ops}
        made = {value for op in self.ops for value in op.outputs}
        self.seen = {value for op in self.ops if op.moves for value in op.outputs}  # views, perhaps
        self.seen |= builder.tables.ahead.keys()
        self.inside = {  # results that may never be in memory: what reads them joins their maker
            op.inputs[operand]: op
            for op in self.ops
            if (finishing := op.tiled.spec.finishing(op.tiled.op)) is not None
            for operand in finishing.operands
            if op.inputs[operand] in made and finishing.finish in builder.context.machine.finishes
        }
        self.moves = {dim for dim in range(len(self.index)) if len({i[dim] for i in indices}) > 1}
        once = any(value.once for value in builder.values.values())
        self.apart = builder.cached is None and not once

    def live(self) -> Iterator[Bytes]:
        """What is live at once while each operator runs."""
        stages, engine = dict[int, int](), -1
        for op in self.ops:
            price = self.works[op.number][2]
            stages[op.number] = len(stages) and stages[self.ops[len(stages) - 1].number]
            stages[op.number] += engine not in (-1, price.engine)
            engine = price.engine
        standing = list(self._standing())
        for op in self.ops:
            if op.moves or any(self.inside.get(value) is op for value in op.inputs):
                continue  # no task of its own, perhaps
            live = self._own(op)
            for first, last, buffers in standing:
                if first is not None and not self._behind(stages, first, op.number, self.turn):
                    continue
                left = len(self.indices) - 1 - self.turn
                if last is None or self._behind(stages, op.number, last, left):
                    live |= buffers
            yield live

    def _behind(self, stages: dict[int, int], first: int, second: int, turns: int) -> bool:
        """Whether an operator surely starts before another of a tile so many turns later."""
        if first <= second:
            return True
        return self.apart and stages[first] - stages[second] < turns

    def _standing(self) -> Iterator[tuple[int | None, int | None, Bytes]]:
        """What is there from an operator of the first tile, or from the start, until one of the
        last, or to the end: regions of resident tensors, and what all tiles load alike."""
        first, last = self.indices[0], self.indices[-1]
        for op in self.ops:
            number, begins = op.number, op.tiles.computes(first)
            if op.tiles.computes(last) and op.tiled.spec.family != "layout":
                for operand in self.works[number][0].operands:
                    value, buffers = op.inputs[operand], Bytes()
                    if value in self.builder.values:
                        continue
                    if self._add_region(op, value, buffers):
                        yield None, number, buffers
                    elif begins and self.shares and not self._driven(op, operand) & self.moves:
                        self._add_loaded(op, operand, buffers)
                        yield number, number, buffers
            for value in op.given:
                spot, buffers = self.builder.values[value].given(first), Bytes()
                region = self.builder.around.regions.get(value, {}).get(self.core)
                if spot is not None and 0 not in spot.shape and region and region.read:
                    self._add_region(None, value, buffers)
                    yield number, number if region.frame else None, buffers

    def _driven(self, op: GroupOperator, operand: int) -> set[int]:
        """The dimensions of the grid that a region which an operator reads depends on."""
        reaches = self.builder.cut.tiles.reaches.get(op.tiled.node.name)
        if reaches is None:
            return self.moves  # of several results: who knows
        axes = reaches[operand] or ()
        return {dim for dim, row in axes if dim is not None and len(row) > 1}

    def _own(self, op: GroupOperator) -> Bytes:
        """What an operator reads, and where its result goes."""
        live = Bytes()
        for operand in self.works[op.number][0].operands:
            value = op.inputs[operand]
            spots = self.builder.values.get(value)
            if spots is None:
                if not self._add_region(op, value, live):
                    self._add_loaded(op, operand, live)
            elif value not in self.seen and not self._lies_outside(value):
                size, storage = self.builder.tables.local(
                    value, spots.have(self.index).shape, self.core
                )
                live["value", value] = (storage.memory, size)
        tiled = op.tiled
        over = self.in_place and tiled.spec.in_place(tiled.op, tiled.access[0])
        if len(op.outputs) == 1 and not over:
            self._add_result(op, live)
        return live

    def _lies_outside(self, value: int) -> bool:
        """Whether a value may be written where others are too."""
        place = (value, self.core)
        return place in self.builder.regions or place in self.builder.places

    def _add_region(self, op: GroupOperator | None, value: int, live: Bytes) -> bool:
        """Add the core's region of a resident tensor, if it has one that the operator reads."""
        held = self.builder.regions.get((value, self.core))
        if held is None or (op and (value, op.number) in self.builder.around.reloads):
            return False
        room = self.builder.around.regions[value][self.core].room
        size = self.builder.context.local(self.builder.names[value], room.shape)[0]
        live["region", held.slot] = (held.storage.memory, size)
        return True

    def _add_loaded(self, op: GroupOperator, operand: int, live: Bytes) -> None:
        """Add what a tile loads: weights and bias together, where they lie so."""
        builder, core, value = self.builder, self.core, op.inputs[operand]
        pack = builder.packs.get(value)
        if pack is not None:
            packed, pick = builder.tables.pack(op, pack, core), op.tiles.inputs
            weights, bias = (
                pick[part.operand](self.index) for part in (packed.weights, packed.bias)
            )
            load = packed.load(weights, bias)
            if load is not None:
                first = op.inputs[packed.weights.operand]
                live["loaded", first] = (packed.memory, load.size)
                return
        size, storage = builder.tables.local(
            value, op.tiles.inputs[operand](self.index).shape, core
        )
        live["loaded", value] = (storage.memory, size)

    def _add_result(self, op: GroupOperator, live: Bytes) -> None:
        """Add the least of the results that an operator may have, joined with those that follow; a
        region of a resident tensor may be one."""
        value, sizes, memory = op.outputs[0], list[int](), 0
        following: GroupOperator | None = op
        while following is not None and len(following.outputs) == 1:
            value = following.outputs[0]
            if value in self.seen or self._lies_outside(value):
                return
            shape = self.builder.values[value].have(self.index).shape
            size, storage = self.builder.tables.local(value, shape, self.core)
            sizes.append(size)
            memory = storage.memory
            following = self.inside.get(value)
        live["result", op.outputs[0]] = (memory, min(sizes))
