"""Sets of units as bitmasks: downsets, the convex connected groups of a graph, and labels.

A downset holds the predecessors of all its units. A group that leads from one downset to another
is convex of itself: a path that leaves it cannot come back.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush


def bits(mask: int) -> Iterator[int]:
    """The units of a set, in ascending order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Units:
    """A graph of units, numbered in a topological order."""

    def __init__(self, predecessors: Sequence[int]) -> None:
        self.predecessors = tuple(predecessors)
        self.count = len(self.predecessors)
        self.all = (1 << self.count) - 1
        successors = [0] * self.count
        ancestors: list[int] = []
        for unit, direct in enumerate(self.predecessors):
            if direct >> unit:
                raise ValueError(f"unit {unit} has a predecessor that does not come before it")
            above = direct
            for other in bits(direct):
                successors[other] |= 1 << unit
                above |= ancestors[other]
            ancestors.append(above)
        self.successors, self.ancestors = successors, ancestors

    def above(self, group: int) -> int:
        """All that has to run before a convex group."""
        found = 0
        for unit in bits(group):
            found |= self.ancestors[unit]
        return found & ~group

    def component(self, unit: int, among: int) -> int:
        """The units of `among` that hang together with `unit`."""
        found, new = 0, 1 << unit
        while new:
            found |= new
            around = 0
            for other in bits(new):
                around |= self.successors[other] | self.predecessors[other]
            new = around & among & ~found
        return found

    def parts(self) -> list[int]:
        """The connected parts of the graph."""
        found: list[int] = []
        left = self.all
        while left:
            part = self.component(next(bits(left)), left)
            found.append(part)
            left ^= part
        return found

    def ready(self, downset: int, universe: int) -> int:
        """The units outside a downset that can run next."""
        found = 0
        for unit in bits(universe & ~downset):
            if not self.predecessors[unit] & ~downset:
                found |= 1 << unit
        return found

    def downsets(self, start: int, universe: int, most: int) -> list[int] | None:
        """All downsets from `start` to `start | universe`, small ones first; None: too many."""
        known = {start: self.ready(start, universe)}
        queue = deque([start])
        while queue:
            downset = queue.popleft()
            ready = known[downset]
            for unit in bits(ready):
                larger = downset | 1 << unit
                if larger in known:
                    continue
                if len(known) == most:
                    return None
                freed = 0
                for other in bits(self.successors[unit] & universe):
                    if not self.predecessors[other] & ~larger:
                        freed |= 1 << other
                known[larger] = ready & ~(1 << unit) | freed
                queue.append(larger)
        return sorted(known, key=lambda mask: (mask.bit_count(), mask))

    def extensions(
        self, downset: int, universe: int, grows: Callable[[int], bool]
    ) -> Iterator[int]:
        """Every connected group that leads from a downset to another, once.

        A group grows by a successor and all of the successor's ancestors that have not run, so that
        each step is again such a group; a successor passed over stays out. `grows` is asked of
        each group after it was handed out.
        """
        successors, ancestors = self.successors, self.ancestors
        left = universe & ~downset
        banned = ~left
        for seed in bits(self.ready(downset, universe)):
            stack = [(1 << seed, successors[seed], banned)]
            banned |= 1 << seed
            while stack:
                group, frontier, out = stack.pop()
                yield group
                choices = frontier & ~group & ~out
                if not choices or not grows(group):
                    continue
                while choices:
                    low = choices & -choices
                    choices ^= low
                    unit = low.bit_length() - 1
                    added = (ancestors[unit] | low) & left & ~group
                    if not added & out:
                        further = frontier | successors[unit]
                        for other in bits(added ^ low):
                            further |= successors[other]
                        stack.append((group | added, further, out))
                    out |= low

    def runnable(self, groups: Sequence[int]) -> tuple[int, ...] | None:
        """The groups in an order in which they can run, lowest unit first; None: a cycle.

        What is in no group has run before, or runs after.
        """
        owner = {unit: index for index, group in enumerate(groups) for unit in bits(group)}
        needs: list[set[int]] = []
        users: list[set[int]] = [set() for _ in groups]
        for index, group in enumerate(groups):
            before = 0
            for unit in bits(group):
                before |= self.predecessors[unit]
            needs.append({owner[unit] for unit in bits(before & ~group) if unit in owner})
            for other in needs[index]:
                users[other].add(index)
        waiting = [len(some) for some in needs]
        heap = [(group & -group, index) for index, group in enumerate(groups) if not waiting[index]]
        heapify(heap)
        order: list[int] = []
        while heap:
            _, index = heappop(heap)
            order.append(groups[index])
            for user in users[index]:
                waiting[user] -= 1
                if not waiting[user]:
                    heappush(heap, (groups[user] & -groups[user], user))
        return tuple(order) if len(order) == len(groups) else None


@dataclass(eq=False, slots=True)
class Label:
    """A way to run a downset: its last group, and what ran before. Never changed."""

    # Not frozen: millions are made, and a frozen one takes four times as long to make.

    cost: float
    count: int
    last: int
    before: "Label | None"

    def groups(self) -> tuple[int, ...]:
        """All groups, sorted."""
        found: list[int] = []
        label: Label | None = self
        while label is not None and label.count:
            found.append(label.last)
            label = label.before
        return tuple(sorted(found))

    def then(self, group: int, cost: float) -> "Label":
        """One group more."""
        return Label(self.cost + cost, self.count + 1, group, self)

    def better(self, other: "Label") -> bool:
        """Cheaper, or as cheap with fewer groups, or with lower masks."""
        if (self.cost, self.count) != (other.cost, other.count):
            return (self.cost, self.count) < (other.cost, other.count)
        # What both hold does not change which of two sorted lists is the lower one.
        mine: list[int] = []
        others: list[int] = []
        one: Label | None = self
        two: Label | None = other
        while one is not two and one is not None and two is not None:
            mine.append(one.last)
            others.append(two.last)
            one, two = one.before, two.before
        return sorted(mine) < sorted(others)


NOTHING = Label(0.0, 0, 0, None)
"""The way to run the empty downset."""
