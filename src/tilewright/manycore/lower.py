"""An allocation as a Program with addresses and times: what validators check and what runs.

Copies get addresses by the times they live; reused bytes become edges, and the simulator runs the
tasks again on engines that keep their order. It has to give the evaluator's times, to the cycle.
"""

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.cost.base import WorkKind
from tilewright.cost.base import Workload as Work
from tilewright.errors import TilewrightError, VerificationError
from tilewright.geometry.box import Box
from tilewright.graph.graph import Array, Graph
from tilewright.graph.ops.spec import Step, StepInput, Tile
from tilewright.graph.ops.views import dense_strides
from tilewright.machine.machine import Machine
from tilewright.manycore.copies import PieceCopies, copies_of
from tilewright.manycore.evaluate import Evaluator, TimedAllocation
from tilewright.manycore.machine import machine_of
from tilewright.manycore.state import COMPUTE
from tilewright.manycore.tiles import Tensor, TileGraph, result_box
from tilewright.memory import Buffer as Rectangle
from tilewright.memory import Misfit, allocate
from tilewright.memory import Problem as Rectangles
from tilewright.program.place import Placed, most_live
from tilewright.program.program import Buffer, Compute, Program, Task, Transfer, View
from tilewright.schedule.problem import Engine, Problem, Resources
from tilewright.schedule.reuse import PlacedBuffers, reuse_edges
from tilewright.schedule.simulate import simulate
from tilewright.tiling.group import TiledOp, reaches_of

DTYPE = "float32"
NamedViews = tuple[tuple[str, View], ...]
MOST_WORK = 50_000_000
"""Of the exact search for addresses where greedy finds none, about a second: then less is held."""


class NoAddressesError(TilewrightError):
    """Bytes are there for everything, but not in one piece for each: hold less at once."""


class Lowered(NamedTuple):
    """A placed program, its machine, and the evaluator's number of each of its tasks."""

    placed: Placed
    machine: Machine
    numbers: tuple[int, ...]
    copies: PieceCopies


def lower(evaluator: Evaluator, timed: TimedAllocation, graph: Graph | None = None) -> Lowered:
    """The program of an allocation. `graph` has the numbers of the constants that are part of
    instructions; without it the program can be validated, but not run."""
    if not evaluator.write_final:
        raise TilewrightError("a program writes its results: evaluate with the final write")
    made = _Lowering(evaluator, timed, graph or evaluator.graph.workload.graph).run()
    schedule = made.placed.schedule
    order = np.array(made.numbers, np.int64)
    wanted = timed.start[order], timed.end[order]
    if not (np.array_equal(schedule.start, wanted[0]) and np.array_equal(schedule.end, wanted[1])):
        at = int(np.flatnonzero(schedule.start != wanted[0])[0])
        raise VerificationError(
            f"the simulator starts '{made.placed.program.tasks[at].name}' at cycle "
            f"{schedule.start[at]}, the evaluator at {wanted[0][at]}"
        )
    return made


