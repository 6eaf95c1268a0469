"""Where estimates say that no cut fits, the smallest is simulated all the same: the simulator says
which fit."""

from functools import cache
from math import inf

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from support.random_plans import depthwise, legal_on, plans, pointwise, squeeze
from support.strategies import LAYOUT, concat, conv3, matmul, networks, pool, residual
from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph
from tilewright.machine.load import machine_of
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Place, Plan
from tilewright.program.kernels.link import link
from tilewright.program.kernels.live import least_live
from tilewright.program.kernels.prefetch import find_loads
from tilewright.program.lowering import Lowering
from tilewright.program.timed import Timed
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.tiles import Tiler
from tilewright.search.improvement.cuts import Cuts, cutting_of

OPERATORS = (conv3, depthwise, pointwise, residual, squeeze, pool, concat, matmul, *LAYOUT)
IMAGES = ((1, 8, 24, 20), (1, 4, 32, 16), (1, 16, 17, 13))
KIBIBYTES = (2, 4, 8, 16, 64)


@cache
def machine_with(cores: int, kibibytes: int) -> Machine:
    """A machine of so many alike cores."""
    tree = {"name": "some", "extends": "npu-2.7", "cores": {"cluster": {"count": cores}}}
    return machine_of(tree, "some").with_memory(kibibytes * 1024)


@st.composite
def planned(draw: st.DrawFn) -> tuple[Graph, Machine, Plan]:
    """A small network, a machine of 1 to 8 cores with little memory, and any plan."""
    graph = draw(networks(OPERATORS, nodes=5, shapes=IMAGES))
    machine = machine_with(draw(st.integers(1, 8)), draw(st.sampled_from(KIBIBYTES)))
    legal = legal_on(graph, machine)
    return legal, machine, draw(plans(legal, machine))


@settings(max_examples=120, deadline=None)
@given(planned())
def test_a_cut_that_can_be_placed_is_proposed_whatever_the_estimates_say(
    case: tuple[Graph, Machine, Plan],
) -> None:
    graph, machine, plan = case
    lowering = Lowering(graph, machine, machine.dtype)
    try:
        timed = lowering.timed(plan)
    except TilewrightError:
        return
    if not isinstance(timed, Timed):
        return
    event("placed")
    network = Network(graph, machine, machine.dtype)
    cuts = Cuts(network, Tiler(network), lowering.context.signatures)
    for group in plan.groups:
        if group.place is not Place.CORES:
            continue
        members = tuple(sorted(graph.index[name] for name in group.nodes))
        own = cutting_of(group)
        for beside in (0, 1 << 30):
            assert list(cuts.there_are(members, frozenset(), beside, inf, [own])) == [own]
    columns, tables = timed.columns, lowering.context.tables
    loads = find_loads(columns, tables.copies, link(columns, tables.views), tables.hardware)
    unheld = np.arange(loads.rest.size, dtype=np.int32)
    live, _ = least_live(columns, tables.hardware, loads, unheld)
    scratchpads = np.arange(live.size) != tables.hardware.main
    assert (live <= timed.highest)[scratchpads].all()
