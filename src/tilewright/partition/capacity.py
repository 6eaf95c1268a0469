"""Capacity level: the largest groups whose working set, at its best tile, fits a memory.

Kernels of the pattern level are joined along the values between them, as long as the group is
convex, some cut of it fits, and the bytes that it saves take longer to move than its halo takes to
compute.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import TilingError
from tilewright.partition.items import Items
from tilewright.partition.partition import Cluster, kernel_edges
from tilewright.partition.target import MappingTarget
from tilewright.partition.tilings import Tiling, best_tiling
from tilewright.tiling.group import check_convex
from tilewright.units import format_bytes


@dataclass(slots=True)
class _CapacityGroup:
    """Kernels joined so far."""

    clusters: list[int]
    operators: tuple[int, ...]
    nodes: tuple[int, ...]
    tiling: Tiling | None
    seconds: float
    reason: str


class _Search:
    """Joins kernels, first to last."""

    def __init__(self, items: Items, clusters: Sequence[Cluster], target: MappingTarget) -> None:
        self.items, self.ledger, self.target = items, items.ledger, target
        self.clusters = clusters
        self.edges = kernel_edges(self.ledger, [c.operators for c in clusters])

    def group(self, members: Sequence[int]) -> _CapacityGroup:
        """Kernels as one group: its best cut and its time."""
        operators = tuple(sorted(o for i in members for o in self.clusters[i].operators))
        nodes = tuple(sorted(n for o in operators for n in self.ledger.operators[o].nodes))
        target = self.target
        tiling = best_tiling(
            self.ledger.graph, nodes, target.capacity.capacity, target.element_bytes
        )
        work, traffic = self.ledger.work_of(operators), self.ledger.traffic_of(operators)
        halo = tiling.halo if tiling is not None else 0.0
        moved = traffic.external + traffic.reads * ((tiling.read_ratio if tiling else 1.0) - 1.0)
        seconds = (
            work.flops_matmul * (1.0 + halo) / target.matrix_rate
            + (work.flops_total - work.flops_matmul) * (1.0 + halo) / target.vector_rate
            + moved / target.main.bandwidth
            + target.launch
        )
        reason = self.clusters[members[-1]].reason
        return _CapacityGroup(list(members), operators, nodes, tiling, seconds, reason)

    def joined(self, first: _CapacityGroup, second: _CapacityGroup) -> _CapacityGroup | str:
        """Two groups as one, or why not."""
        members = sorted(first.clusters + second.clusters)
        try:
            check_convex(self.ledger.graph, (*first.nodes, *second.nodes))
        except TilingError:
            return "a path between them leads outside"
        both = self.group(members)
        name, size = self.target.capacity.name, format_bytes(self.target.capacity.capacity)
        if both.tiling is None:
            return f"with the next kernel no tile fits {name} ({size})"
        if both.seconds >= first.seconds + second.seconds:
            return "the halo with the next kernel costs more than the bytes it saves"
        return both


def capacity_clusters(
    items: Items, clusters: Sequence[Cluster], target: MappingTarget
) -> tuple[list[Cluster], list[Tiling | None]]:
    """Kernels of the capacity level, and how each is cut (None where no cut fits)."""
    search = _Search(items, clusters, target)
    group_of: dict[int, _CapacityGroup] = {}
    for index in range(len(clusters)):
        group = search.group([index])
        group_of[index] = group
        for source in _sources(search, index):
            other, group = group_of[source], group_of[index]
            if other is group:
                continue
            both = search.joined(other, group)
            if isinstance(both, str):
                other.reason = both
                continue
            for member in both.clusters:
                group_of[member] = both
    found: list[Cluster] = []
    tilings: list[Tiling | None] = []
    for index in range(len(clusters)):
        group = group_of[index]
        if group.clusters[0] != index:
            continue
        label = clusters[index].label
        if len(group.clusters) > 1:
            label = f"Group of {len(group.clusters)}"
        reason = group.reason
        if group.tiling is None:
            reason = f"no tile of it fits {target.capacity.name}: {_size(target)}"
        found.append(Cluster(group.operators, label, reason))
        tilings.append(group.tiling)
    return found, tilings


def _size(target: MappingTarget) -> str:
    return f"its smallest part needs more than {format_bytes(target.capacity.capacity)}"


def _sources(search: _Search, index: int) -> list[int]:
    """Kernels that a kernel reads from, the latest first."""
    return [i for i in range(index - 1, -1, -1) if index in search.edges[i]]
