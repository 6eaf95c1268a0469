"""The resident tensors of a plan: how each is kept, and the bytes of cores that they leave."""

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from tilewright.plan.plan import Plan
from tilewright.program.cut import Entry
from tilewright.program.faults import LoweringError
from tilewright.program.joints import Joining
from tilewright.program.linking import Kept
from tilewright.program.main_memory import Main
from tilewright.program.regions import Region
from tilewright.schedule.problem import Flags, Quantities

if TYPE_CHECKING:
    from tilewright.program.lowering import Lowering


class Residents:
    """The resident tensors of one plan: `kept` says how each is kept."""

    def __init__(self, lowering: "Lowering", plan: Plan, entries: list[Entry], main: Main) -> None:
        self.lowering, self.graph, self.entries = lowering, lowering.graph, entries
        self.groups = len(entries)
        self.kept: dict[str, Kept] = {}
        self.joints: dict[str, list[str]] = {}
        self._held: dict[int, dict[str, Kept]] = {}
        self._homes: dict[int, int] = {}
        self._made: dict[str, int] = {}
        if not plan.resident:
            return
        self._read: dict[str, list[tuple[int, Collection[int]]]] = {n: [] for n in plan.resident}
        reloaded = {name: frozenset(nodes) for name, nodes in plan.reloaded}
        makers: dict[str, tuple[int, int]] = {}
        readers: dict[str, list[tuple[int, int]]] = {name: [] for name in plan.resident}
        for number, entry in enumerate(entries):
            for value, name, written in entry.passing:
                found = readers.get(name)
                if found is None:
                    continue
                if written:
                    makers[name] = (entry.alike, value)
                    self._made[name] = number
                    continue
                again, cut = reloaded.get(name), entry.cut
                cores = self._reading(entry, name, again) if again else ()
                if again is None and cut is not None:
                    cores = cut.reads(value)
                if cores is not None:
                    found.append((entry.alike, value))
                    self._read[name].append((number, cores))
        for name in plan.resident:
            if name not in makers:
                raise LoweringError(f"'{name}' cannot be resident: no group gives it to others")
        outputs, nothing = lowering.graph.outputs, frozenset[str]()
        for name, found in readers.items():
            stored = name in main.read or name in outputs or name in reloaded
            again = reloaded.get(name, nothing)
            self.kept[name] = lowering.kept(makers[name], tuple(found), stored, again)

    def together(self, off: frozenset[str]) -> "Residents | None":
        """The same with tensors that lie together, where operators, but for those `off` the cores,
        would only move them; None where there are none."""
        if not self.kept:
            return None
        joinings, kept, lowering = list[Joining](), self.kept, self.lowering
        found: dict[str, Kept] = {}
        for joining in lowering.joints.joinings:
            if joining.node in off:
                continue
            inner = [name for name in joining.names if name not in kept]
            if inner:
                found |= self._inner(joining.node, inner)
            read = joining.read
            if all(name in kept or name in found for name in read) and not any(
                name in kept and joining.node in kept[name].again for name in read
            ):
                joinings.append(joining)
        joined = lowering.joints.together(joinings, kept, found)
        if not joined:
            return None
        other = copy(self)
        other.kept, other.joints, other._held = dict(kept), {}, {}
        for name, (joint, regions) in joined.items():
            other.joints.setdefault(joint, []).append(name)
            if name in kept:
                way = replace(kept[name], regions=regions, joint=joint)
                other.kept[name] = lowering.one_way(way)
            else:
                way = Kept(-1, False, frozenset(), regions, joint, placed=True)
                home = self._home(self.graph.producer[name])
                other._held.setdefault(home, {})[name] = lowering.one_way(way)
        return other

    def _inner(self, node: str, names: Sequence[str]) -> dict[str, Kept]:
        """What tiles hold of those values that the group of a node computes."""
        entry = self.entries[self._home(self.graph.index[node])]
        found: dict[str, Kept] = {}
        for name in names:
            value = entry.signature.names.index(name)
            if entry.cut is not None and value in entry.cut.inner:
                hulls = entry.cut.holds(value)
                regions = {core: Region(box, None) for core, box in hulls.items()}
                way = Kept(-1, False, frozenset(), regions, placed=True)
                found[name] = self.lowering.one_way(way)
        return found

    def _home(self, index: int) -> int:
        """The group of a node."""
        if not self._homes:
            for number, entry in enumerate(self.entries):
                self._homes |= dict.fromkeys(entry.members, number)
        return self._homes[index]

    def of(self, number: int, entry: Entry) -> tuple[tuple[int, Kept], ...]:
        """The values of a group that are resident, or lie where others are too."""
        kept = self.kept
        found = tuple([(o.value, kept[o.name]) for o in entry.passing if o.name in kept])
        held = self._held.get(number)
        if held:
            names = entry.signature.names
            found += tuple([(names.index(name), one) for name, one in held.items()])
        return found

    def _reading(self, entry: Entry, name: str, again: frozenset[str]) -> Collection[int] | None:
        """Cores whose tiles surely read a tensor where it is that some nodes load again: nobody
        knows; None where the whole group loads it again."""
        nodes = [self.graph.nodes[index] for index in entry.members]
        here = any(name in node.inputs and node.name not in again for node in nodes)
        return () if here else None

    def left(self, usable: Sequence[int]) -> tuple[Quantities, Flags]:
        """Bytes of every memory that resident tensors which a group has nothing to do with leave
        it, group by group; and the groups behind which all of them together are too many."""
        shape = (self.groups, len(usable))
        if not self.kept:
            return np.broadcast_to(np.array(usable, np.int64), shape), np.zeros(shape[0], np.bool_)
        beside = [[0] * (self.groups + 1) for _ in usable]
        behind = [[0] * (self.groups + 1) for _ in usable]
        for name, kept in self.kept.items():
            if kept.joint:
                continue
            rows, begin = self._read[name], self._made[name]
            for core, memory, size in self.lowering.region_bytes(name, kept):
                last = begin  # the last group that surely reads it
                for number, cores in rows:
                    if core in cores and number > last:
                        last = number
                if last > begin:
                    ends = begin, last
                    _hold(beside[memory], behind[memory], size, ends, [row[0] for row in rows])
        for names in self.joints.values():
            uses = self._uses(names)
            for core, memory, size in self._joint_bytes(names):
                sure = [number for number, cores in uses.items() if core in cores]
                if len(sure) > 1:
                    _hold(beside[memory], behind[memory], size, (min(sure), max(sure)), uses)
        sums = [[list(accumulate(row)) for row in rows] for rows in (beside, behind)]
        totals = np.array(usable, np.int64)[:, None] - np.array(sums, np.int64)[:, :, :-1]
        return totals[0].T, (totals[1] < 0).any(axis=0)

    def _joint_bytes(self, names: Sequence[str]) -> set[tuple[int, int, int]]:
        """The cores where tensors lie together, the memories there, and the bytes."""
        kept = [name for name in names if name in self.kept]
        return {row for name in kept for row in self.lowering.region_bytes(name, self.kept[name])}

    def _uses(self, names: Sequence[str]) -> dict[int, set[int]]:
        """The groups that have to do with tensors which lie together, and the cores that surely
        touch them there: data movement may be nothing but a view."""
        found: dict[int, set[int]] = {}
        moving, graph = self.lowering.joints.moving, self.graph
        for name in names:
            if name not in self.kept:
                found.setdefault(self._home(graph.producer[name]), set())
                continue
            number = self._made[name]
            cores = found.setdefault(number, set())
            entry = self.entries[number]
            if graph.producer[name] not in moving and entry.cut is not None:
                cores.update(entry.cut.writes(entry.signature.names.index(name)))
            readers = {*graph.consumers.get(name, ())} - moving
            for number, sure in self._read[name]:
                cores = found.setdefault(number, set())
                if not readers.isdisjoint(self.entries[number].members):
                    cores.update(sure)
        return found


def _hold(
    beside: list[int], behind: list[int], size: int, ends: tuple[int, int], using: Iterable[int]
) -> None:
    """Count bytes that are held from the end of one group to another: behind all but the last of
    them, and beside those between that do not use them."""
    begin, last = ends
    behind[begin] += size
    behind[last] -= size
    if last == begin + 1:
        return
    beside[begin + 1] += size
    beside[last] -= size
    for number in using:
        if begin < number < last:
            beside[number] -= size
            beside[number + 1] += size
