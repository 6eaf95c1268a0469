"""Sections: units one after the other, every value between them kept in the scratchpads.

Each unit is cut by itself, over the cores and in time; what its neighbours on other cores need of
its result is passed on. A run of units of different engines is also cut as one, tile by tile, so
that the engines work at the same time. Sections are grown run by run, so that a longer one costs
little more than those it grew from. How a run is best divided among the cores depends on those
behind it, so the best section for each division of the last run is grown on.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import NamedTuple

from tilewright.geometry.box import Box
from tilewright.graph.ops.spec import is_given
from tilewright.plan.plan import Place
from tilewright.search.candidates.estimates import EVERYWHERE, Division, Estimate
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.tiles import USABLE_SHARE, Tiler
from tilewright.tiling.cutting import cut_ops
from tilewright.tiling.grid import Split
from tilewright.tiling.group import TiledOp

OPTIONS = 12  # ways to cut a unit that are kept for each way to divide it among the cores
PRICE = (
    0.2  # of a byte that a unit takes, as a share of loading it: loads come early into free bytes
)

DIVISIONS = 3  # ways to divide the last run of a section that are grown on
LONGEST = 5  # units of a run that is cut as one
LARGE = 0.5  # of a scratchpad: a tile of a run takes no more, and constants that do are cut too


Run = tuple[int, ...]
"""Units that are cut as one, in order."""

Rows = dict[Division, list[Estimate]]
"""Ways to cut a run, by how it is divided among the cores."""


@dataclass(frozen=True, slots=True)
class Section:
    """Runs of units with their ways to run, and what that takes; `spent` is what sections are
    compared by. `made` says how a value is divided among the cores; `held` are bytes per core of
    the values that are kept."""

    mask: int
    spent: float
    choices: tuple[tuple[Run, Estimate], ...]
    compute: float
    dma: float
    traffic: int
    energy: float
    made: Mapping[str, Division]
    held: Mapping[str, int]

    @property
    def fill(self) -> float:
        """What nothing hides: the first unit's loads."""
        return self.choices[0][1].fill


_NOTHING = Section(0, 0.0, (), 0.0, 0.0, 0, 0.0, {}, {})


