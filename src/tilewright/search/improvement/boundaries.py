"""Boundaries between groups, and plans without them: what `explain` tries by force, and what the
search tries last, so that no boundary is left that is better taken away."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.cost.base import CostError
from tilewright.errors import TilingError
from tilewright.graph.graph import Graph
from tilewright.plan.order import order_with
from tilewright.plan.plan import Place, Plan
from tilewright.program.metrics import Metrics, Objective, score
from tilewright.search.candidates.estimates import Estimate
from tilewright.search.candidates.forced import forced_cuts
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.tiles import Tiler
from tilewright.tiling.group import exports, typed_group

TIE = 0.005  # plans within half a percent of the best are no gain unless they move fewer bytes
JOIN_SHARE = 2  # evaluations of the improvement for each that takes a boundary away
CUTS = 2  # ways to cut groups as one that are simulated


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor between two groups of a plan, by number; `via` are nodes of views between them."""

    tensor: str
    before: int
    after: int
    via: tuple[str, ...] = ()


def edges_of(graph: Graph, plan: Plan) -> Iterator[Edge]:
    """Every tensor between two groups that do work; views are followed to who reads them."""
    home = {name: i for i, group in enumerate(plan.groups) for name in group.nodes}
    for number, group in enumerate(plan.groups):
        if group.place is Place.VIEW:
            continue
        for name in exports(graph, (graph.index[node] for node in group.nodes)):
            seen: set[int] = set()
            todo: list[tuple[str, tuple[str, ...]]] = [(name, ())]
            while todo:
                value, via = todo.pop(0)
                for reader in graph.consumers.get(value, ()):
                    node = graph.nodes[reader]
                    other = home[node.name]
                    if plan.groups[other].place is Place.VIEW:
                        todo += [(result, (*via, node.name)) for result in node.writes]
                    elif other != number and other not in seen:
                        seen.add(other)
                        yield Edge(name, number, other, via)


def moving_groups(plan: Plan, edge: Edge) -> list[int]:
    """Groups that only move an edge's tensor, in the main memory or as views of it: those between
    its two groups, and these."""
    home = {name: i for i, group in enumerate(plan.groups) for name in group.nodes}
    between = dict.fromkeys(home[name] for name in edge.via)
    row = (edge.before, *between, edge.after)
    return [number for number in row if plan.groups[number].place is not Place.CORES]


