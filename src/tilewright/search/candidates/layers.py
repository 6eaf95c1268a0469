"""Layer by layer: each operator alone, every activation through the main memory, the best tile
and the best division among the cores for each."""

from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan
from tilewright.search.candidates.candidate import Candidates, NoTileFitsError
from tilewright.search.candidates.network import Network


def layer_by_layer(graph: Graph, machine: Machine, dtype: str, model: str) -> Plan:
    """A group for every unit of the network."""
    network = Network(graph, machine, dtype)
    return Candidates(network).plan(model, tuple(1 << unit.number for unit in network.units))


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
