"""From a plan to tasks: every tile's copies in, its operators, its copies out.

The plainest program: tiles of a group follow each other in grid order, each loads all it reads,
computes, and stores what the outside needs. The passes make it good.
"""

from dataclasses import dataclass, replace
from itertools import zip_longest
from math import prod

from tilewright.cost.base import Copy
from tilewright.cost.dma import moved_bytes, start_cycles
from tilewright.cost.from_graph import workload_of
from tilewright.cost.models import CostModels
from tilewright.errors import TilewrightError
from tilewright.geometry.box import Box
from tilewright.graph.graph import Graph
from tilewright.graph.ops.spec import Engine, Step, StepInput, Tile, op_of
from tilewright.machine.machine import Core, Machine
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.program.layout import Layouts, dense_strides, part
from tilewright.program.link import linked, span
from tilewright.program.program import Buffer, Compute, Program, Task, Transfer, View
from tilewright.program.views import concat_parts, view_of
from tilewright.tiling.grid import Halo
from tilewright.tiling.group import (
    GroupTiles,
    TiledOp,
    cut_ops,
    exports,
    typed_group,
    whole_tile,
)

Index = tuple[int, ...]


class LoweringError(TilewrightError):
    """The plan cannot be lowered for this machine."""


@dataclass(frozen=True, slots=True)
class _Held:
    view: View
    box: Box