class _Lowering:
    """One allocation on its way."""

    def __init__(self, evaluator: Evaluator, timed: TimedAllocation, graph: Graph) -> None:
        self.evaluator, self.timed, self.graph = evaluator, timed, graph
        self.tiles, self.fabric = evaluator.graph, evaluator.fabric
        self.machine = machine_of(evaluator.fabric, evaluator.graph.unit)
        self.copies = copies_of(evaluator, timed)
        # By start: what a task waits for has ended, so it is before it.
        self.order = np.lexsort((np.arange(timed.start.size), timed.end, timed.start)).tolist()
        self.position = {task: k for k, task in enumerate(self.order)}
        self.buffers: list[Buffer] = []
        self.address: list[int] = []
        self.outside: dict[str, int] = {}
        self.view_of: dict[int, View] = {}

    def run(self) -> Lowered:
        """Buffers and addresses, tasks, edges, times."""
        self._lay_out()
        tasks = [self._task(number) for number in self.order]
        resources = Resources(tuple(Engine() for _ in (*self.machine.engines, *self.machine.links)))
        problem = Problem.of(
            resources,
            [int(self.timed.engine[n]) for n in self.order],
            [int(self.timed.end[n] - self.timed.start[n]) for n in self.order],
            [task.after for task in tasks],
        )
        first, second = reuse_edges(problem, self._placed_buffers())
        problem = problem.with_edges(first, second)
        after = [tuple(problem.needs_of(k)) for k in range(problem.count)]
        tasks = [
            task.linked(task.reads, task.writes, needs)
            for task, needs in zip(tasks, after, strict=True)
        ]
        program = Program(
            self.machine.name, tuple(tasks), tuple(self.buffers), *self._network_views()
        )
        highest = dict.fromkeys((memory.name for memory in self.machine.memories), 0)
        for buffer, start in zip(self.buffers, self.address, strict=True):
            highest[buffer.memory] = max(highest[buffer.memory], start + buffer.size)
        placed = Placed(
            program,
            tuple(self.address),
            tuple(highest.items()),
            most_live(program, highest),
            problem,
            simulate(problem),
        )
        return Lowered(placed, self.machine, tuple(self.order), self.copies)

    def _item(self, tensor: Tensor) -> int:
        return tensor.bits // self.tiles.unit

    def _lay_out(self) -> None:
        """Whole tensors outside; a buffer for every other copy."""
        top = 0
        outside = dict.fromkeys(c.piece for c in self.copies.all if c.place == 0)
        names = [self.tiles.tensor_of(piece).name for piece in outside]
        graph, by_name = self.graph, self.tiles.by_name
        names += [n for n in (*graph.inputs, *graph.outputs) if n in by_name]
        main = self.fabric.places[0].name
        for name in dict.fromkeys(names):
            size = prod(by_name[name].shape) * self._item(by_name[name])
            self.outside[name] = len(self.buffers)
            self.buffers.append(Buffer(name, main, size, 1, name))
            self.address.append(top)
            top += size
        for place in range(1, len(self.fabric.places)):
            self._allocate(place)
        for number, copy in enumerate(self.copies.all):
            if copy.place == 0:  # a piece within its whole tensor
                tensor = self.tiles.tensor_of(copy.piece)
                self.view_of[number] = self._outside_view(tensor, tensor.box(copy.piece))

    def _allocate(self, place: int) -> None:
        """Addresses of a memory's copies, by the times they live."""
        held = [(k, copy) for k, copy in enumerate(self.copies.all) if copy.place == place]
        if not held:
            return
        sizes = self.tiles.piece_size
        rectangles = tuple(
            Rectangle(str(k), c.birth, max(c.death, c.birth + 1), int(sizes[c.piece]))
            for k, c in held
        )
        capacity = self.fabric.places[place].bits // self.tiles.unit
        found = allocate(
            Rectangles(rectangles, capacity),
            target=capacity,
            minimise_peak=False,
            most_work=MOST_WORK,
        )
        if isinstance(found, Misfit):
            raise NoAddressesError(f"{self.fabric.places[place].name}: {found}")
        for (number, copy), address in zip(held, found.offsets, strict=True):
            tensor = self.tiles.tensor_of(copy.piece)
            shape, item = tensor.box(copy.piece).shape, self._item(tensor)
            strides = dense_strides(shape, item)
            self.view_of[number] = View(len(self.buffers), 0, shape, strides, DTYPE, item)
            name = f"{self.tiles.piece_name(copy.piece)}@{number}"
            where = self.fabric.places[place].name
            self.buffers.append(Buffer(name, where, int(sizes[copy.piece]), 1, tensor.name))
            self.address.append(address)

    def _outside_view(self, tensor: Tensor, box: Box) -> View:
        """A region of a tensor that lies outside as a whole."""
        item = self._item(tensor)
        strides = dense_strides(tensor.shape, item)
        offset = sum(i.start * s for i, s in zip(box, strides, strict=True))
        return View(self.outside[tensor.name], offset, box.shape, strides, DTYPE, item)

    def _network_views(self) -> tuple[NamedViews, NamedViews, NamedViews]:
        """Inputs, constants and outputs of the network, each as a whole."""

        def whole(names: Iterable[str]) -> NamedViews:
            tensors = [self.tiles.by_name[name] for name in names]
            return tuple((t.name, self._outside_view(t, Box.whole(t.shape))) for t in tensors)

        graph = self.graph
        inputs = whole(name for name in graph.inputs if name in self.tiles.by_name)
        constants = whole(name for name in self.outside if name in graph.constants)
        return inputs, constants, whole(graph.outputs)

    def _placed_buffers(self) -> PlacedBuffers:
        """Which tasks use which bytes; tensors outside never share any."""
        users: list[list[int]] = [[] for _ in self.buffers]
        for number, copy in enumerate(self.copies.all):
            tasks = [*([copy.maker] if copy.maker >= 0 else []), *copy.users]
            users[self.view_of[number].buffer] += [self.position[t] for t in tasks]
        index = {memory.name: k for k, memory in enumerate(self.machine.memories)}
        places = [
            (index[buffer.memory], start, start + buffer.size)
            for buffer, start in zip(self.buffers, self.address, strict=True)
        ]
        return PlacedBuffers.of(places, users)

    def _task(self, number: int) -> Task:
        timed, copies = self.timed, self.copies
        reads = tuple(self.view_of[copy] for copy in copies.reads[number])
        writes = tuple(self.view_of[copy] for copy in copies.makes[number])
        first, stop = timed.need_start[number], timed.need_start[number + 1]
        after = tuple(sorted({self.position[int(n)] for n in timed.needs[first:stop]}))
        item, engine = int(timed.item[number]), int(timed.engine[number])
        if timed.kind[number] == COMPUTE:
            tile = self.tiles.tiles[item]
            steps = _Steps(self.tiles, self.graph, item).steps()
            cycles = int(timed.end[number] - timed.start[number])
            shape = self.tiles.shapes[int(self.tiles.tile_shape[item])]
            work = Work(WorkKind.CONV, DTYPE, max(1, shape.extents[1]))
            core = self.machine.engines[engine].name
            energy = float(self.evaluator.costs.energy[self.tiles.tile_shape[item], engine])
            layer = self.tiles.workload.layers[tile.layer]
            return Task(
                self.tiles.tile_name(item),
                core,
                Compute(steps, work),
                reads,
                writes,
                cycles,
                0,
                energy,
                after,
                layer.name,
                tile.layer,
                item,
            )
        way = self.evaluator.ways[int(timed.way[number])]
        names = [place.name for place in self.fabric.places]
        size = int(self.tiles.piece_size[item])
        target = names[copies.all[copies.makes[number][0]].place]
        return Task(
            self.tiles.piece_name(item),
            self.fabric.carriers[way.carrier].name,
            Transfer((names[way.source], target)),
            reads,
            writes,
            0,
            size,
            way.pj_per_bit * self.tiles.unit * size,
            after,
            self.tiles.tensor_of(item).name,
        )


