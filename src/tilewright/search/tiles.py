"""Ways to cut a group, and what each would take: one inner tile, times the tiles.

An estimate orders choices; it is never reported. The truth is the simulator's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.cost.base import Copy, Workload
from tilewright.cost.dma import moved_bytes, start_cycles
from tilewright.cost.from_graph import workload_of
from tilewright.errors import TilingError
from tilewright.geometry.box import Box
from tilewright.graph.ops.spec import Tile
from tilewright.plan.plan import GroupPlan
from tilewright.program.layout import part
from tilewright.program.passes.reshape import views_of
from tilewright.search.network import Network
from tilewright.tiling.grid import Cut, Split
from tilewright.tiling.group import GroupTiles, TiledOp, cut_ops, exports

PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
COARSE = (1, 2, 4, 8, 16, 32, 64, 128)
FINE_ENOUGH = 24  # tiles so many times smaller than the scratchpad need not become smaller
LEAST_TURNS = 8
AFTER_FIRST_FIT = 3  # cuts of a fused group that are tried from the first that fits on
LITTLE_HALO = 0.1  # a group that recomputes less need not be cut along two axes
MOST_HALO = 0.9  # an axis along which most is recomputed does not really cut the group


@dataclass(frozen=True, slots=True)
class Estimate:
    """A way to run a group. Cycles of one core's engines and of the way to the main memory;
    `fill` is what nothing hides; bytes that one core's scratchpad holds beside resident tensors;
    bytes from and to the main memory."""

    splits: tuple[Split, ...]
    spread: int | None
    everywhere: bool
    compute: float
    dma: float
    fill: float
    bytes: int
    traffic: int
    energy: float
    halo: float  # share of the compute time that computes what another tile has

    @property
    def cycles(self) -> float:
        """When all engines overlap as far as they can."""
        return max(self.compute, self.dma) + self.fill

    @property
    def axis(self) -> int | None:
        """The axis that is divided among the cores."""
        return None if self.spread is None else self.splits[self.spread].axis

    def plan(self, nodes: tuple[str, ...]) -> GroupPlan:
        """As a decision for these nodes."""
        return GroupPlan(nodes, self.splits, self.spread, everywhere=self.everywhere)


@dataclass(frozen=True, slots=True)
class _Side:
    """Cycles and bytes of what a tile loads, or stores."""

    cycles: float = 0.0
    first: float = 0.0
    bytes: float = 0.0
    room: int = 0


class Tiler:
    """Estimates ways to cut groups of one network."""

    def __init__(self, network: Network) -> None:
        self.network, self.graph, self.machine = network, network.graph, network.machine
        self.cores = len(self.machine.cores)
        self.usable = min(core.memory.usable for core in self.machine.cores)
        main, core = self.machine.main_memory, self.machine.cores[0]
        self.link, self.route = next(self.machine.routes(main.name, core.memory.name))
        self.queues = max(1, len(list(self.machine.routes(main.name, core.memory.name))))
        self.rate = self.machine.alone_bytes_per_cycle(self.route)
        self.main_pj = main.read_pj_per_byte + core.memory.write_pj_per_byte
        self._costs: dict[Workload, tuple[str, int, float]] = {}
        self._tiles: dict[tuple[str, Tile], tuple[str, int, float]] = {}
        self._copies: dict[tuple[str, tuple[int, ...]], tuple[float, int]] = {}

    def tile_cost(self, tiled: TiledOp, tile: Tile) -> tuple[str, int, float]:
        """Engine kind, cycles and energy of a tile."""
        key = (tiled.node.name, tile)
        known = self._tiles.get(key)
        if known is None:
            work = workload_of(tiled.spec, tiled.op, tile, self.network.dtype)
            known = self._tiles[key] = self.cost(work)
        return known

    def cost(self, work: Workload) -> tuple[str, int, float]:
        """Engine kind, cycles and energy of work, in the shape of its positions that suits the
        engine best."""
        known = self._costs.get(work)
        if known is None:
            engine, cost = self.network.models.best(self.machine.cores[0], work)
            model = self.network.models.model(engine)
            cost = min((model.cost(view) for view in views_of(work)), key=lambda c: c.cycles)
            known = self._costs[work] = (engine.kind, cost.cycles, cost.energy_pj)
        return known

    def estimate(
        self,
        ops: tuple[TiledOp, ...],
        exported: dict[str, bool],
        splits: tuple[Split, ...],
        spread: int | None,
        *,
        everywhere: bool = False,
        resident: frozenset[str] = frozenset(),
    ) -> Estimate | None:
        """What a way to cut a group would take; None where it cannot be cut so."""
        try:
            group = cut_ops(self.graph, ops, exported, splits, probe=True)
        except TilingError:
            return None
        tiles = prod(split.parts for split in splits)
        cores = self.cores if spread is not None else 1
        turns = -(-tiles // cores)
        zero = (0,) * len(splits)
        busy = {"matrix": 0.0, "vector": 0.0}
        energy = useful = 0.0
        cut = [(tiled, group.tile(tiled, zero)) for tiled in ops]
        for tiled, tile in cut:
            if tile is None:
                continue
            kind, cycles, spent = self.tile_cost(tiled, tile)
            if tiled.spec.folds and busy["matrix"]:
                cycles = 0
            once = all(not _driven(group.values[n].compute) for n in tiled.node.writes)
            times = 1 / turns if once and tiles > 1 else 1.0
            busy[kind] += cycles * times
            energy += spent * tiles * times
            share = min(
                (
                    tiled.op.result(k).size / max(1, box.size * tiles)
                    for k, box in enumerate(tile.outputs)
                    if box is not None
                ),
                default=1.0,
            )
            useful += cycles * times * min(1.0, share)
        both = busy["matrix"] + busy["vector"]
        load, store = self._loads(group, cut, spread, resident), self._stores(group, resident)
        inner = self._inner(group, resident)
        overlapped = min(busy.values()) if turns > 1 and min(busy.values()) > 0 else 0.0
        double = 2 if turns > 1 else 1
        room = double * (load.room + store.room) + inner * (2 if overlapped else 1)
        compute = turns * (both - overlapped) + overlapped
        if everywhere:
            energy *= self.cores
        traffic = load.bytes + store.bytes * tiles
        return Estimate(
            splits,
            spread,
            everywhere,
            compute,
            load.cycles + store.cycles * tiles,
            load.first + store.cycles + (0.0 if turns > 1 else min(both, load.first)),
            room,
            int(traffic),
            energy + traffic * self.main_pj,
            1.0 - useful / both if both else 0.0,
        )

    def _loads(
        self,
        group: GroupTiles,
        cut: list[tuple[TiledOp, Tile | None]],
        spread: int | None,
        resident: frozenset[str],
    ) -> _Side:
        """All loads of a group: data by tile, constants as often as what cuts them moves on."""
        splits = group.splits
        zero = (0,) * len(splits)
        rows: list[tuple[str, Box, tuple[int, ...]]] = []
        for name, cuts in group.inputs.items():
            if name not in resident:
                box = Box(tuple(cut.at(zero) for cut in cuts))
                rows.append((name, box, tuple(sorted(_driven(cuts)))))
        for tiled, tile in cut:
            if tile is None:
                continue
            cuts = group.values[next(iter(tiled.node.writes))].compute
            for number, operand in enumerate(tiled.op.inputs):
                if operand is None or not operand.constant:
                    continue
                box = tile.input_box(number)
                rules = tiled.access[0].inputs[number] if tiled.access[0].inputs else None
                if box is None or rules is None:
                    continue
                axes = [rule.axis for rule in rules if rule.axis is not None]
                dims = {cuts[axis].dim for axis in axes}
                driven = tuple(sorted(dim for dim in dims if dim is not None))
                rows.append((tiled.node.inputs[number], box, driven))
        cycles = first = moved = 0.0
        room = 0
        for name, box, driven in rows:
            if box.empty:
                continue
            each, size = self._copy(name, box)
            times = float(prod(split.parts for split in splits[: driven[-1] + 1])) if driven else 1
            if spread is not None and spread not in driven:
                apart = spread <= driven[-1] if driven else False
                if self.route.multicast:
                    times = times / self.cores if apart else times
                else:
                    times = times if apart else times * self.cores
            cycles += each * times
            moved += size * times
            first += each
            room += self.network.layouts.bytes(name, box.shape, aligned=True)
        return _Side(cycles, first, moved, room)

    def _stores(self, group: GroupTiles, resident: frozenset[str]) -> _Side:
        zero = (0,) * len(group.splits)
        cycles = moved = 0.0
        room = 0
        for name in group.outputs:
            box = group.values[name].write_box(zero)
            if box is None or box.empty or name in resident:
                continue
            each, size = self._copy(name, box)
            cycles += each
            moved += size
            room += self.network.layouts.bytes(
                name, group.values[name].box(zero).shape, aligned=True
            )
        return _Side(cycles, cycles, moved, room)

    def _inner(self, group: GroupTiles, resident: frozenset[str]) -> int:
        """The most bytes of inner values that are live at once in one tile."""
        zero = (0,) * len(group.splits)
        last: dict[str, int] = {}
        outputs = set(group.outputs)
        for number, tiled in enumerate(group.ops):
            for name in tiled.node.inputs:
                if name in group.values:
                    last[name] = number
        live: dict[str, int] = {}
        peak = 0
        for number, tiled in enumerate(group.ops):
            for name in tiled.node.writes:
                # A folded activation's input never lies in memory.
                if name in group.values and name not in outputs:
                    shape = group.values[name].box(zero).shape
                    live[name] = self.network.layouts.bytes(name, shape, aligned=True)
            peak = max(peak, sum(live.values()))
            for name in [n for n in live if last.get(n, number) <= number]:
                del live[name]
        return peak

    def _copy(self, name: str, box: Box) -> tuple[float, int]:
        """Cycles (latency shared by the links there are) and bytes of one copy."""
        key = (name, box.shape)
        known = self._copies.get(key)
        if known is None:
            view = self.network.main_view(name)
            copy = Copy(*part(view, Box.whole(view.shape), box).runs())
            cycles = start_cycles(copy, self.link, self.route) / self.queues
            cycles += moved_bytes(copy, self.route) / self.rate
            known = self._copies[key] = (cycles, copy.bytes)
        return known

    def choices(self, ops: tuple[TiledOp, ...]) -> Iterator[tuple[tuple[Split, ...], int | None]]:
        """Ways to cut a single unit: none, one axis, or output channels and one other."""
        access = ops[-1].access[0]
        yield (), None
        axes = access.tileable()
        channel = 1 if len(access.shape) == 4 else len(access.shape) - 1
        for axis in axes:
            for parts in self._parts(access.shape[axis], PARTS, self.cores):
                yield (Split(axis, parts),), 0
        if channel not in axes:
            return
        for parts in self._parts(access.shape[channel], COARSE, self.cores):
            for axis in axes:
                if axis in (channel, 0):
                    continue
                for other in self._parts(access.shape[axis], COARSE, 1):
                    if other > 1 and parts > 1:
                        yield (Split(channel, parts), Split(axis, other)), 0
                        yield (Split(axis, other), Split(channel, parts)), 1
                for other in self._parts(access.shape[axis], COARSE, self.cores):
                    if other > 1 and parts > 1:
                        yield (Split(axis, other), Split(channel, parts)), 0

    @staticmethod
    def _parts(extent: int, parts: Sequence[int], cores: int) -> list[int]:
        return [n * cores for n in parts if 1 < n * cores <= extent]

    def options(
        self, ops: tuple[TiledOp, ...], exported: dict[str, bool], resident: frozenset[str]
    ) -> list[Estimate]:
        """Estimates of ways to cut a single unit, the best first, fine ones left out where
        coarse ones are small enough."""
        found: list[Estimate] = []
        done: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
        for splits, spread in self.choices(ops):
            line = (tuple(s.axis for s in splits), tuple(s.parts for s in splits[:-1]))
            if line in done:
                continue
            estimate = self.estimate(ops, exported, splits, spread, resident=resident)
            if estimate is None:
                continue
            found.append(estimate)
            turns = prod(s.parts for s in splits) // (self.cores if spread is not None else 1)
            if estimate.bytes * FINE_ENOUGH < self.usable and turns >= LEAST_TURNS:
                done.add(line)
        if self.cores > 1:
            whole = self.estimate(ops, exported, (), None, everywhere=True, resident=resident)
            if whole is not None:
                found.append(whole)
        return sorted(found, key=lambda e: (e.cycles, e.traffic, e.bytes))

    def fused(
        self, ops: tuple[TiledOp, ...], exported: dict[str, bool], room: int
    ) -> list[Estimate]:
        """Estimates of ways to run several operators depth-first within a scratchpad's bytes."""
        final = [name for name, used in exported.items() if not used]
        shapes = [self.graph.types[name].shape for name in final]
        if len({len(shape) for shape in shapes}) != 1:
            return []
        extents = [min(shape[axis] for shape in shapes) for axis in range(len(shapes[0]))]
        search = _Fused(self, ops, exported, room)
        if self.cores == 1:
            search.tried((), None)
        axes: list[int] = []
        for axis, extent in enumerate(extents):
            parts = self._parts(extent, PARTS, self.cores)
            if parts and search.along((), axis, parts, spread=0):
                axes.append(axis)
        if search.found and search.sorted()[0].halo < LITTLE_HALO:
            return search.sorted()
        for outer in axes:
            for parts in self._parts(extents[outer], (1, 4), self.cores):
                for inner in axes:
                    others = self._parts(extents[inner], COARSE, 1)
                    if inner != outer and others:
                        search.along((Split(outer, parts),), inner, others, spread=0)
        return search.sorted()

    def exported(self, nodes: Sequence[int]) -> dict[str, bool]:
        """Values of nodes that something outside reads -> whether the nodes read them too."""
        return exports(self.graph, nodes)


