"""Block level: kernels of the pattern level joined to the blocks that networks are built of.

Every rule joins a region with one result, all of whose inner values stay inside, so that blocks are
convex. Rules, in order: residual blocks (all between a value and the sum it comes back in, with a
norm behind the sum); inverted residuals without a sum (depthwise convolutions with the pointwise
ones around them, squeeze-and-excite between them); squeeze-and-excite by itself; attention with its
projections; MLPs (linear, activation, linear) with the norm in front of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tilewright.graph.ops.roles import Role, is_convolution, is_depthwise, is_pointwise
from tilewright.partition.items import Items
from tilewright.partition.partition import Cluster, kernel_edges

_NORM = frozenset({Role.NORM})
LARGEST_BLOCK = 32  # kernels of the pattern level


@dataclass(slots=True)
class _Block:
    """Kernels that were joined, and what the block is."""

    members: list[int]
    label: str


@dataclass(slots=True)
class _Part:
    """One kernel of the pattern level as block rules see it."""

    roles: frozenset[Role]
    convolution: bool = False
    depthwise: bool = False
    pointwise: bool = False
    reads: list[str] = field(default_factory=list[str])
    writes: list[str] = field(default_factory=list[str])

    @property
    def product(self) -> bool:
        """Whether it is built around a product."""
        return Role.PRODUCT in self.roles

    @property
    def sums(self) -> bool:
        """Whether it adds two activations and multiplies nothing."""
        return Role.ADD in self.roles and not self.product and Role.ATTENTION not in self.roles


class _Network:
    """Kernels of the pattern level with their values, and which block each is in."""

    def __init__(self, items: Items, clusters: Sequence[Cluster]) -> None:
        self.items, self.ledger = items, items.ledger
        self.parts = [_part(items, cluster) for cluster in clusters]
        self.owner = {o: i for i, c in enumerate(clusters) for o in c.operators}
        self.block_of: dict[int, _Block] = {}
        self.successors = kernel_edges(self.ledger, [c.operators for c in clusters])

    def maker(self, value: str) -> int | None:
        """The kernel that makes a value."""
        operator = self.ledger.maker.get(value)
        return None if operator is None else self.owner.get(operator)

    def readers(self, index: int) -> tuple[int, ...]:
        """Kernels that read a kernel's results."""
        return self.successors[index]

    def closed(self, index: int, region: Iterable[int]) -> bool:
        """Whether everything that a kernel makes stays in the region."""
        inside = set(region)
        outputs = self.ledger.graph.outputs
        if any(name in outputs for name in self.parts[index].writes):
            return False
        return all(reader in inside for reader in self.readers(index))

    def free(self, index: int) -> bool:
        """Whether a kernel is in no block yet."""
        return index not in self.block_of

    def join(self, members: Iterable[int], label: str) -> None:
        """Make a block."""
        block = _Block(sorted(members), label)
        for index in block.members:
            self.block_of[index] = block

    def sole_reader(self, index: int) -> int | None:
        """The one kernel that reads all that a kernel makes."""
        readers = self.readers(index)
        return readers[0] if len(readers) == 1 and self.closed(index, readers) else None

    def sole_source(self, index: int) -> int | None:
        """The one kernel that makes all that a kernel reads, if only it reads that."""
        makers = {self.maker(name) for name in self.parts[index].reads}
        if len(makers) != 1:
            return None
        maker = makers.pop()
        return maker if maker is not None and self.sole_reader(maker) == index else None


def block_clusters(items: Items, clusters: Sequence[Cluster]) -> list[Cluster]:
    """Kernels of the block level from those of the pattern level."""
    network = _Network(items, clusters)
    for rule in (_residual, _inverted, _gated, _attention, _mlp):
        for index in range(len(network.parts)):
            if network.free(index):
                rule(network, index)
    found: list[Cluster] = []
    for index, cluster in enumerate(clusters):
        block = network.block_of.get(index)
        if block is None:
            found.append(cluster)
        elif block.members[0] == index:
            operators = sorted(o for i in block.members for o in clusters[i].operators)
            reason = f"the whole block: {clusters[block.members[-1]].reason}"
            found.append(Cluster(tuple(operators), block.label, reason))
    return found


def _part(items: Items, cluster: Cluster) -> _Part:
    ledger = items.ledger
    members = dict.fromkeys(items.item_of[o] for o in cluster.operators)
    part = _Part(frozenset(items.items[i].role for i in members))
    graph = ledger.graph
    nodes = [graph.nodes[n] for o in cluster.operators for n in ledger.operators[o].nodes]
    slid = [node for node in nodes if is_convolution(node)]
    part.convolution = bool(slid)
    part.depthwise = any(is_depthwise(graph, node) for node in slid)
    part.pointwise = bool(slid) and all(is_pointwise(graph, node) for node in slid)
    entering = ledger.entering(cluster.operators)
    part.reads = [name for name in entering if name not in ledger.parameters]
    part.writes = list(ledger.leaving(cluster.operators))
    return part


def _residual(network: _Network, index: int) -> None:
    """Everything between a value and the sum in which it comes back."""
    region = _between(network, index)
    if region is None:
        return
    following = network.sole_reader(index)
    parts = network.parts
    if following is not None and network.free(following) and parts[following].roles == _NORM:
        region.append(following)
    label = _residual_label([parts[i] for i in region])
    network.join(region, label)


