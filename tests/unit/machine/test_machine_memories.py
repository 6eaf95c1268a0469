"""Cores that differ, memories with roles, memories between the main one and the cores."""

from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.costs import alone_cost, copy_cost, path_cost
from tilewright.cost.base import Copy, WorkKind, Workload
from tilewright.cost.models import CostModels
from tilewright.errors import TilewrightError
from tilewright.machine import list_machines, load_machine
from tilewright.machine.machine import ROLES, Link, Machine, Memory, Route
from tilewright.machine.text import machine_text

pytestmark = pytest.mark.quick


def stops(machine: Machine, source: str, target: str) -> list[str]:
    """The memories of a path, both ends included."""
    return [source, *(route.destination for _, route in machine.path(source, target))]


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def test_a_path_leads_through_the_l2() -> None:
    machine = load_machine("eight-core-l2")
    assert len(machine.cores) == 8 and {c.memory.usable for c in machine.cores} == {256 * 1024}
    assert [memory.name for memory in machine.on_chip] == ["l2"]
    assert not list(machine.routes("dram", "core3.sram"))
    assert stops(machine, "dram", "core3.sram") == ["dram", "l2", "core3.sram"]
    assert stops(machine, "core3.sram", "dram") == ["core3.sram", "l2", "dram"]
    assert stops(machine, "core0.sram", "core7.sram") == ["core0.sram", "core7.sram"]
    assert machine.path("l2", "l2") == ()
    assert [m.name for m in machine.levels(machine.core("core5"))] == ["core5.sram", "l2", "dram"]
    assert "path dram -> l2 -> core0.sram and 7 more" in machine_text(machine)


@pytest.mark.parametrize("name", list_machines())
def test_every_core_is_reached_and_left(name: str) -> None:
    machine = load_machine(name)
    main = machine.main_memory.name
    for core in machine.cores:
        for ends in ((main, core.memory.name), (core.memory.name, main)):
            hops = machine.path(*ends)
            assert (hops[0][1].source, hops[-1][1].destination) == ends
            for (_, one), (_, other) in pairwise(hops):
                assert one.destination == other.source
        assert {core.holding(role) for role in ROLES} <= set(core.memories)
        assert machine.levels(core)[0] == core.memory
        assert machine.levels(core)[-1] == machine.main_memory


def test_files_without_roles_keep_their_meaning() -> None:
    for name in ("npu-2.7", "three-core-bus", "trn1", "mcu"):
        for core in load_machine(name).cores:
            assert all(core.holding(role) is core.memories[0] for role in ROLES)
            assert all(memory.roles == () for memory in core.memories[1:])


def test_cores_differ() -> None:
    machine = load_machine("mixed-cores")
    large, vector = machine.core("large"), machine.core("vector")
    assert [large.holding(role).name for role in ROLES] == [
        "large.sram",
        "large.weights",
        "large.sums",
    ]
    assert vector.engine("matrix") is None and vector.holding("weights") is vector.memory
    models = CostModels(machine)
    classes = [[core.name for core in same] for same in models.core_classes]
    assert classes == [["large"], ["small0", "small1"], ["vector"]]
    work = Workload(WorkKind.CONV, "int8", 64, 64, 28, 28, 28, 28, 3, 3)
    cycles = {core.name: models.best(core, work)[1].cycles for core in machine.cores}
    assert cycles["large"] < cycles["small0"] == cycles["small1"] < cycles["vector"]
    deep = work._replace(kind=WorkKind.DEPTHWISE)
    assert models.best(machine.core("small0"), deep)[1].cycles < models.best(large, deep)[1].cycles


def test_equal_cores_are_one_class_and_weights_are_read_where_they_lie() -> None:
    for name, expected in (("npu-4.0", 1), ("eight-core-l2", 1), ("three-core-bus", 3)):
        assert len(CostModels(load_machine(name)).core_classes) == expected
    machine = load_machine("mixed-cores")
    work = Workload(WorkKind.CONV, "int8", 64, 64, 28, 28, 28, 28, 3, 3)
    before = CostModels(machine).best(machine.core("large"), work)[1].energy_pj
    core = machine.core("large")
    dear = tuple(
        replace(m, read_pj_per_byte=2.06) if m.roles == ("weights",) else m for m in core.memories
    )
    other = replace(machine, cores=(replace(core, memories=dear), *machine.cores[1:]))
    after = CostModels(other).best(other.core("large"), work)[1].energy_pj
    assert after - before == pytest.approx(work.weights * 1.0)


