"""A network as kernels: which operators run together at a level, and what that costs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright.accounting import Ledger, Operator, Traffic, Work
from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph
from tilewright.partition.items import WEIGHTLESS, Items
from tilewright.partition.order import critical_path, parallel_width, topological
from tilewright.partition.patterns import chain_label, chains
from tilewright.partition.quantised import operators_on_integers
from tilewright.partition.tilings import Tiling
from tilewright.peak.dequantised import beside_readers

if TYPE_CHECKING:
    from tilewright.partition.target import MappingTarget

SINGLE = "single"


class FusionLevel(StrEnum):
    """How far operators are joined."""

    PATTERN = "pattern"
    BLOCK = "block"
    CAPACITY = "capacity"


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """Operators that run as one. `pattern` names what it is, `reason` says why nothing more
    joined; `launches` is 0 for a kernel of views, which no machine has to start."""

    name: str
    pattern: str
    label: str
    operators: tuple[int, ...]
    work: Work
    traffic: Traffic
    reason: str
    launches: int
    tiling: Tiling | None = None  # how it is cut to fit a memory, at the capacity level

    @property
    def single(self) -> bool:
        """Whether it is an operator that found no partner."""
        return len(self.operators) == 1

    @property
    def intensity(self) -> float:
        """FLOPs of products for each byte moved."""
        return self.work.flops_matmul / self.traffic.external if self.traffic.external else 0.0


@dataclass(frozen=True)
class Partition:
    """A network as kernels in an order in which they can run."""

    name: str
    level: FusionLevel
    ledger: Ledger
    items: Items
    kernels: tuple[FusedKernel, ...]

    @property
    def graph(self) -> Graph:
        """The network, as loaded; every dequantisation for one reader."""
        return self.ledger.graph

    @property
    def operators(self) -> tuple[Operator, ...]:
        """Operators as the front end counts them."""
        return self.ledger.operators

    @cached_property
    def work(self) -> Work:
        """Work of the whole network."""
        return self.ledger.work_of(range(len(self.operators)))

    @cached_property
    def traffic(self) -> Traffic:
        """Bytes of all kernels."""
        total = Traffic()
        for kernel in self.kernels:
            total += kernel.traffic
        return total

    @cached_property
    def patterns(self) -> Mapping[str, int]:
        """How many kernels of each pattern, the most frequent first."""
        counts = Counter(kernel.pattern for kernel in self.kernels)
        ordered = sorted(counts.items(), key=lambda pair: (pair[0] == SINGLE, -pair[1], pair[0]))
        return dict(ordered)

    @cached_property
    def pattern_ranges(self) -> Mapping[str, tuple[float, float]]:
        """The least and the largest part of its bytes that a kernel of each pattern saves."""
        saved = {
            pattern: [k.traffic.saved_ratio for k in self.kernels if k.pattern == pattern]
            for pattern in self.patterns
        }
        return {pattern: (min(ratios), max(ratios)) for pattern, ratios in saved.items()}

    @cached_property
    def launches_before(self) -> int:
        """Launches where every operator runs by itself."""
        return sum(self.launching(index) for index in range(len(self.operators)))

    @cached_property
    def launches_after(self) -> int:
        """Launches of the kernels."""
        return sum(kernel.launches for kernel in self.kernels)

    @cached_property
    def uncounted(self) -> tuple[str, ...]:
        """Operators with a result whose size nobody knows before it runs: its bytes are not in."""
        nodes, types = self.graph.nodes, self.graph.types
        return tuple(
            operator.name
            for operator in self.operators
            if any(name not in types for n in operator.nodes for name in nodes[n].writes)
        )

    def launching(self, operator: int) -> int:
        """1 for an operator that computes or moves something, 0 for a view."""
        return launching(self.items, (operator,))

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """For each kernel those that read its results."""
        return kernel_edges(self.ledger, [kernel.operators for kernel in self.kernels])

    @cached_property
    def critical_path(self) -> tuple[int, ...]:
        """Kernels of the longest chain."""
        return tuple(critical_path(self.successors, [1.0] * len(self.kernels)))

    @cached_property
    def width(self) -> int:
        """The most kernels that can run at once."""
        return parallel_width(self.successors)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Operators that a level joins, before they are counted."""

    operators: tuple[int, ...]
    label: str
    reason: str


