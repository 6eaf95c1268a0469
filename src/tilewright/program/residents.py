"""The resident tensors of a plan: how each is kept, and the bytes of cores that they leave."""

from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from tilewright.plan.plan import Plan
from tilewright.program.cut import Entry
from tilewright.program.faults import LoweringError
from tilewright.program.linking import Kept
from tilewright.program.main_memory import Main
from tilewright.schedule.problem import Flags, Quantities

if TYPE_CHECKING:
    from tilewright.program.lowering import Lowering


class Residents:
    """The resident tensors of one plan: `kept` says how each is kept."""

    def __init__(self, lowering: "Lowering", plan: Plan, entries: list[Entry], main: Main) -> None:
        self.lowering, self.graph, self.groups = lowering, lowering.graph, len(entries)
        self.kept: dict[str, Kept] = {}
        if not plan.resident:
            return
        self._made: dict[str, int] = {}
        self._read: dict[str, list[tuple[int, Collection[int]]]] = {n: [] for n in plan.resident}
        reloaded = {name: frozenset(nodes) for name, nodes in plan.reloaded}
        makers: dict[str, tuple[int, int]] = {}
        readers: dict[str, list[tuple[int, int]]] = {name: [] for name in plan.resident}
        for number, entry in enumerate(entries):
            for value, name, written in entry.outer:
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
            rows, begin = self._read[name], self._made[name]
            for core, memory, size in self.lowering.region_bytes(name, kept):
                last = begin  # the last group that surely reads it
                for number, cores in rows:
                    if core in cores and number > last:
                        last = number
                if last == begin:
                    continue
                behind[memory][begin] += size
                behind[memory][last] -= size
                if last == begin + 1:
                    continue
                row = beside[memory]
                row[begin + 1] += size
                row[last] -= size
                for number, _ in rows:
                    if begin < number < last:
                        row[number] -= size
                        row[number + 1] += size
        sums = [[list(accumulate(row)) for row in rows] for rows in (beside, behind)]
        totals = np.array(usable, np.int64)[:, None] - np.array(sums, np.int64)[:, :, :-1]
        return totals[0].T, (totals[1] < 0).any(axis=0)
