"""What fusion rules arrange: operators, and idioms that are written as several of them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tilewright.accounting import Ledger
from tilewright.frontend.idioms import recognise
from tilewright.frontend.normalize import remove_no_ops
from tilewright.graph.graph import Graph
from tilewright.graph.ops.roles import Role, label_of, role_of
from tilewright.partition.quantised import converts, keeps_integers

IDIOMS: Mapping[str, tuple[Role, str]] = {
    "group_norm": (Role.NORM, "GroupNorm"),
    "layer_norm": (Role.NORM, "LayerNorm"),
    "rms_norm": (Role.NORM, "RMSNorm"),
    "gelu": (Role.ACTIVATION, "GELU"),
    "silu": (Role.ACTIVATION, "SiLU"),
    "hard_swish": (Role.ACTIVATION, "HardSwish"),
    "mish": (Role.ACTIVATION, "Mish"),
    "attention": (Role.ATTENTION, "Attention"),
}
SQUEEZE_EXCITE = "squeeze_excite"
WEIGHTLESS = frozenset({Role.VIEW, Role.COPY})  # roles that launch nothing by themselves

# Which of an operator's nodes says what it is: the first of these roles that one of them has.
_TELLING = (
    Role.ATTENTION,
    Role.PRODUCT,
    Role.SOFTMAX,
    Role.NORM,
    Role.CHANNEL_NORM,
    Role.REDUCE,
    Role.POOL,
    Role.OTHER,
    Role.ACTIVATION,
    Role.ADD,
    Role.ELEMENTWISE,
    Role.AFFINE,
    Role.MOVE,
    Role.TURN,
    Role.VIEW,
    Role.COPY,
)


class Item(NamedTuple):
    """Operators that are one operation to a person."""

    operators: tuple[int, ...]
    role: Role
    label: str


class Items:
    """A network as items, in execution order, with who makes and who reads each value."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        graph = ledger.graph
        self.operator_of = {n: i for i, o in enumerate(ledger.operators) for n in o.nodes}
        nodes = [role_of(graph, node, ledger.parameters) for node in graph.nodes]
        self.telling = [_telling(graph, operator.nodes, nodes) for operator in ledger.operators]
        self.roles = [
            _role(graph, operator.nodes, nodes[node])
            for operator, node in zip(ledger.operators, self.telling, strict=True)
        ]
        items, self.gates = self._gathered()
        self.items: Sequence[Item] = items
        self._results: dict[int, list[str]] = {}
        self.item_of = {o: i for i, item in enumerate(items) for o in item.operators}

    def readers(self, value: str) -> list[int]:
        """Items that read a value, each once."""
        found = [self.item_of[o] for o in self.ledger.readers.get(value, ())]
        return list(dict.fromkeys(found))

    def results(self, index: int) -> list[str]:
        """Values of an item that something outside it reads."""
        if index not in self._results:
            self._results[index] = list(self.ledger.leaving(self.items[index].operators))
        return self._results[index]

    def only_reader(self, index: int) -> int | None:
        """The one item that reads the one result of an item, None where there are more."""
        results = self.results(index)
        if len(results) != 1 or results[0] in self.ledger.graph.outputs:
            return None
        readers = [i for i in self.readers(results[0]) if i != index]
        return readers[0] if len(readers) == 1 else None

    def size(self, index: int) -> int:
        """Elements of an item's results."""
        types = self.ledger.graph.types
        return sum(types[name].size for name in self.results(index) if name in types)

    def _gathered(self) -> tuple[list[Item], tuple[frozenset[int], ...]]:
        """Items in execution order, and the operators of each squeeze-and-excite."""
        ledger, operator_of = self.ledger, self.operator_of
        graph = ledger.graph
        claimed: dict[int, Item] = {}
        gates: list[frozenset[int]] = []
        plain = remove_no_ops(graph)
        copies = {n.name for n in graph.nodes} - {n.name for n in plain.nodes}
        for idiom in recognise(plain):
            indices = [graph.index[name] for name in idiom.nodes]
            inside = {operator_of[i] for i in indices if i in operator_of}
            if idiom.kind == SQUEEZE_EXCITE:
                gates.append(frozenset(inside))
                continue
            operators = tuple(sorted(inside | _between(ledger, inside, copies)))
            role, label = IDIOMS[idiom.kind]
            item = Item(operators, role, label)
            free = not any(o in claimed for o in operators)
            if operators and free and _closed(ledger, operators):
                claimed.update(dict.fromkeys(operators, item))
        items: list[Item] = []
        for index in range(len(ledger.operators)):
            item = claimed.get(index)
            if item is None:
                items.append(self._single(index))
            elif item.operators[-1] == index:
                items.append(item)
        return items, tuple(gates)

    def _single(self, index: int) -> Item:
        graph, role = self.ledger.graph, self.roles[index]
        node = graph.nodes[self.telling[index]]
        return Item((index,), role, label_of(graph, node, role, self.ledger.parameters))


def _between(ledger: Ledger, inside: set[int], copies: set[str]) -> set[int]:
    """Operators that only copy, one behind the other, from the inside to the inside."""
    found: set[int] = set()

    def readers(index: int) -> set[int]:
        return {r for name in ledger.writes[index] for r in ledger.readers.get(name, ())}

    def chain(index: int) -> set[int] | None:
        """The copies from this one on, None where one of them leads outside."""
        nodes = ledger.operators[index].nodes
        after = readers(index)
        if not after or any(ledger.graph.nodes[n].name not in copies for n in nodes):
            return None
        further = [chain(reader) for reader in sorted(after - inside)]
        if any(each is None for each in further):
            return None
        return {index}.union(*(each for each in further if each is not None))

    for index in inside:
        for reader in readers(index) - inside:
            found |= chain(reader) or set()
    return found


def _closed(ledger: Ledger, operators: Sequence[int]) -> bool:
    """Whether a group has one result, so that it can run as one."""
    return len(ledger.leaving(operators)) <= 1


def _telling(graph: Graph, nodes: Sequence[int], roles: Sequence[Role]) -> int:
    """The node that says what an operator is."""
    others = [n for n in nodes if not converts(graph.nodes[n])] or nodes
    return min(others, key=lambda n: (_TELLING.index(roles[n]), n))


def _role(graph: Graph, nodes: Sequence[int], role: Role) -> Role:
    """The role of an operator whose telling node has one: numbers that are written otherwise in
    between are no view any more."""
    same = role not in WEIGHTLESS or keeps_integers(graph, nodes)
    return role if same else Role.ELEMENTWISE
