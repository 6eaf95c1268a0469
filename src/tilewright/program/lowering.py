"""From plans to columns: every group's block, found again where an alike group had one, and linked
to the buffers of the plan."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilewright.graph.graph import Graph
from tilewright.graph.ops import SPECS, runs_whole
from tilewright.graph.ops.spec import op_of
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Place, Plan, group_label
from tilewright.program.block import Block, block_of
from tilewright.program.columns import Columns, gathered
from tilewright.program.context import Context, Lying
from tilewright.program.cut import GroupCut, cut_of
from tilewright.program.faults import LoweringError
from tilewright.program.main_rows import main_rows, needs_own_group
from tilewright.program.pipeline import LOCAL, PIPELINING, PREFETCH, QUEUES
from tilewright.program.regions import Regions, regions_of
from tilewright.program.rows import Surroundings, group_rows
from tilewright.program.signature import Signature
from tilewright.program.timed import Short, Switches, Timed, timed
from tilewright.program.views import concat_parts, view_of
from tilewright.schedule.problem import Quantities
from tilewright.tiling.grid import Halo
from tilewright.tiling.group import cut_ops, typed_group


@dataclass(frozen=True, slots=True)
class _Entry:
    """A group of plans: its nodes, what they look like, and (on cores) how it is cut; `cut` is the
    one shared by all groups that look and are cut alike, `number` its number."""

    members: tuple[int, ...]
    signature: Signature
    number: int
    cut: GroupCut | None


class Owner(NamedTuple):
    """What a buffer that several groups use is for: a value in the main memory (core -1), or a
    core's region of a resident one."""

    name: str
    core: int


@dataclass(frozen=True, slots=True)
class Main:
    """The main memory under some choice of views: where every value of a view lies, and the values
    that operators outside the cores read. `given` are the buffers of the host: of inputs, constants
    and outputs."""

    lying: Mapping[str, Lying]
    read: frozenset[str]
    given: tuple[Owner, ...]


@dataclass(frozen=True, slots=True)
class Linked:
    """A plan's columns and what they stand for: the block and the values of every group that has
    tasks, by its number in the plan; buffers that groups share come first, then those of blocks."""

    plan: Plan
    columns: Columns
    groups: tuple[tuple[int, Block, tuple[str, ...]], ...]
    owners: tuple[Owner, ...]
    main: Main

    def root(self, name: str) -> int:
        """The number of a buffer of the main memory."""
        return self.owners.index(Owner(name, -1))


