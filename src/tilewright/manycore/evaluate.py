"""Evaluation of allocations: what the compiled scheduler needs, and what it gives."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.manycore import state as s
from tilewright.manycore.fabric import CarrierWay, Fabric
from tilewright.manycore.kernel import run
from tilewright.manycore.tiles import TileGraph

Columns = npt.NDArray[np.int64]
WINDOWS = (4, 2, 1)
"""Tiles of each part, on average, that a window holds."""


@dataclass(frozen=True, slots=True)
class ShapeCosts:
    """Cycles and energy (pJ) of every tile shape on every core."""

    cycles: npt.NDArray[np.int64]
    energy: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rule:
    """How tiles and ways are chosen. Only so many tiles ahead of the first that is not done, in
    depth-first order, are looked at (None: all), so that early layers do not fill carriers and
    memories that deep ones need. `avoid`: pieces pass between cores on carriers that do not lead
    outside, where there are such."""

    window: int | None = None
    avoid: bool = False


EARLIEST = Rule()


@dataclass(frozen=True, slots=True, eq=False)
class TimedAllocation:
    """An allocation with all its tasks: computing (`kind` 0) with its tile, copying (1) with its
    piece, its way and the memories it goes to; what each waits for; when it runs."""

    core_of: tuple[int, ...]
    latency: int
    energy: float
    kind: Columns
    engine: Columns
    item: Columns
    start: Columns
    end: Columns
    way: Columns
    target_start: Columns
    targets: Columns
    need_start: Columns
    needs: Columns
    spills: int
    rule: Rule


@dataclass(frozen=True, slots=True)
class Unfit:
    """An allocation that cannot run: a tile and what it works on do not fit in a memory; or that
    was given up, as it takes longer than a limit (tile -1)."""

    core_of: tuple[int, ...]
    tile: int
    place: int


class Evaluator:
    """Times allocations of one tile graph on one fabric, with given costs. `share` of every
    memory is given away: less where addresses are not found for all of it; `larger` makes one
    memory so many times as large."""

    def __init__(
        self,
        graph: TileGraph,
        fabric: Fabric,
        costs: ShapeCosts,
        *,
        write_final: bool = True,
        share: float = 1.0,
        larger: tuple[int, int] | None = None,
    ) -> None:
        self.graph, self.fabric, self.costs = graph, fabric, costs
        self.write_final = write_final
        self.ways = _ordered(fabric.ways)
        self.way_pj = np.array([way.pj_per_bit * graph.unit for way in self.ways], np.float64)
        self.at = np.zeros(s.END + 1, np.int64)
        self.net = self._net()
        self.room = 2 * (len(graph.tiles) + graph.piece_size.size) + 256
        sizes = [int(place.bits // graph.unit * share) for place in fabric.places]
        if larger is not None:
            sizes[larger[0]] *= larger[1]
        self.capacity = np.array(sizes, np.int64)
        self.fresh = self._fresh()
        self.evaluations = 0

    def varied(
        self, *, writing: bool = False, share: float = 1.0, larger: tuple[int, int] | None = None
    ) -> "Evaluator":
        """The same with another share of the memories, or one of them larger; `writing` final
        results, whether this one does or not."""
        final = writing or self.write_final
        args = self.graph, self.fabric, self.costs
        return Evaluator(*args, write_final=final, share=share, larger=larger)

    def timed(
        self, core_of: Sequence[int], *, rule: Rule = EARLIEST, limit: int = s.NEVER
    ) -> TimedAllocation | Unfit:
        """The tasks of an allocation (part -> core) and their times by a rule; given up where it
        takes longer than `limit`."""
        self.evaluations += 1
        cores = np.asarray(core_of, np.int64)
        while True:
            st = self._run(cores, limit, rule)
            if st[self.at[s.FAULT]] != s.FULL:
                break
            self.room *= 2
            self.fresh = self._fresh()
        at = self.at
        fault = int(st[at[s.FAULT]])
        if fault:
            tile, place = int(st[at[s.FAULT_TILE]]), int(st[at[s.FAULT_PLACE]])
            return Unfit(tuple(core_of), tile if fault == s.TOO_SMALL else -1, place)
        return self._record(st, tuple(cores.tolist()), rule)

    def too_large(self, allowed: Sequence[Sequence[int]]) -> Unfit | None:
        """A tile that has no room for what it works on on any core of its part, whatever the
        others do, and the memory that is too small on the first of these; None if there is none."""
        graph, tiles = self.graph, len(self.graph.tiles)
        sizes = graph.piece_size[graph.reads]
        weight = graph.piece_weight[graph.reads]
        read, written = graph.read_start, graph.write_start
        reading, making = (np.repeat(np.arange(tiles), np.diff(start)) for start in (read, written))
        kinds = (
            np.bincount(reading, sizes * ~weight, tiles),
            np.bincount(reading, sizes * weight, tiles),
            np.bincount(making, graph.piece_size[graph.writes], tiles),
        )
        part_of = np.repeat(np.arange(graph.parts), np.diff(graph.part_first))
        for part, cores in enumerate(allowed):
            members = np.flatnonzero(part_of == part)
            short = np.full(members.size, True)
            first = np.zeros(members.size, np.int64)
            for core in reversed(cores):
                held = np.zeros((len(self.fabric.places), members.size))
                for kind, place in zip(kinds, self.fabric.roles[core], strict=True):
                    held[place] += kind[members]
                over = held > self.capacity[:, None]
                short &= over.any(axis=0)
                first = over.argmax(axis=0)
            if short.any():
                at = int(short.argmax())
                cores_of = tuple(each[0] for each in allowed)
                return Unfit(cores_of, int(members[at]), int(first[at]))
        return None

    def _record(self, st: Columns, core_of: tuple[int, ...], rule: Rule) -> TimedAllocation:
        at = self.at
        tasks = int(st[at[s.TASKS]])

        def column(where: int, count: int = tasks) -> Columns:
            return st[at[where] : at[where] + count].copy()

        kind, engine, item = column(s.TASK_KIND), column(s.TASK_ENGINE), column(s.TASK_ITEM)
        way = column(s.TASK_WAY)
        runs = kind == s.COMPUTE
        energy = self.costs.energy[self.graph.tile_shape[item[runs]], engine[runs]].sum()
        energy += (self.way_pj[way[~runs]] * self.graph.piece_size[item[~runs]]).sum()
        end = column(s.TASK_END)
        return TimedAllocation(
            core_of,
            int(end.max(initial=0)),
            float(energy),
            kind,
            engine,
            item,
            column(s.TASK_START),
            end,
            way,
            column(s.TARGET_START, tasks + 1),
            column(s.TARGET_LIST, int(st[at[s.TARGETS]])),
            column(s.NEED_START, tasks + 1),
            column(s.NEED_LIST, int(st[at[s.NEEDS]])),
            int(st[at[s.SPILLS]]),
            rule,
        )

    def _run(self, core_of: Columns, limit: int, rule: Rule) -> Columns:
        at = self.at
        at[s.LIMIT], at[s.AVOID] = limit, rule.avoid
        at[s.WINDOW] = len(self.graph.tiles) if rule.window is None else rule.window
        st = self._st  # used again: fresh pages would take a tenth of the time
        st[: self.fresh.size] = self.fresh
        st[at[s.CORE_OF] : at[s.CORE_OF] + core_of.size] = core_of
        gaps = int(at[s.CARRIERS]) * self.room
        st[at[s.GAP_START] : at[s.GAP_START] + gaps : self.room] = 0
        st[at[s.GAP_END] : at[s.GAP_END] + gaps : self.room] = s.NEVER
        st[at[s.TARGET_START]] = st[at[s.NEED_START]] = 0
        run(self.net, st, at)
        return st

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Rules worth a try: all tiles, a few of each part; carriers between cores, if any."""
        windows = (None, *(tiles * self.graph.parts for tiles in WINDOWS))
        found = [Rule(window) for window in windows]
        if len({way.carrier for way in self.ways}) > len(self._outward()):
            found += [Rule(window, avoid=True) for window in windows[:2]]
        return tuple(found)

    def _outward(self) -> set[int]:
        return {way.carrier for way in self.ways if 0 in (way.source, way.target)}

    def _net(self) -> Columns:
        """Everything that is read, behind each other; `at` says where."""
        graph, fabric, at = self.graph, self.fabric, self.at
        places = len(fabric.places)
        at[s.PARTS], at[s.TILES] = graph.parts, len(graph.tiles)
        at[s.PIECES], at[s.PLACES] = graph.piece_size.size, places
        at[s.CORES], at[s.CARRIERS] = len(fabric.cores), len(fabric.carriers)
        at[s.WRITE_FINAL] = self.write_final
        start = np.zeros((places, places), np.int64)
        count = np.zeros((places, places), np.int64)
        for number, way in enumerate(self.ways):
            if count[way.source, way.target] == 0:
                start[way.source, way.target] = number
            count[way.source, way.target] += 1
        roles = np.array(fabric.roles, np.int64).reshape(-1, 3)
        rates = sorted({way.bits for way in self.ways})
        bits = graph.piece_size * graph.unit
        lengths = np.array([np.maximum(1, -(-bits // rate)) for rate in rates], np.int64)
        shortest = [1] * len(fabric.carriers)
        for way in sorted(self.ways, key=lambda way: way.bits):
            shortest[way.carrier] = int(lengths[rates.index(way.bits)].min())
        columns = {
            s.PART_FIRST: graph.part_first,
            s.PART_LAYER: graph.part_layer,
            s.TILE_SHAPE: graph.tile_shape,
            s.READ_START: graph.read_start,
            s.READS: 2 * graph.reads + graph.piece_weight[graph.reads],
            s.WRITE_START: graph.write_start,
            s.WRITES: graph.writes,
            s.SIZE: graph.piece_size,
            s.MAKER: graph.piece_maker,
            s.WEIGHT: graph.piece_weight,
            s.FINAL: graph.piece_final,
            s.USE_START: graph.use_start,
            s.USE_PART: graph.use_part,
            s.USE_FIRST: graph.use_first,
            s.USE_LAST: graph.use_last,
            s.USE_COUNT: graph.use_count,
            s.RANK: graph.rank,
            s.BY_RANK: np.argsort(graph.rank),
            s.PLACE_CORE: [-1 if p.core is None else p.core for p in fabric.places],
            s.INPUT_PLACE: roles[:, :2],
            s.OUTPUT_PLACE: roles[:, 2],
            s.WAY_START: start,
            s.WAY_COUNT: count,
            s.WAY_CARRIER: [way.carrier for way in self.ways],
            s.WAY_LENGTHS: [rates.index(way.bits) * bits.size for way in self.ways],
            s.WAY_AVOIDED: self._avoided(),
            s.NEXT_HOP: fabric.next_hop,
            s.BUS: [carrier.bus for carrier in fabric.carriers],
            s.BUS_WAY: self._bus_ways(),
            s.SHORTEST: shortest,
            s.LENGTHS: lengths,
            s.CYCLES: self.costs.cycles,
        }
        flat = [np.asarray(column, np.int64).reshape(-1) for column in columns.values()]
        ends = np.cumsum([0, *(column.size for column in flat)])
        for name, where in zip(columns, ends[:-1], strict=True):
            at[name] = where
        return np.concatenate(flat)

    def _avoided(self) -> list[bool]:
        """Ways between cores whose carrier also leads to the memory outside."""
        outward = self._outward()
        return [way.carrier in outward and 0 not in (way.source, way.target) for way in self.ways]

    def _bus_ways(self) -> Columns:
        """For every way, those of the same carrier and source, by target."""
        found = np.full((len(self.ways), len(self.fabric.places)), -1, np.int64)
        by_start: dict[tuple[int, int], list[int]] = {}
        for number, way in enumerate(self.ways):
            by_start.setdefault((way.carrier, way.source), []).append(number)
        for alike in by_start.values():
            for number in alike:
                for other in alike:
                    found[number, self.ways[other].target] = other
        return found

    def _fresh(self) -> Columns:
        """The columns that change, laid out anew; the values of those that have some."""
        at = self.at
        parts, tiles, pieces = int(at[s.PARTS]), int(at[s.TILES]), int(at[s.PIECES])
        places, room = int(at[s.PLACES]), self.room
        at[s.ROOM] = room
        copies, pools = pieces * places, places * (s.POOL + 1)
        sizes = dict.fromkeys(range(s.FAULT, s.TARGETS + 1), 1)
        sizes |= {s.CORE_FREE: int(at[s.CORES]), s.GAP_COUNT: int(at[s.CARRIERS])}
        sizes |= {s.POOL_COUNT: places, s.FREE: places, s.HELD_COUNT: places}
        sizes |= {s.COPIES: copies * s.RECORD, s.WANTED: pieces, s.DONE: tiles}
        sizes |= {s.READY: parts, s.WAITER: tiles, s.FETCHED: parts}
        sizes |= {s.POOL_TIME: pools, s.POOL_SIZE: pools, s.POOL_GATE: pools, s.FRESH: 0}
        sizes |= {s.FOLLOWING: parts, s.CORE_OF: parts, s.HELD: copies}
        sizes |= {s.NEXT_WAITER: parts, s.ACTIVE: parts}
        gaps = int(at[s.CARRIERS]) * room
        sizes |= {s.GAP_START: gaps, s.GAP_END: gaps}
        sizes |= dict.fromkeys(range(s.TASK_KIND, s.TASK_WAY + 1), room)
        sizes |= {s.TARGET_START: room + 1, s.TARGET_LIST: 2 * room + places}
        edges = self.graph.reads.size + self.graph.writes.size
        sizes |= {s.NEED_START: room + 1, s.NEED_LIST: 8 * room + 2 * edges + pieces}
        where = 0
        for name in range(s.FAULT, s.END):
            at[name] = where
            where += sizes[name]
        at[s.END] = where
        self._st = np.empty(at[s.END], np.int64)
        fresh = np.zeros(at[s.FRESH], np.int64)
        for name in (s.WAITER, s.POOL_GATE):
            fresh[at[name] : at[name] + sizes[name]] = -1
        for field in (s.ARRIVE, s.LAST_TASK, s.BRING, s.PINNED):
            fresh[at[s.COPIES] + field : at[s.COPIES + 1] : s.RECORD] = -1
        for name in (s.GAP_COUNT, s.POOL_COUNT):
            fresh[at[name] : at[name] + sizes[name]] = 1
        fresh[at[s.FREE] : at[s.FREE] + places] = self.capacity
        fresh[at[s.POOL_SIZE] : at[s.POOL_SIZE] + pools : s.POOL + 1] = self.capacity
        return fresh


def _ordered(ways: Sequence[CarrierWay]) -> tuple[CarrierWay, ...]:
    """Ways of the same two memories behind each other, in the order of their carriers."""
    return tuple(sorted(ways, key=lambda way: (way.source, way.target, way.carrier)))
