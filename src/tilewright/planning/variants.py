"""Rewrites that a network may do without: which of them are made is decided by plans of it."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph
from tilewright.legalise import Legalised
from tilewright.legalise.steps import rewritten_name
from tilewright.machine.machine import Machine
from tilewright.plan.order import in_order
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.planning.decide import Options, search_of, told
from tilewright.planning.prepare import plannable
from tilewright.program.metrics import Objective, score
from tilewright.search.effort import Effort
from tilewright.search.found import Found, Trial
from tilewright.search.fusion import Fusion
from tilewright.search.improvement.improve import FEWEST, evaluations_of
from tilewright.search.progress import Tell
from tilewright.tiling.group import exports

REWRITTEN = "fused, rewritten"
FLIPS = 10  # plans of an effort for each single rewrite that is tried behind it


def best_variant(
    graph: Graph, machine: Machine, dtype: str, options: Options, progress: Tell
) -> tuple[Legalised, Fusion | None]:
    """The network to plan, and the search that has looked at it, if any. A given plan says which
    rewrites it is of. Else, where there is a choice, the network with the rewrites that are
    estimated to be cheaper, with all and with none of them are compared: by what the smallest
    effort finds if a larger one is asked for, else by what a search proposes first, or layer by
    layer. What is searched on for the fastest plan is then compared, effort by effort, with the
    same plan of the network with one rewrite more or less. Of networks with very large plans only
    what is estimated to be cheaper is searched."""
    given = options.plan
    legal = plannable(graph, machine, dtype, None if given is None else given.rewrites)
    if given is not None or not legal.choices:
        return legal, None
    with told(legal.graph, machine, dtype, options):
        best = _best(_Variants(graph, machine, dtype, options, progress), legal)
    return (legal, None) if best is None else (best.legal, best.search)


def _best(variants: "_Variants", legal: Legalised) -> "_Variant | None":
    """The network with the rewrites that are best, searched if that is asked for; None where no
    plan is found for any."""
    options, found = variants.options, list[_Variant]()
    names = tuple(name for name, _ in legal.choices)
    estimated = tuple(name for name, rewritten in legal.choices if rewritten)
    try:
        for rewrites in dict.fromkeys((estimated, names, ())):
            variants.progress("comparing rewrites of the network")
            found.append(variants.proposed(rewrites))
            if found[-1].large:
                break
    except KeyboardInterrupt:
        if not found or found[0].score == inf:
            raise
        for variant in found:
            variant.search.ended = True
    best = min(found, key=lambda variant: variant.score)
    if best.score == inf:
        return None
    searched = options.objective is Objective.LATENCY and not (
        options.layer_by_layer or options.ablation or options.patterns
    )
    best = variants.flipped(variants.ahead(found)) if searched else best
    best.search.elsewhere = [trial for v in found for trial in v.search.layer_by_layer()]
    return best


@dataclass(frozen=True, slots=True)
class _Variant:
    """A network with some rewrites, its search, and what its first plans reach."""

    legal: Legalised
    search: Fusion
    score: float = inf

    @property
    def large(self) -> bool:
        """Whether its plans are so large that as few as can be are looked at: no others, then."""
        return evaluations_of(Effort.NORMAL, self.search.tasks) == FEWEST


class _Variants:
    """The forms of one network."""

    def __init__(
        self, graph: Graph, machine: Machine, dtype: str, options: Options, progress: Tell
    ) -> None:
        self.graph, self.machine, self.dtype = graph, machine, dtype
        self.options, self.progress = options, progress

    def made(self, rewrites: Collection[str], *, remedies: bool = True) -> _Variant:
        """The network with some rewrites; `remedies`: whether its first plan is made to fit."""
        legal = plannable(self.graph, self.machine, self.dtype, rewrites)
        within = self.machine.within(self.options.memory_limit)
        search = search_of(legal.graph, within, self.dtype, self.options, self.progress)
        search.remedies = remedies
        return _Variant(legal, search)

    def proposed(self, rewrites: Collection[str]) -> _Variant:
        """The same, and what its first plans reach."""
        variant, options = self.made(rewrites), self.options
        with suppress(TilewrightError):
            variant.search.begin() if options.layer_by_layer else variant.search.propose()
            return replace(variant, score=variant.search.best().score(options.objective))
        return variant

    def ahead(self, known: Sequence[_Variant]) -> _Variant:
        """What is best of what has plans; where a larger effort than the smallest is asked for, by
        what that finds for each, since first plans say little of what a search ends with: the best
        then has so many plans less to look at."""
        begun = sorted((v for v in known if v.score < inf), key=lambda variant: variant.score)
        steps, looked = self.options.effort.steps, list[_Variant]()
        if len(begun) == 1 or len(steps) == 1 or begun[0].large or begun[0].search.ended:
            return begun[0]
        interrupted = False
        for variant in begun:
            if not interrupted:
                found = variant.search.run(steps[0])
                interrupted = found.interrupted
                looked.append(replace(variant, score=found.best.score(self.options.objective)))
        best = min(looked, key=lambda variant: variant.score)
        best.search.ended = interrupted
        best.search.spent = sum(
            evaluations_of(steps[0], variant.search.tasks)
            for variant in looked
            if variant is not best
        )
        return best

    def flipped(self, variant: _Variant) -> _Variant:
        """What is searched effort by effort; behind each, as long as the plan that was found is
        better with one rewrite more or less, that is gone on with."""
        try:
            for step in self.options.effort.steps:
                found = variant.search.run(step)
                while better := None if found.interrupted else self._better(variant, found, step):
                    found = better.search.run(Effort.LOW)
                    variant = better
                variant.search.ended = found.interrupted
                if found.interrupted:
                    break
        except KeyboardInterrupt:
            variant.search.ended = True
        return variant

    def _better(self, variant: _Variant, found: Found, step: Effort) -> _Variant | None:
        """The network with one rewrite more or less with which the plan is best, if it is better
        than with those it has; its search begins with it."""
        if variant.large:
            return None
        search, best, objective = variant.search, found.best, self.options.objective
        chosen, least = None, best.score(objective)
        taken = variant.legal.rewrites or ()
        most = evaluations_of(step, search.tasks) // FLIPS
        for name, rewritten in variant.legal.choices[:most]:
            self.progress("comparing rewrites of the network")
            rest = tuple(other for other in taken if rewritten_name(other) != name)
            other = self.made(rest if rewritten else (*rest, name), remedies=False)
            plan = carried(best.plan, variant.legal.graph, other.legal.graph, name)
            if plan is None:
                continue
            metrics = other.search.evaluate(plan)
            search.simulated += 1
            if metrics is not None and score(metrics, objective) < least:
                other.search.given = (Trial(REWRITTEN, plan, (), metrics),)
                chosen, least = other, score(metrics, objective)
        if chosen is not None:
            chosen.search.simulated, chosen.search.remedies = search.simulated, True
        return chosen


def carried(plan: Plan, before: Graph, graph: Graph, name: str) -> Plan | None:
    """A plan for the network in which another form of an operator has taken its place: what stands
    for the operator runs in the first of its groups that is on cores. Where no operator has the
    name, what is new runs with its reader. None where there is no such, or no order for it."""
    planned = {node for group in plan.groups for node in group.nodes}
    new = [node for node in graph.nodes if node.name not in planned]
    moved, joining = {name, *(node.name for node in new)}, dict[str, str]()
    if name not in graph.index:
        readers = (graph.consumers[node.outputs[0]][0] for node in new)
        joining = {n.name: graph.nodes[reader].name for n, reader in zip(new, readers, strict=True)}
        moved = set[str]()
    groups: list[GroupPlan] = []
    for group in plan.groups:
        nodes = {node for node in group.nodes if node in graph.index and node != name}
        if moved and len(nodes) < len(group.nodes) and group.place is Place.CORES:
            nodes, moved = nodes | moved, set[str]()
        nodes |= {node for node, reader in joining.items() if reader in nodes}
        if nodes:
            row = sorted(nodes, key=graph.index.__getitem__)
            groups.append(replace(group, nodes=tuple(row)))

    def leaving(nodes: tuple[str, ...]) -> Collection[str]:
        return exports(graph, [graph.index[node] for node in nodes])

    called: dict[str, str] = {}  # values that have another name now
    for node in before.nodes:
        if node.name in graph.index:
            called |= zip(node.outputs, graph.nodes[graph.index[node.name]].outputs, strict=False)
    resident = dict.fromkeys(n for old in plan.resident for n in (old, called.get(old, old)))
    plan = replace(plan, resident=tuple(resident))
    found = None if moved else in_order(graph, plan, groups, leaving)
    if found is None:
        return None
    rows = ((tensor, tuple(n for n in row if n in graph.index)) for tensor, row in found.reloaded)
    return replace(found, reloaded=tuple(row for row in rows if row[1]))
