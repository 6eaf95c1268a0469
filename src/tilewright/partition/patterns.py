"""Pattern level: chains of operators that any fusing compiler joins, found on any spelling.

A chain runs through results with one reader, so that every kernel is convex by construction:
a product with its bias, batch norm and activation (and the sum behind the activation); a norm, a
softmax or element-wise work with the element-wise work behind it. Reshapes and transposes behind a
product or an attention are how it writes its result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.graph.ops.roles import Role
from tilewright.partition.items import Items
from tilewright.units import noun

_SHAPED = frozenset({Role.VIEW, Role.TURN})
_BEFORE_ACTIVATION = frozenset({Role.AFFINE, Role.CHANNEL_NORM})
_ELEMENTWISE = frozenset(
    {Role.ACTIVATION, Role.ADD, Role.AFFINE, Role.ELEMENTWISE, Role.CHANNEL_NORM, Role.COPY}
)
_STARTS_ELEMENTWISE = (_ELEMENTWISE - {Role.COPY}) | {Role.NORM, Role.SOFTMAX}
_WRITTEN = _SHAPED | {Role.COPY}
_OPERANDS = _WRITTEN | {Role.MOVE}
_UNNAMED = frozenset({Role.VIEW, Role.TURN, Role.COPY, Role.MOVE})


@dataclass(frozen=True, slots=True)
class Chain:
    """Items of one kernel in order, and why it ends where it ends."""

    items: tuple[int, ...]
    reason: str


def chains(items: Items) -> list[Chain]:
    """Every item in exactly one chain, in execution order of their last items."""
    taken: set[int] = set()
    found: list[Chain] = []
    first = [i for i, item in enumerate(items.items) if item.role is Role.ATTENTION]
    for index in (*first, *range(len(items.items))):
        if index not in taken:
            chain = _chain(items, index, taken)
            taken.update(chain.items)
            found.append(chain)
    return sorted(found, key=lambda chain: chain.items[-1])


def _before(items: Items, start: int, taken: set[int]) -> list[int]:
    """How an attention reads its operands: views, transposes and parts that only it reads."""
    found: list[int] = []
    todo = [start]
    while todo:
        for operator in items.items[todo.pop()].operators:
            for name in items.ledger.reads[operator]:
                maker = items.item_of.get(items.ledger.maker.get(name, -1))
                if maker is None or maker in taken or maker in (start, *found):
                    continue
                reads_alone = items.only_reader(maker) in (start, *found)
                if items.items[maker].role in _OPERANDS and reads_alone:
                    found.append(maker)
                    todo.append(maker)
    return sorted(found)


def _chain(items: Items, start: int, taken: set[int]) -> Chain:
    role = items.items[start].role
    if role is Role.PRODUCT:
        return _grown(items, start, taken, _ProductItem().takes)
    if role is Role.ATTENTION:
        # An attention writes its heads as its reader wants them.
        grown = _grown(items, start, taken, _WRITTEN.__contains__)
        return Chain((*_before(items, start, taken), *grown.items), grown.reason)
    if role in _STARTS_ELEMENTWISE:
        return _grown(items, start, taken, _ELEMENTWISE.__contains__)
    return Chain((start,), _ALONE.get(role, _ALONE[Role.OTHER]))


class _ProductItem:
    """A product takes bias and batch norm, one activation, then one sum."""

    def __init__(self) -> None:
        self.active = self.summed = False

    def takes(self, role: Role) -> bool:
        """Whether the next item of this role joins."""
        if role in _WRITTEN:
            return True
        if self.summed:
            return False
        if role is Role.ADD and self.active:
            self.summed = True
            return True
        if self.active:
            return False
        self.active = role is Role.ACTIVATION
        return self.active or role in _BEFORE_ACTIVATION


def _grown(items: Items, start: int, taken: set[int], takes: Callable[[Role], bool]) -> Chain:
    """The chain from an item on: `takes` says whether the next one joins, by its role."""
    chain, size = [start], items.size(start)
    while True:
        following = items.only_reader(chain[-1])
        if following is None:
            return Chain(tuple(chain), _why_no_reader(items, chain[-1]))
        item = items.items[following]
        if following in taken:
            return Chain(tuple(chain), f"its reader, {item.label}, is in another kernel")
        if not takes(item.role):
            return Chain(tuple(chain), _why_not(item.role, item.label))
        if items.size(following) != size:
            return Chain(tuple(chain), f"its reader, {item.label}, has another size")
        chain.append(following)


def _why_no_reader(items: Items, index: int) -> str:
    results = items.results(index)
    if any(name in items.ledger.graph.outputs for name in results):
        return "its result is an output of the network"
    if len(results) > 1:
        return f"it has {len(results)} results"
    readers = len(items.readers(results[0])) if results else 0
    return f"its result has {readers} {noun(readers, 'reader')}"


def _why_not(role: Role, label: str) -> str:
    if role is Role.ADD:
        return "its reader is a residual sum, which joins at block level"
    if role is Role.PRODUCT:
        return f"its reader, {label}, starts a kernel of its own"
    if role in (Role.NORM, Role.SOFTMAX):
        return f"its reader, {label}, needs whole rows first"
    if role in _ALONE:
        return f"its reader, {label}, is a {role.value}"
    return f"its reader, {label}, does not follow it in any pattern"


_ALONE = {
    Role.POOL: "a pool: no pattern has one",
    Role.REDUCE: "a reduction: its result is complete only at the end",
    Role.VIEW: "a view: it computes nothing and launches nothing",
    Role.COPY: "a copy: it computes nothing and launches nothing",
    Role.TURN: "a transpose: what makes its input writes no kernel's result",
    Role.MOVE: "data movement: no pattern has it",
    Role.OTHER: "an operator that no pattern knows",
}


def chain_label(items: Items, members: Sequence[int]) -> str:
    """The name of a chain: Conv+BN+ReLU."""
    named = [items.items[i] for i in members if items.items[i].role not in _UNNAMED]
    shown = named or [items.items[members[0]]]
    return "+".join(item.label for item in shown)
