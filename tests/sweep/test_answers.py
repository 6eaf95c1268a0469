"""Fronts, knees, elasticities and the cheapest machine, against definitions and known truths."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tilewright.sweep.answers import answers_of, front_rows, knee_of
from tilewright.sweep.guided import Breeder
from tilewright.sweep.space import Axis, Space
from tilewright.sweep.space_file import space_of
from tilewright.sweep.table import SweepTable


@given(
    st.integers(1, 4).flatmap(
        lambda k: arrays(
            np.float64, st.tuples(st.integers(0, 40), st.just(k)), elements=st.integers(0, 6)
        )
    )
)
def test_the_front_is_what_nothing_dominates(points: np.ndarray) -> None:
    def dominated(i: int) -> bool:
        less = (points <= points[i]).all(axis=1) & (points < points[i]).any(axis=1)
        return bool(less.any())

    expected = [i for i in range(len(points)) if not dominated(i)]
    assert front_rows(list(points.T)).tolist() == expected


def test_the_knee_is_where_the_front_bends() -> None:
    x = np.array([1.0, 2.0, 3.0, 10.0])
    y = np.array([10.0, 5.0, 1.5, 1.0])
    assert knee_of([x, y]) == 2
    assert knee_of([x[:2], y[:2]]) is None, "two points have no inside"
    assert knee_of([np.arange(5.0), 4 - np.arange(5.0)]) is None, "a straight front has no knee"


def synthetic() -> tuple[Space, SweepTable]:
    """latency = model * bandwidth^-0.7 * cores^-0.25, energy = cores^0.5, over two networks."""
    space = space_of(
        {
            "fixed": {"machine": "npu-2.7"},
            "axes": {
                "model": ["four_convs@8x8", "four_convs@9x9"],
                "bandwidth": {
                    "field": "machine.memories.ddr.bandwidth",
                    "values": ["10 GB/s", "20 GB/s", "40 GB/s"],
                },
                "cores": {"field": "machine.cores.cluster.count", "values": [1, 2, 4]},
            },
            "define": {"cost": "cores + bandwidth / GB / 10"},
        },
        Path(),
    )
    grid = np.indices((2, 3, 3)).reshape(3, -1)
    rate, cores = np.array([10.0, 20, 40])[grid[1]], np.array([1.0, 2, 4])[grid[2]]
    size = len(rate)
    table = SweepTable(
        space.axes,
        space.workload,
        np.arange(size),
        [f"{i:064x}" for i in range(size)],
        np.ones(size, np.bool_),
        [""] * size,
        {axis.name: grid[i] for i, axis in enumerate(space.axes)},
        {
            "latency_ms": (1 + grid[0]) * 10 * rate**-0.7 * cores**-0.25,
            "energy_pj": cores**0.5,
            "cost": cores + rate / 10,
        },
    )
    return space, table


def test_elasticities_are_the_exponents() -> None:
    space, table = synthetic()
    found = {(s.axis, s.figure): s for s in answers_of(table, space).sensitivity}
    for (axis, figure), exponent in {
        ("bandwidth", "latency_ms"): -0.7,
        ("cores", "latency_ms"): -0.25,
        ("bandwidth", "energy_pj"): 0.0,
        ("cores", "energy_pj"): 0.5,
    }.items():
        each = found[axis, figure]
        assert each.elasticity == pytest.approx(exponent, abs=1e-12)
        assert each.pairs == 12 and not each.fitted
    assert found["cores", "energy_pj"].curve == (
        ("1", 1.0),
        ("2", pytest.approx(2**0.5)),
        ("4", pytest.approx(2.0)),
    )


def test_elasticities_are_fitted_where_no_two_points_are_neighbours() -> None:
    space, table = synthetic()
    rows = np.array([0, 4, 8, 10, 14, 15])  # no two differ in one axis only
    few = SweepTable(
        table.axes,
        table.workload,
        table.numbers[rows],
        [table.keys[i] for i in rows],
        table.ok[rows],
        [""] * len(rows),
        {name: codes[rows] for name, codes in table.codes.items()},
        {name: column[rows] for name, column in table.figures.items()},
    )
    found = {(s.axis, s.figure): s for s in answers_of(few, space).sensitivity}
    each = found["bandwidth", "latency_ms"]
    assert each.fitted and each.elasticity == pytest.approx(-0.7)


def test_the_cheapest_machine_runs_every_network_in_time() -> None:
    space, table = synthetic()
    slow = table.figures["latency_ms"][9:]
    limit = float(np.sort(slow)[3])
    found = answers_of(table, space, limit).cheapest
    assert found is not None and found.judged == 9
    in_time = [(c, m) for c, m in zip(table.figures["cost"][9:], slow, strict=True) if m <= limit]
    assert found.costs[0] == min(c for c, _ in in_time)
    assert found.slowest_ms[0] <= limit
    none = answers_of(table, space, 1e-9).cheapest
    assert none is not None and none.rows == ()


def test_a_machine_that_fails_one_network_is_not_judged() -> None:
    space, table = synthetic()
    table.ok[9] = False
    found = answers_of(table, space, 100.0)
    assert found.cheapest is not None and found.cheapest.judged == 8
    assert found.together is not None and 0 not in found.together.rows


def test_guided_search_finds_the_front_within_a_tenth_of_the_grid() -> None:
    """Two figures of four axes with a known front: all others are 0 on it."""
    sizes = (16, 16, 8, 8)

    def scores(p: tuple[int, ...]) -> tuple[float, float]:
        waste = p[2] + abs(p[3] - 3) + abs(p[0] - p[1])
        return 1.0 + p[0] + waste, 20.0 - p[0] + waste

    def best(seed: int) -> set[int]:
        breeder = Breeder(sizes, seed)
        seen: dict[tuple[int, ...], tuple[float, float]] = {}
        for _ in range(100):
            for position in breeder.ask(16):
                assert position not in seen and all(
                    0 <= x < n for x, n in zip(position, sizes, strict=True)
                )
                seen[position] = scores(position)
                breeder.tell(position, seen[position])
        return {p[0] for p in seen if p[2] == 0 and p[3] == 3 and p[0] == p[1]}

    assert 0.1 * np.prod(sizes) >= 1600
    assert all(len(best(seed)) >= 13 for seed in (0, 1, 2)), "of the 16 points of the front"
    assert best(5) == best(5)


def test_guided_search_ends_when_everything_was_asked_for() -> None:
    breeder = Breeder((3, 4), 0)
    found = [position for _ in range(5) for position in breeder.ask(5)]
    assert sorted(found) == sorted({(a, b) for a in range(3) for b in range(4)})
    assert breeder.ask(5) == []


def test_axes_know_their_numbers() -> None:
    assert Axis("x", ("batch",), (1, 2)).numbers == (1.0, 2.0)
    assert Axis("x", ("machine.clock",), ("1 GHz", "650 MHz")).numbers == (1e9, 650e6)
    assert Axis("x", ("model",), ("resnet18",)).numbers is None


def test_machines_without_figures_for_energy_have_none() -> None:
    """Zero would be the least there is: the front is told by traffic instead."""
    space, table = synthetic()
    figures = {
        **table.figures,
        "energy_pj": np.full(len(table), np.nan),
        "dram_bytes": np.arange(len(table), 0, -1.0),
    }
    found = answers_of(
        replace(table, figures=figures), replace(space, front=("latency_ms", "energy_pj"))
    )
    assert found.fronts[0].columns == ("latency_ms", "dram_bytes") and found.fronts[0].rows
    assert "energy_pj" not in {each.figure for each in found.sensitivity}
