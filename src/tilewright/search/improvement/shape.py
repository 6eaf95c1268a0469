"""Plans as moves see them: the kinds of moves, the places they are made at, and a plan's groups
with what passes between them."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tilewright.graph.graph import Graph
from tilewright.plan.plan import Plan


class Kind(StrEnum):
    """What a move does."""

    MERGE = "merge"
    PART = "part"
    SHIFT = "shift"
    RECUT = "recut"
    ALIGN = "align"
    ABREAST = "abreast"
    SWAP = "swap"
    PLACE = "place"
    ORDER = "order"
    KEEP = "keep"
    DROP = "drop"
    RELOAD = "reload"


@dataclass(frozen=True, slots=True)
class Site:
    """Where a move can be made: at each of `places`, groups by number, or with tensors. `key` is
    the same as long as nothing changes there."""

    kind: Kind
    places: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    key: Hashable

    @property
    def alike(self) -> bool:
        """Whether it changes several places at once."""
        return max(len(self.places), len(self.names)) > 1

    @property
    def sort(self) -> Hashable:
        """What is learnt about together."""
        return self.kind, self.alike


class Shape:
    """A plan's groups, and what passes between them."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.plan = plan
        index = graph.index
        self.members = [tuple(sorted(index[n] for n in group.nodes)) for group in plan.groups]
        self.home = {node: number for number, row in enumerate(self.members) for node in row}
        self.before: list[list[int]] = []
        self.after: list[list[int]] = [[] for _ in plan.groups]
        for number, row in enumerate(self.members):
            makers = {self.home[p] for node in row for p in graph.predecessors(node)}
            self.before.append(sorted(makers - {number}))
            for maker in self.before[-1]:
                self.after[maker].append(number)
        self.ancestors = [0] * len(plan.groups)
        for number, makers in enumerate(self.before):
            for maker in makers:
                self.ancestors[number] |= self.ancestors[maker] | 1 << maker
        self.kept = frozenset(plan.resident)
        self.staying: dict[int, frozenset[str]] = {}  # by group, as found out
        self.beside: dict[tuple[int, ...], int] = {}  # bytes, by groups, as found out
        again = {name: set(readers) for name, readers in plan.reloaded}
        self.stays: dict[str, tuple[int, int]] = {}  # from which group on, to which
        for name in plan.resident:
            readers = graph.consumers.get(name, ())
            fetched = again.get(name, set())
            homes = [self.home[n] for n in readers if graph.nodes[n].name not in fetched]
            maker = self.home[graph.producer[name]]
            self.stays[name] = (maker, max(homes, default=maker))

    def span(self, number: int) -> tuple[int, int]:
        """The first and the last place in the order at which a group can run."""
        earliest = max((maker + 1 for maker in self.before[number]), default=0)
        return earliest, min(self.after[number], default=len(self.members)) - 1

    def passing(self, numbers: Sequence[int]) -> Iterator[str]:
        """Tensors that stay from before some groups until behind them."""
        low, high = min(numbers), max(numbers)
        return (name for name, (first, last) in self.stays.items() if first < low and last > high)

    def related(self, one: int, other: int) -> bool:
        """Whether one of two groups waits for the other."""
        return bool(self.ancestors[one] >> other & 1 or self.ancestors[other] >> one & 1)

    def closed(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Groups with all that lie on paths between them."""
        needed = 0
        for number in numbers:
            needed |= self.ancestors[number]
        inside = sum(1 << number for number in numbers)
        low, high = min(numbers), max(numbers)
        between = (n for n in range(low, high) if needed >> n & 1 and self.ancestors[n] & inside)
        return tuple(sorted({*numbers, *between}))

    def paths(self, first: int, length: int) -> Iterator[tuple[int, ...]]:
        """Paths of two groups or more that begin with one."""
        if length > 1:
            for following in self.after[first]:
                yield (first, following)
                for path in self.paths(following, length - 1):
                    yield (first, *path)