class Builder:
    """Lowers one plan."""

    def __init__(self, graph: Graph, machine: Machine, plan: Plan) -> None:
        self.graph, self.machine, self.plan = graph, machine, plan
        self.layouts = Layouts.of(graph, machine, plan.dtype)
        self.models = CostModels(machine)
        self.buffers: list[Buffer] = []
        self.main: dict[str, View] = {}
        self.tasks: list[Task] = []

    def program(self) -> Program:
        """All groups in order, as one program."""
        for name in (*self.graph.inputs, *self.graph.constants):
            self._main_view(name)
        self._lay_out_concats()
        for number, group in enumerate(self.plan.groups):
            self._group(number, group)
        return Program(
            self.machine.name,
            linked(self.tasks),
            tuple(self.buffers),
            tuple((name, self.main[name]) for name in self.graph.inputs),
            tuple((name, self.main[name]) for name in self.graph.constants if name in self.main),
            tuple((name, self.main[name]) for name in self.graph.outputs),
        )

    def _main_view(self, name: str) -> View:
        """A tensor in the main memory; inner ones have their channels aligned."""
        if name not in self.main:
            memory = self.machine.main_memory
            view = self.layouts.main_view(len(self.buffers), name)
            size = max(1, span(view)[1])
            if name in self.layouts.images:
                size = view.shape[0] * view.strides[0]
            self.buffers.append(Buffer(name, memory.name, size, memory.alignment, name))
            if name in self.graph.constants:
                view = self._weight_view(name, view)
            self.main[name] = view
        return self.main[name]

    def _weight_view(self, name: str, view: View) -> View:
        """Constants lie row by row, matrices column by column: parts of output channels are then
        contiguous."""
        ordered = dense_strides(view.shape, view.item)
        if len(view.shape) == 2 and self._is_right_operand(name):
            ordered = (view.item, view.shape[0] * view.item)
        return View(view.buffer, 0, view.shape, ordered, view.dtype, view.item)

    def _is_right_operand(self, name: str) -> bool:
        users = [self.graph.nodes[i] for i in self.graph.consumers.get(name, ())]
        return bool(users) and all(
            node.inputs[1:2] == (name,) and not node.attributes.get("transB") for node in users
        )

    def _group(self, number: int, plan: GroupPlan) -> None:
        missing = [name for name in plan.nodes if name not in self.graph.index]
        if missing:
            raise LoweringError(f"the plan names node '{missing[0]}', which the network lacks")
        members = sorted(self.graph.index[name] for name in plan.nodes)
        ops = typed_group(self.graph, members)
        if any(split.halo is Halo.CACHE for split in plan.splits):
            raise LoweringError(
                f"group {number} ('{plan.nodes[0]}' ...) asks for halo: cache, which plans cannot "
                "do yet; use recompute"
            )
        if plan.place is Place.VIEW:
            self._views(ops)
            return
        if plan.place is Place.MAIN:
            for tiled in ops:
                self._in_main_memory(number, tiled)
            return
        group = cut_ops(self.graph, ops, exports(self.graph, members), plan.splits)
        for name in group.outputs:
            self._main_view(name)
        for tile, (index, core) in enumerate(self._turns(group, plan.spread)):
            _TileBuilder(self, group, core, number, tile, index).build()

    def _turns(self, group: GroupTiles, spread: int | None) -> list[tuple[Index, Core]]:
        """Tiles in the order they run: grid order on each core, the cores taking turns."""
        cores = self.machine.cores
        rows: dict[int, list[Index]] = {}
        for index in group.indices:
            turn = index[spread] % len(cores) if spread is not None else 0
            rows.setdefault(turn, []).append(index)
        rounds = zip_longest(*(rows[turn] for turn in sorted(rows)))
        return [
            (index, cores[turn])
            for taken in rounds
            for turn, index in zip(sorted(rows), taken, strict=True)
            if index is not None
        ]

    def _lay_out_concats(self) -> None:
        """Inputs of a concat that is no work are written where they belong in its result."""
        for group in self.plan.groups:
            if group.place is not Place.VIEW:
                continue
            for name in group.nodes:
                node = self.graph.nodes[self.graph.index[name]]
                op = op_of(self.graph, node)
                if op is None or op.kind != "Concat":
                    continue
                for source, view in zip(
                    node.inputs, concat_parts(op, self._main_view(node.outputs[0])), strict=True
                ):
                    if source in self.main:
                        raise LoweringError(f"'{name}' cannot be a view: '{source}' lies elsewhere")
                    self.main[source] = view

    def _views(self, ops: tuple[TiledOp, ...]) -> None:
        """Results that are views of what is there."""
        for tiled in ops:
            for position, name in enumerate(tiled.node.outputs):
                if not name or name in self.main:
                    continue
                view = view_of(tiled.op, self.main[tiled.node.inputs[0]], position)
                if view is None or name in self.graph.outputs:
                    raise LoweringError(f"'{tiled.node.name}' ({tiled.node.kind}) cannot be a view")
                self.main[name] = view

    def _in_main_memory(self, number: int, tiled: TiledOp) -> None:
        """Data movement by copies within the main memory."""
        if tiled.spec.engine is not Engine.MOVE:
            raise LoweringError(f"'{tiled.node.name}' ({tiled.node.kind}) has to run on a core")
        main, core = self.machine.main_memory, self.machine.cores[0]
        link, route = next(self.machine.routes(main.name, core.memory.name))
        tile = whole_tile(tiled)
        steps = tiled.spec.tile(tiled.op, tile)
        numbers: dict[int, int] = {}
        reads: list[View] = []
        for operand in sorted({i for step in steps for i in step.inputs if isinstance(i, int)}):
            numbers[operand] = len(reads)
            view = self.main[tiled.node.inputs[operand]]
            box = tile.input_box(operand)
            reads.append(view if box is None else part(view, Box.whole(view.shape), box))
        writes = tuple(self._main_view(name) for name in tiled.node.writes)
        there = [k for k, box in enumerate(tile.outputs) if box is not None]
        places = {k: n for n, k in enumerate(there)}
        work = Compute(
            tuple(_renumbered(step, numbers, places) for step in steps),
            workload_of(tiled.spec, tiled.op, tile, self.plan.dtype),
        )
        copies = [Copy(*view.runs()) for view in writes]
        moved = 2 * sum(moved_bytes(copy, route) for copy in copies)
        cycles = sum(start_cycles(copy, link, route) for copy in copies)
        energy = sum(c.bytes for c in copies) * (main.read_pj_per_byte + main.write_pj_per_byte)
        title = f"move {tiled.node.name}"
        task = Task(title, link.name, work, tuple(reads), writes, cycles, moved, energy)
        self.tasks.append(replace(task, node=tiled.node.name, group=number))

    def new_buffer(self, name: str, core: Core, size: int, value: str) -> int:
        """A buffer in a core's memory."""
        memory = core.memory
        self.buffers.append(Buffer(name, memory.name, size, memory.alignment, value))
        return len(self.buffers) - 1

    def transfer(self, name: str, source: View, target: View) -> Task:
        """A copy between the main memory and a core's, on the link for its direction."""
        a, b = self.buffers[source.buffer].memory, self.buffers[target.buffer].memory
        ways = list(self.machine.routes(a, b))
        if not ways:
            raise LoweringError(f"machine {self.machine.name} has no link from {a} to {b}")
        # Loads and stores take different ports where there are several.
        link, route = ways[0 if a == self.machine.main_memory.name else -1]
        worst = max((source, target), key=lambda view: prod(view.runs()[1]))
        run, repeats = worst.runs()
        copy = Copy(run, repeats)
        cycles = start_cycles(copy, link, route)
        each = self.machine.memory(a).read_pj_per_byte + self.machine.memory(b).write_pj_per_byte
        moved = moved_bytes(copy, route)
        work = Transfer((a, b))
        energy = copy.bytes * each
        return Task(name, link.name, work, (source,), (target,), cycles, moved, energy)


