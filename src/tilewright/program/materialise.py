"""The readable Program of a linked plan: names, views and steps, made from the same columns."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from tilewright.geometry.box import Ints
from tilewright.graph.graph import Array, Node
from tilewright.graph.ops import runs_whole
from tilewright.graph.ops.spec import Step, StepInput
from tilewright.plan.plan import GroupPlan, Place
from tilewright.program.columns import COPY, WHOLE, Needs
from tilewright.program.constants import immediate
from tilewright.program.cut import GroupCut, lots_of
from tilewright.program.kernels.order import Issued
from tilewright.program.linking import Linked
from tilewright.program.lowering import Lowering
from tilewright.program.program import Buffer, Compute, Program, Task, Transfer, View, Whole
from tilewright.program.rows import Price, Row, Title, Told
from tilewright.program.shared import Owner
from tilewright.program.tile_work import operands_of, results_of
from tilewright.schedule.problem import Ids
from tilewright.tiling.cutting import cut_ops
from tilewright.tiling.group import GroupTiles, TiledOp, typed_group, whole_tile

_WORDS = {
    Title.LOAD: "load",
    Title.LOAD_PACK: "load",
    Title.KEEP: "keep",
    Title.PASS: "pass",
    Title.STORE: "store",
}


def program_of(
    lowering: Lowering,
    linked: Linked,
    needs: Needs,
    order: Ids | None = None,
    issued: Issued | None = None,
) -> Program:
    """The program of a plan, its tasks in another order and on other links where these are given;
    `needs` are what they wait for in that order."""
    return _Maker(lowering, linked).program(needs, order, issued)


def in_use(linked: Linked) -> list[int]:
    """The buffers that a program has: all that groups share, and of their own those that are used.
    A result over an operand leaves none of its own."""
    used: list[int] = np.unique(linked.columns.buffer).tolist()
    return sorted({*range(len(linked.owners)), *used})


class _NamedGroup:
    """One group of a plan, with its own names: blocks are shared by all that look like it."""

    def __init__(self, lowering: Lowering, plan: GroupPlan, names: tuple[str, ...]) -> None:
        self.lowering, self.graph, self.names = lowering, lowering.graph, names
        members = sorted(self.graph.index[name] for name in plan.nodes)
        self.nodes = [self.graph.nodes[index] for index in members]
        self.ops: tuple[TiledOp, ...] = ()
        self.labels: list[str] = [""]
        self.tiles: GroupTiles | None = None
        signature = lowering.context.signatures.group(members)
        if plan.place is Place.CORES:
            self.ops = typed_group(self.graph, members)
            exported = {signature.names[k]: inside for k, inside in signature.exported}
            used, cores = lowering.cores_of(plan), lowering.machine.cores
            lots = lots_of(plan, used)
            self.tiles = cut_ops(self.graph, self.ops, exported, plan.splits, lots=lots)
            cut = GroupCut(signature, self.tiles, plan, used)
            self.labels = [
                (".".join(map(str, index)) or "0")
                + (f"/{cores[core].name}" if plan.replicated else "")
                for index, core in cut.turns
            ]
            self.turns = cut.turns
        elif not any(runs_whole(self.graph, node) for node in self.nodes):
            self.ops = typed_group(self.graph, members)
        self._steps: dict[tuple[int, int], tuple[tuple[Step, ...], Ints]] = {}

    def steps(self, op: int, turn: int) -> tuple[tuple[Step, ...], Ints]:
        """The steps of an operator's tile on the reads and writes of its task, and which operands
        the first are."""
        known = self._steps.get((op, turn))
        if known is None:
            tiled = self.ops[op]
            if self.tiles is None:
                tile = whole_tile(tiled)
                steps = tiled.spec.tile(tiled.op, tile)
                read = sorted({i for s in steps for i in s.inputs if isinstance(i, int)})
                numbers: dict[int, int | Array] = {operand: n for n, operand in enumerate(read)}
            else:
                found = self.tiles.tile(tiled, self.turns[turn][0])
                assert found is not None
                tile, steps = found, tiled.spec.tile(tiled.op, found)
                read = operands_of(self.graph, tiled, tile)
                numbers = {operand: n for n, operand in enumerate(read)}
                for operand, name in enumerate(tiled.node.inputs):
                    number = immediate(self.graph, name)
                    if operand not in numbers and number is not None:
                        numbers[operand] = number
            places = {position: n for n, position in enumerate(results_of(tile))}
            made = tuple(_renumbered(step, numbers, places) for step in steps)
            known = self._steps[op, turn] = (made, tuple(read))
        return known

    def compute(self, row: Row) -> tuple[Compute, str]:
        """What a task computes, and the kinds that are folded into it."""
        last_op, *others = row.ops
        steps, operands = self.steps(last_op, row.turn)
        reads, folded = len(operands), ""
        for op in others:
            (last,), operands = self.steps(op, row.turn)
            inner, taken = f"inner{len(steps)}", self._taken(op, operands, last_op)
            steps = tuple(
                replace(step, outputs=tuple(inner if o == 0 else o for o in step.outputs))
                for step in steps
            )
            places = {k: reads + k - (k > taken) for k in range(len(operands)) if k != taken}
            inputs: tuple[StepInput, ...] = tuple(
                places.get(i, inner) if isinstance(i, int) else i for i in last.inputs
            )
            steps = (*steps, Step(last.kind, last.attributes, inputs, last.outputs))
            reads += len(places)
            folded, last_op = f"{folded}+{last.kind}", op
        works = self.lowering.context.tables.works.numbered
        names = tuple(self.nodes[op].name for op in others)
        return Compute(steps, works[row.work][1], names), folded

    def _taken(self, op: int, operands: Ints, maker: int) -> int:
        """Which of an operator's reads is the result of the one that it is folded into: the first
        that is, or that is a view of it."""
        inputs, (made, *_) = self.nodes[op].inputs, self.nodes[maker].outputs
        return next((k for k, operand in enumerate(operands) if inputs[operand] == made), 0)


class _Maker:
    """Makes one program."""

    def __init__(self, lowering: Lowering, linked: Linked) -> None:
        self.lowering, self.linked = lowering, linked
        self.columns, self.tables = linked.columns, lowering.context.tables
        self.memories = [memory.name for memory in lowering.machine.memories]
        self.numbers = {owner: number for number, owner in enumerate(linked.owners)}
        self.in_use = {used: number for number, used in enumerate(in_use(linked))}
        self.groups = [
            _NamedGroup(lowering, linked.plan.groups[number], names)
            for number, _, names in linked.groups
        ]

    def program(self, needs: Needs, order: Ids | None, issued: Issued | None) -> Program:
        """All tasks in order."""
        rows = [
            (place, told)
            for place, (_, block, _) in enumerate(self.linked.groups)
            for told in block.told
        ]
        numbers: Sequence[int] = range(len(rows)) if order is None else order.tolist()
        starts, waits = needs.start.tolist(), needs.needs.tolist()
        tasks: list[Task] = []
        for new, number in enumerate(numbers):
            after = tuple(waits[starts[new] : starts[new + 1]])
            choice = -1 if issued is None else int(issued.choice[new])
            tasks.append(self._task(number, *rows[number], after, choice))
        graph = self.lowering.graph
        constants = (name for name, constant in graph.constants.items() if constant.type.size)
        views = (self._main_views(names) for names in (graph.inputs, constants, graph.outputs))
        return Program(self.lowering.machine.name, tuple(tasks), self._buffers(), *views)

    def _main_views(self, names: Iterable[str]) -> tuple[tuple[str, View], ...]:
        found: list[tuple[str, View]] = []
        for name in names:
            lying = self.lowering.lying(self.linked.main, name)
            buffer = self.numbers[Owner(lying.root, -1)]
            found.append((name, self.lowering.context.view(lying, buffer)))
        return tuple(found)

    def _buffers(self) -> tuple[Buffer, ...]:
        columns, found = self.columns, list[Buffer]()
        named = [(owner.name, str(owner.name)) for owner in self.linked.owners]
        for group, (_, block, names) in zip(self.groups, self.linked.groups, strict=True):
            for _, _, value, turn in block.locals:
                named.append((f"{names[value]}@{group.labels[turn]}", names[value]))
        for number in self.in_use:
            memory = self.memories[int(columns.memory[number])]
            size, alignment = int(columns.size[number]), int(columns.alignment[number])
            name, value = named[number]
            found.append(Buffer(name, memory, size, alignment, value))
        return tuple(found)

    def _views(self, number: int) -> tuple[tuple[View, ...], tuple[View, ...]]:
        columns = self.columns
        reads: list[View] = []
        writes: list[View] = []
        for access in range(columns.access_start[number], columns.access_start[number + 1]):
            layout = self.tables.layouts[int(columns.layout[access])]
            buffer = self.in_use[int(columns.buffer[access])]
            view = View(buffer, int(columns.offset[access]), *layout)
            (writes if columns.write[access] else reads).append(view)
        return tuple(reads), tuple(writes)

    def _row(self, number: int, told: Told) -> Row:
        """A task as it was before it became columns."""
        columns, (ops, title, work, value) = self.columns, told
        given = (columns.engine, columns.cycles, columns.energy, columns.moved)
        price = Price(*(x[number].item() for x in (*given, columns.copy, columns.choice)))
        kind, turn = int(columns.kind[number]), int(columns.tile[number])
        ends = int(columns.source[number]), int(columns.target[number])
        return Row(kind, price, ops, turn, [], [], Title(title), work, *ends, value)

    def _task(
        self, number: int, place: int, told: Told, after: tuple[int, ...], choice: int
    ) -> Task:
        group, (plan_number, _, names) = self.groups[place], self.linked.groups[place]
        row, (reads, writes) = self._row(number, told), self._views(number)
        node = group.nodes[row.ops[-1]].name
        price = row.price
        engine, cycles, moved = self.tables.engines[price.engine], price.cycles, price.moved
        work: Compute | Transfer | Whole
        if row.kind == COPY:
            work = Transfer((self.memories[row.source], self.memories[row.target]))
            label = group.labels[row.turn]
            value = names[row.value]
            if row.title is Title.LOAD_PACK:
                value += f"+{self.lowering.context.packs[value].bias}"
            name = f"{_WORDS[row.title]} {value}@{label}"
            if row.title is Title.PASS:
                home = self.lowering.context.home[row.target]
                name += f">{self.lowering.machine.cores[home].name}"
            if choice >= 0:
                way = self.tables.costs[price.copy].ways[choice]
                engine, cycles, moved = way.link.name, way.cycles, way.moved
            node = group.nodes[row.ops[0]].name
        elif row.kind == WHOLE:
            main = self.lowering.machine.main_memory.name
            work, name = whole_of(group.nodes[0], main), f"whole {node}"
        elif row.title is Title.MOVE:
            (work, _), name = group.compute(row), f"move {node}"
        else:
            work, folded = group.compute(row)
            node = group.nodes[row.ops[0]].name
            name = f"{node}@{group.labels[row.turn]}{folded}"
        figures = (cycles, moved, price.energy)
        return Task(name, engine, work, reads, writes, *figures, after, node, plan_number, row.turn)


def whole_of(node: Node, memory: str = "") -> Whole:
    """An operator that runs in one piece, within a memory."""
    numbers, results = count(), count()
    return Whole(
        node.kind,
        node.domain,
        dict(node.attributes),
        tuple(next(numbers) if name else None for name in node.inputs),
        tuple(next(results) if name else None for name in node.outputs),
        tuple((name, next(numbers)) for name in node.captures),
        (memory, memory),
    )


def _renumbered(step: Step, reads: dict[int, int | Array], writes: dict[int, int]) -> Step:
    """The step with the operands of the task instead of those of the operator."""
    inputs: tuple[StepInput, ...] = tuple(
        reads[i] if isinstance(i, int) else i for i in step.inputs
    )
    outputs = tuple(writes[o] if isinstance(o, int) else o for o in step.outputs)
    return Step(step.kind, step.attributes, inputs, outputs, step.local_shape)
