"""The search for groupings against all set partitions of small graphs, judged by a naive check."""

import random
from collections.abc import Callable, Iterator
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.groupings import Asked, bits, in_order
from tilewright.search.grouping.dp import best_grouping, greedy_merge

Evaluate = Callable[[int], float | None]


def is_connected(predecessors: list[int], group: int) -> bool:
    todo, seen = [bits(group)[0]], set[int]()
    while todo:
        unit = todo.pop()
        seen.add(unit)
        for other in bits(group):
            linked = predecessors[other] >> unit & 1 or predecessors[unit] >> other & 1
            if linked and other not in seen:
                todo.append(other)
    return len(seen) == group.bit_count()


def set_partitions(count: int) -> Iterator[tuple[int, ...]]:
    def extend(unit: int, groups: list[int]) -> Iterator[tuple[int, ...]]:
        if unit == count:
            yield tuple(groups)
            return
        for index in range(len(groups)):
            yield from extend(
                unit + 1,
                [g | 1 << unit if i == index else g for i, g in enumerate(groups)],
            )
        yield from extend(unit + 1, [*groups, 1 << unit])

    return extend(0, [])


def brute_force(predecessors: list[int], evaluate: Evaluate) -> list[tuple[float, int, list[int]]]:
    """All groupings, in the order in which the search has to list them."""
    table = {
        group: evaluate(group)
        for group in range(1, 1 << len(predecessors))
        if is_connected(predecessors, group)
    }
    found: list[tuple[float, int, list[int]]] = []
    for groups in set_partitions(len(predecessors)):
        costs = [table.get(group) for group in groups]
        known = [cost for cost in costs if cost is not None]
        if len(known) == len(groups) and in_order(predecessors, groups) is not None:
            found.append((sum(known), len(groups), sorted(groups)))
    return sorted(found)


def random_graph(chance: random.Random, count: int) -> list[int]:
    density = chance.choice((0.1, 0.25, 0.4, 0.7))
    return [
        sum(1 << other for other in range(unit) if chance.random() < density)
        for unit in range(count)
    ]


def random_table(chance: random.Random, impossible: float, core_split: int) -> Evaluate:
    """Whole numbers, so that sums are exact and ties frequent; fusing tends to pay."""
    table: dict[int, float | None] = {}

    def evaluate(group: int) -> float | None:
        if group not in table:
            size = group.bit_count()
            possible = size == 1 or chance.random() >= impossible
            table[group] = float(chance.randint(1, core_split) + 2 * size) if possible else None
        return table[group]

    return evaluate


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 7),
    impossible=st.sampled_from((0.0, 0.3, 0.8)),
    core_split=st.sampled_from((2, 9, 1000)),
)
def test_search_finds_the_best_of_all_partitions(
    seed: int, count: int, impossible: float, core_split: int
) -> None:
    chance = random.Random(seed)
    predecessors = random_graph(chance, count)
    evaluate = random_table(chance, impossible, core_split)
    expected = brute_force(predecessors, evaluate)[0]
    found = best_grouping(predecessors, evaluate)
    grouping = found.grouping
    assert found.exact
    assert (grouping.cost, len(grouping.groups), sorted(grouping.groups)) == expected
    done = 0
    for group in grouping.groups:
        assert all(not predecessors[unit] & ~(done | group) for unit in bits(group))
        done |= group
    assert greedy_merge(predecessors, evaluate).cost >= expected[0]


@pytest.mark.parametrize("seed", range(3))
def test_nine_units(seed: int) -> None:
    chance = random.Random(seed)
    predecessors = random_graph(chance, 9)
    evaluate = random_table(chance, 0.4, 30)
    found = best_grouping(predecessors, evaluate).grouping
    expected = brute_force(predecessors, evaluate)[0]
    assert (found.cost, len(found.groups), sorted(found.groups)) == expected


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(2, 10))
def test_an_honest_bound_on_growth_changes_nothing(seed: int, count: int) -> None:
    chance = random.Random(seed)
    predecessors = random_graph(chance, count)
    weight = [chance.randint(1, 5) for _ in range(count)]
    costs = random_table(chance, 0.2, 9)

    def weighs(group: int) -> int:
        return sum(weight[unit] for unit in bits(group))

    def evaluate(group: int) -> float | None:
        return costs(group) if group.bit_count() == 1 or weighs(group) <= 9 else None

    plain = best_grouping(predecessors, evaluate)
    pruned = best_grouping(predecessors, evaluate, may_grow=lambda g: weighs(g) < 9)
    assert pruned.grouping == plain.grouping
    assert pruned.evaluations <= plain.evaluations


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(2, 12))
def test_where_downsets_are_too_many_the_grouping_is_the_greedy_one(seed: int, count: int) -> None:
    chance = random.Random(seed)
    predecessors = random_graph(chance, count)
    costs = random_table(chance, 0.3, 9)

    def evaluate(group: int) -> float | None:
        assert is_connected(predecessors, group)
        rest = [1 << u for u in range(count) if not group >> u & 1]
        assert in_order(predecessors, (group, *rest)) is not None
        return costs(group)

    asked = Asked(evaluate)
    found = best_grouping(predecessors, asked, states=1)
    assert len(asked.groups) == len(set(asked.groups))
    assert not found.exact
    best = best_grouping(predecessors, costs).grouping
    assert best.cost <= found.grouping.cost == greedy_merge(predecessors, costs).cost
    grouping = found.grouping
    assert sum(grouping.groups) == (1 << count) - 1
    assert all(not one & other for one, other in combinations(grouping.groups, 2))
    assert in_order(predecessors, grouping.groups) is not None
    assert grouping.cost == sum(costs(group) or 0.0 for group in grouping.groups)
