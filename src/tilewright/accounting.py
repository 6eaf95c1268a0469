"""What is counted, and how: the one place for FLOPs and bytes of operators and kernels.

The rules:

1. **Operator**: what the front end's graph calls one: a module or a function of a module graph, a
   call of an ATen graph, a node of an ONNX file, before any normalisation. What depends on
   parameters alone is computed once and is no operator. Dequantising operands and quantising a
   result is part of the operator between, which reads and writes the integers; weights are read as
   they are stored, elements of less than a byte packed, with their scales.
2. **FLOP**: a multiply-accumulate is two. `flops_matmul` counts convolutions, linear layers and
   matrix products and nothing else; a bias inside them is free. `flops_total` adds 5 for each
   element of a normalisation or softmax, and 1 for each element of element-wise arithmetic and of
   an activation. Pools, plain reductions, comparisons, conversions and data movement have none. A
   batch norm that an exporter folded into a convolution is no operator and costs nothing.
3. **Byte moved**: op by op, every operator reads each of its inputs once and writes each of its
   results once. Parameters are read too; single numbers, lists that only steer (shapes, axes) and
   the running statistics of a batch norm (folded into its scale) are not. A slice or a gather reads
   what it gives on. A result that nobody reads is not written.
4. **Views** (reshape, flatten, dropout in inference) are operators like others and move their bytes
   like others, alone; inside a kernel they cost nothing. They launch nothing.
5. **Kernel**: reads each value from outside once and writes what is read outside. What it does not
   write any more and what it does not read any more is `internal_writes` and `internal_reads`;
   `internal` is their mean: a tensor with one reader counts its bytes once, each further reader
   inside adds a half.
6. **Identities**, checked whenever a partition is counted: FLOPs of kernels = FLOPs of operators;
   op by op = external + 2 x internal, where the first is summed over operators and the others over
   the values of kernels.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.graph.graph import Graph
from tilewright.graph.ops.roles import node_work, read_bytes


class AccountingError(RuntimeError):
    """An identity does not hold: a mistake in Tilewright, never in its input."""


@dataclass(frozen=True, slots=True)
class Operator:
    """What a front end calls one operator: its name, and the nodes it is made of."""

    name: str
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """Multiply-accumulates, and all FLOPs."""

    macs: int = 0
    flops_total: int = 0

    @property
    def flops_matmul(self) -> int:
        """FLOPs of the multiply-accumulates alone."""
        return 2 * self.macs

    def __add__(self, other: "Work") -> "Work":
        return Work(self.macs + other.macs, self.flops_total + other.flops_total)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of a kernel: what it moves, and what its operators would move besides one by one."""

    reads: int = 0
    writes: int = 0
    parameters: int = 0
    internal_reads: int = 0
    internal_writes: int = 0

    @property
    def external(self) -> int:
        """Bytes the kernel moves, parameters included."""
        return self.reads + self.parameters + self.writes

    @property
    def internal(self) -> float:
        """Bytes that stay inside, an edge once."""
        return halved(self.internal_reads + self.internal_writes)

    @property
    def op_by_op(self) -> int:
        """Bytes its operators move one by one."""
        return self.external + self.internal_reads + self.internal_writes

    @property
    def saved_ratio(self) -> float:
        """The part of the op-by-op bytes that fusion saves."""
        return 1.0 - self.external / self.op_by_op if self.op_by_op else 0.0

    def __add__(self, other: "Traffic") -> "Traffic":
        names = self.__slots__
        return Traffic(*(getattr(self, name) + getattr(other, name) for name in names))


def halved(count: int) -> int | float:
    """Half of a count, a whole number where it is one."""
    return count // 2 if count % 2 == 0 else count / 2