def launching(items: Items, operators: Sequence[int]) -> int:
    """1 where a kernel of these operators has to be started, 0 where it is only views."""
    return int(any(items.roles[o] not in WEIGHTLESS for o in operators))


def kernel_edges(ledger: Ledger, groups: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """For each group of operators the groups that read its results, each once, in order."""
    owner = {operator: index for index, group in enumerate(groups) for operator in group}
    edges: list[tuple[int, ...]] = []
    for index, group in enumerate(groups):
        readers = {
            owner[reader]
            for operator in group
            for name in ledger.writes[operator]
            for reader in ledger.readers.get(name, ())
        }
        edges.append(tuple(sorted(readers - {index})))
    return tuple(edges)


def pattern_clusters(items: Items) -> list[Cluster]:
    """The pattern level."""
    found: list[Cluster] = []
    for chain in chains(items):
        members = sorted(o for i in chain.items for o in items.items[i].operators)
        found.append(Cluster(tuple(members), chain_label(items, chain.items), chain.reason))
    return found


def counted(
    name: str,
    level: FusionLevel,
    items: Items,
    clusters: Sequence[Cluster],
    tilings: Sequence[Tiling | None] = (),
) -> Partition:
    """Clusters as kernels, in order, counted and checked."""
    ledger = items.ledger
    order = topological(kernel_edges(ledger, [cluster.operators for cluster in clusters]))
    if order is None:
        raise AssertionError("kernels depend on each other in a circle")
    kernels: list[FusedKernel] = []
    for index in order:
        cluster = clusters[index]
        single = len(cluster.operators) == 1
        kernels.append(
            FusedKernel(
                _kernel_name(ledger, cluster.operators),
                SINGLE if single else cluster.label,
                cluster.label,
                cluster.operators,
                ledger.work_of(cluster.operators),
                ledger.traffic_of(cluster.operators),
                cluster.reason,
                launching(items, cluster.operators),
                tilings[index] if tilings else None,
            )
        )
    partition = Partition(name, level, ledger, items, tuple(kernels))
    ledger.check([kernel.operators for kernel in kernels], partition.traffic)
    return partition


def _kernel_name(ledger: Ledger, operators: Sequence[int]) -> str:
    """Called after the operator with the most work, the first of equals."""
    most = max(operators, key=lambda o: (ledger.work[o].macs, -o))
    return ledger.operators[most].name


def partition_graph(
    graph: Graph,
    level: FusionLevel = FusionLevel.PATTERN,
    *,
    name: str = "",
    operators: Sequence[Operator] | None = None,
    target: "MappingTarget | None" = None,
) -> Partition:
    """The network as kernels of a level. `operators` says what a front end calls one operator;
    without it every node is one, with what quantises it. The capacity level needs a target whose
    memory groups fit."""
    from tilewright.partition.blocks import block_clusters
    from tilewright.partition.capacity import capacity_clusters

    if operators is None:
        graph = beside_readers(graph)
        operators = operators_on_integers(graph)
    ledger = Ledger(graph, operators)
    items = Items(ledger)
    clusters, tilings = pattern_clusters(items), list[Tiling | None]()
    if level is FusionLevel.BLOCK:
        clusters = block_clusters(items, clusters)
    elif level is FusionLevel.CAPACITY:
        if target is None:
            raise TilewrightError("the capacity level needs a machine (on, --on MACHINE)")
        clusters, tilings = capacity_clusters(items, clusters, target)
    return counted(name or graph.name, level, items, clusters, tilings)