@dataclass(frozen=True, slots=True)
class _Ends:
    """What a run reads from outside that is no constant, and what it hands out."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class _Step(NamedTuple):
    """One more run behind a section: how it is cut, what passes, and bytes per core of the values
    that it reads and makes."""

    run: Run
    spent: float
    section: Section
    option: Estimate
    passed: float
    held: Mapping[str, int]


class Sections:
    """Grows sections of one network."""

    def __init__(self, network: Network, tiler: Tiler) -> None:
        self.network, self.tiler = network, tiler
        self.usable = int(tiler.usable * USABLE_SHARE)
        self.longest = LONGEST
        self._known: dict[int, list[Section]] = {}
        self._options: dict[Hashable, Rows] = {}
        self._needs: dict[tuple[Run, Division], dict[str, int]] = {}
        self._ends: dict[Run, _Ends] = {}
        self._looks: dict[Run, Hashable] = {}
        self._sizes: dict[str, int] = {}
        self._signatures: dict[int, int] = {}
        self._seen: dict[tuple[object, ...], int] = {}
        self._least: dict[int, tuple[str, float]] = {}
        self.pass_rate = self.pass_latency = 0.0
        self.pass_once = False  # whether what all cores need is sent to all of them at once
        self._count_passes()
        machine, places = network.machine, (core.memory.name for core in network.machine.cores)
        self.copies_within = all(any(machine.routes(name, name)) for name in places)

    def _count_passes(self) -> None:
        """What passing on takes between the two cores for which it takes the longest; nothing can
        be passed on where some have no way beside the main memory."""
        machine, main = self.network.machine, self.network.machine.main_memory.name
        alike = self.network.models.core_classes
        cores = [core.memory.name for members in alike for core in members[:2]]
        paths = [machine.find_path(one, other) for one, other in permutations(cores, 2)]
        for hops in paths:
            if hops is None or any(route.destination == main for _, route in hops):
                self.pass_rate = 0.0
                return
            rate = min(machine.joint_bytes_per_cycle(route) for _, route in hops)
            if not self.pass_rate or rate < self.pass_rate:
                self.pass_rate = rate
                self.pass_latency = float(sum(route.latency for _, route in hops))
                self.pass_once = all(route.multicast for _, route in hops)

    def within(self, share: float) -> "Sections":
        """The same, with a share of the scratchpads."""
        other = copy(self)
        other._known, other._options = {}, {}
        other.tiler = self.tiler.within(share)
        other.usable = int(other.tiler.usable * USABLE_SHARE)
        return other

    def apart(self) -> "Sections":
        """The same, with every unit cut by itself."""
        other = copy(self)
        other._known, other.longest = {}, 1
        return other

    @property
    def possible(self) -> bool:
        """Whether values can get from core to core without the main memory."""
        return self.tiler.cores == 1 or self.pass_rate > 0

    def section(self, mask: int) -> Section | None:
        """These units as a section, or None where they do not fit."""
        known = self._grown(mask) if self.possible else []
        return known[0] if known else None

    def _grown(self, mask: int) -> list[Section]:
        """The best sections of these units for different divisions of the last run, the best
        first."""
        known = self._known.get(mask)
        if known is None:
            best: dict[Division, _Step] = {}
            for run in self._runs(mask):
                before = mask & ~sum(1 << number for number in run)
                starts = self._grown(before) if before else [_NOTHING]
                self._longer(starts, run, best)
            steps = sorted(best.items(), key=lambda entry: entry[1].spent)[:DIVISIONS]
            known = self._known[mask] = [self._with(step, divided) for divided, step in steps]
        return known

    def _runs(self, mask: int) -> Iterator[Run]:
        """The last unit, and runs that end with it and keep engines of both kinds busy, on which no
        other unit waits."""
        network = self.network
        last = mask.bit_length() - 1
        if not network.on_cores(last):
            return
        run = (last,)
        yield run
        kinds = {self._kind(last)}
        while len(run) < self.longest:
            inside = sum(1 << number for number in run)
            makers = 0
            for number in run:
                makers |= network.predecessors[number]
            makers &= mask & ~inside
            first = makers.bit_length() - 1
            if first < 0 or not network.on_cores(first):
                return
            readers = {
                network.home[r]
                for name in self._ends_of((first,)).outputs
                for r in network.graph.consumers.get(name, ())
            }
            if any(mask >> reader & 1 and reader not in run for reader in readers):
                return
            run = (first, *run)
            kinds.add(self._kind(first))
            if len(kinds) > 1:
                yield run

    def _kind(self, number: int) -> str:
        """The kind of engine that a unit keeps busy."""
        unit = self.network.units[number]
        return self.tiler.kind(self.network.ops(number)[0]) if unit.place is Place.CORES else ""

    def _longer(self, sections: Sequence[Section], run: Run, best: dict[Division, _Step]) -> None:
        """Add sections with one more run to the best for each way to divide it."""
        ends = self._ends_of(run)
        for section in sections:
            kept = [name for name in ends.inputs if name in section.made]
            others = sum(size for name, size in section.held.items() if name not in kept)
            for divided, row in self._options_of(run, ends, kept).items():
                needs = self._needed(run, divided)
                held = {
                    name: max(
                        section.held.get(name, 0),
                        needs.get(name, 0),
                        self._hull(name, section.made[name], divided),
                    )
                    for name in kept
                }
                room = self.usable - others - sum(held.values())
                for option in row:
                    made = {name: self._share(name, option) for name in ends.outputs}
                    if option.bytes + sum(made.values()) > room:
                        continue
                    passed = sum(
                        self._passing(name, section.made[name], divided, needs) for name in kept
                    )
                    spent = section.spent + max(option.compute + passed, option.dma / 2)
                    # What it takes, and what constants every core holds, leaves no bytes to fetch
                    # ahead.
                    spent += PRICE * option.bytes / self.tiler.rate
                    if divided not in best or spent < best[divided].spent:
                        best[divided] = _Step(run, spent, section, option, passed, held | made)
                    break

    def _with(self, step: "_Step", divided: Division) -> Section:
        """A section with one more run."""
        section, option = step.section, step.option
        outputs = self._ends_of(step.run).outputs
        mask = section.mask | sum(1 << number for number in step.run)
        sizes = {**section.held, **step.held}
        return Section(
            mask,
            step.spent,
            (*section.choices, (step.run, option)),
            section.compute + option.compute + step.passed,
            section.dma + option.dma,
            section.traffic + option.traffic,
            section.energy + option.energy,
            {**section.made, **dict.fromkeys(outputs, divided)},
            {name: size for name, size in sizes.items() if self._waits(name, mask)},
        )

    def nodes(self, run: Run) -> list[int]:
        """The nodes of a run, in order."""
        units = self.network.units
        return sorted(node for number in run for node in units[number].nodes)

    def _ends_of(self, run: Run) -> _Ends:
        known = self._ends.get(run)
        if known is None:
            graph, ops = self.network.graph, self.network.joined_ops(run)
            inside = {name for tiled in ops for name in tiled.node.writes}
            names = dict.fromkeys(name for tiled in ops for name in tiled.node.inputs)
            inputs = (n for n in names if n and n not in inside and n not in graph.constants)
            outputs = self.tiler.exported(self.nodes(run))
            known = self._ends[run] = _Ends(tuple(inputs), tuple(outputs))
        return known

    def _waits(self, name: str, mask: int) -> bool:
        """Whether somebody outside the units may still read a value."""
        readers = self.network.graph.consumers.get(name, ())
        return any(not mask >> self.network.home[reader] & 1 for reader in readers)

    def _bytes(self, name: str) -> int:
        """Bytes of a whole value."""
        if name not in self._sizes:
            shape = self.network.graph.types[name].shape
            self._sizes[name] = self.network.layouts.bytes(name, shape, aligned=True)
        return self._sizes[name]

    def _share(self, name: str, option: Estimate) -> int:
        """Bytes of a result on the core that has most of it."""
        whole = self._bytes(name)
        if option.axis is None:
            return whole
        return -(-whole // self.tiler.cores)

    def _hull(self, name: str, made: Division, divided: Division) -> int:
        """Bytes of a value that a core holds at least if it is made in one division and read in
        another: a region is one box."""
        if EVERYWHERE in (made, divided) or not made or not divided or made == divided:
            return 0
        shares, others = dict(made), dict(divided)
        parts = prod(min(among, others.get(axis, 1)) for axis, among in shares.items())
        return self._bytes(name) // parts

    def _passing(
        self, name: str, made: Division, divided: Division, needs: Mapping[str, int]
    ) -> float:
        """Cycles to pass a value from where it is to where a run needs it."""
        cores = self.tiler.cores
        if cores == 1 or made == EVERYWHERE:
            return 0.0
        need, whole = needs.get(name, 0), self._bytes(name)
        if self.pass_once and need >= whole and divided:
            moved = whole
        elif not made:
            moved = (cores - 1) * need if divided else 0
        elif divided == made:
            moved = cores * max(0, need - whole // cores)
        elif not divided:
            moved = need * (cores - 1) // cores
        else:
            moved = cores * (need - need // cores)
        return self.pass_latency * cores + moved / self.pass_rate if moved else 0.0

    def _options_of(self, run: Run, ends: _Ends, kept: list[str]) -> Rows:
        """The best ways to cut a run, a few for each way to divide it among the cores: those that
        take fewer bytes later."""
        key = (self.look(run), tuple(name in kept for name in ends.inputs))
        if key not in self._options:
            known: Rows = {}
            ops = self.network.joined_ops(run)
            exported = self.tiler.exported(self.nodes(run))
            resident = frozenset((*kept, *ends.outputs))
            if len(run) == 1:
                options = self.tiler.options(ops, exported, resident)
            elif any(exported.values()) and not self.copies_within:
                options = []  # what stays and is read inside too would have to be copied
            else:
                limit = int(LARGE * self.tiler.usable)  # the rest is for values that are kept
                heavy = self._constant_bytes(ops) > limit
                options = self.tiler.fused(ops, exported, limit, resident, crossed=heavy)
                options = self.tiler.spread(ops, exported, options)
            for option in sorted(options, key=lambda o: o.amid):
                row = known.setdefault(option.division(self.tiler.cores), [])
                # The best first; later ones only if they need fewer bytes.
                if len(row) < OPTIONS and all(option.bytes < other.bytes for other in row):
                    row.append(option)
            for row in known.values():
                row.sort(key=lambda o: (o.amid[0] + PRICE * o.bytes / self.tiler.rate, o.bytes))
            self._options[key] = known
        return self._options[key]

    def _constant_bytes(self, ops: Sequence[TiledOp]) -> int:
        """Bytes of the constants that operators read."""
        graph, layouts = self.network.graph, self.network.layouts
        names = {name for tiled in ops for name in tiled.node.inputs if name in graph.constants}
        return sum(layouts.bytes(n, graph.types[n].shape, aligned=True) for n in names)

    def _needed(self, run: Run, divided: Division) -> dict[str, int]:
        """Bytes of each input that one core needs when the run is divided so."""
        key = (run, divided)
        if key not in self._needs:
            ops = self.network.joined_ops(run)
            exported = self.tiler.exported(self.nodes(run))
            apart = divided if divided != EVERYWHERE else ()
            extents = ops[-1].access[0].shape
            parts = ((axis, min(cores, extents[axis])) for axis, cores in apart)
            splits = tuple(Split(axis, among) for axis, among in parts if among > 1)
            group = cut_ops(self.network.graph, ops, exported, splits, probe=True)
            zero = (0,) * len(splits)
            self._needs[key] = {
                name: self.network.layouts.bytes(
                    name, Box(tuple(cut.at(zero) for cut in cuts)).shape, aligned=True
                )
                for name, cuts in group.inputs.items()
            }
        return self._needs[key]

    def look(self, run: Run) -> Hashable:
        """What units look like together to a cost: equal looks and equal wiring cost the same."""
        known = self._looks.get(run)
        if known is None:
            graph, nodes = self.network.graph, self.nodes(run)
            names: dict[str, int] = {}
            wiring: list[int] = []
            for index in nodes if len(run) > 1 else ():
                node = graph.nodes[index]
                wiring += [names.setdefault(n, len(names)) for n in (*node.inputs, *node.outputs)]
            outside = tuple(sorted(names[n] for n in self.tiler.exported(nodes))) if names else ()
            signatures = tuple(self.signature(number) for number in run)
            known = self._looks[run] = (signatures, tuple(wiring), outside)
        return known

    def least(self, number: int) -> tuple[str, float]:
        """The engine kind of a unit, and the fewest compute cycles of all ways to cut it."""
        signature = self.signature(number)
        if signature not in self._least:
            ops = self.network.ops(number)
            exported = self.tiler.exported(self.network.units[number].nodes)
            everything = frozenset(n for t in ops for n in (*t.node.inputs, *t.node.outputs))
            options = self.tiler.options(ops, exported, everything)
            kind = self.tiler.kind(ops[0])
            self._least[signature] = (kind, min((o.compute for o in options), default=0.0))
        return self._least[signature]

    def signature(self, number: int) -> int:
        """What a unit looks like to a cost: equal looks cost the same."""
        if number not in self._signatures:
            graph, layouts = self.network.graph, self.network.layouts
            rows: list[object] = []
            names: dict[str, int] = {}
            for index in self.network.units[number].nodes:
                node = graph.nodes[index]
                rows += [node.kind, tuple(sorted((k, str(v)) for k, v in node.attributes.items()))]
                for name in (*node.inputs, *node.outputs):
                    known = name in names
                    rows.append(names.setdefault(name, len(names)))
                    if known or not name:
                        continue
                    view = self.network.main_view(name) if name in graph.types else None
                    rows += [
                        graph.types.get(name),
                        name in graph.constants,
                        name in layouts.images,
                        is_given(graph, name),
                        None if view is None else view.strides,
                    ]
            self._signatures[number] = self._seen.setdefault(tuple(rows), len(self._seen))
        return self._signatures[number]