class _Fused:
    """Tries ways to cut one group."""

    def __init__(
        self, tiler: Tiler, ops: tuple[TiledOp, ...], exported: dict[str, bool], room: int
    ) -> None:
        self.tiler, self.ops, self.exported, self.room = tiler, ops, exported, room
        self.found: list[Estimate] = []

    def tried(self, splits: tuple[Split, ...], spread: int | None) -> Estimate | None:
        """One way; None where the group cannot be cut so."""
        estimate = self.tiler.estimate(self.ops, self.exported, splits, spread)
        if estimate is not None and estimate.bytes <= self.room:
            self.found.append(estimate)
        return estimate

    def along(self, outer: tuple[Split, ...], axis: int, parts: Sequence[int], spread: int) -> bool:
        """The coarsest cuts along an axis that fit; whether it can be cut at all."""
        low, high = 0, len(parts) - 1
        finest = self.tried((*outer, Split(axis, parts[high])), spread)
        if finest is None or finest.halo > MOST_HALO:
            return False
        if finest.bytes > self.room:
            return True
        while low < high:
            middle = (low + high) // 2
            estimate = self.tried((*outer, Split(axis, parts[middle])), spread)
            if estimate is None or estimate.bytes > self.room:
                low = middle + 1
            else:
                high = middle
        for finer in parts[low + 1 : low + AFTER_FIRST_FIT]:
            self.tried((*outer, Split(axis, finer)), spread)
        return True

    def sorted(self) -> list[Estimate]:
        """The best first."""
        return sorted(set(self.found), key=lambda e: (e.cycles, e.traffic, e.bytes))


def _driven(cuts: tuple[Cut, ...]) -> set[int]:
    return {cut.dim for cut in cuts if cut.dim is not None}