class Joins:
    """Plans without a boundary, made from plans with it."""

    def __init__(self, network: Network, tiler: Tiler) -> None:
        self.network, self.graph, self.tiler = network, network.graph, tiler

    def options(self, nodes: Sequence[int], cores: tuple[str, ...] = ()) -> list[Estimate]:
        """Ways to cut nodes as one group that fit some cores, or all, the best first; `TilingError`
        or `CostError` where it cannot be one."""
        exported = exports(self.graph, nodes)
        return forced_cuts(self.tiler.on(cores), typed_group(self.graph, nodes), exported)

    def cores_of(self, plan: Plan, numbers: Sequence[int]) -> tuple[str, ...]:
        """The cores that some groups run on, none of them named where it is all."""
        groups = [g for g in (plan.groups[n] for n in numbers) if g.place is Place.CORES]
        used = {name for group in groups for name in group.cores}
        names = tuple(core.name for core in self.network.machine.cores if core.name in used)
        some = all(group.cores for group in groups) and len(names) < len(self.network.machine.cores)
        return names if some else ()

    def members(self, plan: Plan, numbers: Sequence[int]) -> list[int]:
        """The nodes of some groups."""
        names = (name for number in numbers for name in plan.groups[number].nodes)
        return sorted(self.graph.index[name] for name in names)

    def joined(
        self, plan: Plan, numbers: Sequence[int], order: Sequence[int], option: Estimate
    ) -> Plan:
        """Groups as one in a given cut. `order` has all places but the first's left out."""
        nodes = self.members(plan, numbers)
        joined = option.plan(self.network.names(nodes))
        groups = [joined if number == numbers[0] else plan.groups[number] for number in order]
        outside = set(exports(self.graph, nodes))
        inner = {name for index in nodes for name in self.graph.nodes[index].writes} - outside
        resident = tuple(name for name in plan.resident if name not in inner)
        reloaded = tuple(row for row in plan.reloaded if row[0] in resident)
        return replace(plan, groups=tuple(groups), resident=resident, reloaded=reloaded)

    def kept(self, plan: Plan, name: str, cuts: Sequence[tuple[int, Estimate]] = ()) -> Plan:
        """A tensor stays in the scratchpads; groups that move it do so on the cores in given cuts,
        and what comes out of them stays too."""
        groups, names = list(plan.groups), [name]
        for number, option in cuts:
            nodes = self.members(plan, (number,))
            groups[number] = option.plan(self.network.names(nodes))
            names += [result for result in exports(self.graph, nodes) if self._read(result)]
        resident = tuple(dict.fromkeys((*plan.resident, *names)))
        reloaded = tuple(row for row in plan.reloaded if row[0] not in names)
        return replace(plan, groups=tuple(groups), resident=resident, reloaded=reloaded)

    def _read(self, name: str) -> bool:
        return bool(self.graph.consumers.get(name))

    def better(
        self,
        plan: Plan,
        metrics: Metrics,
        evaluate: Callable[[Plan], Metrics | None],
        objective: Objective,
        evaluations: int,
    ) -> Iterator[tuple[Plan, Metrics]]:
        """Better and better plans, each with a boundary less, until no boundary is better taken
        away or so many were simulated: ahead by more than a tie, or no worse with fewer bytes."""
        tie = TIE if objective is Objective.LATENCY else 0.0
        seen, tensor, left = {plan}, "", True
        while left:
            left = False
            for name, other in self._plans(plan, tensor):
                if other in seen:
                    continue
                if len(seen) > evaluations:
                    return
                seen.add(other)
                found = evaluate(other)
                if found is None:
                    continue
                reached, least = score(found, objective), score(metrics, objective)
                fewer = found.dram_bytes < metrics.dram_bytes
                if reached < least * (1 - tie) or (reached <= least and fewer):
                    plan, metrics, tensor, left = other, found, name, True
                    yield plan, metrics
                    break

    def _plans(self, plan: Plan, last: str) -> Iterator[tuple[str, Plan]]:
        """Every plan with one boundary less, that of the largest tensor first; those behind the
        tensor that was taken last come before the others."""
        types = self.graph.types
        order = sorted(edges_of(self.graph, plan), key=lambda e: (-types[e.tensor].bytes, e.tensor))
        if last:
            mark = (-types[last].bytes, last)
            order.sort(key=lambda e: (-types[e.tensor].bytes, e.tensor) < mark)
        for edge in order:
            for other in self._without(plan, edge):
                yield edge.tensor, other

    def _without(self, plan: Plan, edge: Edge) -> Iterator[Plan]:
        moving = moving_groups(plan, edge)
        try:
            cores = self.cores_of(plan, (edge.before, edge.after))
            if edge.tensor not in plan.resident or moving:
                cuts = [(n, self.options(self.members(plan, (n,)), cores)) for n in moving]
                if all(options for _, options in cuts):
                    yield self.kept(plan, edge.tensor, [(n, options[0]) for n, options in cuts])
            between = (n for n in moving if n not in (edge.before, edge.after))
            numbers = (edge.before, *between, edge.after)
            order = order_with(self.graph, plan.groups, numbers)
            for some in dict.fromkeys((cores, ())) if order is not None else ():
                for option in self.options(self.members(plan, numbers), some)[:CUTS]:
                    yield self.joined(plan, numbers, order or (), option)
        except (TilingError, CostError):
            return  # it cannot be one group, or not on these engines
