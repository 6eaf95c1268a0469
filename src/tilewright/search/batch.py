"""A batch: all images at once, image by image, some of the network each way, an image on each core.

One image is planned as a network of its own; its plan, repeated for all images, is one for the
network with its nodes repeated (`tiling.images`), which the simulator compares with the plan for
the batch as a whole. Where both have a boundary in common, the network can change from one way to
the other there: images one by one while tensors are large, all at once where weights are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf

from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph
from tilewright.machine.machine import Core
from tilewright.plan.plan import GroupPlan, Place, Plan, by_memory
from tilewright.program.lowering import Lowering
from tilewright.program.metrics import metrics_of
from tilewright.program.timed import Timed
from tilewright.search.candidates.candidate import Candidates, NoPlanFitsError
from tilewright.search.candidates.network import Network
from tilewright.search.effort import Effort
from tilewright.search.found import Found, Trial
from tilewright.search.fusion import Fusion
from tilewright.search.improvement.climb import KICKED
from tilewright.search.improvement.improve import evaluations_of
from tilewright.tiling.images import Images, by_image, image_counts, repeatable
from tilewright.units import noun

COPIES = 16  # at most; of more images several go through together
CHANGES = 12  # places that are looked at to change from image by image to all at once
NAME = "image by image"


@dataclass(frozen=True, slots=True)
class Searched:
    """What was found, for which network: the one given, or with nodes repeated."""

    graph: Graph
    found: Found
    notes: tuple[str, ...] = ()


def search_batch(search: Fusion, effort: Effort) -> Searched:
    """Search for the network as it is, and, where it has a batch, in all other ways too."""
    images = image_copies(search.graph)
    found, fault = None, None
    try:
        found = search.run(effort)
    except TilewrightError as error:
        if images is None:
            raise
        fault = error  # all images at once may not fit; one may
    if found is not None and (images is None or found.interrupted):
        return Searched(search.graph, found, tuple(search.space.notes))
    assert images is not None
    batch = _Batch(search, images, found, effort)
    interrupted = False
    try:
        batch.look()
    except KeyboardInterrupt:
        if found is None and not batch.ways:
            raise
        interrupted = True
    except TilewrightError:
        if fault is None:
            raise
    if found is None and not batch.ways:
        raise fault or NoPlanFitsError(f"no plan of {search.model}", search.machine.name)
    return batch.best(interrupted)


def image_copies(graph: Graph) -> int | None:
    """In how many copies a network is repeated: one for each image, or for a few of them."""
    counts = [
        max(copies for copies in range(1, COPIES + 1) if count % copies == 0)
        for count in image_counts(graph)
    ]
    usable = [n for n in counts if n > 1 and repeatable(graph, n)]
    return max(usable, key=lambda n: len(repeatable(graph, n)), default=None)


@dataclass(frozen=True, slots=True)
class _Way:
    """A plan that repeats nodes, as the simulator sees it."""

    trial: Trial
    images: Images


class _Batch:
    """The ways of a batch that repeat nodes; `whole` is what was found for all images at once."""

    def __init__(self, search: Fusion, images: int, whole: Found | None, effort: Effort) -> None:
        self.search, self.images, self.whole, self.effort = search, images, whole, effort
        self.objective, self.machine = search.objective, search.machine
        self.simulated = search.simulated
        self.repeated = by_image(search.graph, images)
        self.lowering = self._lowering(self.repeated.graph)
        self.ways: list[_Way] = []
        self.rivals: list[Trial] = []

    def look(self) -> None:
        """Try image by image on all cores, then in part, then on some cores each; improve the
        best, unless it is worse than all images at once by more than a kick may be."""
        for number, lot in enumerate(_lots(self.machine.cores, self.images)):
            machine = self.machine.part(lot[0]) if number else self.machine
            cores = len(machine.cores)
            self.search.progress(f"one image on {cores} {noun(cores, 'core')}")
            search = self.search.like(graph=self.repeated.single, machine=machine)
            found = search.run(self.effort)
            self.simulated += search.simulated
            single = found.best.plan
            self._look(self.repeated, self._tried(NAME, single, self.repeated, lot))
            if not number and self.whole is not None:
                self._change(single, self.whole.best.plan)
            elif not number:
                self._rival(found.rivals)
            if found.interrupted:
                raise KeyboardInterrupt
        best = min(self.ways, key=self._score, default=None)
        most = inf if self.whole is None else (1 + KICKED) * self._least(self.whole)
        if best is not None and self._score(best) <= most:
            again = self.search.like(graph=best.images.graph)
            plans = evaluations_of(self.effort, best.trial.metrics.run_tasks) // self.images
            trial = again.improved(best.trial, plans)
            self.simulated += again.simulated
            self.ways.append(_Way(trial, best.images))

    def best(self, interrupted: bool) -> Searched:
        """The best of all ways."""
        way = min(self.ways, key=self._score, default=None)
        whole, notes = self.whole, tuple(self.search.space.notes)
        left = NAME if interrupted else ""
        if whole is not None and (way is None or self._least(whole) <= self._score(way)):
            found = replace(
                whole, simulated=self.simulated, interrupted=interrupted, not_looked_at=left
            )
            return Searched(self.search.graph, found, notes)
        assert way is not None
        if whole is None:
            rivals = tuple(self.rivals)
            found = Found(
                way.trial, rivals, False, 0, self.simulated, interrupted, left, self.objective
            )
        else:
            found = replace(
                whole,
                best=way.trial,
                simulated=self.simulated,
                interrupted=interrupted,
                not_looked_at=left,
            )
        return Searched(way.images.graph, found, notes)

    def _least(self, found: Found) -> float:
        return found.best.score(self.objective)

    def _score(self, way: _Way) -> float:
        return way.trial.score(self.objective)

    def _look(self, images: Images, trial: Trial | None) -> None:
        """A plan for all images, where it can be lowered."""
        self.ways += [_Way(trial, images)] if trial is not None else []

    def _rival(self, rivals: Sequence[Trial]) -> None:
        """What all images at once would have been compared with, image by image."""
        for rival in rivals:
            trial = self._tried(rival.name, rival.plan, self.repeated, [()])
            self.rivals += [trial] if trial is not None else []

    def _tried(
        self,
        name: str,
        single: Plan,
        images: Images,
        lot: Sequence[Sequence[str]],
        tail: Plan | None = None,
    ) -> Trial | None:
        """A plan of one image for all of them, image i on the cores of a lot."""
        known = images is self.repeated
        lowering = self.lowering if known else self._lowering(images.graph)
        network = Network(images.graph, self.machine, single.dtype)
        self.simulated += 1
        try:
            plan = repeated_plan(network, images, single, lot, tail)
            timed = lowering.timed(plan)
        except TilewrightError:
            return None
        if not isinstance(timed, Timed):
            return None
        return Trial(name, plan, (), metrics_of(timed))

    def _change(self, single: Plan, tail: Plan) -> None:
        """Image by image up to some place, all at once from there on."""
        graph = self.search.graph
        places = _common(graph, single, tail)
        step = -(-len(places) // CHANGES)
        for before in places[::step] if step else ():
            after = tuple(node.name for node in graph.nodes if node.name not in before)
            images = by_image(graph, self.images, after)
            then = f"{NAME}, then all"
            self._look(images, self._tried(then, single, images, [()], tail))

    def _lowering(self, graph: Graph) -> Lowering:
        return Lowering(graph, self.machine, self.search.network.dtype, self.search.without)


def _common(graph: Graph, first: Plan, second: Plan) -> list[frozenset[str]]:
    """The nodes before each place at which both plans could stop; not before all, not behind."""

    def ends(plan: Plan) -> list[frozenset[str]]:
        before: set[str] = set()
        found: list[frozenset[str]] = []
        for group in plan.groups:
            before.update(name for name in group.nodes if name in graph.index)
            found.append(frozenset(before))
        return found

    others = frozenset(ends(second))
    kept = [before for before in ends(first) if before in others]
    return [before for before in dict.fromkeys(kept) if 0 < len(before) < len(graph.nodes)]


def _lots(cores: Sequence[Core], images: int) -> Iterator[list[tuple[str, ...]]]:
    """The cores that images run on, in turn: all cores for each, then more and more lots of fewer
    where cores are alike."""
    yield [()]
    if any(_alike(core) != _alike(cores[0]) for core in cores):
        return
    names = [core.name for core in cores]
    for lots in range(2, min(len(names), images) + 1):
        if len(names) % lots == 0:
            size = len(names) // lots
            yield [tuple(names[k * size : (k + 1) * size]) for k in range(lots)]


def _alike(core: Core) -> object:
    """What cores have in common that do the same at the same price."""
    engines = tuple((e.kind, e.model, e.reference_cycles, e.parameters) for e in core.engines)
    memories = tuple(replace(m, name="", core=None) for m in core.memories)
    return engines, memories


def repeated_plan(
    network: Network,
    images: Images,
    single: Plan,
    lots: Sequence[Sequence[str]],
    tail: Plan | None = None,
) -> Plan:
    """A plan of one image repeated for all of them, as many at a time as there are lots of cores;
    nodes that are not repeated run as in `tail`, or alone."""
    graph, count = network.graph, len(lots)
    groups: list[GroupPlan] = []
    for start in range(0, len(images.copies), count):
        for group in single.groups:
            for names, cores in zip(images.copies[start : start + count], lots, strict=False):
                if all(name in names for name in group.nodes):
                    nodes = tuple(names[name] for name in group.nodes)
                    groups.append(replace(group, nodes=nodes, cores=tuple(cores) or group.cores))
    known = {name for group in groups for name in group.nodes}
    if tail is not None:
        own = [g for g in tail.groups if all(n in graph.index and n not in known for n in g.nodes)]
        groups += own
        known |= {name for group in own for name in group.nodes}
    groups += _others(network, known)
    plan = Plan(
        single.model,
        network.machine.name,
        single.dtype,
        tuple(_ordered(graph, groups)),
        images=len(images.copies),
        batched=images.batched,
        memory_limit=_limit_of(single, tail),
    )
    parts = [(single, names) for names in images.copies]
    if tail is not None:
        parts.append((tail, {name: name for name in (*graph.types, *graph.index)}))
    return _with_kept(graph, plan, parts)


def _limit_of(single: Plan, tail: Plan | None) -> int | None:
    """The limit that a plan of parts with these has."""
    limits = [part.memory_limit for part in (single, tail) if part is not None]
    return None if None in limits else max(limit for limit in limits if limit is not None)


def _others(network: Network, known: set[str]) -> Iterator[GroupPlan]:
    """Groups of the nodes that no other has: slices and joins, and what stays as it is."""
    candidates = Candidates(network)
    for unit in network.units:
        if not known.issuperset(network.names((*unit.nodes, *unit.views))):
            candidate = candidates.candidate(1 << unit.number)
            assert candidate is not None
            yield from (group for group in candidate.groups if known.isdisjoint(group.nodes))


def _ordered(graph: Graph, groups: Sequence[GroupPlan]) -> Iterator[GroupPlan]:
    """Groups in their order, but none before what it needs."""
    home = {name: number for number, group in enumerate(groups) for name in group.nodes}
    waits: list[set[int]] = []
    readers: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        nodes = [graph.index[name] for name in group.nodes]
        before = {home[graph.nodes[p].name] for node in nodes for p in graph.predecessors(node)}
        waits.append(before - {number})
        for other in waits[-1]:
            readers.setdefault(other, []).append(number)
    ready = [number for number, before in enumerate(waits) if not before]
    while ready:
        number = heappop(ready)
        yield groups[number]
        for reader in readers.get(number, ()):
            waits[reader].discard(number)
            if not waits[reader]:
                heappush(ready, reader)


def _with_kept(graph: Graph, plan: Plan, parts: Iterable[tuple[Plan, Mapping[str, str]]]) -> Plan:
    """A plan that keeps what the plans of its parts keep, under the names that values have now, as
    far as they are made and read on cores here too."""
    on_cores = {
        graph.index[name]
        for group in plan.groups
        if group.place is Place.CORES
        for name in group.nodes
    }
    resident: list[str] = []
    reloaded: list[tuple[str, tuple[str, ...]]] = []
    shared: list[tuple[str, list[str]]] = []
    for part, names in parts:
        for name in part.resident:
            value = names.get(name, "")
            readers = graph.consumers.get(value, ())
            if graph.producer.get(value) in on_cores and any(r in on_cores for r in readers):
                resident.append(value)
        for name, nodes in part.reloaded:
            there = tuple(names[node] for node in nodes if names.get(node, "") in graph.index)
            if names.get(name) in resident and there:
                reloaded.append((names[name], there))
        for memory, values in part.shared:
            for value in (names.get(name, "") for name in values):
                users = {graph.producer.get(value), *graph.consumers.get(value, ())}
                if users <= on_cores and value not in graph.outputs:
                    shared.append((memory, [value]))
    kept, again = tuple(resident), tuple(reloaded)
    return replace(plan, resident=kept, reloaded=again, shared=by_memory(shared))
