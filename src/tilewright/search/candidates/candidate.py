"""Ways to run a set of units as one group: alone, depth-first tile by tile, or as a section whose
values stay in the scratchpads; and which of them an objective prefers."""

from collections.abc import Hashable, Iterable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from math import inf

from tilewright.errors import TilewrightError
from tilewright.graph.ops import runs_whole
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.program.metrics import Objective, Prices, prices_of
from tilewright.search.candidates.core_sets import core_sets
from tilewright.search.candidates.estimates import Estimate
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.sections import Section, Sections
from tilewright.search.candidates.tiles import USABLE_SHARE, Tiler
from tilewright.tiling.grid import tiles_of
from tilewright.units import format_bytes

SMALL = 4  # units; larger groups whose values all fit need not be tried tile by tile
TIGHTER = 0.8  # of the bytes of a cut that found no addresses: what the next may take
NEAR = 1.06  # kept values so close to what engines and memory need leave nothing to gain


class NoPlanFitsError(TilewrightError):
    """A network has no plan on a machine: `what` does not fit it, because of `why`."""

    def __init__(self, what: str, machine: str, why: str = "") -> None:
        self.what, self.why = what, why
        super().__init__(f"{what} fits {machine}{why and f': {why}'}")


class NoTileFitsError(NoPlanFitsError):
    """The scratchpad is too small for a single tile of an operator, which takes `needed` bytes."""

    def __init__(self, operator: str, machine: str, needed: int, there: int) -> None:
        self.needed = needed
        why = f"{format_bytes(needed)} needed, {format_bytes(there)} there"
        super().__init__(f"no tile of {operator}", machine, why)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A group as decisions, with what the additive model says of it."""

    groups: tuple[GroupPlan, ...]
    resident: tuple[str, ...]
    cycles: float
    traffic: int
    energy: float
    bytes: int
    kind: str  # alone, tiled, kept or moved
    reloaded: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def score(self, prices: Prices) -> float:
        """What to add up."""
        return prices.of(self.cycles, self.traffic, self.energy)


def plan_of(network: Network, model: str, candidates: Iterable[Candidate | None]) -> Plan:
    """Groups in order, each in a way that is there, as a plan."""
    groups: list[GroupPlan] = []
    resident: list[str] = []
    reloaded: list[tuple[str, tuple[str, ...]]] = []
    for candidate in candidates:
        assert candidate is not None
        groups += candidate.groups
        resident += candidate.resident
        reloaded += candidate.reloaded
    kept = tuple(dict.fromkeys(resident))
    machine = network.machine.name
    return Plan(model, machine, network.dtype, tuple(groups), kept, tuple(reloaded))


class Candidates:
    """The best way to run each group of one network."""

    def __init__(self, network: Network, objective: Objective = Objective.LATENCY) -> None:
        self.network, self.objective = network, objective
        self.tiled = True  # whether groups may run tile by tile
        self.most_tiles = inf  # of a unit that runs alone
        self.tiler = Tiler(network)
        self.sections = Sections(network, self.tiler)
        self._alone: dict[int, Estimate] = {}
        self._refused: dict[int, int] = {}  # bytes of cuts that found no addresses, the fewest
        self._singles: dict[int, Candidate] = {}
        self._fused: dict[Hashable, Estimate | None] = {}
        self._known: dict[int, Candidate | None] = {}

    @cached_property
    def prices(self) -> Prices:
        """What the objective pays for the figures of a group, near the plan of single units."""
        singles = [self._single(unit.number) for unit in self.network.units]
        cycles = sum(single.cycles for single in singles)
        return prices_of(self.objective, cycles, sum(single.energy for single in singles))

    def within(self, share: float) -> "Candidates":
        """The same with a share of the scratchpads, but for units that run alone."""
        other = copy(self)
        other.sections, other._known, other._fused = self.sections.within(share), {}, {}
        other.tiler = other.sections.tiler
        return other

    def apart(self) -> "Candidates":
        """The same, but sections cut every unit by itself."""
        other = copy(self)
        other.sections, other._known = self.sections.apart(), {}
        return other

    def candidate(self, mask: int) -> Candidate | None:
        """The best way to run these units together, or None where there is none."""
        if mask & (mask - 1) == 0:
            return self._single(mask.bit_length() - 1)
        if mask not in self._known:
            self._known[mask] = self._together(mask)
        return self._known[mask]

    def tightened(self, nodes: Iterable[str]) -> bool:
        """Cut the units of some nodes into smaller tiles where they run alone, as no addresses were
        found for those they have; whether there are any."""
        found = False
        for signature, number in self._looks(nodes).items():
            self._refused[signature] = self._alone[signature].bytes
            found |= self._cut_within(number, TIGHTER * self._alone[signature].bytes)
        return found

    def loosened(self, nodes: Iterable[str]) -> dict[int, Estimate]:
        """Cut units that were tightened into tiles halfway between those they have and those that
        found no addresses, where estimates prefer them; what they had before."""
        before: dict[int, Estimate] = {}
        for signature, number in self._looks(nodes).items():
            if signature in self._refused:
                now = self._alone[signature]
                if self._cut_within(number, (now.bytes + self._refused[signature]) / 2):
                    before[signature] = now
        return before

    def restored(self, nodes: Iterable[str], before: dict[int, Estimate]) -> bool:
        """Cut the units of some nodes as before, as no addresses were found; whether there are
        any that were cut otherwise."""
        looks = self._looks(nodes).keys() & before.keys()
        for signature in looks:
            self._refused[signature] = self._alone[signature].bytes
            self._alone[signature] = before.pop(signature)
        self._singles.clear()
        return bool(looks)

    def _looks(self, nodes: Iterable[str]) -> dict[int, int]:
        """Looks of the units of some nodes that run alone, and one unit of each."""
        network = self.network
        units = {network.home[network.graph.index[name]] for name in nodes}
        alike = {self.sections.signature(number): number for number in sorted(units)}
        return {look: number for look, number in alike.items() if look in self._alone}

    def _cut_within(self, number: int, limit: float) -> bool:
        """Cut a unit that runs alone in the best way that takes so many bytes; whether it is
        another than it has."""
        signature = self.sections.signature(number)
        options = self._cut_alone(number, limit)
        smaller = [o for o in options if o.bytes <= min(limit, self.tiler.room(o.cores))]
        if not smaller or smaller[0] == self._alone[signature]:
            return False
        self._alone[signature] = smaller[0]
        self._singles.clear()
        return True

    def plan(self, model: str, masks: tuple[int, ...]) -> Plan:
        """Groups in order, as a plan."""
        return plan_of(self.network, model, (self.candidate(mask) for mask in masks))

    def _single(self, number: int) -> Candidate:
        if number not in self._singles:
            self._singles[number] = self._made_single(number)
        return self._singles[number]

    def _made_single(self, number: int) -> Candidate:
        unit = self.network.units[number]
        moved = tuple(self.network.movements(number))
        if unit.place is not Place.CORES:
            amount = 2 * self._movement_bytes(unit.nodes) if unit.place is Place.MAIN else 0
            energy = amount * self.tiler.main_pj
            return Candidate(moved, (), amount / self.tiler.rate, amount, energy, 0, "moved")
        estimate = self.alone(number)
        groups = (estimate.plan(self.network.names(unit.nodes)), *moved)
        return _candidate(groups, (), estimate, "alone")

    def alone(self, number: int) -> Estimate:
        """The best way to cut a unit whose data come from and go to the main memory."""
        signature = self.sections.signature(number)
        if signature not in self._alone:
            room, options = self.tiler.room, self._cut_alone(number)
            fitting = [o for o in options if o.bytes <= room(o.cores) * USABLE_SHARE]
            fitting = fitting or [o for o in options if o.least <= room(o.cores)]
            fitting = fitting or [o for o in options if o.bytes <= 2 * room(o.cores)]
            if not fitting:
                usable = max(map(room, core_sets(self.network)))
                tiled = self.network.ops(number)[0]
                least = min((o.least for o in options), default=0)
                operator = f"'{tiled.node.name}' ({tiled.node.kind})"
                raise NoTileFitsError(operator, self.network.machine.name, least, usable)
            self._alone[signature] = fitting[0]
        return self._alone[signature]

    def _cut_alone(self, number: int, limit: float | None = None) -> list[Estimate]:
        """Ways to cut a unit whose data come from and go to the main memory, on all cores or, where
        they differ, on those of some kinds; the best first."""
        ops = self.network.ops(number)
        exported = self.tiler.exported(self.network.units[number].nodes)
        fastest = self.objective is not Objective.TRAFFIC
        options: list[Estimate] = []
        sets = core_sets(self.network)
        for cores in sets:
            tiler = self.tiler.on(cores)
            options += tiler.options(ops, exported, frozenset(), limit, fastest=fastest)
        if len(sets) > 1:
            options.sort(key=lambda o: (o.cycles, o.traffic, o.bytes))
        few = (o for o in options if tiles_of(o.splits) <= self.most_tiles)
        options = [o for o in few if not o.replicated]
        if self.objective is Objective.TRAFFIC:
            options.sort(key=lambda o: (o.traffic, o.cycles))
        return options

    def _movement_bytes(self, nodes: tuple[int, ...]) -> int:
        graph, layouts = self.network.graph, self.network.layouts
        total = 0
        for index in nodes:
            node = graph.nodes[index]
            whole = runs_whole(graph, node)
            names = (*node.reads, *node.writes) if whole else tuple(node.writes)
            total += sum(layouts.moved(n, graph.types[n].size) for n in names if n in graph.types)
        return total

    def _together(self, mask: int) -> Candidate | None:
        members = self.network.members(mask)
        if not all(self.network.on_cores(number) for number in members):
            return None
        if any(self._reads_views(number, mask) for number in members):
            return None
        kept = self._kept(mask)
        if kept is not None:
            least = max(self._least(members), kept.traffic / self.tiler.rate)
            if kept.cycles <= NEAR * least or len(members) > SMALL:
                return kept  # nothing is computed twice, and little is passed on
        if not self.tiled or self._constant_bytes(members) > self.tiler.usable * USABLE_SHARE:
            return kept
        found = [candidate for candidate in (self._tiled(members), kept) if candidate is not None]
        return min(found, key=lambda candidate: candidate.score(self.prices), default=None)

    def _least(self, members: list[int]) -> float:
        """Compute cycles that no way to cut these units undercuts, as the estimates see it."""
        busy = {"matrix": 0.0, "vector": 0.0}
        for number in members:
            kind, cycles = self.sections.least(number)
            busy[kind] += cycles
        return max(busy.values())

    def _constant_bytes(self, members: list[int]) -> int:
        """Constants that a depth-first group holds on every core; the largest may be divided, where
        output channels are cut."""
        layouts, graph = self.network.layouts, self.network.graph
        names = {
            name
            for number in members
            for tiled in self.network.ops(number)
            for name in tiled.node.inputs
            if name in graph.constants
        }
        sizes = [layouts.bytes(n, graph.types[n].shape, aligned=True) for n in names]
        return sum(sizes) - max(sizes, default=0)

    def _reads_views(self, number: int, mask: int) -> bool:
        """Whether a unit reads a view that belongs to another unit of the group: such a value
        has to be complete in the main memory first."""
        graph, network = self.network.graph, self.network
        for node in network.units[number].nodes:
            for maker in graph.predecessors(node):
                home = network.home[maker]
                inside = home != number and mask >> home & 1
                if inside and maker in network.units[home].views:
                    return True
        return False

    def _tiled(self, members: list[int]) -> Candidate | None:
        """Depth-first, tile by tile."""
        network = self.network
        nodes = sorted(n for number in members for n in network.units[number].nodes)
        ops = network.joined_ops(members)
        key = self.sections.look(tuple(members))
        if key not in self._fused:
            options = self.tiler.fused(
                ops, self.tiler.exported(nodes), int(self.tiler.usable * USABLE_SHARE)
            )
            self._fused[key] = options[0] if options else None
        estimate = self._fused[key]
        if estimate is None:
            return None
        groups = [estimate.plan(network.names(nodes))]
        for number in members:
            groups += [g for g in network.movements(number) if g.place is Place.VIEW]
        return _candidate(tuple(groups), (), estimate, "tiled")

    def _kept(self, mask: int) -> Candidate | None:
        """One after the other, values kept in the scratchpads."""
        section = self.sections.section(mask)
        if section is None:
            return None
        groups: list[GroupPlan] = []
        for run, option in section.choices:
            groups.append(option.plan(self.network.names(self.sections.nodes(run))))
            moved = (group for number in run for group in self.network.movements(number))
            groups += (group for group in moved if group.place is Place.VIEW)
        resident = tuple(name for name in section.made if self._read_inside(name, mask))
        stored = self._stored_bytes(section, mask)
        dma = section.dma + stored / self.tiler.rate
        cycles = max(section.compute, dma) + section.fill
        traffic = section.traffic + stored
        energy = section.energy + stored * self.tiler.main_pj
        peak = max((option.bytes for _, option in section.choices), default=0)
        reloaded = tuple((name, nodes) for name in resident if (nodes := self._later(name, mask)))
        return Candidate(tuple(groups), resident, cycles, traffic, energy, peak, "kept", reloaded)

    def _later(self, name: str, mask: int) -> tuple[str, ...]:
        """Operators on cores outside the section that read a value of it: from the main memory."""
        network, graph = self.network, self.network.graph
        readers = (r for r in graph.consumers.get(name, ()) if not mask >> network.home[r] & 1)
        return network.names(r for r in readers if network.on_cores(network.home[r]))

    def _read_inside(self, name: str, mask: int) -> bool:
        network = self.network
        readers = network.graph.consumers.get(name, ())
        return network.keepable(name) and any(
            mask >> network.home[r] & 1 and r in network.units[network.home[r]].nodes
            for r in readers
        )

    def _stored_bytes(self, section: Section, mask: int) -> int:
        """Bytes of results that have to reach the main memory."""
        graph, layouts = self.network.graph, self.network.layouts
        total = 0
        for name in section.made:
            readers = graph.consumers.get(name, ())
            outside = any(not mask >> self.network.home[r] & 1 for r in readers)
            if outside or name in graph.outputs or not readers:
                total += layouts.bytes(name, graph.types[name].shape, aligned=True)
        return total


def _candidate(
    groups: tuple[GroupPlan, ...], resident: tuple[str, ...], estimate: Estimate, kind: str
) -> Candidate:
    e = estimate
    return Candidate(groups, resident, e.cycles, e.traffic, e.energy, e.bytes, kind)