class Lowering:
    """Lowers plans of one network on one machine; `without` are passes that are left out."""

    def __init__(
        self,
        graph: Graph,
        machine: Machine,
        dtype: str,
        without: frozenset[str] = frozenset(),
        context: Context | None = None,
    ) -> None:
        self.context = context or Context(graph, machine, dtype)
        self.graph, self.machine, self.without = graph, machine, without
        self.passes = tuple(step for step in LOCAL if step.name not in without)
        self.switches = Switches(
            prefetch=PREFETCH.name not in without,
            queues=QUEUES.name not in without,
            overlapping=PIPELINING.name not in without,
        )
        self._entries: dict[GroupPlan, _Entry] = {}
        self._cuts: dict[Hashable, tuple[int, GroupCut]] = {}
        self._blocks: dict[Hashable, Block] = {}
        self._regions: dict[Hashable, tuple[int, Regions]] = {}
        self._region_numbers: dict[Hashable, int] = {}
        self._mains: dict[Hashable, Main] = {}

    def leaving_out(self, names: frozenset[str]) -> "Lowering":
        """The same with further passes left out."""
        without = self.without | names
        return Lowering(self.graph, self.machine, self.context.dtype, without, self.context)

    def timed(self, plan: Plan) -> Timed | Short:
        """Addresses and times of a plan, or what is short."""
        return self.timed_of(self.linked(plan))

    def timed_of(self, linked: Linked) -> Timed | Short:
        """The same of a plan whose blocks are linked."""
        return timed(linked.columns, self.context.tables, self.switches)

    def linked(self, plan: Plan) -> Linked:
        """The columns of a plan, in program order."""
        entries = [self._entry(number, group) for number, group in enumerate(plan.groups)]
        return _Linker(self, plan, entries).linked()

    def _entry(self, number: int, group: GroupPlan) -> _Entry:
        known = self._entries.get(group)
        if known is None:
            if sum(split.halo is Halo.CACHE for split in group.splits) > 1:
                label = group_label(number, group)
                raise LoweringError(f"{label} keeps its halo along two axes: one can")
            try:
                known = self._entries[group] = self._new_entry(group)
            except LoweringError as error:
                error.groups = frozenset({number})
                raise
        return known

    def _new_entry(self, group: GroupPlan) -> _Entry:
        missing = [name for name in group.nodes if name not in self.graph.index]
        if missing:
            raise LoweringError(f"the plan names node '{missing[0]}', which the network lacks")
        members = tuple(sorted(self.graph.index[name] for name in group.nodes))
        signature = self.context.signatures.group(members)
        if group.place is not Place.CORES:
            return _Entry(members, signature, -1, None)
        cores = self.cores_of(group)
        key = (signature.key, group.splits, group.spread, group.everywhere, cores)
        known = self._cuts.get(key)
        if known is None:
            ops = typed_group(self.graph, members)
            exported = {signature.names[k]: inside for k, inside in signature.exported}
            tiles = cut_ops(self.graph, ops, exported, group.splits)
            known = len(self._cuts), cut_of(signature, tiles, group, cores)
            self._cuts[key] = known
        return _Entry(members, signature, *known)

    def cores_of(self, group: GroupPlan) -> tuple[int, ...]:
        """The numbers of the cores that a group runs on."""
        names = [core.name for core in self.machine.cores]
        if not group.cores:
            return tuple(range(len(names)))
        strange = [name for name in group.cores if name not in names]
        if strange:
            raise LoweringError(
                f"the group of '{group.nodes[0]}' runs on core '{strange[0]}': "
                f"{self.machine.name} has {', '.join(names)}"
            )
        return tuple(names.index(name) for name in group.cores)

    def block(self, entry: _Entry, around: Surroundings, key: Hashable) -> Block:
        """The block of a group on cores."""
        known = self._blocks.get(key)
        if known is None:
            cut = entry.cut
            assert cut is not None
            made = group_rows(self.context, cut, around)
            for step in self.passes:
                step.run(self.context, cut.tiles.ops, made)
            known = block_of(made, self.context.tables, pipelined=self.switches.overlapping)
            self._blocks[key] = known
        return known

    def main_block(self, entry: _Entry, main: Main) -> Block:
        """The block of a group that runs in the main memory."""
        names = entry.signature.names
        lies = tuple(self.lying(main, name) for name in names)
        key = (entry.members, lies)
        known = self._blocks.get(key)
        if known is None:
            by_name = dict(zip(names, lies, strict=True))
            made = main_rows(self.context, entry.members, names, by_name.__getitem__)
            known = self._blocks[key] = block_of(made, self.context.tables, pipelined=False)
        return known

    def lying(self, main: Main, name: str) -> Lying:
        """Where a value lies in the main memory of a plan."""
        return main.lying.get(name) or self.context.lying(name)

    def regions(
        self, name: str, maker: tuple[int, int], readers: tuple[tuple[int, int], ...]
    ) -> tuple[int, Regions]:
        """The regions of a resident tensor, and their number: equal where they are."""
        key = (maker, readers)
        known = self._regions.get(key)
        if known is None:
            cuts = [cut for _, cut in self._cuts.values()]
            writes = [cuts[maker[0]].writes.get(maker[1], {})]
            reads = [cuts[cut].reads.get(value, {}) for cut, value in readers]
            found = regions_of(writes, reads)
            content = tuple((core, r.box, r.read) for core, r in found.items())
            number = self._region_numbers.setdefault(content, len(self._region_numbers))
            known = self._regions[key] = (number, found)
        return known

    def main_of(self, plan: Plan) -> Main:
        """The main memory under a plan's choice of views."""
        off = tuple(group for group in plan.groups if group.place is not Place.CORES)
        known = self._mains.get(off)
        if known is None:
            known = self._mains[off] = self._new_main(off)
        return known

    def _new_main(self, off: Sequence[GroupPlan]) -> Main:
        graph, context = self.graph, self.context
        lying: dict[str, Lying] = {}
        members = [
            (group.place, graph.nodes[graph.index[name]])
            for group in off
            for name in sorted(group.nodes, key=graph.index.__getitem__)
            if name in graph.index
        ]
        taken = {*graph.inputs, *graph.constants}

        def lies(name: str) -> Lying:
            return lying.get(name) or context.lying(name)

        for place, node in members:  # inputs of a concat that is no work lie inside its result
            op = op_of(graph, node)
            if place is not Place.VIEW or op is None or not self._joins(node.kind):
                continue
            result = lies(node.outputs[0])
            for source, view in zip(
                node.inputs, concat_parts(op, context.view(result)), strict=True
            ):
                if source in taken:
                    raise LoweringError(
                        f"'{node.name}' cannot be a view: '{source}' lies elsewhere"
                    )
                taken.add(source)
                look = context.tables.look(view.shape, view.strides, view.dtype, view.item)
                lying[source] = Lying(result.root, view.offset, look)
        for place, node in members:
            if place is not Place.VIEW:
                continue
            if runs_whole(graph, node):
                raise LoweringError(needs_own_group(node))
            op = op_of(graph, node)
            for position, name in enumerate(node.outputs):
                if not name or name in lying or (op is not None and self._joins(node.kind)):
                    continue
                source = lies(node.inputs[0])
                view = None if op is None else view_of(op, context.view(source), position)
                if view is None or name in graph.outputs:
                    raise LoweringError(f"'{node.name}' ({node.kind}) cannot be a view")
                look = context.tables.look(view.shape, view.strides, view.dtype, view.item)
                lying[name] = Lying(source.root, view.offset, look)
        outer = (*graph.inputs, *graph.constants, *graph.outputs)
        given = tuple(dict.fromkeys(Owner(lies(name).root, -1) for name in outer))
        return Main(lying, frozenset(name for _, node in members for name in node.reads), given)

    @staticmethod
    def _joins(kind: str) -> bool:
        spec = SPECS.get(kind)
        return spec is not None and spec.parts is not None


