"""Rewrites that a network may do without: which of them are made is decided by plans of it."""

from collections.abc import Collection
from contextlib import suppress
from math import inf

from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph
from tilewright.legalise import Legalised
from tilewright.machine.machine import Machine
from tilewright.planning.decide import Options, search_of
from tilewright.planning.prepare import plannable
from tilewright.search.fusion import Fusion
from tilewright.search.progress import Tell


def best_variant(
    graph: Graph, machine: Machine, dtype: str, options: Options, progress: Tell
) -> tuple[Legalised, Fusion | None]:
    """The network to plan, and the search that has looked at it, if any. A given plan says which
    rewrites it is of. Else, where there is a choice, the network with the rewrites that are
    estimated to be cheaper, with all and with none of them are compared by what a search proposes
    first, or layer by layer where that is asked for."""
    given = options.plan
    legal = plannable(graph, machine, dtype, None if given is None else given.rewrites)
    if given is not None or not legal.choices:
        return legal, None
    names = [name for name, _ in legal.choices]
    estimated = tuple(name for name, rewritten in legal.choices if rewritten)
    found: list[tuple[float, Legalised, Fusion]] = []
    try:
        for rewrites in dict.fromkeys((estimated, tuple(names), ())):
            progress("comparing rewrites of the network")
            found.append(_proposed(graph, machine, dtype, options, rewrites, progress))
    except KeyboardInterrupt:
        if not found or found[0][0] == inf:
            raise
        for _, _, search in found:
            search.ended = True
    score, best, search = min(found, key=lambda row: row[0])
    return (best, search) if score < inf else (legal, None)


def _proposed(
    graph: Graph,
    machine: Machine,
    dtype: str,
    options: Options,
    rewrites: Collection[str],
    progress: Tell,
) -> tuple[float, Legalised, Fusion]:
    """What the first plans of a network with some rewrites reach."""
    legal = plannable(graph, machine, dtype, rewrites)
    within = machine.within(options.memory_limit)
    search = search_of(legal.graph, within, dtype, options, progress)
    with suppress(TilewrightError):
        search.begin() if options.layer_by_layer else search.propose()
        return search.best().score(options.objective), legal, search
    return inf, legal, search