def test_copies_over_several_hops_add_up() -> None:
    machine = load_machine("eight-core-l2")
    copy = Copy(512, (16,))
    hops = machine.path("dram", "core0.sram")
    assert len(hops) == 2
    parts = [alone_cost(machine, link, route, copy) for link, route in hops]
    whole = path_cost(machine, hops, copy)
    assert whole.cycles == sum(part.cycles for part in parts)
    assert whole.energy_pj == pytest.approx(sum(part.energy_pj for part in parts))
    assert copy_cost(machine, "dram", "core0.sram", copy) == whole


def test_sizes_of_shared_memories_can_be_swept() -> None:
    machine = load_machine("eight-core-l2").with_memory(1 << 20, "l2")
    assert machine.memory("l2").usable == 1 << 20
    assert {core.memory.usable for core in machine.cores} == {256 * 1024}


WRONG_ROLES = {
    "cores: {large: {memories: {sums: {roles: [weights]}}}}": (
        r"cores.large.memories.sums.roles: 'weights' is a role of weights already"
    ),
    "cores: {large: {memories: {sums: null}}}": (
        "cores.large.memories: none of them has the role 'accumulators'"
    ),
    "cores: {large: {memories: {sums: {roles: [tea]}}}}": "has to be .*'accumulators', is 'tea'",
    "memories: {dram: {roles: [weights]}}": "dram.roles: the main memory holds everything",
    "links: {dma: {routes: {tiles: {both_ways: false}}}}": (
        "cores.large: no links lead from 'large.sram' to 'dram': add a route under links"
    ),
    "links: {dma: {routes: {weights: null}}}": (
        "cores.large: no links lead from 'dram' to 'large.weights'"
    ),
    "cores: {small: {engines: null}}": "cores.small.engines: is missing",
    "cores: {small: {engines: {array: null, simd: null}}}": (
        "cores.small.engines: has to have at least one entry"
    ),
    "cores: {small: {count: 300}}": "cores.small.count: has to be at most 256, is '300'",
    "links: {dma: {count: 200}, bus: {count: 100, source: x}}": "links: at most 256 in all",
}


@pytest.mark.parametrize("text", WRONG_ROLES)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, f"extends: mixed-cores\n{text}\n")
    with pytest.raises(TilewrightError, match=WRONG_ROLES[text]) as caught:
        load_machine(path)
    assert "\n" not in str(caught.value)


def test_a_machine_without_a_way_to_its_cores_is_refused(tmp_path: Path) -> None:
    text = "extends: eight-core-l2\nlinks: {fabric: {routes: {l2: null}}}\n"
    with pytest.raises(TilewrightError, match=r"cores\.core: no links lead from 'dram' to 'core0"):
        load_machine(write(tmp_path, text))


# Paths against all of them ----------------------------------------------------------------------

PLACES = ("main", "l2", "l3", "a.s", "b.s")


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Five memories and random one-way routes on two links."""
    memory = [
        Memory(name, name[0] if "." in name else None, 1 << 20, 1 << 20, 1) for name in PLACES
    ]
    pairs = [(s, d) for s in PLACES for d in PLACES if s != d]
    links: list[Link] = []
    for name in ("x", "y"):
        ends = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=10))
        figures = st.tuples(st.integers(0, 20_000), st.sampled_from([1.0, 4.0, 16.0]))
        routes = [Route(s, d, *draw(figures), groups=()) for s, d in ends]
        links.append(Link(name, "dma", tuple(routes)))
    like = load_machine("three-core-bus")
    cores = tuple(
        replace(core, name=name, memories=(own,))
        for name, core, own in zip("ab", like.cores, memory[3:], strict=False)
    )
    return replace(like, cores=cores, shared=tuple(memory[:3]), links=tuple(links))


@settings(max_examples=150)
@given(machines())
def test_a_path_is_the_cheapest_of_all(machine: Machine) -> None:
    def cycles(places: tuple[str, ...]) -> float:
        total = 0.0
        for ends in pairwise(places):
            each = [machine.hop_cycles(route) for _, route in machine.routes(*ends)]
            total += min(each, default=float("inf"))
        return total

    for source, target in permutations(PLACES, 2):
        own = {source, target, "main", "l2", "l3"}
        best = {True: float("inf"), False: float("inf")}
        for count in range(len(PLACES) - 1):
            for between in permutations([p for p in PLACES if p not in (source, target)], count):
                foreign = not set(between) <= own
                best[foreign] = min(best[foreign], cycles((source, *between, target)))
        expected = best[False] if best[False] < float("inf") else best[True]
        path = machine.find_path(source, target)
        if path is None:
            assert expected == float("inf")
            continue
        found = sum(machine.hop_cycles(route) for _, route in path)
        assert found == pytest.approx(expected)
        assert path == machine.path(source, target)
