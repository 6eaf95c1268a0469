"""Layer by layer: each operator alone, every activation through the main memory, the best tile
and the best division among the cores for each."""

from math import prod

from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan
from tilewright.program.lowering import Lowering
from tilewright.program.timed import Refused, Short, Timed
from tilewright.search.candidates.candidate import Candidates, NoTileFitsError
from tilewright.search.candidates.network import Network
from tilewright.search.progress import Tell, silent
from tilewright.units import noun

MOST_TILES = 1 << 18  # of a plan: so many of one convolution take 40 s of a processor to lower
HALVINGS = 3  # of the gap between tiles that found addresses and those that did not


class TooManyTilesError(TilewrightError):
    """Scratchpads so small that nobody would wait for the plan."""


def layer_by_layer(
    graph: Graph,
    machine: Machine,
    dtype: str,
    model: str,
    without: frozenset[str] = frozenset(),
    tell: Tell = silent,
) -> Plan:
    """A group for every unit of the network, lowered without some passes."""
    network = Network(graph, machine, dtype)
    return with_room(Candidates(network), Lowering(graph, machine, dtype, without), model, tell)


def with_room(candidates: Candidates, lowering: Lowering, model: str, tell: Tell = silent) -> Plan:
    """Every unit alone, in tiles for which there are addresses: estimates say what a tile holds,
    not where. Where smaller tiles do not help, the plan that estimates like best. In a scratchpad
    that is small for the network there are many tiles, so it tells how many it is at."""
    masks = tuple(1 << unit.number for unit in candidates.network.units)
    first = plan = candidates.plan(model, masks)
    tight: set[str] = set()
    try:
        while isinstance(found := _timed(lowering, plan, tell), Refused):
            tight.update(nodes := _nodes(plan, found))
            outside = isinstance(found, Short) and found.memory == lowering.context.main
            if outside or not candidates.tightened(nodes):  # smaller tiles leave no room there
                return first
            plan = candidates.plan(model, masks)
        for _ in range(HALVINGS if tight else 0):
            looser = _looser(candidates, lowering, plan, masks, tight)
            if looser is not None and looser[1].makespan < found.makespan:
                plan, found = looser
    except TooManyTilesError:
        raise
    except TilewrightError:  # told where the plan is lowered
        return plan
    return plan


def _timed(lowering: Lowering, plan: Plan, tell: Tell) -> Timed | Refused:
    tiles = sum(prod(split.parts for split in group.splits) for group in plan.groups)
    tell(f"layer by layer: {tiles:,} {noun(tiles, 'tile')}")
    if tiles > MOST_TILES:
        name = lowering.machine.name
        raise TooManyTilesError(
            f"layer by layer it takes {tiles:,} tiles on {name}, more than the {MOST_TILES:,} that "
            "can be planned: there is too little room on its cores for this network"
        )
    return lowering.timed(plan)


def _looser(
    candidates: Candidates, lowering: Lowering, plan: Plan, masks: tuple[int, ...], tight: set[str]
) -> tuple[Plan, Timed] | None:
    """A plan in which tiles that had to become smaller are larger again, as far as there are
    addresses; None where there are for none."""
    before = candidates.loosened(tight)
    while before:
        looser = candidates.plan(plan.model, masks)
        found = lowering.timed(looser)
        if isinstance(found, Timed):
            return looser, found
        if not candidates.restored(_nodes(looser, found), before):
            candidates.restored(tight, before)
    return None


def _nodes(plan: Plan, refused: Refused) -> list[str]:
    return [name for number in refused.groups for name in plan.groups[number].nodes]


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