class _TileBuilder:
    """Builds one tile of one group."""

    def __init__(
        self, builder: Builder, group: GroupTiles, core: Core, number: int, tile: int, index: Index
    ) -> None:
        self.builder, self.group, self.core = builder, group, core
        self.number, self.tile, self.index = number, tile, index
        self.label = ".".join(map(str, index)) or "0"
        self.held: dict[str, _Held] = {}

    def build(self) -> None:
        """All operators of the tile."""
        for tiled in self.group.ops:
            tile = self.group.tile(tiled, self.index)
            if tile is not None:
                self._operator(tiled, tile)

    def _add(self, task: Task, tiled: TiledOp) -> None:
        self.builder.tasks.append(
            replace(task, node=tiled.node.name, group=self.number, tile=self.tile)
        )

    def _operator(self, tiled: TiledOp, tile: Tile) -> None:
        steps = tiled.spec.tile(tiled.op, tile)
        reads: list[View] = []
        numbers: dict[int, int] = {}
        for operand in sorted({i for step in steps for i in step.inputs if isinstance(i, int)}):
            numbers[operand] = len(reads)
            reads.append(self._operand(tiled, tile, operand))
        writes: list[View] = []
        places: dict[int, int] = {}
        for position, (name, box) in enumerate(zip(tiled.node.outputs, tile.outputs, strict=True)):
            if box is not None and not box.empty:
                places[position] = len(writes)
                writes.append(self._result(name, box))
        work = workload_of(tiled.spec, tiled.op, tile, self.builder.plan.dtype)
        engine, cost = self.builder.models.best(self.core, work)
        compute = Compute(tuple(_renumbered(step, numbers, places) for step in steps), work)
        title = f"{tiled.node.name}@{self.label}"
        energy = cost.energy_pj
        self._add(
            Task(title, engine.name, compute, tuple(reads), tuple(writes), cost.cycles, 0, energy),
            tiled,
        )
        for name in tiled.node.writes:
            self._store(tiled, name)

    def _operand(self, tiled: TiledOp, tile: Tile, number: int) -> View:
        name = tiled.node.inputs[number]
        kind = self.builder.graph.types[name]
        box = tile.input_box(number) or Box.whole(kind.shape)
        if name in self.held:
            return part(self.held[name].view, self.held[name].box, box)
        view = self._local(name, box)
        source = part(self.builder.main[name], Box.whole(kind.shape), box)
        self._add(self.builder.transfer(f"load {name}@{self.label}", source, view), tiled)
        return view

    def _local(self, name: str, box: Box) -> View:
        """Room for a region in the core's memory."""
        layouts = self.builder.layouts
        size = layouts.bytes(name, box.shape, aligned=True)
        buffer = self.builder.new_buffer(f"{name}@{self.label}", self.core, size, name)
        return layouts.view(buffer, name, box.shape, aligned=True)

    def _result(self, name: str, box: Box) -> View:
        view = self._local(name, box)
        self.held[name] = _Held(view, box)
        return view

    def _store(self, tiled: TiledOp, name: str) -> None:
        tiles = self.group.values.get(name)
        box = tiles.write_box(self.index) if tiles is not None else None
        if box is None or box.empty or name not in self.held:
            return
        held = self.held[name]
        whole = Box.whole(self.builder.graph.types[name].shape)
        target = part(self.builder.main[name], whole, box)
        source = part(held.view, held.box, box)
        self._add(self.builder.transfer(f"store {name}@{self.label}", source, target), tiled)


def _renumbered(step: Step, reads: dict[int, int], writes: dict[int, int]) -> Step:
    """The step with the operands of the task instead of those of the operator."""
    inputs: tuple[StepInput, ...] = tuple(
        reads[i] if isinstance(i, int) else i for i in step.inputs
    )
    outputs = tuple(writes[o] if isinstance(o, int) else o for o in step.outputs)
    return Step(step.kind, step.attributes, inputs, outputs, step.local_shape)
