"""Longest chain and parallel width of kernel graphs, against brute force."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright import api
from tilewright.partition.order import critical_path, parallel_width, topological
from tilewright.partition.partition import partition_graph


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    count = draw(st.integers(1, 9))
    names = draw(st.permutations(range(count)))
    edges: list[list[int]] = [[] for _ in range(count)]
    for a, b in combinations(range(count), 2):
        if draw(st.integers(0, 2)) == 0:
            edges[names[a]].append(names[b])
    return edges


def reachable(edges: list[list[int]], start: int) -> set[int]:
    found, todo = set[int](), [start]
    while todo:
        for other in edges[todo.pop()]:
            if other not in found:
                found.add(other)
                todo.append(other)
    return found


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_width_is_the_largest_set_without_dependencies(edges: list[list[int]]) -> None:
    count = len(edges)
    behind = [reachable(edges, i) for i in range(count)]
    best = max(
        size
        for size in range(1, count + 1)
        for chosen in combinations(range(count), size)
        if all(b not in behind[a] and a not in behind[b] for a, b in combinations(chosen, 2))
    )
    assert parallel_width(edges) == best


@settings(max_examples=200, deadline=None)
@given(graphs(), st.data())
def test_critical_path_is_the_heaviest_chain(edges: list[list[int]], data: st.DataObject) -> None:
    count = len(edges)
    weights = data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))

    def heaviest(start: int) -> int:
        return weights[start] + max((heaviest(other) for other in edges[start]), default=0)

    path = critical_path(edges, [float(w) for w in weights])
    assert sum(weights[i] for i in path) == max(map(heaviest, range(count)))
    assert all(b in edges[a] for a, b in pairwise(path))


def test_a_circle_has_no_order() -> None:
    assert topological([[1], [2], [0]]) is None


@pytest.mark.parametrize(
    ("name", "length", "width"), [("resnet18", 29, 2), ("mobilenet_v2", 65, 1)]
)
def test_networks(name: str, length: int, width: int) -> None:
    found = partition_graph(api.load(name).graph)
    assert (len(found.critical_path), found.width) == (length, width)