def _residual_label(parts: Sequence[_Part]) -> str:
    if any(Role.ATTENTION in part.roles for part in parts):
        return "AttentionBlock"
    if any(part.depthwise for part in parts):
        return "InvertedResidual"
    if any(part.convolution for part in parts):
        return "ResidualBlock"
    return "MLPBlock" if sum(part.product for part in parts) > 1 else "ResidualBlock"


def _between(network: _Network, last: int) -> list[int] | None:
    """The closed region that ends in a sum and begins at one value; None where there is none.

    Goes back over what is made last, until all operands of the sum come from one value that
    several kernels of the region read. Values that others need too (a mask, a time embedding) are
    read from outside.
    """
    parts = network.parts
    if not parts[last].sums and not _sums_behind(parts[last]):
        return None
    region, beside = [last], set[str]()
    operands = set(parts[last].reads)
    while len(region) <= LARGEST_BLOCK:
        outside = _outside(network, region)
        open_values = [value for value in outside if value not in beside]
        if not open_values:
            return None
        start = max(open_values, key=lambda value: _age(network, value))
        readers = [i for i in region if start in parts[i].reads]
        if (operands & set(outside)) <= {start} and len(readers) > 1:
            return sorted(region)
        maker = network.maker(start)
        if maker is None or not network.free(maker) or not network.closed(maker, region):
            beside.add(start)
        else:
            region.append(maker)
    return None


def _sums_behind(part: _Part) -> bool:
    """Whether a product ends in a sum with something else: conv + activation + add."""
    return part.product and Role.ADD in part.roles


def _outside(network: _Network, region: Sequence[int]) -> list[str]:
    """Values that a region reads from outside, each once."""
    inside = set(region)
    found = (name for i in region for name in network.parts[i].reads)
    return list(dict.fromkeys(name for name in found if network.maker(name) not in inside))


def _age(network: _Network, value: str) -> int:
    maker = network.maker(value)
    return -1 if maker is None else maker


def _inverted(network: _Network, index: int) -> None:
    """A depthwise convolution with the pointwise ones before and behind it, and a gate between."""
    parts = network.parts
    if not parts[index].depthwise:
        return
    region = [index]
    before = network.sole_source(index)
    if before is not None and network.free(before) and parts[before].pointwise:
        region.insert(0, before)
    gate = _gate_of(network, index)
    end = index
    if gate is not None:
        region += gate
        end = max(gate)
        if network.sole_reader(end) is None:
            network.join(region, "DepthwiseBlock")
            return
    following = network.sole_reader(end)
    if following is not None and network.free(following) and parts[following].pointwise:
        region.append(following)
    if len(region) == 1:
        return
    expanded = before in region and following in region
    network.join(region, "InvertedResidual" if expanded else "DepthwisePointwise")


def _gate_of(network: _Network, index: int) -> list[int] | None:
    """The squeeze-and-excite that alone reads a kernel's result."""
    for gate in network.items.gates:
        members = sorted({network.owner[o] for o in gate})
        if index in members or not set(network.readers(index)) <= set(members):
            continue
        if network.closed(index, members) and all(network.free(i) for i in members):
            return members
    return None


def _gated(network: _Network, index: int) -> None:
    """A squeeze-and-excite by itself."""
    for gate in network.items.gates:
        members = sorted({network.owner[o] for o in gate})
        if index != members[0] or not all(network.free(i) for i in members):
            continue
        inner = members[:-1]
        if all(network.closed(i, members) for i in inner):
            network.join(members, "SqueezeExcite")


def _attention(network: _Network, index: int) -> None:
    """Attention with the projections in front of it and behind it."""
    parts = network.parts
    if Role.ATTENTION not in parts[index].roles:
        return
    region = [index]
    for value in parts[index].reads:
        maker = network.maker(value)
        if maker is None or maker in region or not network.free(maker):
            continue
        if parts[maker].product and network.closed(maker, region):
            region.append(maker)
    following = network.sole_reader(index)
    if following is not None and network.free(following) and parts[following].product:
        region.append(following)
    if len(region) > 1:
        network.join(region, "AttentionBlock")


def _mlp(network: _Network, index: int) -> None:
    """Two linear layers with only an activation between them, and the norm in front."""
    parts = network.parts
    if not parts[index].product or parts[index].convolution:
        return
    region = [index]
    following = network.sole_reader(index)
    if following is not None and not parts[following].product and _gates(parts[following]):
        region.append(following)
        following = network.sole_reader(following)
    if following is None or not network.free(following) or parts[following].convolution:
        return
    if not parts[following].product or not all(network.free(i) for i in region):
        return
    region.append(following)
    before = network.sole_source(index)
    if before is not None and network.free(before) and parts[before].roles == _NORM:
        region.append(before)
    network.join(region, "MLP")


def _gates(part: _Part) -> bool:
    """Whether a kernel is element-wise work between two linear layers."""
    return part.roles <= {Role.ACTIVATION, Role.ELEMENTWISE, Role.COPY, Role.MOVE}