class _Linker:
    """Links the blocks of one plan."""

    def __init__(self, lowering: Lowering, plan: Plan, entries: list[_Entry]) -> None:
        self.lowering, self.plan, self.entries = lowering, plan, entries
        self.graph, self.context = lowering.graph, lowering.context
        self.main = lowering.main_of(plan)
        self.reloaded = {name: frozenset(nodes) for name, nodes in plan.reloaded}
        self.owners = {owner: number for number, owner in enumerate(self.main.given)}
        main, size = self.context.main, self.context.root_bytes
        self.sizes = [(main, size(owner.name)) for owner in self.main.given]
        self.residents = self._residents()

    def linked(self) -> Linked:
        """All blocks, one behind the other."""
        found: list[tuple[int, Block, tuple[str, ...]]] = []
        bindings: list[tuple[int, int]] = []
        for number, (group, entry) in enumerate(zip(self.plan.groups, self.entries, strict=True)):
            if group.place is Place.VIEW:
                continue
            try:
                block = self._block(entry)
            except LoweringError as error:
                error.groups = frozenset({number})
                raise
            names = entry.signature.names
            for outside in block.outside:
                bindings.append(self._bound(names[outside.value], outside.core))
            found.append((number, block, names))
        columns = self._columns([(number, block) for number, block, _ in found], bindings)
        return Linked(self.plan, columns, tuple(found), tuple(self.owners), self.main)

    def _residents(self) -> dict[str, tuple[int, Regions]]:
        """The regions of every resident tensor."""
        wanted = dict.fromkeys(self.plan.resident)
        makers: dict[str, tuple[int, int]] = {}
        readers: dict[str, list[tuple[int, int]]] = {name: [] for name in wanted}
        for entry in self.entries if wanted else ():
            cut = entry.cut
            if cut is None:
                continue
            names = entry.signature.names
            for value in cut.writes:
                if names[value] in wanted:
                    makers[names[value]] = (entry.number, value)
            for value in cut.reads:
                name = names[value]
                if name in wanted and self._reads_here(entry, name):
                    readers[name].append((entry.number, value))
        self._check(makers)
        return {
            name: self.lowering.regions(name, makers[name], tuple(readers[name])) for name in wanted
        }

    def _reads_here(self, entry: _Entry, name: str) -> bool:
        """Whether some operator of a group reads a resident tensor where it is."""
        again = self.reloaded.get(name)
        if again is None:
            return True
        nodes = (self.graph.nodes[index] for index in entry.members)
        return any(name in node.inputs and node.name not in again for node in nodes)

    def _check(self, makers: dict[str, tuple[int, int]]) -> None:
        """Raise where a plan keeps or reloads what cannot be."""
        for name in self.plan.resident:
            if name not in makers:
                raise LoweringError(f"'{name}' cannot be resident: no group gives it to others")
        for name, nodes in self.reloaded.items():
            if name not in makers:
                raise LoweringError(f"'{name}' is reloaded, but is not resident")
            readers = {self.graph.nodes[i].name for i in self.graph.consumers.get(name, ())}
            strange = sorted(nodes - readers)
            if strange:
                raise LoweringError(f"'{strange[0]}' cannot reload '{name}': it does not read it")

    def _block(self, entry: _Entry) -> Block:
        """A group's block in the surroundings that the plan gives it."""
        cut, names = entry.cut, entry.signature.names
        if cut is None:
            return self.lowering.main_block(entry, self.main)
        main: dict[int, int] = {}
        regions: dict[int, Regions] = {}
        numbers: list[tuple[int, int]] = []
        reloads: set[tuple[int, int]] = set()
        for value, name in enumerate(names):
            resident = self.residents.get(name)
            if resident is not None:
                regions[value] = resident[1]
                numbers.append((value, resident[0]))
            if value in cut.writes:
                if self._stored(name):
                    main[value] = self.lowering.lying(self.main, name).look
            elif resident is None:
                if value not in cut.inner:
                    main[value] = self.lowering.lying(self.main, name).look
            else:
                again = self.reloaded.get(name, frozenset())
                for op, index in enumerate(entry.members):
                    node = self.graph.nodes[index]
                    if name in node.inputs and node.name in again:
                        reloads.add((value, op))
                        main[value] = self.lowering.lying(self.main, name).look
        key = (entry.number, tuple(main.items()), tuple(numbers), frozenset(reloads))
        return self.lowering.block(entry, Surroundings(main, regions, frozenset(reloads)), key)

    def _stored(self, name: str) -> bool:
        """Whether a group writes its result to the main memory."""
        if name not in self.residents or name in self.main.read or name in self.graph.outputs:
            return True
        return name in self.reloaded

    def _bound(self, name: str, core: int) -> tuple[int, int]:
        """The buffer, and the byte in it, of what a block calls an outside buffer."""
        if core < 0:
            return self.main_buffer(name), self.lowering.lying(self.main, name).offset
        owner = Owner(name, core)
        number = self.owners.get(owner)
        if number is None:
            number = self.owners[owner] = len(self.owners)
            shape = self.residents[name][1][core].box.shape
            memory = self.context.memory_of(core, name)
            self.sizes.append((memory, self.context.local(name, shape)[0]))
        return number, 0

    def main_buffer(self, name: str) -> int:
        """The number of the buffer of the main memory that a value lies in."""
        owner = Owner(self.lowering.lying(self.main, name).root, -1)
        number = self.owners.get(owner)
        if number is None:
            number = self.owners[owner] = len(self.owners)
            self.sizes.append((self.context.main, self.context.root_bytes(owner.name)))
        return number

    def _columns(self, blocks: list[tuple[int, Block]], bindings: list[tuple[int, int]]) -> Columns:
        """Gather the columns of all blocks, their slots bound to the plan's buffers."""
        shared = np.array(self.sizes, np.int64).reshape(-1, 2).T
        alignments = np.array([m.alignment for m in self.lowering.machine.memories], np.int64)
        bound = np.array(bindings, np.int64).reshape(-1, 2).T
        tasks = _side_by_side([block.tasks for _, block in blocks], 9)
        accesses = _side_by_side([block.accesses for _, block in blocks], 4)
        buffers = _side_by_side([block.buffers for _, block in blocks], 3)
        lengths = np.concatenate([np.zeros(1, np.int64), *(b.lengths for _, b in blocks)])
        energy = np.concatenate([np.zeros(0), *(block.energy for _, block in blocks)])
        counts = np.array([block.tasks.shape[1] for _, block in blocks], np.int64)
        touched = np.array([block.accesses.shape[1] for _, block in blocks], np.int64)
        own = _begins([block.buffers.shape[1] for _, block in blocks], len(self.owners))
        outside = _begins([len(block.outside) for _, block in blocks], 0)
        numbers = np.array([number for number, _ in blocks], np.int64)
        slot, offset, look, write = accesses
        outer = slot < 0  # of another group too: bound to a buffer of the plan
        which = np.repeat(outside, touched)[outer] + ~slot[outer]
        buffer = slot + np.repeat(own, touched)
        moved = offset.copy()
        if bindings:
            buffer[outer] = bound[0][which]
            moved[outer] += bound[1][which]
        common = np.stack((shared[0], shared[1], alignments[shared[0]]))
        fixed = np.zeros(len(self.owners) + buffers.shape[1], np.bool_)
        fixed[: len(self.main.given)] = True
        return gathered(
            np.concatenate((tasks, np.repeat(numbers, counts)[None])),
            energy,
            np.cumsum(lengths),
            np.stack((buffer, moved, look, write)),
            np.concatenate((common, buffers), axis=1),
            fixed,
        )


def _side_by_side(tables: list[Quantities], rows: int) -> Quantities:
    return np.concatenate([np.zeros((rows, 0), np.int64), *tables], axis=1)


def _begins(counts: list[int], first: int) -> Quantities:
    """Where each of several runs of numbers begins."""
    return np.cumsum(np.array([first, *counts], np.int64))[:-1]
