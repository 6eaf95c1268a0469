"""Cycles that no allocation can undercut, whatever the order of tiles and transfers.

Of each part: what must precede its first tile, all its tiles on the fastest core it may use, what
must follow its last tile. Of the cores together: the work that only some of them may do, divided
among these. Of the memory outside: what has to pass its carriers once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.manycore.evaluate import Evaluator
from tilewright.manycore.tiles import NONE
from tilewright.schedule.problem import Quantities

Allowed = tuple[tuple[int, ...], ...]
"""Cores that each part may use."""


@dataclass(frozen=True, slots=True, eq=False)
class AllocationBounds:
    """The bound of all allocations and what gives it; per part what precedes and follows, and its
    cycles on every core."""

    cycles: int
    reason: str
    head: Quantities
    tail: Quantities
    work: Quantities  # [part, core]

    def of_loads(self, core_of: Sequence[int]) -> int:
        """What an allocation cannot undercut: every core runs its tiles one after the other.
        Parts beyond the given ones are left out."""
        cores = self.work.shape[1]
        load = [0] * cores
        head = [1 << 60] * cores
        tail = [1 << 60] * cores
        for part, core in enumerate(core_of):
            load[core] += int(self.work[part, core])
            head[core] = min(head[core], int(self.head[part]))
            tail[core] = min(tail[core], int(self.tail[part]))
        return max(
            (load[c] + head[c] + tail[c] for c in range(cores) if load[c]),
            default=0,
        )


def bounds_of(evaluator: Evaluator, allowed: Allowed) -> AllocationBounds:
    """The bounds of all allocations that are allowed."""
    graph, cycles = evaluator.graph, evaluator.costs.cycles
    parts = graph.parts
    part_of = [tile.part for tile in graph.tiles]
    per_tile = cycles[graph.tile_shape]
    least = [int(per_tile[t, list(allowed[part_of[t]])].min()) for t in range(len(part_of))]
    head_of, tail_of = _paths(evaluator, least)
    work = np.zeros((parts, cycles.shape[1]), np.int64)
    np.add.at(work, np.array(part_of), per_tile)
    head = np.full(parts, 1 << 60, np.int64)
    tail = np.full(parts, 1 << 60, np.int64)
    for tile, part in enumerate(part_of):
        head[part] = min(head[part], head_of[tile])
        tail[part] = min(tail[part], tail_of[tile])
    found: list[tuple[int, str]] = [(0, "nothing")]
    for part in range(parts):
        own = int(work[part, list(allowed[part])].min())
        found.append((int(head[part] + own + tail[part]), f"the tiles of {graph.part_name(part)}"))
    for group in {frozenset(cores) for cores in allowed}:
        inside = [p for p in range(parts) if frozenset(allowed[p]) <= group]
        total = sum(int(work[p, list(allowed[p])].min()) for p in inside)
        ends = min(int(head[p]) for p in inside) + min(int(tail[p]) for p in inside)
        names = ", ".join(str(evaluator.fabric.cores[c][0]) for c in sorted(group))
        found.append((-(-total // len(group)) + ends, f"the work of cores {names}"))
    found.append((_traffic(evaluator), "what passes to and from the memory outside"))
    best = max(found, key=lambda item: item[0])
    return AllocationBounds(best[0], best[1], head, tail, work)


def _paths(evaluator: Evaluator, least: Sequence[int]) -> tuple[list[int], list[int]]:
    """For every tile the least cycles before its start and after its end."""
    graph = evaluator.graph
    rates = [way.bits for way in evaluator.ways if way.source == 0]
    fastest = max(rates)
    head = [0] * len(least)
    tail = [0] * len(least)
    order: list[int] = np.argsort(graph.rank).tolist()
    reads, read_start = graph.reads.tolist(), graph.read_start.tolist()
    maker, size = graph.piece_maker.tolist(), graph.piece_size.tolist()
    needs: list[list[int]] = [[] for _ in least]
    for tile in order:
        for piece in reads[read_start[tile] : read_start[tile + 1]]:
            if maker[piece] == NONE:
                head[tile] = max(head[tile], -(-size[piece] * graph.unit // fastest))
            else:
                needs[tile].append(maker[piece])
        for before in needs[tile]:
            head[tile] = max(head[tile], head[before] + least[before])
    if evaluator.write_final:
        out = max(way.bits for way in evaluator.ways if way.target == 0)
        writes, write_start = graph.writes.tolist(), graph.write_start.tolist()
        for tile in order:
            for piece in writes[write_start[tile] : write_start[tile + 1]]:
                if graph.piece_final[piece]:
                    tail[tile] = max(tail[tile], -(-size[piece] * graph.unit // out))
    for tile in reversed(order):
        for before in needs[tile]:
            tail[before] = max(tail[before], tail[tile] + least[tile])
    return head, tail


def _traffic(evaluator: Evaluator) -> int:
    """What is read and written outside at least once, over all carriers that lead there."""
    graph = evaluator.graph
    used = np.diff(graph.use_start) > 0
    read = int(graph.piece_size[(graph.piece_maker == NONE) & used].sum()) * graph.unit
    written = int(graph.piece_size[graph.piece_final].sum()) * graph.unit
    rates: dict[int, int] = {}
    for way in evaluator.ways:
        if 0 in (way.source, way.target):
            rates[way.carrier] = max(rates.get(way.carrier, 0), way.bits)
    total = read + (written if evaluator.write_final else 0)
    return -(-total // sum(rates.values()))
