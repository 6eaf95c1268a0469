"""The least that each operator takes, whoever runs it: on each class of engines, alone on all of
them, and in energy. docs/bounds.md has the proofs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import inf, prod

from tilewright.cost.array import ArrayModel
from tilewright.cost.base import CostModel, WorkKind, Workload
from tilewright.cost.from_graph import workload_of
from tilewright.cost.models import models_of
from tilewright.cost.table import TableModel
from tilewright.errors import TilingError
from tilewright.geometry.access import AxisRule, Reach, Whole
from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops.spec import Engine, Op, OpSpec, Tile
from tilewright.machine.machine import Machine
from tilewright.machine.parameters import TableParameters
from tilewright.program.tile_work import tile_works_of
from tilewright.search.bounds.needs import ElementNeeds, counts_of
from tilewright.tiling.group import typed_group

Takes = tuple[float, ...]
"""Cycles on one engine of each kind, infinite where no tile of the work runs there."""


@dataclass(frozen=True, slots=True)
class Floor:
    """What an operator takes at least. `takes` are cycles that one engine of each kind would take,
    in one way or in several to share the work among kinds: parts of it take their share, in each of
    these ways. `alone` are cycles that it takes on all engines, with nothing else to do. See
    `Floors.task` for a single tile of it."""

    takes: tuple[Takes, ...]
    alone: float = 0.0
    energy_pj: float = 0.0


class Floors:
    """The floors of a network's operators on a machine."""

    def __init__(self, graph: Graph, machine: Machine, dtype: str, needs: ElementNeeds) -> None:
        self.graph, self.machine, self.dtype, self.needs = graph, machine, dtype, needs
        self.models = models_of(machine)
        engines = [(self.models.model(engine), engine.kind) for engine in machine.engines]
        classes = dict(engines)  # engines of a kind cost alike
        self.kinds, self.classes = list(classes), list(classes.values())
        self.counts = [sum(model is kind for model, _ in engines) for kind in self.kinds]
        self.nothing = Floor(((0.0,) * len(self.kinds),))
        self._known: dict[tuple[tuple[tuple[Workload, int], ...], Workload], Floor] = {}
        self._costs = cache(self._least_cost)
        self._folds = cache(self._may_fold)

    def of(self, index: int) -> Floor:
        """The floor of a node."""
        node, known = self.graph.nodes[index], self.needs.specs[index]
        if known is None or known[0].engine is Engine.MOVE or self._folds(index):
            return self.nothing
        spec, op = known
        written = [name for name in node.writes if name in self.needs.need]
        if len(written) != 1 or spec.access(op, node.outputs.index(written[0])) is None:
            return self.nothing
        works = self._works(index, node, spec, op, written[0])
        whole = self._whole(index) or works[0][0]
        found = self._known.get((works, whole))
        if found is None:
            rows = [self._engines(work, pieces, whole) for work, pieces in works]
            ways = product(*(row.takes for row in rows))
            found = self._known[works, whole] = Floor(
                tuple(tuple(min(each) for each in zip(*way, strict=True)) for way in ways),
                min(row.alone for row in rows),
                min(row.energy_pj for row in rows),
            )
        return found

    def task(self, index: int) -> float:
        """The least cycles of any single tile of a node, whoever runs it."""
        node, known = self.graph.nodes[index], self.needs.specs[index]
        floor = self.of(index)
        if known is None or floor is self.nothing:
            return 0.0
        spec, op = known
        written = next(name for name in node.writes if name in self.needs.need)
        access = spec.access(op, node.outputs.index(written))
        assert access is not None
        counts = counts_of(self.needs.need[written])
        least = tuple(min(pair) for pair in zip(access.grain, counts, strict=True))
        boxes = tuple(Box.whole(least) if name == written else None for name in node.outputs)
        inputs = tuple(
            None if rules is None else _reaches(self._least_read(index, name, rules))
            for name, rules in zip(node.inputs, access.inputs, strict=True)
        )
        work = workload_of(spec, op, Tile(boxes, inputs), self.dtype)
        if work.kind is not WorkKind.VECTOR:  # at an edge it may read padding alone
            work = work._replace(in_height=0, in_width=0)
        return self._costs(work)

    def _least_read(self, index: int, name: str, rules: tuple[AxisRule, ...]) -> tuple[int, ...]:
        """What a tile reads of an operand at least: all that is needed of axes it takes whole."""
        edges = self.needs.readers.get(name, ())
        mask = next((edge.mask for edge in edges if edge.node == index), None)
        extents = counts_of(mask) if mask is not None else [1] * len(rules)
        return tuple(
            extent if isinstance(rule, Whole) else min(1, extent)
            for rule, extent in zip(rules, extents, strict=True)
        )

    def _least_cost(self, work: Workload) -> float:
        """What the quickest engine takes; tables say nothing about other tiles."""
        if any(isinstance(e.parameters, TableParameters) for e in self.machine.engines):
            return 0.0
        models = map(self.models.model, self.machine.engines)
        return min((m.cost(work).cycles for m in models if m.supports(work)), default=0.0)

    def _engines(self, work: Workload, pieces: int, whole: Workload) -> Floor:
        """The floor of so many equal pieces of work, none of which two tiles share; `whole` is the
        operator, of which not everything may be needed."""
        # A tile of work that is legal on arrays is legal too: where every core has one, no other
        # engine gets any of it.
        rows = [
            {e.kind for e in self.models.able(core, work, self.models.either(core, whole))}
            for core in self.machine.cores
        ]
        able = {e.kind for e in self.machine.engines if self.models.model(e).supports(work)}
        if all(row == {"matrix"} for row in rows):
            able = {"matrix"}
        energy, used = inf, dict.fromkeys(self.kinds, 0)
        for engine in self.machine.engines:
            model, table = self.models.model(engine), isinstance(engine.parameters, TableParameters)
            if model.supports(work) and (engine.kind in able or table):
                energy = min(energy, 0.0 if table else model.cost(work).energy_pj)
                used[model] += 1
            elif table:
                energy = 0.0  # other tiles may have rows
        users = [model for model, count in used.items() if count]
        takes = tuple(
            tuple(
                0.0 if each == inf and isinstance(model, TableModel) else each
                for each, model in zip(way, self.kinds, strict=True)
            )
            for way in self.takes(work, pieces, users)
        )
        if all(each == inf for each in takes[0]):
            return self.nothing
        single = len(users) == 1 and pieces == 1
        makespan = users[0].makespan(work, used[users[0]]) if single else 0.0
        return Floor(takes, makespan, pieces * energy)

    def takes(self, work: Workload, pieces: int, users: list[CostModel]) -> Iterator[Takes]:
        """The floors of equal pieces of work on some kinds of engines, of which parts keep their
        share where there are several: along the whole steps of one of the arrays, all others by
        volume; or all of them by volume."""
        if len(users) == 1 and pieces == 1:
            yield tuple(model.floor(work) if model in users else inf for model in self.kinds)
            return
        # Of work that kinds share, parts of windows need not read their part of the input.
        windows = work.taps > 1 or work.stride_height * work.stride_width > 1
        bare = work._replace(in_height=0, in_width=0) if windows and len(users) > 1 else work
        arrays = [model for model in users if isinstance(model, ArrayModel)]
        for along in arrays if len(arrays) == 1 else (*arrays, None):
            share = 1.0 if along is None else along.evenness(work)
            least = dict.fromkeys(self.kinds, inf)
            for model in users:
                if isinstance(model, ArrayModel):
                    whole = model is along
                    floor = model.even_floor(bare) if whole else share * model.volume_floor(bare)
                    least[model] = pieces * floor
                else:
                    read = bare if len(users) - len(arrays) > 1 else work
                    least[model] = share * (pieces * model.floor(read))
            yield tuple(least.values())

    def _whole(self, index: int) -> Workload | None:
        """The operator as it is planned, whatever of it is needed; None where it cannot be cut."""
        try:
            (tiled,) = typed_group(self.graph, [index])
        except TilingError:
            return None
        return tile_works_of(self.graph, self.dtype).whole(tiled)

    def _works(
        self, index: int, node: Node, spec: OpSpec, op: Op, written: str
    ) -> tuple[tuple[Workload, int], ...]:
        """The needed part of the operator as one piece of work, positions that nobody needs left
        out; and as pieces, where tiles that are small along some axes count as another kind."""
        out = Box.whole(counts_of(self.needs.need[written]))
        boxes = tuple(out if name == written else None for name in node.outputs)
        masks = {
            (edge.source, edge.target): edge.mask
            for name in dict.fromkeys(node.inputs)
            for edge in self.needs.readers.get(name, ())
            if edge.node == index
        }
        counts = [
            counts_of(masks[name, written]) if (name, written) in masks else None
            for name in node.inputs
        ]
        inputs = tuple(None if count is None else _reaches(count) for count in counts)
        work = workload_of(spec, op, Tile(boxes, inputs), self.dtype)
        if len(out) > 4:  # folded axes do not say which input rows are read
            work = work._replace(in_height=0, in_width=0)
        if spec.family == "element-wise" and None not in inputs:
            whole = [count for count in counts if count is not None]
            thin = _single_along_broadcast(out.shape, whole)
            box = Box.whole(thin)
            tiles = tuple(box if name == written else None for name in node.outputs)
            single = workload_of(spec, op, Tile(tiles, (_reaches(thin),) * len(inputs)), self.dtype)
            if single.kind is WorkKind.ELTWISE and single.kind is not work.kind:
                return (work, 1), (single, prod(out.shape) // max(1, prod(thin)))
        return ((work, 1),)

    def _may_fold(self, index: int) -> bool:
        """Whether the operator may run inside a matrix operator before it."""
        known = self.needs.specs[index]
        finishing = known and known[0].finishing(known[1])
        if finishing is None or finishing.finish not in self.machine.finishes:
            return False
        makers = (self._maker(index, operand) for operand in finishing.operands)
        return any(maker is not None and self._finished(maker) for maker in makers)

    def _finished(self, index: int) -> bool:
        """Whether an output stage may see what an operator makes: an array runs it, or an output
        stage before."""
        if self._folds(index) or self.needs.specs[index] is None:
            return self._folds(index)
        kinds = zip(self.of(index).takes[0], self.classes, strict=True)
        return any(each < inf and kind == "matrix" for each, kind in kinds)

    def _maker(self, index: int, operand: int) -> int | None:
        """What makes an operand, data movement left out."""
        maker = self.graph.producer.get(self.graph.nodes[index].inputs[operand])
        while maker is not None and self.moves(maker):
            maker = self.graph.producer.get(self.graph.nodes[maker].inputs[0])
        return maker

    def moves(self, index: int) -> bool:
        """Whether a node is data movement."""
        known = self.needs.specs[index]
        return known is not None and known[0].engine is Engine.MOVE


def _single_along_broadcast(
    shape: tuple[int, ...], inputs: list[tuple[int, ...]]
) -> tuple[int, ...]:
    """The largest tile in which every input has as many elements as the output: one position along
    the axes that some input does not have."""
    aligned = [(1,) * (len(shape) - len(extents)) + extents for extents in inputs]
    return tuple(
        extent if all(row[axis] == extent for row in aligned) else min(1, extent)
        for axis, extent in enumerate(shape)
    )


def _reaches(shape: tuple[int, ...]) -> tuple[Reach, ...]:
    return tuple(Reach(Interval(0, extent)) for extent in shape)
