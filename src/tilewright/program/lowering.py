"""From plans to columns: every group's block, found again where an alike group had one, and linked
to the buffers of the plan."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Place, Plan, group_label
from tilewright.program.block import Block, block_of
from tilewright.program.build import group_rows
from tilewright.program.context import Context, Lying
from tilewright.program.cut import GroupCut, cut_of, lots_of
from tilewright.program.faults import LoweringError
from tilewright.program.held import Transfers
from tilewright.program.linking import Kept, Linked, Site, joined
from tilewright.program.main_memory import Main, main_of
from tilewright.program.main_rows import main_rows
from tilewright.program.pipeline import LOCAL, PIPELINING, PREFETCH, QUEUES
from tilewright.program.regions import Regions, regions_of
from tilewright.program.rows import Surroundings
from tilewright.program.shared import Shared
from tilewright.program.signature import Signature
from tilewright.program.timed import Short, Switches, Timed, timed
from tilewright.tiling.cutting import cut_ops
from tilewright.tiling.grid import Halo
from tilewright.tiling.group import typed_group


class Outer(NamedTuple):
    """A value that a group takes from outside, or gives to it."""

    value: int
    name: str
    written: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A group of plans: its nodes, what they look like, and (on cores) how it is cut; `cut` is the
    one shared by all groups that look and are cut alike, `alike` its number. `outer` are the values
    whose place the plan decides; `number` counts entries."""

    number: int
    plan: GroupPlan
    members: tuple[int, ...]
    signature: Signature
    alike: int
    cut: GroupCut | None
    outer: tuple[Outer, ...]


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
        self.shared = Shared(self.context)
        self.transfers = Transfers(self.context)
        self._entries: dict[GroupPlan, Entry] = {}
        self._same: dict[int, Entry] = {}
        self._cuts: dict[Hashable, tuple[int, GroupCut]] = {}
        self._numbered: dict[int, GroupCut] = {}
        self._blocks: dict[Hashable, Block] = {}
        self._sites: dict[Hashable, Site] = {}
        self._regions: dict[Hashable, tuple[int, Regions]] = {}
        self._region_numbers: dict[Hashable, int] = {}
        self._kept: dict[Hashable, Kept] = {}
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
        off = tuple([group for group in plan.groups if group.place is not Place.CORES])
        main = self._mains.get((off, plan.shared))
        if main is None:
            main = main_of(self.shared, off, plan.shared, len(self._mains))
            self._mains[off, plan.shared] = main
        residents = _Residents(self, plan, entries, main).kept if plan.resident else {}
        sites: list[tuple[int, Site]] = []
        for number, entry in enumerate(entries):
            if entry.plan.place is Place.VIEW:
                continue
            kept = tuple([(o.value, residents[o.name]) for o in entry.outer if o.name in residents])
            key = (entry.number, main.number, kept)
            site = self._sites.get(key)
            if site is None:
                try:
                    site = self._sites[key] = self._site(entry, main, dict(kept))
                except LoweringError as error:
                    error.groups = frozenset({number})
                    raise
            sites.append((number, site))
        return joined(self.shared, plan, main, sites)

    def _entry(self, number: int, group: GroupPlan) -> Entry:
        known = self._same.get(id(group))  # entries keep their groups: an identity stays what it is
        if known is not None and known.plan is group:
            return known
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
            self._same[id(group)] = known
        return known

    def _new_entry(self, group: GroupPlan) -> Entry:
        missing = [name for name in group.nodes if name not in self.graph.index]
        if missing:
            raise LoweringError(f"the plan names node '{missing[0]}', which the network lacks")
        number = len(self._entries)
        members = tuple(sorted(self.graph.index[name] for name in group.nodes))
        signature = self.context.signatures.group(members)
        if group.place is not Place.CORES:
            return Entry(number, group, members, signature, -1, None, ())
        cores = self.cores_of(group)
        key = (signature.key, group.splits, group.core_split, group.replicated, cores)
        known = self._cuts.get(key)
        if known is None:
            ops = typed_group(self.graph, members)
            exported = {signature.names[k]: inside for k, inside in signature.exported}
            lots = lots_of(group, cores)
            tiles = cut_ops(self.graph, ops, exported, group.splits, lots=lots)
            known = len(self._cuts), cut_of(signature, tiles, group, cores)
            self._cuts[key] = known
            self._numbered[known[0]] = known[1]
        alike, cut = known
        outer = tuple(
            Outer(value, name, value in cut.writes)
            for value, name in enumerate(signature.names)
            if value in cut.writes or value not in cut.inner
        )
        return Entry(number, group, members, signature, alike, cut, outer)

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

    def lying(self, main: Main, name: str) -> Lying:
        """Where a value lies in the main memory of a plan."""
        return main.lying.get(name) or self.context.lying(name)

    def _site(self, entry: Entry, main: Main, kept: dict[int, Kept]) -> Site:
        """A group where a plan puts it: its block, bound to the plan's buffers."""
        names = entry.signature.names
        block = (
            self._main_block(entry, main)
            if entry.cut is None
            else self._block(entry, entry.cut, main, kept)
        )
        buffers: list[int] = []
        offsets: list[int] = []
        for outside in block.outside:
            name, core = names[outside.value], outside.core
            if core < 0:
                lying = self.lying(main, name)
                buffers.append(self.shared.between(lying))
                offsets.append(lying.offset)
            else:
                shape = kept[outside.value].regions[core].box.shape
                buffers.append(self.shared.region(name, core, shape))
                offsets.append(0)
        return Site(block, names, np.array(buffers, np.int64), np.array(offsets, np.int64))

    def _block(self, entry: Entry, cut: GroupCut, main: Main, kept: dict[int, Kept]) -> Block:
        """The block of a group on cores, in the surroundings that the plan gives it."""
        layouts: dict[int, tuple[int, int]] = {}
        reloads: set[tuple[int, int]] = set()
        for value, name, written in entry.outer:
            resident = kept.get(value)
            again: set[tuple[int, int]] = set()
            if resident is not None and not written:
                again = {(value, op) for op in self._reloading(entry, name, resident)}
            reloads |= again
            if resident is None or again or (written and resident.stored):
                lying = self.lying(main, name)
                layouts[value] = (lying.layout, lying.memory)
        numbers = tuple([(value, resident.number) for value, resident in kept.items()])
        key = (entry.alike, tuple(layouts.items()), numbers, frozenset(reloads))
        known = self._blocks.get(key)
        if known is None:
            regions = {value: resident.regions for value, resident in kept.items()}
            around = Surroundings(layouts, regions, frozenset(reloads))
            made = group_rows(self.transfers, cut, around)
            for step in self.passes:
                step.run(self.context, cut.tiles.ops, made)
            known = block_of(made, self.context.tables, pipelined=self.switches.overlapping)
            self._blocks[key] = known
        return known

    def _reloading(self, entry: Entry, name: str, resident: Kept) -> list[int]:
        """Which operators of a group load a resident tensor again."""
        nodes = [self.graph.nodes[index] for index in entry.members]
        return [
            op
            for op, node in enumerate(nodes)
            if name in node.inputs and node.name in resident.again
        ]

    def _main_block(self, entry: Entry, main: Main) -> Block:
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

    def regions(
        self, maker: tuple[int, int], readers: tuple[tuple[int, int], ...]
    ) -> tuple[int, Regions]:
        """The regions of a resident tensor, and their number: equal where they are."""
        key = (maker, readers)
        known = self._regions.get(key)
        if known is None:
            cuts = self._numbered
            writes = [cuts[maker[0]].writes.get(maker[1], {})]
            reads = [cuts[cut].reads.get(value, {}) for cut, value in readers]
            found = regions_of(writes, reads)
            content = tuple((core, r.box, r.read) for core, r in found.items())
            number = self._region_numbers.setdefault(content, len(self._region_numbers))
            known = self._regions[key] = (number, found)
        return known

    def kept(self, regions: tuple[int, Regions], stored: bool, again: frozenset[str]) -> Kept:
        """The one way to keep a tensor so."""
        key = (regions[0], stored, again)
        known = self._kept.get(key)
        if known is None:
            known = self._kept[key] = Kept(regions[0], stored, again, regions[1])
        return known


