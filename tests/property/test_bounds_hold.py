"""No plan undercuts a bound: not random ones, and not what hill climbing makes of them; on machines
of one to eight cores, with a memory between, with cores that differ, with copies that start at
once."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.moves import moved
from support.random_plans import (
    Draw,
    depthwise,
    halved,
    ideal,
    legal_networks,
    plans,
    pointwise,
    squeeze,
)
from support.soak import SOAK
from support.strategies import LAYOUT, concat, conv3, matmul, pool, residual, softmax
from support.unlike import core, unlike_cores
from tilewright.errors import TilewrightError
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.program.lowering import Lowering
from tilewright.program.metrics import metrics_of
from tilewright.program.timed import Timed
from tilewright.search.bounds.bounds import bounds_of

NAMES = ("npu-2.7", "npu-4.0", "three-core-bus", "mixed-cores", "eight-core-l2", "tpu-like", "mcu")
UNLIKE = {
    "one large, two small": unlike_cores(),
    "three kinds": unlike_cores(a=core(16), b=core(12, width=3, count=2), c=core(5, width=2)),
    "output stages": unlike_cores(
        a=core(16, output_stage=["activation", "scale", "add"]), b=core(8, output_stage=[])
    ),
}
MACHINES = {**{name: load_machine(name) for name in NAMES}, **UNLIKE}
KIBIBYTES = (None, None, 16, 40, 256)
OPERATORS = (conv3, depthwise, pointwise, residual, squeeze, squeeze, pool, concat, halved, halved)
MOVEMENT = (*LAYOUT, matmul, softmax, conv3, residual)
IMAGES = ((1, 8, 24, 20), (1, 4, 32, 16), (1, 40, 7, 7))
MOVES = 60 if SOAK else 8


def sometimes_ideal(draw: Draw, machine: Machine) -> Machine:
    """As it is, or with copies that start at once."""
    return ideal(machine, draw(st.sampled_from((0.5, 8, 64)))) if draw(st.booleans()) else machine


CASES = legal_networks((OPERATORS, MOVEMENT), IMAGES, MACHINES, KIBIBYTES, sometimes_ideal)


@settings(max_examples=400 if SOAK else 25, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_climbing_does_not_undercut_a_bound(data: st.DataObject) -> None:
    graph, machine = data.draw(CASES)
    bounds = bounds_of(graph, machine, machine.dtype)
    lowering = Lowering(graph, machine, machine.dtype)
    plan, best = data.draw(plans(graph, machine)), 0
    for number in range(MOVES):
        other = data.draw(moved(graph, machine, plan)) if number else plan
        try:
            found = lowering.timed(other)
        except TilewrightError:
            continue  # a random plan need not be one that can be lowered, nor fit
        if not isinstance(found, Timed):
            continue
        metrics = metrics_of(found)
        for name, cycles in bounds.parts:
            assert cycles <= found.makespan, (name, bounds)
        assert bounds.compulsory_bytes <= metrics.dram_bytes
        assert bounds.energy_pj * (1 - 1e-9) <= metrics.energy_pj
        if not best or found.makespan < best:
            plan, best = other, found.makespan
