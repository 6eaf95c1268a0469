import pytest

from tilewright.errors import TilewrightError
from tilewright.search.grouping.downsets import Units, bits
from tilewright.search.grouping.dp import ImpossibleUnitError, best_grouping, greedy_merge


def graph(*edges: str) -> list[int]:
    """Predecessors from edges such as "0 1"; units are counted."""
    pairs = [tuple(int(word) for word in edge.split()) for edge in edges]
    found = [0] * (1 + max(unit for pair in pairs for unit in pair))
    for before, after in pairs:
        found[after] |= 1 << before
    return found


def chain(count: int) -> list[int]:
    return [0] + [1 << unit for unit in range(count - 1)]


def fewest(group: int) -> float:
    return 1.0


class Builder:
    """Appends units to a graph."""

    def __init__(self) -> None:
        self.predecessors: list[int] = []

    def add(self, *inputs: int) -> int:
        self.predecessors.append(sum(1 << unit for unit in set(inputs)))
        return len(self.predecessors) - 1


def diffusion_unet(levels: int) -> list[int]:
    """Long skips, a time branch into each residual block, a context branch into each attention."""
    net = Builder()
    time = net.add(net.add())
    context, x = net.add(), net.add()

    def block(x: int) -> int:
        shift = net.add(net.add(time))
        y = net.add(net.add(net.add(net.add(net.add(x)), shift)))
        x = net.add(y, x)
        query = net.add(net.add(x))
        key, value = net.add(context), net.add(context)
        scores = net.add(net.add(query, key))
        return net.add(net.add(net.add(scores, value)), x)

    skips: list[int] = []
    for _ in range(levels):
        for _ in range(3):
            x = block(x)
            skips.append(x)
        x = net.add(x)
    x = block(x)
    while skips:
        x = block(net.add(x, skips.pop()))
    net.add(x)
    return net.predecessors


class Traffic:
    """A toy cost: tensors that cross the border of a group, weights that have to fit together."""

    def __init__(self, predecessors: list[int], room: int) -> None:
        self.units, self.room = Units(predecessors), room
        self.tensor = [1 + unit * 7 % 5 for unit in range(self.units.count)]
        self.weight = [unit * 5 % 4 for unit in range(self.units.count)]

    def fits(self, group: int) -> bool:
        return sum(self.weight[unit] for unit in bits(group)) <= self.room

    def cost(self, group: int) -> float | None:
        if not self.fits(group):
            return None
        read, written = 0, 0
        for unit in bits(group):
            read |= self.units.predecessors[unit]
            after = self.units.successors[unit]
            written += self.tensor[unit] if not after or after & ~group else 0
        return 4.0 + written + sum(self.tensor[unit] for unit in bits(read & ~group))


def check(predecessors: list[int], groups: tuple[int, ...]) -> None:
    """Every unit once, in an order that runs, no group in pieces."""
    units, done = Units(predecessors), 0
    for group in groups:
        assert not group & done
        assert units.component(next(bits(group)), group) == group
        done |= group
        assert not units.above(group) & ~done
    assert done == units.all


def test_a_chain_becomes_one_group() -> None:
    found = best_grouping(chain(5), fewest)
    assert found.grouping.groups == (0b11111,)
    assert found.grouping.cost == 1.0
    assert (found.exact, found.downsets, found.evaluations) == (True, 6, 15)


def test_no_units() -> None:
    found = best_grouping([], fewest)
    assert found.grouping.groups == ()
    assert found.grouping.cost == 0.0


def test_groups_that_need_each_other_are_not_chosen() -> None:
    # {0, 3, 4} and {1, 2, 5} are convex and connected, and 0 -> 1, 2 -> 3 make a circle of them.
    predecessors = graph("0 4", "3 4", "1 5", "2 5", "0 1", "2 3")
    cheap = {0b011001: 1.0, 0b100110: 1.0}
    found = best_grouping(predecessors, lambda g: cheap.get(g, 10.0 * g.bit_count()))
    check(predecessors, found.grouping.groups)
    assert found.grouping.cost == 31.0
    greedy = greedy_merge(predecessors, lambda g: cheap.get(g, 10.0 * g.bit_count()))
    check(predecessors, greedy.groups)


def test_parts_that_are_not_linked_do_not_multiply() -> None:
    predecessors = [1 << unit - 1 if unit % 10 else 0 for unit in range(60)]
    found = best_grouping(predecessors, fewest)
    assert found.exact
    assert found.downsets == 6 * 11
    assert found.grouping.cost == 6.0
    check(predecessors, found.grouping.groups)


def test_ties_go_to_fewer_groups_then_lower_masks() -> None:
    def best(*impossible: int) -> tuple[int, ...]:
        costs = dict.fromkeys(impossible)
        found = best_grouping(chain(3), lambda g: costs.get(g, float(g.bit_count())))
        return found.grouping.groups

    assert best() == (0b111,)
    assert best(0b111) == (0b001, 0b110)
    assert best(0b111, 0b110) == (0b011, 0b100)


def test_a_unit_that_cannot_run_is_named() -> None:
    with pytest.raises(ImpossibleUnitError, match="unit 2 cannot run") as caught:
        best_grouping(chain(4), lambda g: None if g == 0b100 else 1.0)
    assert isinstance(caught.value, TilewrightError)


def test_units_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="unit 0"):
        best_grouping([0b10, 0], fewest)


def test_progress_rises_to_one() -> None:
    shares: list[float] = []
    best_grouping([*chain(6), 0, 1 << 6], fewest, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_greedy_cannot_see_past_a_bad_step() -> None:
    costs = {0b011: 3.0, 0b110: 3.0, 0b111: 0.5}
    assert greedy_merge(chain(3), lambda g: costs.get(g, 1.0)).cost == 3.0
    assert best_grouping(chain(3), lambda g: costs.get(g, 1.0)).grouping.cost == 0.5


def test_what_cannot_be_counted_within_a_budget_is_merged_greedily() -> None:
    free = best_grouping(chain(60), fewest)
    assert free.exact
    assert free.evaluations == 60 * 61 // 2
    long = best_grouping(chain(60), fewest, evaluations=600)
    assert not long.exact
    assert long.evaluations <= 600
    assert long.grouping == greedy_merge(chain(60), fewest)
    short = best_grouping(chain(15), fewest, evaluations=150)
    assert short.exact
    assert short.grouping == best_grouping(chain(15), fewest).grouping


def test_seven_hundred_units_with_long_skips() -> None:
    predecessors = diffusion_unet(6)
    assert 640 <= len(predecessors) <= 760
    traffic = Traffic(predecessors, 12)
    found = best_grouping(predecessors, traffic.cost, may_grow=traffic.fits)
    check(predecessors, found.grouping.groups)
    assert not found.exact
    assert found.grouping == greedy_merge(predecessors, traffic.cost)