class Ledger:
    """Work and bytes of every operator of a network; kernels are counted from it."""

    def __init__(self, graph: Graph, operators: Sequence[Operator]) -> None:
        self.graph = graph
        self.operators = tuple(operators)
        self.parameters = graph.parameters
        self.maker: dict[str, int] = {
            name: index
            for index, operator in enumerate(self.operators)
            for node in operator.nodes
            for name in graph.nodes[node].writes
        }
        self.reads: list[dict[str, int]] = [self._read(o) for o in self.operators]
        readers: dict[str, list[int]] = {}
        for index, read in enumerate(self.reads):
            for name in read:
                readers.setdefault(name, []).append(index)
        self.readers: Mapping[str, Sequence[int]] = readers
        self._outputs = frozenset(graph.outputs)
        self.writes: list[dict[str, int]] = [
            self._written(index, operator) for index, operator in enumerate(self.operators)
        ]
        self.work: list[Work] = [self._worked(operator) for operator in self.operators]

    def _read(self, operator: Operator) -> dict[str, int]:
        """Bytes of each value that the operator reads from outside itself."""
        found: dict[str, int] = {}
        nodes = [self.graph.nodes[index] for index in operator.nodes]
        inside = {name for node in nodes for name in node.writes}
        for node in nodes:
            for position, name in enumerate(node.inputs):
                if name and name not in inside:
                    count = read_bytes(self.graph, node, position, self.parameters)
                    found[name] = max(count, found.get(name, 0))
            for name in node.captures:
                kind = self.graph.types.get(name)
                found[name] = kind.bytes if kind is not None else 0
        return found

    def _written(self, index: int, operator: Operator) -> dict[str, int]:
        """Bytes of each result that something outside the operator reads."""
        types = self.graph.types
        return {
            name: types[name].bytes if name in types else 0
            for node in operator.nodes
            for name in self.graph.nodes[node].writes
            if name in self._outputs
            or any(reader != index for reader in self.readers.get(name, ()))
        }

    def _worked(self, operator: Operator) -> Work:
        found = [node_work(self.graph, self.graph.nodes[index]) for index in operator.nodes]
        macs, others = (sum(counts) for counts in zip(*found, strict=True)) if found else (0, 0)
        return Work(macs, 2 * macs + others)

    def work_of(self, group: Iterable[int]) -> Work:
        """Work of several operators."""
        return sum((self.work[index] for index in group), Work())

    def leaving(self, group: Sequence[int]) -> dict[str, int]:
        """Results of a group that are read outside it, or are the network's."""
        inside = set(group)
        return {
            name: count
            for index in group
            for name, count in self.writes[index].items()
            if name in self._outputs or any(r not in inside for r in self.readers.get(name, ()))
        }

    def entering(self, group: Sequence[int]) -> dict[str, int]:
        """Bytes of each value that a group reads from outside, once; parameters included.

        Parts of a value that several operators read add up, to all of it at most.
        """
        inside = set(group)
        found: dict[str, int] = {}
        for index in group:
            for name, count in self.reads[index].items():
                if self.maker.get(name, -1) in inside:
                    continue
                known = found.get(name, 0)
                kind = self.graph.types.get(name) if known else None
                found[name] = count if kind is None else min(max(kind.bytes, count), known + count)
        return found

    def traffic_of(self, group: Sequence[int]) -> Traffic:
        """Bytes of a group of operators that runs as one kernel, value by value."""
        entering, leaving = self.entering(group), sum(self.leaving(group).values())
        parameters = sum(n for name, n in entering.items() if name in self.parameters)
        entered = sum(entering.values())
        # What its operators read and write one by one, and it does not.
        again = sum(sum(self.reads[index].values()) for index in group) - entered
        written = sum(sum(self.writes[index].values()) for index in group) - leaving
        return Traffic(entered - parameters, leaving, parameters, again, written)

    @property
    def op_by_op(self) -> int:
        """Bytes of all operators, each by itself."""
        return sum(sum(row.values()) for row in (*self.reads, *self.writes))

    def check(self, groups: Sequence[Sequence[int]], traffic: Traffic) -> None:
        """Raise where groups and their traffic do not add up to the operators: each operator
        once, no FLOP and no byte lost."""
        if sorted(index for group in groups for index in group) != list(range(len(self.operators))):
            raise AccountingError("a kernel list does not hold every operator exactly once")
        single = self.work_of(range(len(self.operators)))
        kernels = sum(map(self.work_of, groups), Work())
        if kernels != single:
            raise AccountingError(f"FLOPs of kernels {kernels} are not those of operators {single}")
        if traffic.external + 2 * traffic.internal != self.op_by_op:
            raise AccountingError(
                f"op by op {self.op_by_op} B is not {traffic.external} B + 2 x {traffic.internal} B"
            )
