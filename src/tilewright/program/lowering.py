"""From plans to columns: every group's block, found again where an alike group had one, and linked
to the buffers of the plan."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Place, Plan, group_label
from tilewright.program.block import Block, block_of
from tilewright.program.build import RowBuilder
from tilewright.program.context import Context, Lying
from tilewright.program.cut import Entry, GroupCut, Outer, lots_of
from tilewright.program.cut_tables import CutTables
from tilewright.program.faults import LoweringError, NoRoomError
from tilewright.program.held import HeldTransfers
from tilewright.program.joints import Joints
from tilewright.program.least import exceeds, least_bytes
from tilewright.program.linking import Kept, Linked, Site, joined, linked
from tilewright.program.main_memory import Main, main_of
from tilewright.program.main_rows import main_rows
from tilewright.program.passes.duplicates import DuplicateCopies
from tilewright.program.passes.in_place import find_in_place
from tilewright.program.pipeline import (
    ACROSS_TILES,
    IN_PLACE,
    IN_TILES,
    PIPELINING,
    PREFETCH,
    QUEUES,
)
from tilewright.program.regions import regions_of
from tilewright.program.residents import Residents
from tilewright.program.rows import Surroundings
from tilewright.program.shared import Owner, Shared
from tilewright.program.timed import Refused, Short, Switches, Timed, timed
from tilewright.tiling.cutting import cut_ops
from tilewright.tiling.grid import Halo
from tilewright.tiling.group import typed_group

_Key = tuple[int, tuple[tuple[int, Kept], ...], Hashable]


class Arranged(NamedTuple):
    """A plan whose groups are known: how its tensors lie and are kept, and of every group that has
    tasks its number, what it keeps, and the key of its site."""

    plan: Plan
    entries: list[Entry]
    main: Main
    residents: Residents
    keys: list[_Key]


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
        self._in_tiles = [step for step in IN_TILES if step.name not in without]
        self._across_tiles = [step for step in ACROSS_TILES if step.name not in without]
        main = machine.main_memory
        self._on_chip = [memory.usable for memory in machine.memories if memory is not main]
        self._all_cores = tuple(range(len(machine.cores)))
        self.switches = Switches(
            prefetch=PREFETCH.name not in without,
            queues=QUEUES.name not in without,
            overlapping=PIPELINING.name not in without,
        )
        self.shared = Shared(self.context)
        self.transfers = HeldTransfers(self.context)
        self.joints = Joints(self.context)
        self._entries: dict[GroupPlan, Entry] = {}
        self._same: dict[int, Entry] = {}
        self._cuts: dict[Hashable, tuple[int, GroupCut]] = {}
        self._numbered: dict[int, GroupCut] = {}
        self._tables: dict[int, CutTables] = {}
        self._blocks: dict[Hashable, Block] = {}
        self._sites: dict[Hashable, Site] = {}
        self._region_numbers: dict[Hashable, int] = {}
        self._kept: dict[Hashable, Kept] = {}
        self._ways: dict[Hashable, Kept] = {}
        self._region_bytes: dict[Hashable, tuple[tuple[int, int, int], ...]] = {}
        self._leasts: dict[Hashable, list[int]] = {}
        self._mains: dict[Hashable, Main] = {}
        self._within: dict[int, Lowering] = {}
        self._last: tuple[Plan, Timed | Refused] | None = None

    def leaving_out(self, names: frozenset[str]) -> "Lowering":
        """The same with further passes left out."""
        without = self.without | names
        return Lowering(self.graph, self.machine, self.context.dtype, without, self.context)

    def of(self, plan: Plan) -> "Lowering":
        """The one for plans with this one's limit of memory: of the machine within it."""
        limit = plan.memory_limit
        if limit is None or all(size <= limit for size in self._on_chip):
            return self
        if limit not in self._within:
            machine = self.machine.within(limit)
            self._within[limit] = Lowering(self.graph, machine, self.context.dtype, self.without)
        return self._within[limit]

    def timed(self, plan: Plan) -> Timed | Refused:
        """Addresses and times of a plan, or the groups that there is no room for: what surely does
        not fit is not lowered any further."""
        if self._last is None or self._last[0] is not plan:  # whoever asks often asks again
            lowering = self.of(plan)
            self._last = plan, lowering._fastest(lowering._arranged(plan))[1]
        return self._last[1]

    def _fastest(self, ways: Sequence[Arranged]) -> tuple[Arranged, Timed | Refused]:
        """The way to arrange a plan that is faster: tensors that lie together move less, and are
        held for longer."""
        best, found = ways[0], self._timed(ways[0])
        for other in ways[1:]:
            rival = self._timed(other)
            if not isinstance(found, Timed) or (
                isinstance(rival, Timed) and rival.makespan < found.makespan
            ):
                best, found = other, rival
        return best, found

    def _timed(self, arranged: Arranged) -> Timed | Refused:
        sites = self._sites_with_room(arranged)
        if isinstance(sites, Refused):
            return sites
        columns, _ = joined(self.shared, arranged.main, sites)
        return timed(columns, self.context.tables, self.switches, explained=False)

    def cycles(self, plan: Plan) -> int | None:
        """What a plan takes; None where it does not fit as it is, or is none."""
        try:
            found = self.timed(plan)
        except TilewrightError:
            return None
        return found.makespan if isinstance(found, Timed) else None

    def timed_of(self, linked: Linked) -> Timed | Short:
        """The same of a plan whose blocks are linked, with the reason why it does not fit."""
        found = timed(linked.columns, self.context.tables, self.switches)
        assert isinstance(found, Timed | Short)
        return found

    def linked(self, plan: Plan) -> Linked:
        """The columns of a plan, in program order, whether there is room or not."""
        ways = self._arranged(plan)
        arranged = ways[0] if len(ways) == 1 else self._fastest(ways)[0]
        sites = [
            (number, self._sites.get(key) or self._new_site(arranged, number, kept, key))
            for number, kept, key in arranged.keys
        ]
        return linked(self.shared, plan, arranged.main, sites)

    def _arranged(self, plan: Plan) -> list[Arranged]:
        """The groups of a plan, and how its tensors are kept: those together that can lie so, where
        there are any; and each by itself."""
        same = self._same  # entries keep their groups: an identity stays what it is
        entries = [
            found
            if (found := same.get(id(group))) is not None and found.plan is group
            else self._entry(number, group)
            for number, group in enumerate(plan.groups)
        ]
        off = tuple([entry.number for entry in entries if entry.cut is None])
        main = self._mains.get((off, plan.shared))
        if main is None:
            groups = [entry.plan for entry in entries if entry.cut is None]
            main = main_of(self.shared, groups, plan.shared, len(self._mains))
            self._mains[off, plan.shared] = main
        apart = Residents(self, plan, entries, main)
        together = apart.together(main.nodes)
        return [
            Arranged(plan, entries, main, residents, _keys(entries, main, residents))
            for residents in (together, apart)
            if residents is not None
        ]

    def _sites_with_room(self, arranged: Arranged) -> list[tuple[int, Site]] | Refused:
        """The groups of a plan where it puts them, or those that need more bytes than resident
        tensors leave. What is known is looked at first: the others need not be built then."""
        room, over = arranged.residents.left(self.context.usable)
        found = [self._sites.get(key) for _, _, key in arranged.keys]
        known = [place for place, site in enumerate(found) if site is not None]
        if known:
            numbers = [arranged.keys[place][0] for place in known]
            live = np.array([site.block.live for site in found if site is not None], np.int64)
            over[numbers] |= (live > room[numbers]).any(axis=1)
        if over.any():
            return Refused(frozenset(np.flatnonzero(over).tolist()))
        sites: list[tuple[int, Site]] = []
        for (number, kept, key), site in zip(arranged.keys, found, strict=True):
            if site is None:
                left: list[int] = room[number].tolist()
                try:
                    site = self._new_site(arranged, number, kept, key, left)
                except NoRoomError as error:
                    return Refused(error.groups)
                if exceeds(site.block.live, left):
                    return Refused(frozenset({number}))
            sites.append((number, site))
        return sites

    def _new_site(
        self,
        arranged: Arranged,
        number: int,
        kept: tuple[tuple[int, Kept], ...],
        key: Hashable,
        room: Sequence[int] | None = None,
    ) -> Site:
        try:
            site = self._site(arranged.entries[number], arranged.main, dict(kept), room)
        except LoweringError as error:
            error.groups = frozenset({number})
            raise
        self._sites[key] = site
        return site

    def _entry(self, number: int, group: GroupPlan) -> Entry:
        known = self._entries.get(group)
        if known is None:
            try:
                if sum(split.halo is Halo.CACHE for split in group.splits) > 1:
                    label = group_label(number, group)
                    raise LoweringError(f"{label} keeps its halo along two axes: one can")
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
        members = tuple(sorted([self.graph.index[name] for name in group.nodes]))
        signature = self.context.signatures.group(members)
        if group.place is not Place.CORES:
            return Entry(number, group, members, signature, -1, None, (), ())
        cores = self.cores_of(group)
        key = (signature.key, group.splits, group.core_split, group.replicated, group.shares, cores)
        known = self._cuts.get(key)
        if known is None:
            ops = typed_group(self.graph, members)
            exported = {signature.names[k]: inside for k, inside in signature.exported}
            lots = lots_of(group, cores)
            tiles = cut_ops(self.graph, ops, exported, group.splits, lots=lots)
            known = len(self._cuts), GroupCut(signature, tiles, group, cores)
            self._cuts[key] = known
            self._numbered[known[0]] = known[1]
        alike, cut = known
        outer = tuple(
            [
                Outer(value, name, value in cut.given)
                for value, name in enumerate(signature.names)
                if value in cut.given or value not in cut.inner
            ]
        )
        passing = tuple([one for one in outer if one.name not in self.graph.constants])
        return Entry(number, group, members, signature, alike, cut, outer, passing)

    def cores_of(self, group: GroupPlan) -> tuple[int, ...]:
        """The numbers of the cores that a group runs on."""
        if not group.cores:
            return self._all_cores
        names = [core.name for core in self.machine.cores]
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

    def _site(
        self, entry: Entry, main: Main, kept: dict[int, Kept], room: Sequence[int] | None
    ) -> Site:
        """A group where a plan puts it: its block, bound to the plan's buffers."""
        names = entry.signature.names
        block = (
            self._main_block(entry, main)
            if entry.cut is None
            else self._block(entry, entry.cut, main, kept, room)
        )
        rows: list[tuple[int, int]] = []
        for value, core, memory, size, _ in block.outside:
            name = names[value]
            if core < 0:
                lying = self.lying(main, name)
                rows.append((self.shared.between(lying), lying.offset))
            else:
                owner = Owner(kept[value].joint or name, core)
                rows.append((self.shared.number(owner, memory, size), 0))
        return Site(block, names, np.array(rows, np.int64).reshape(-1, 2))

    def _block(
        self,
        entry: Entry,
        cut: GroupCut,
        main: Main,
        kept: dict[int, Kept],
        room: Sequence[int] | None,
    ) -> Block:
        """The block of a group on cores, in the surroundings that the plan gives it. Raise where
        that surely needs more bytes of the memories than there is room for."""
        layouts: dict[int, tuple[int, int]] = {}
        reloads: set[tuple[int, int]] = set()
        for value, name, written in entry.outer:
            resident, again = kept.get(value), list[tuple[int, int]]()
            if resident is not None and resident.again and not written:
                again = [(value, op) for op in self._reloading(entry, name, resident)]
                reloads.update(again)
            if resident is None or again or (written and (resident.stored or resident.placed)):
                lying = self.lying(main, name)
                layouts[value] = (lying.layout, lying.memory)
        numbers = tuple([(value, one.number, one.placed) for value, one in kept.items()])
        joined = _joined(kept)
        key = (
            entry.alike,
            tuple(layouts.items()),
            numbers,
            frozenset(reloads),
            tuple(joined.items()),
        )
        known = self._blocks.get(key)
        if known is None:
            regions, places = (
                {value: one.regions for value, one in kept.items() if one.placed is placed}
                for placed in (False, True)
            )
            around = Surroundings(layouts, regions, frozenset(reloads), joined, places)
            tables = self._tables.get(entry.alike)
            if tables is None:
                tables = self._tables[entry.alike] = CutTables(self.transfers, cut)
            builder = RowBuilder(tables, around)
            if room is not None:
                least = self._leasts.get(key)
                if least is None:
                    least = self._leasts[key] = least_bytes(
                        builder,
                        shares=DuplicateCopies.name not in self.without,
                        in_place=IN_PLACE.name not in self.without,
                    )
                if exceeds(least, room):
                    raise NoRoomError("more is live at once than there is room for")
            made = builder.build(self._in_tiles)
            for step in self._across_tiles:
                step.run(self.context, cut.tiles.ops, made)
            if IN_PLACE.name not in self.without:
                find_in_place(cut.tiles.ops, made)
            overlapping = self.switches.overlapping
            known = block_of(made, self.context.tables, pipelined=overlapping)
            self._blocks[key] = known
        return known

    def _reloading(self, entry: Entry, name: str, resident: Kept) -> list[int]:
        """Which operators of a group load a resident tensor again."""
        nodes = enumerate(self.graph.nodes[index] for index in entry.members)
        return [op for op, n in nodes if name in n.inputs and n.name in resident.again]

    def _main_block(self, entry: Entry, main: Main) -> Block:
        """The block of a group that runs in the main memory."""
        names = entry.signature.names
        lies = tuple(self.lying(main, name) for name in names)
        key = (entry.members, lies)
        known = self._blocks.get(key)
        if known is None:
            by_name = dict(zip(names, lies, strict=True))
            made = main_rows(self.context, entry.members, names, by_name.__getitem__)
            known = block_of(made, self.context.tables, pipelined=False)
            self._blocks[key] = known
        return known

    def kept(
        self,
        maker: tuple[int, int],
        readers: tuple[tuple[int, int], ...],
        stored: bool,
        again: frozenset[str],
    ) -> Kept:
        """The one way to keep a tensor that these cuts make and read so."""
        key = (maker, readers, stored, again)
        known = self._kept.get(key)
        if known is None:
            cuts = self._numbered
            writes = [cuts[maker[0]].writes(maker[1])]
            reads = [cuts[cut].reads(value) for cut, value in readers]
            regions = regions_of(writes, reads)
            known = self._kept[key] = self.one_way(Kept(-1, stored, again, regions))
        return known

    def one_way(self, kept: Kept) -> Kept:
        """The one way to keep a tensor so, whatever its number is."""
        content = tuple((core, r.box, r.read, r.frame) for core, r in kept.regions.items())
        number = self._region_numbers.setdefault(content, len(self._region_numbers))
        key = (number, kept.stored, kept.again, kept.joint, kept.placed)
        return self._ways.setdefault(key, replace(kept, number=number))

    def region_bytes(self, name: str, kept: Kept) -> tuple[tuple[int, int, int], ...]:
        """Of every core's region of a resident tensor: the core, its memory, and the bytes."""
        context = self.context
        key = (context.signatures.value(name), kept.number)
        known = self._region_bytes.get(key)
        if known is None:
            rows = [
                (core, context.memory_of(core, name), context.local(name, region.room.shape)[0])
                for core, region in kept.regions.items()
            ]
            known = self._region_bytes[key] = tuple(rows)
        return known


def _keys(entries: Sequence[Entry], main: Main, residents: Residents) -> list[_Key]:
    """Of every group that has tasks: its number, what it keeps, and the key of its site."""
    keys: list[_Key] = []
    for number, entry in enumerate(entries):
        if entry.cut is not None or entry.plan.place is not Place.VIEW:
            kept = residents.of(number, entry) if residents.kept else ()
            keys.append((number, kept, (entry.number, main.number, kept)))
    return keys


def _joined(kept: dict[int, Kept]) -> dict[int, int]:
    """Values of a group that lie together with others: the first of it that lies there too."""
    first: dict[str, int] = {}
    return {
        value: first.setdefault(resident.joint, value)
        for value, resident in kept.items()
        if resident.joint
    }
