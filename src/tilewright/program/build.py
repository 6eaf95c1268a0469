"""From a plan to tasks: every tile's copies in, its operators, its copies out.

The plainest program: tiles of a group follow each other in grid order, each loads all it reads,
computes, and stores what the outside needs. The passes make it good.
"""

from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from tilewright.cost.base import Copy
from tilewright.cost.dma import moved_bytes, start_cycles
from tilewright.cost.from_graph import workload_of
from tilewright.cost.models import models_of
from tilewright.geometry.box import Box
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops import runs_whole, spec_of
from tilewright.graph.ops.spec import Engine
from tilewright.machine.machine import Core, Machine
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.program.build_tiles import GroupBuilder, Index, LoweringError, renumbered
from tilewright.program.constants import packs_of
from tilewright.program.layout import Layouts, dense_strides, part
from tilewright.program.link import rebuilt, span
from tilewright.program.program import Buffer, Compute, Program, Task, Transfer, View
from tilewright.program.residents import CutGroup, Room, regions
from tilewright.program.views import concat_parts, view_of
from tilewright.program.whole import whole_task
from tilewright.tiling.grid import Halo
from tilewright.tiling.group import (
    GroupTiles,
    TiledOp,
    cut_ops,
    exports,
    typed_group,
    whole_tile,
)


class Carried(NamedTuple):
    """What copies that look the same have in common: the link, and what they cost on it."""

    work: Transfer
    engine: str
    cycles: int
    moved: int
    energy_pj: float