class _Residents:
    """The resident tensors of one plan: `kept` says how each is kept."""

    def __init__(self, lowering: Lowering, plan: Plan, entries: list[Entry], main: Main) -> None:
        self.graph, self.entries = lowering.graph, entries
        self.reloaded = {name: frozenset(nodes) for name, nodes in plan.reloaded}
        makers: dict[str, tuple[int, int]] = {}
        readers: dict[str, list[tuple[int, int]]] = {name: [] for name in plan.resident}
        for entry in entries:
            for value, name, written in entry.outer:
                if name not in readers:
                    continue
                if written:
                    makers[name] = (entry.alike, value)
                elif self._reads_here(entry, name):
                    readers[name].append((entry.alike, value))
        self._check(makers, plan)
        outputs = lowering.graph.outputs
        self.kept: dict[str, Kept] = {}
        for name, found in readers.items():
            regions = lowering.regions(makers[name], tuple(found))
            again = self.reloaded.get(name, frozenset())
            stored = name in main.read or name in outputs or name in self.reloaded
            self.kept[name] = lowering.kept(regions, stored, again)

    def _reads_here(self, entry: Entry, name: str) -> bool:
        """Whether some operator of a group reads a resident tensor where it is."""
        again = self.reloaded.get(name)
        if again is None:
            return True
        nodes = (self.graph.nodes[index] for index in entry.members)
        return any(name in node.inputs and node.name not in again for node in nodes)

    def _check(self, makers: dict[str, tuple[int, int]], plan: Plan) -> None:
        """Raise where a plan keeps or reloads what cannot be."""
        for name in plan.resident:
            if name not in makers:
                raise LoweringError(f"'{name}' cannot be resident: no group gives it to others")
        for name, nodes in self.reloaded.items():
            if name not in makers:
                raise LoweringError(f"'{name}' is reloaded, but is not resident")
            readers = {self.graph.nodes[i].name for i in self.graph.consumers.get(name, ())}
            strange = sorted(nodes - readers)
            if strange:
                raise LoweringError(f"'{strange[0]}' cannot reload '{name}': it does not read it")
