"""Groups of units as bitmasks."""

from collections.abc import Callable, Sequence


def bits(mask: int) -> list[int]:
    """The units of a group."""
    return [unit for unit in range(mask.bit_length()) if mask >> unit & 1]


def in_order(predecessors: Sequence[int], groups: Sequence[int]) -> tuple[int, ...] | None:
    """The groups in an order that runs; None where they wait for each other. Where there is one,
    each of them is convex."""
    done, left, order = 0, sorted(groups), list[int]()
    while left:
        ready = [g for g in left if all(not predecessors[u] & ~(done | g) for u in bits(g))]
        if not ready:
            return None
        done |= ready[0]
        order.append(ready[0])
        left.remove(ready[0])
    return tuple(order)


class Asked:
    """A table of costs that notes which groups it was asked for."""

    def __init__(self, costs: Callable[[int], float | None]) -> None:
        self.costs, self.groups = costs, list[int]()

    def __call__(self, group: int) -> float | None:
        self.groups.append(group)
        return self.costs(group)
