"""Copies of pieces in memories over time, read off a record: who makes each, who uses it."""

from dataclasses import dataclass

import numpy as np

from tilewright.manycore.evaluate import Evaluator, TimedAllocation
from tilewright.manycore.state import COMPUTE
from tilewright.schedule.problem import Quantities


@dataclass(slots=True)
class PieceCopy:
    """A piece in a memory: from the start of the task that makes it to the end of its last
    user."""

    piece: int
    place: int
    maker: int
    users: list[int]
    birth: int
    death: int


@dataclass(frozen=True, slots=True)
class PieceCopies:
    """All copies, and for every task the copies it reads and makes, by number. What the memory
    outside holds from the start, or is given to keep, is a copy there too."""

    all: tuple[PieceCopy, ...]
    reads: tuple[tuple[int, ...], ...]
    makes: tuple[tuple[int, ...], ...]


def copies_of(evaluator: Evaluator, timed: TimedAllocation) -> PieceCopies:
    """Follow the record: tasks are in the order in which they were decided."""
    graph, ways, roles = evaluator.graph, evaluator.ways, evaluator.fabric.roles
    found: list[PieceCopy] = []
    now: dict[tuple[int, int], int] = {}
    reads: list[tuple[int, ...]] = []
    makes: list[tuple[int, ...]] = []
    kinds, items = timed.kind.tolist(), timed.item.tolist()
    engines: list[int] = timed.engine.tolist()
    starts, ends = timed.start.tolist(), timed.end.tolist()
    way_list: list[int] = timed.way.tolist()
    weight = graph.piece_weight.tolist()
    read_start, read_list = graph.read_start.tolist(), graph.reads.tolist()
    write_start, write_list = graph.write_start.tolist(), graph.writes.tolist()
    bounds, targets = timed.target_start.tolist(), timed.targets.tolist()

    def make(piece: int, place: int, task: int, birth: int, death: int) -> int:
        now[piece, place] = len(found)
        found.append(PieceCopy(piece, place, task, [], birth, death))
        return len(found) - 1

    def use(piece: int, place: int, task: int) -> int:
        number = now.get((piece, place))
        if number is None:
            number = make(piece, place, -1, 0, 0)  # there from the start
        copy = found[number]
        copy.users.append(task)
        copy.death = max(copy.death, ends[task])
        return number

    for task, kind in enumerate(kinds):
        item = items[task]
        if kind == COMPUTE:
            inputs, weights, outputs = roles[engines[task]]
            read = [
                use(p, weights if weight[p] else inputs, task)
                for p in read_list[read_start[item] : read_start[item + 1]]
            ]
            made = [
                make(p, outputs, task, starts[task], ends[task])
                for p in write_list[write_start[item] : write_start[item + 1]]
            ]
        else:
            read = [use(item, ways[way_list[task]].source, task)]
            made = [
                make(item, place, task, starts[task], ends[task])
                for place in targets[bounds[task] : bounds[task + 1]]
            ]
        reads.append(tuple(read))
        makes.append(tuple(made))
    return PieceCopies(tuple(found), tuple(reads), tuple(makes))


def peaks_of(evaluator: Evaluator, timed: TimedAllocation) -> Quantities:
    """The most units that each memory of a core holds at once: what `copies_of` says, without a
    step per task."""
    graph, places = evaluator.graph, len(evaluator.fabric.places)
    roles = np.array(evaluator.fabric.roles, np.int64)
    sources = np.array([way.source for way in evaluator.ways], np.int64)
    runs = np.flatnonzero(timed.kind == COMPUTE)
    moves = np.flatnonzero(timed.kind != COMPUTE)
    tiles, cores = timed.item[runs], timed.engine[runs]
    write, written = _spans(graph.write_start, tiles)
    read, reading = _spans(graph.read_start, tiles)
    brought = np.repeat(np.arange(timed.kind.size), np.diff(timed.target_start))
    pieces = graph.reads[read]
    task = np.concatenate((brought, runs[written], moves, runs[reading]))
    piece = np.concatenate((timed.item[brought], graph.writes[write], timed.item[moves], pieces))
    role = np.where(graph.piece_weight[pieces], 1, 0)
    place = np.concatenate(
        (
            timed.targets,
            roles[cores[written], 2],
            sources[timed.way[moves]],
            roles[cores[reading], role],
        )
    )
    makes = np.arange(task.size) < brought.size + written.size
    order = np.lexsort((task, piece, place))
    order = order[place[order] > 0]
    first = np.flatnonzero(makes[order])  # a copy lasts from its making to its last use
    held = order[first]
    birth = timed.start[task[held]]
    death = np.maximum.reduceat(timed.end[task[order]], first) if first.size else birth
    size = graph.piece_size[piece[held]]
    where = np.tile(place[held], 2)
    change, time = np.concatenate((size, -size)), np.concatenate((birth, death))
    order = np.lexsort((change, time, where))  # at one time bytes are given back first
    peaks = np.zeros(places, np.int64)
    np.maximum.at(peaks, where[order], np.cumsum(change[order]))
    return peaks


def _spans(starts: Quantities, rows: Quantities) -> tuple[Quantities, Quantities]:
    """Of lists in one array: the positions of all entries of some lists, and for each entry which
    of these lists it is in."""
    counts = starts[rows + 1] - starts[rows]
    owner = np.repeat(np.arange(rows.size), counts)
    begin = np.repeat(starts[rows] - np.cumsum(counts) + counts, counts)
    return begin + np.arange(owner.size), owner