class _Steps:
    """A tile as operators: its pieces put together, the layer's operators, its result in pieces.
    Reads and writes are numbered as the record lists them."""

    def __init__(self, tiles: TileGraph, graph: Graph, number: int) -> None:
        self.tiles, self.graph, self.tile = tiles, graph, tiles.tiles[number]
        self.layer = self.tiles.workload.layers[self.tile.layer]
        first, stop = self.tiles.read_start[number : number + 2].tolist()
        self.reads = {int(p): k for k, p in enumerate(self.tiles.reads[first:stop])}
        first, stop = self.tiles.write_start[number : number + 2].tolist()
        self.writes = [int(p) for p in self.tiles.writes[first:stop]]
        self.made: list[Step] = []
        self.names = 0

    def steps(self) -> tuple[Step, ...]:
        """All of them."""
        layer, tile = self.layer, self.tile
        given: dict[int, StepInput] = {}
        for (position, name), box in zip(layer.data, tile.reads, strict=True):
            given[position] = self._joined(name, box)
        if layer.weight is not None and tile.weight is not None:
            given[layer.weight[0]] = self._joined(layer.weight[1], tile.weight)
        whole = len(self.writes) == 1
        box, value = tile.box, ""
        for k, op in enumerate(layer.ops):
            if k:
                box = _fitted(op, box)
            last = k == len(layer.ops) - 1
            result: int | str = 0 if last and whole else self._name()
            self._operator(op, box, given, result)
            given = {0: result}
            value = str(result)
        if not whole:
            self._parts(value, result_box(layer, tile.box))
        return tuple(self.made)

    def _name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def _joined(self, name: str, box: Box) -> StepInput:
        """The pieces of a region, put together along one axis after the other."""
        tensor = self.tiles.by_name[name]
        parts: list[StepInput] = [self.reads[p] for p in tensor.pieces(box)]
        counts = [len(span) for span in tensor.spans(box)]
        for axis in range(len(counts) - 1, -1, -1):
            count = counts[axis]
            if count == 1:
                continue
            joined: list[StepInput] = []
            for first in range(0, len(parts), count):
                result = self._name()
                inputs = tuple(parts[first : first + count])
                self.made.append(Step("Concat", {"axis": axis}, inputs, (result,)))
                joined.append(result)
            parts = joined
        return parts[0]

    def _operator(
        self, op: TiledOp, box: Box, given: dict[int, StepInput], result: int | str
    ) -> None:
        """One operator of the layer on a region of its result."""
        tile = Tile((box,), reaches_of(op, [box]))
        operands: list[StepInput] = []
        for position, name in enumerate(op.node.inputs):
            if position in given:
                operands.append(given[position])
            elif not name:
                operands.append(None)
            else:
                operands.append(self._constant(name, tile.input_box(position)))
        renamed: dict[str, str] = {}

        def operand(value: StepInput) -> StepInput:
            if isinstance(value, str):
                return renamed[value]
            return operands[value] if isinstance(value, int) else value

        for step in op.spec.tile(op.op, tile):
            inputs = tuple(operand(value) for value in step.inputs)
            outputs: list[int | str] = []
            for out in step.outputs:
                if out == 0:
                    outputs.append(result)
                else:
                    renamed[str(out)] = self._name()
                    outputs.append(renamed[str(out)])
            self.made.append(Step(step.kind, step.attributes, inputs, tuple(outputs)))

    def _constant(self, name: str, box: Box | None) -> Array | None:
        """The numbers of a small constant; without them the program cannot run, only be checked."""
        constant = self.graph.constants[name]
        data = constant.data
        if data is None:
            data = np.zeros(constant.type.shape, constant.type.dtype)
        return data if box is None else data[box.slices()]

    def _parts(self, value: str, box: Box) -> None:
        """The result cut into its pieces."""
        for number, piece in enumerate(self.writes):
            part = self.tiles.tensor_of(piece).box(piece).within(box)
            starts = np.array([i.start for i in part], np.int64)
            stops = np.array([i.stop for i in part], np.int64)
            self.made.append(Step("Slice", {}, (value, starts, stops), (number,)))


def _fitted(op: TiledOp, box: Box) -> Box:
    """A region of the operator before as one of this operator's result: axes keep their meaning,
    there may be more or fewer ones at the end."""
    shape = op.op.result().shape
    sides = box.intervals[: len(shape)]
    more = Box.whole(shape).intervals[len(sides) :]
    return Box((*sides, *more))