class Builder:
    """Lowers one plan."""

    def __init__(self, graph: Graph, machine: Machine, plan: Plan) -> None:
        self.graph, self.machine, self.plan = graph, machine, plan
        self.layouts = Layouts.of(graph, machine, plan.dtype)
        self.models = models_of(machine)
        self.packs = packs_of(graph, self.layouts)
        self.buffers: list[Buffer] = []
        self.main: dict[str, View] = {}
        self.tasks: list[Task] = []
        self.rooms: dict[str, dict[str, Room]] = {}
        self.reloaded = {name: frozenset(nodes) for name, nodes in plan.reloaded}
        self._locals: dict[tuple[str, tuple[int, ...]], tuple[int, View]] = {}
        self._carried: dict[tuple[object, ...], Carried] = {}

    def program(self) -> Program:
        """All groups in order, as one program."""
        for name in (*self.graph.inputs, *self.graph.constants):
            self.main_view(name)
        self._lay_out_concats()
        groups = [self._cut(number, group) for number, group in enumerate(self.plan.groups)]
        self._make_rooms([group for group in groups if group is not None])
        for number, (plan, group) in enumerate(zip(self.plan.groups, groups, strict=True)):
            try:
                if group is not None:
                    GroupBuilder(self, group).build()
                else:
                    self._movement(number, plan)
            except LoweringError as error:
                error.groups = frozenset({number})
                raise
        program = Program(
            self.machine.name,
            tuple(self.tasks),
            tuple(self.buffers),
            tuple((name, self.main[name]) for name in self.graph.inputs),
            tuple((name, self.main[name]) for name in self.graph.constants if name in self.main),
            tuple((name, self.main[name]) for name in self.graph.outputs),
        )
        return rebuilt(program, self.tasks)

    def main_view(self, name: str) -> View:
        """A tensor in the main memory; inner ones have their channels aligned."""
        if name not in self.main and name in self.packs:
            return self._pack_view(name)
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

    def _pack_view(self, name: str) -> View:
        """A constant that lies together with another."""
        pack, types, memory = self.packs[name], self.graph.types, self.machine.main_memory
        channels = pack.shape[pack.axis]
        dtypes = (types[pack.weights].dtype, types[pack.bias].dtype)
        self.main.update(pack.views(len(self.buffers), channels, dtypes))
        size = pack.bytes(channels)
        self.buffers.append(Buffer(pack.weights, memory.name, size, memory.alignment, pack.weights))
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

    def _members(self, plan: GroupPlan) -> list[int]:
        missing = [name for name in plan.nodes if name not in self.graph.index]
        if missing:
            raise LoweringError(f"the plan names node '{missing[0]}', which the network lacks")
        return sorted(self.graph.index[name] for name in plan.nodes)

    def _cut(self, number: int, plan: GroupPlan) -> CutGroup | None:
        """The tiles of a group that runs on cores."""
        if plan.place is not Place.CORES:
            return None
        members = self._members(plan)
        ops = typed_group(self.graph, members)
        if sum(split.halo is Halo.CACHE for split in plan.splits) > 1:
            raise LoweringError(
                f"group {number} ('{plan.nodes[0]}' ...) keeps its halo along two axes: one can"
            )
        group = cut_ops(self.graph, ops, exports(self.graph, members), plan.splits)
        return CutGroup(number, group, tuple(self._turns(group, plan)), plan.everywhere)

    def _make_rooms(self, groups: list[CutGroup]) -> None:
        """Buffers of the resident tensors on every core that writes or reads them."""
        made = {name for group in groups for name in group.tiles.outputs}
        strange = [name for name in self.plan.resident if name not in made]
        if strange:
            raise LoweringError(f"'{strange[0]}' cannot be resident: no group gives it to others")
        strange = [name for name in self.reloaded if name not in self.plan.resident]
        if strange:
            raise LoweringError(f"'{strange[0]}' is reloaded, but is not resident")
        for name, nodes in self.reloaded.items():
            readers = {self.graph.nodes[i].name for i in self.graph.consumers.get(name, ())}
            strange = sorted(nodes - readers)
            if strange:
                raise LoweringError(f"'{strange[0]}' cannot reload '{name}': it does not read it")
        for name, boxes in regions(self.plan.resident, groups, self.reloaded).items():
            self.rooms[name] = {
                core.name: Room(self.local(name, core, boxes[core.name][0]), *boxes[core.name])
                for core in self.machine.cores
                if core.name in boxes
            }
        on_cores = {tiled.node.name for group in groups for tiled in group.tiles.ops}
        for group in groups:
            for name in group.tiles.outputs:
                users = [self.graph.nodes[i].name for i in self.graph.consumers.get(name, ())]
                outside = name in self.graph.outputs or any(u not in on_cores for u in users)
                outside = outside or any(u in self.reloaded.get(name, ()) for u in users)
                if outside or name not in self.rooms:
                    self.main_view(name)

    def _movement(self, number: int, plan: GroupPlan) -> None:
        """Operators that are views, or copies within the main memory."""
        nodes = [self.graph.nodes[i] for i in self._members(plan)]
        whole = next((node for node in nodes if runs_whole(self.graph, node)), None)
        if whole is not None:
            self._whole(number, whole, alone=len(nodes) == 1 and plan.place is Place.MAIN)
            return
        ops = typed_group(self.graph, self._members(plan))
        if plan.place is Place.VIEW:
            self._views(ops)
            return
        for tiled in ops:
            self._in_main_memory(number, tiled)

    def _turns(self, group: GroupTiles, plan: GroupPlan) -> list[tuple[Index, Core]]:
        """Tiles in the order they run: each core has neighbouring ones, the cores take turns."""
        cores, spread = self.machine.cores, plan.spread
        if plan.everywhere:
            return [(index, core) for index in group.indices for core in cores]
        rows: dict[int, list[Index]] = {}
        for index in group.indices:
            turn = index[spread] * len(cores) // group.counts[spread] if spread is not None else 0
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
                known = spec_of(self.graph, node)
                if known is None or known[0].parts is None:
                    continue
                for source, view in zip(
                    node.inputs,
                    concat_parts(known[1], self.main_view(node.outputs[0])),
                    strict=True,
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

    def _whole(self, number: int, node: Node, *, alone: bool) -> None:
        """An operator that is unknown or cannot be cut, by itself."""
        if not alone:
            raise LoweringError(
                f"'{node.name}' ({node.kind}) runs whole: give it a group of its own, place: main"
            )
        target = [self.main_view(name) for name in node.writes]
        self.tasks.append(whole_task(node, number, self.machine, self.main.__getitem__, target))

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
        writes = tuple(self.main_view(name) for name in tiled.node.writes)
        there = [k for k, box in enumerate(tile.outputs) if box is not None]
        places = {k: n for n, k in enumerate(there)}
        work = Compute(
            tuple(renumbered(step, numbers, places) for step in steps),
            workload_of(tiled.spec, tiled.op, tile, self.plan.dtype),
        )
        copies = [Copy(*view.runs()) for view in writes]
        moved = 2 * sum(moved_bytes(copy, route) for copy in copies)
        cycles = sum(start_cycles(copy, link, route) for copy in copies)
        energy = sum(c.bytes for c in copies) * (main.read_pj_per_byte + main.write_pj_per_byte)
        title = f"move {tiled.node.name}"
        task = Task(title, link.name, work, tuple(reads), writes, cycles, moved, energy)
        self.tasks.append(replace(task, node=tiled.node.name, group=number))

    def local(self, name: str, core: Core, box: Box, label: str = "") -> View:
        """Room for a region of a value in a core's memory."""
        key = (name, box.shape)
        known = self._locals.get(key)
        if known is None:
            size = self.layouts.bytes(name, box.shape, aligned=True)
            known = (size, self.layouts.view(0, name, box.shape, aligned=True))
            self._locals[key] = known
        size, view = known
        return view.at(self.new_buffer(f"{name}@{label}" if label else name, core, size, name))

    def new_buffer(self, name: str, core: Core, size: int, value: str) -> int:
        """A buffer in a core's memory."""
        memory = core.memory
        if size > memory.usable:
            raise LoweringError(
                f"'{name}' takes {size} bytes of {memory.name}, {memory.usable} are there: "
                "cut its group into more tiles"
            )
        self.buffers.append(Buffer(name, memory.name, size, memory.alignment, value))
        return len(self.buffers) - 1

    def transfer(self, source: View, target: View) -> Carried:
        """A copy between the main memory and a core's, on the link for its direction."""
        a, b = self.buffers[source.buffer].memory, self.buffers[target.buffer].memory
        look = (a, b, source.shape, source.strides, source.item, target.shape, target.strides)
        known = self._carried.get(look)
        if known is None:
            known = self._carried[look] = self._new_transfer(a, b, source, target)
        return known

    def _new_transfer(self, a: str, b: str, source: View, target: View) -> Carried:
        ways = list(self.machine.routes(a, b))
        if not ways:
            raise LoweringError(f"machine {self.machine.name} has no link from {a} to {b}")
        # Loads and stores take different ports where there are several.
        link, route = ways[0 if a == self.machine.main_memory.name else -1]
        copy = max((Copy(*view.runs()) for view in (source, target)), key=lambda copy: copy.runs)
        each = self.machine.memory(a).read_pj_per_byte + self.machine.memory(b).write_pj_per_byte
        cycles, moved = start_cycles(copy, link, route), moved_bytes(copy, route)
        return Carried(Transfer((a, b)), link.name, cycles, moved, copy.bytes * each)
