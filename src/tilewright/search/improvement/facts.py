"""What moves ask of a plan's groups: what stays beside them, what they are expected to take, and in
which order they can run."""

from collections.abc import Callable, Sequence

from tilewright.plan.order import in_order
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.search.improvement.cuts import Cuts, cutting_of
from tilewright.search.improvement.shape import Shape
from tilewright.tiling.group import exports


class Facts:
    """What is known of the groups of one network's plans. `may_stay` says which tensors may be
    resident at all; cuts that are expected to take more than `slower` times as long as now are left
    out."""

    def __init__(self, cuts: Cuts, may_stay: Callable[[str], bool], slower: float) -> None:
        self.cuts, self.graph, self.network = cuts, cuts.graph, cuts.network
        self.may_stay, self.slower = may_stay, slower
        self._sizes: dict[str, int] = {}
        self._exports: dict[tuple[str, ...], tuple[str, ...]] = {}

    def usual(self, node: int) -> Place:
        """Where a node runs if nothing else is decided."""
        unit = self.network.units[self.network.home[node]]
        return Place.VIEW if node in unit.views else unit.place

    def keepable(self, shape: Shape, name: str) -> bool:
        """Whether a group on cores makes a tensor, and another reads it."""
        groups, maker = shape.plan.groups, self.graph.producer.get(name)
        if maker is None or groups[shape.home[maker]].place is not Place.CORES:
            return False
        homes = {shape.home[reader] for reader in self.graph.consumers.get(name, ())}
        others = homes - {shape.home[maker]}
        return any(groups[n].place is Place.CORES for n in others) and self.may_stay(name)

    def staying(self, shape: Shape, number: int) -> frozenset[str]:
        """Tensors of a group that stay, and that it does not reload."""
        if number not in shape.staying:
            here = {self.graph.nodes[node].name for node in shape.members[number]}
            fetched = {name for name, readers in shape.plan.reloaded if here & set(readers)}
            names = self.cuts.signatures.group(shape.members[number]).names
            kept = frozenset(n for n in names if n in shape.kept and n not in fetched)
            shape.staying[number] = kept
        return shape.staying[number]

    def beside(self, shape: Shape, numbers: tuple[int, ...]) -> int:
        """Bytes of tensors that only stay while some groups run."""
        if numbers not in shape.beside:
            inside = {n for number in numbers for n in shape.members[number]}
            passing = (
                self._size(name)
                for name in shape.passing(numbers)
                if inside.isdisjoint(self.graph.consumers.get(name, ()))
            )
            shape.beside[numbers] = sum(passing)
        return shape.beside[numbers]

    def most(self, shape: Shape, numbers: Sequence[int]) -> float:
        """Cycles that what takes the place of some groups may be expected to take."""
        groups = [(n, shape.plan.groups[n]) for n in numbers]
        on_cores = ((n, group) for n, group in groups if group.place is Place.CORES)
        return self.slower * sum(self.cycles(shape, n, group) for n, group in on_cores)

    def cycles(self, shape: Shape, number: int, group: GroupPlan) -> float:
        """What a group is expected to take if it is cut as given."""
        staying = self.staying(shape, number)
        return self.cuts.cycles(shape.members[number], staying, cutting_of(group))

    def _size(self, name: str) -> int:
        if name not in self._sizes:
            shape = self.graph.types[name].shape
            self._sizes[name] = self.network.layouts.bytes(name, shape, aligned=True)
        return self._sizes[name]

    def around(self, shape: Shape, numbers: Sequence[int]) -> list[str]:
        """Tensors that groups read and make, and that can stay."""
        nodes = [self.graph.nodes[node] for n in numbers for node in shape.members[n]]
        names = dict.fromkeys(name for node in nodes for name in (*node.reads, *node.writes))
        return [name for name in names if self.keepable(shape, name)]

    def ordered(self, plan: Plan, groups: Sequence[GroupPlan]) -> Plan | None:
        """Groups in an order that runs, and only those tensors kept that pass between them."""
        return in_order(self.graph, plan, groups, self._leaving)

    def _leaving(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """Values that nodes hand to others."""
        if nodes not in self._exports:
            self._exports[nodes] = tuple(
                exports(self.graph, [self.graph.index[name] for name in nodes])
            )
        return self._exports[nodes]
