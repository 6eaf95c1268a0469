"""Layer by layer: each operator alone, every activation through the main memory, the best tile
and the best division among the cores for each."""

from contextlib import suppress

from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan
from tilewright.program.lowering import Lowering
from tilewright.program.timed import Refused
from tilewright.search.candidates.candidate import Candidates, NoTileFitsError
from tilewright.search.candidates.network import Network


def layer_by_layer(
    graph: Graph, machine: Machine, dtype: str, model: str, without: frozenset[str] = frozenset()
) -> Plan:
    """A group for every unit of the network, lowered without some passes."""
    network = Network(graph, machine, dtype)
    return with_room(Candidates(network), Lowering(graph, machine, dtype, without), model)


def with_room(candidates: Candidates, lowering: Lowering, model: str) -> Plan:
    """Every unit alone, in tiles for which there are addresses: estimates say what a tile holds,
    not where. Where smaller tiles do not help, the plan that estimates like best."""
    masks = tuple(1 << unit.number for unit in candidates.network.units)
    first = plan = candidates.plan(model, masks)
    with suppress(TilewrightError):
        while isinstance(found := lowering.timed(plan), Refused):
            nodes = [name for number in found.groups for name in plan.groups[number].nodes]
            if not candidates.tightened(nodes):
                return first
            plan = candidates.plan(model, masks)
    return plan


def largest_misfit(graph: Graph, machine: Machine, dtype: str) -> NoTileFitsError | None:
    """Of the operators no tile of which fits, the one that takes most; None where all have one."""
    candidates = Candidates(network := Network(graph, machine, dtype))
    found: list[NoTileFitsError] = []
    for unit in network.units:
        try:
            candidates.candidate(1 << unit.number)
        except NoTileFitsError as error:
            found.append(error)
    return max(found, key=lambda error: error.needed, default=None)
