"""The fusion search against every grouping there is: on its own model, and on the simulator."""

import random
from collections.abc import Iterator
from math import fsum

import pytest

from support.builder import GraphBuilder
from support.groupings import bits, in_order
from tilewright.frontend.zoo import build
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.planning import prepared
from tilewright.search.candidates.candidate import NoTileFitsError
from tilewright.search.fusion import Fusion
from tilewright.search.grouping.dp import best_grouping

MISSED = 1.02  # of the best grouping's cycles
UNITS = 6


def random_network(seed: int) -> Graph:
    """Convolutions, depthwise and strided ones, pools and sums, up to `UNITS` units."""
    chance = random.Random(seed)
    b = GraphBuilder(seed=seed)
    channels = chance.choice((16, 32))
    live = [b.input(1, channels, chance.choice((28, 40)), chance.choice((28, 40)))]
    for _ in range(chance.randint(4, UNITS)):
        x = live[-1] if chance.random() < 0.75 else chance.choice(live)
        depth, kind = b.shape(x)[1], chance.choice(("conv", "point", "depth", "pool", "add", "add"))
        twins = [y for y in live if b.shape(y) == b.shape(x) and y != x]
        if kind == "add" and twins:
            live.append(b.add("Add", x, chance.choice(twins)))
        elif kind == "depth":
            weight = b.weight(depth, 1, 3, 3)
            stride = [chance.choice((1, 1, 2))] * 2
            live.append(b.add("Conv", x, weight, group=depth, pads=[1] * 4, strides=stride))
        elif kind == "pool" and min(b.shape(x)[2:]) >= 8:
            live.append(b.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]))
        else:
            side = 1 if kind == "point" else 3
            weight = b.weight(chance.choice((16, 32, 64)), depth, side, side)
            live.append(b.add("Conv", x, weight, pads=[side // 2] * 4))
    return b.graph()


def connected(predecessors: tuple[int, ...], group: int) -> bool:
    seen = group & -group
    while True:
        near = sum(
            1 << u
            for u in bits(group & ~seen)
            if predecessors[u] & seen or any(predecessors[v] >> u & 1 for v in bits(seen))
        )
        if not near:
            return seen == group
        seen |= near


def partitions(count: int) -> Iterator[list[int]]:
    def extend(unit: int, groups: list[int]) -> Iterator[list[int]]:
        if unit == count:
            yield groups
            return
        for index, group in enumerate(groups):
            yield from extend(unit + 1, [*groups[:index], group | 1 << unit, *groups[index + 1 :]])
        yield from extend(unit + 1, [*groups, 1 << unit])

    return extend(0, [])


def groupings(fusion: Fusion) -> Iterator[tuple[int, ...]]:
    """Every division into connected groups that can run one after the other."""
    predecessors = fusion.network.predecessors
    for groups in partitions(len(predecessors)):
        order = in_order(predecessors, groups)
        if order and all(connected(predecessors, group) for group in groups):
            yield order


def search_of(seed: int, machine: Machine) -> Fusion | None:
    graph = prepared(random_network(seed), machine, machine.dtype).graph
    fusion = Fusion(graph, machine, machine.dtype, f"random{seed}")
    if not 2 <= len(fusion.network.units) <= UNITS + 1:
        return None
    return fusion


SMALL = {
    "npu-2.7": load_machine("npu-2.7").with_memory(96 * 1024),
    "mcu": load_machine("mcu").with_memory(96 * 1024),
}


@pytest.mark.parametrize("machine", SMALL)
@pytest.mark.parametrize("seed", range(4))
def test_search_finds_the_best_grouping(seed: int, machine: str) -> None:
    fusion = search_of(seed, SMALL[machine])
    if fusion is None:
        pytest.skip("too many units")
    every = list(groupings(fusion))
    # On the additive model: exactly the best.
    costs = [[fusion.proposals.score(group) for group in groups] for groups in every]
    possible = [fsum(c for c in row if c is not None) for row in costs if None not in row]
    proposed = best_grouping(fusion.network.predecessors, fusion.proposals.score)
    assert proposed.exact
    assert proposed.grouping.cost == pytest.approx(min(possible), rel=1e-12)
    # On the simulator: within 2 % of the best, and no worse than what it is compared with.
    found = fusion.run()
    assert all(found.best.cycles <= rival.cycles * 1.005 for rival in found.rivals)
    best = found.best.cycles
    for groups, row in zip(every, costs, strict=True):
        if None in row:
            continue
        trial = fusion.proposals.attempt("exhaustive", groups)
        if trial is not None:
            best = min(best, trial.cycles)
    assert found.best.cycles <= best * MISSED, f"{found.best.cycles / best:.3f} of the best"


@pytest.mark.parametrize("what", ["memory", "bandwidth"])
def test_a_larger_machine_is_no_slower(what: str) -> None:
    """By more than 1 %."""
    base = load_machine("npu-2.7")
    sizes = (64, 96, 128, 256, 512) if what == "memory" else (4, 8, 16, 27, 54)
    best = float("inf")
    for size in sizes:
        machine = (
            base.with_memory(size * 1024)
            if what == "memory"
            else base.with_bandwidth("ddr", size * 1e9)
        )
        graph = prepared(build("four_convs"), machine, machine.dtype).graph
        cycles = Fusion(graph, machine, machine.dtype, "four_convs").run().best.cycles
        assert cycles <= 1.01 * best, f"{size}: {cycles} cycles, {best} with less {what}"
        best = min(best, cycles)


def test_an_infeasible_machine_names_the_operator() -> None:
    machine = load_machine("npu-2.7").with_memory(128)
    graph = prepared(random_network(0), machine, machine.dtype).graph
    with pytest.raises(NoTileFitsError, match=r"no tile of '.*' .*needed.*there"):
        Fusion(graph, machine, machine.dtype, "small").run()
