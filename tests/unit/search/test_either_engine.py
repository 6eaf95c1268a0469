"""Work that arrays and vector engines can both run goes to the cheaper, and bounds know it."""

from typing import Any

import pytest

from support.networks import pair
from tilewright import api
from tilewright.cost.base import WorkKind, Workload
from tilewright.cost.models import CostModels
from tilewright.frontend.builder import Builder
from tilewright.frontend.normalize import normalize
from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.program.program import Compute

ARRAY = {
    "kind": "matrix",
    "model": "array",
    "parameters": {
        "modes": {"plain": {"unroll": {"out_channels": 8, "in_channels": 8}}},
        "rates": {"int8": {"conv": {"overhead": 100}}},
    },
}


def machine(per_mac: float, *, array: bool = True) -> Machine:
    """A core with an array of 8x8, or without, beside a vector engine of so many cycles a MAC."""
    rates = {"mac": {"per_element": per_mac}, "default": {"per_element": 0.02}}
    simd = {"kind": "vector", "model": "vector", "parameters": {"rates": rates}}
    engines: dict[str, Any] = {"array": ARRAY, "simd": simd} if array else {"simd": simd}
    route = {"from": "dram", "to": "core.sram", "both_ways": True}
    return api.machine(
        {
            "name": "own",
            "title": "Own",
            "clock": "500 MHz",
            "dtype": "int8",
            "source": "a test",
            "cores": {"core": {"memories": {"sram": {"capacity": "64 KiB"}}, "engines": engines}},
            "memories": {"dram": {"capacity": "1 GiB"}},
            "links": {
                "dma": {
                    "kind": "dma",
                    "routes": {"dram": {**route, "latency": "200 ns", "bandwidth": "16 GB/s"}},
                }
            },
        }
    )


def narrow() -> Graph:
    """Convolutions of few channels, an array's worst case, and one that fills it."""
    b = Builder("narrow")
    x = b.conv(b.input("x", (1, 2, 24, 24)), 2, 3, pads=1, name="few")
    x = b.op("Relu", x, name="relu")
    x = b.conv(x, 32, 1, name="widen")
    return normalize(b.finish(b.conv(x, 32, 3, pads=1, name="full")))


CONV = Workload(WorkKind.CONV, "int8", 2, 2, 24, 24, 24, 24, 3, 3)
FULL = CONV._replace(out_channels=32, in_channels=32)


@pytest.mark.parametrize(
    ("per_mac", "work", "either"),
    [(0.125, CONV, True), (0.125, FULL, False), (0.01, FULL, True), (1.0, CONV, False)],
)
def test_an_operator_is_for_either_where_a_vector_engine_does_all_of_it_faster(
    per_mac: float, work: Workload, either: bool
) -> None:
    models = CostModels(machine(per_mac))
    core = models.machine.cores[0]
    assert models.either(core, work) is either
    tile = work._replace(out_height=1, in_height=3)
    kinds = {engine.kind for engine in models.able(core, tile, either)}
    assert kinds == ({"matrix", "vector"} if either else {"matrix"})
    cheapest = min(models.best(core, tile, each)[1].cycles for each in (False, True))
    assert not either or models.best(core, tile, either)[1].cycles == cheapest


@pytest.mark.parametrize("per_mac", [0.004, 0.02, 0.125, 0.5])
@pytest.mark.parametrize("graph", [narrow(), pair(3, 16, 16)], ids=["narrow", "pair"])
def test_an_array_beside_a_vector_engine_makes_no_plan_slower(graph: Graph, per_mac: float) -> None:
    """And no plan undercuts its bound, whoever runs what."""
    found = {
        array: api.plan(graph, machine(per_mac, array=array), effort="low")
        for array in (False, True)
    }
    assert found[True].latency_cycles <= found[False].latency_cycles
    for result in found.values():
        assert result.verified and result.planned.bounds.cycles <= result.latency_cycles
        layers = api.plan(graph, result.planned.machine, layer_by_layer=True, verify=False)
        assert result.planned.bounds.cycles <= layers.latency_cycles


def test_both_kinds_of_engine_are_used_where_each_is_the_cheaper() -> None:
    found = api.plan(narrow(), machine(0.05), effort="low")
    tasks = found.planned.placed.program.tasks
    ran = {(task.node, task.engine) for task in tasks if isinstance(task.work, Compute)}
    assert {engine for node, engine in ran if node == "few"} == {"core.simd"}
    assert ("full", "core.array") in ran
