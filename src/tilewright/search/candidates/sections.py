"""Sections: units one after the other, every value between them kept in the scratchpads.

Each unit is cut by itself, over the cores and in time; what its neighbours on other cores need of
its result is passed on. Sections are grown unit by unit, so that a longer one costs one step more
than the one it grew from. How a unit is best divided among the cores depends on those behind it, so
the best section for each division of the last unit is grown on.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import permutations

from tilewright.geometry.box import Box
from tilewright.graph.ops.spec import is_given
from tilewright.search.candidates.estimates import Estimate
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.tiles import USABLE_SHARE, Tiler
from tilewright.tiling.cutting import cut_ops
from tilewright.tiling.grid import Split

OPTIONS = 12  # ways to cut a unit that are kept for each way to divide it among the cores
PRICE = (
    0.2  # of a byte that a unit takes, as a share of loading it: loads come early into free bytes
)

EVERYWHERE = -1  # in place of an axis: every core has all of it
DIVISIONS = 3  # ways to divide the last unit of a section that are grown on


@dataclass(frozen=True, slots=True)
class Section:
    """Units with their ways to run, and what that takes; `spent` is what sections are compared by.
    `made` says along which axis a value is divided among the cores; `held` are bytes per core of
    the values that are kept."""

    mask: int
    spent: float
    choices: tuple[tuple[int, Estimate], ...]
    compute: float
    dma: float
    traffic: int
    energy: float
    made: Mapping[str, int | None]
    held: Mapping[str, int]

    @property
    def fill(self) -> float:
        """What nothing hides: the first unit's loads."""
        return self.choices[0][1].fill


Rows = dict[int | None, list[Estimate]]
"""Ways to cut a unit, by the axis that is divided among the cores."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One more unit behind a section: how it is cut, what passes, and bytes per core of the values
    that it reads and makes."""

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
        self._known: dict[int, list[Section]] = {}
        self._options: dict[tuple[int, tuple[bool, ...]], Rows] = {}
        self._needs: dict[tuple[int, int | None], dict[str, int]] = {}
        self._sizes: dict[str, int] = {}
        self._signatures: dict[int, int] = {}
        self._seen: dict[tuple[object, ...], int] = {}
        self._least: dict[int, tuple[str, float]] = {}
        self.pass_rate = self.pass_latency = 0.0
        self.pass_once = False  # whether what all cores need is sent to all of them at once
        self._count_passes()

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
        other._known = {}
        other.usable = int(self.tiler.usable * share)
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
        """The best sections of these units for different divisions of the last, the best first."""
        known = self._known.get(mask)
        if known is None:
            last = mask.bit_length() - 1
            before = mask & ~(1 << last)
            if not self.network.on_cores(last):
                known = []
            elif before:
                known = self._longer(self._grown(before), last)
            else:
                known = self._longer([Section(0, 0.0, (), 0.0, 0.0, 0, 0.0, {}, {})], last)
            self._known[mask] = known
        return known

    def _longer(self, sections: Sequence[Section], number: int) -> list[Section]:
        """Sections with one more unit, in the best ways to divide it."""
        graph, network = self.network.graph, self.network
        ops = network.ops(number)
        inside = {name for tiled in ops for name in tiled.node.writes}
        inputs = [
            name
            for name in dict.fromkeys(n for tiled in ops for n in tiled.node.inputs)
            if name and name not in inside and name not in graph.constants
        ]
        outputs = list(self.tiler.exported(network.units[number].nodes))
        best: dict[int | None, _Step] = {}
        for section in sections:
            kept = [name for name in inputs if name in section.made]
            others = sum(size for name, size in section.held.items() if name not in kept)
            for axis, row in self._options_of(number, inputs, kept, outputs).items():
                needs = self._needed(number, axis)
                held = {name: max(section.held.get(name, 0), needs.get(name, 0)) for name in kept}
                room = self.usable - others - sum(held.values())
                for option in row:
                    made = {name: self._share(name, option) for name in outputs}
                    if option.bytes + sum(made.values()) > room:
                        continue
                    passed = sum(
                        self._passing(name, section.made[name], option, needs) for name in kept
                    )
                    spent = section.spent + max(option.compute + passed, option.dma / 2)
                    # What it takes, and what constants every core holds, leaves no bytes to fetch
                    # ahead.
                    spent += PRICE * option.bytes / self.tiler.rate
                    if axis not in best or spent < best[axis].spent:
                        best[axis] = _Step(spent, section, option, passed, held | made)
                    break
        steps = sorted(best.items(), key=lambda entry: entry[1].spent)[:DIVISIONS]
        return [self._with(step, number, outputs, axis) for axis, step in steps]

    def _with(
        self, step: "_Step", number: int, outputs: Sequence[str], divided: int | None
    ) -> Section:
        """A section with one more unit."""
        section, option = step.section, step.option
        mask = section.mask | 1 << number
        sizes = {**section.held, **step.held}
        return Section(
            mask,
            step.spent,
            (*section.choices, (number, option)),
            section.compute + option.compute + step.passed,
            section.dma + option.dma,
            section.traffic + option.traffic,
            section.energy + option.energy,
            {**section.made, **dict.fromkeys(outputs, divided)},
            {name: size for name, size in sizes.items() if self._waits(name, mask)},
        )

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

    def _passing(
        self, name: str, made: int | None, option: Estimate, needs: Mapping[str, int]
    ) -> float:
        """Cycles to pass a value from where it is to where a unit needs it."""
        cores = self.tiler.cores
        if cores == 1 or made == EVERYWHERE:
            return 0.0
        need, whole = needs.get(name, 0), self._bytes(name)
        if self.pass_once and need >= whole and (option.axis is not None or option.replicated):
            moved = whole
        elif made is None:
            moved = 0 if option.axis is None and not option.replicated else (cores - 1) * need
        elif option.axis == made:
            moved = cores * max(0, need - whole // cores)
        elif option.axis is None and not option.replicated:
            moved = need * (cores - 1) // cores
        else:
            moved = cores * (need - need // cores)
        return self.pass_latency * cores + moved / self.pass_rate if moved else 0.0

    def _options_of(
        self, number: int, inputs: list[str], kept: list[str], outputs: list[str]
    ) -> Rows:
        """The best ways to cut a unit, a few for each way to divide it among the cores: those that
        take fewer bytes later."""
        key = (self.signature(number), tuple(name in kept for name in inputs))
        if key not in self._options:
            known: Rows = {}
            ops = self.network.ops(number)
            exported = self.tiler.exported(self.network.units[number].nodes)
            resident = frozenset((*kept, *outputs))
            options = self.tiler.options(ops, exported, resident)
            for option in sorted(options, key=lambda o: o.amid):
                row = known.setdefault(EVERYWHERE if option.replicated else option.axis, [])
                # The best first; later ones only if they need fewer bytes.
                if len(row) < OPTIONS and all(option.bytes < other.bytes for other in row):
                    row.append(option)
            for row in known.values():
                row.sort(key=lambda o: (o.amid[0] + PRICE * o.bytes / self.tiler.rate, o.bytes))
            self._options[key] = known
        return self._options[key]

    def _needed(self, number: int, axis: int | None) -> dict[str, int]:
        """Bytes of each input that one core needs when the unit is divided along an axis."""
        key = (number, axis)
        if key not in self._needs:
            ops = self.network.ops(number)
            exported = self.tiler.exported(self.network.units[number].nodes)
            cores = self.tiler.cores
            divided = axis is not None and axis != EVERYWHERE and cores > 1
            splits = (Split(axis, cores),) if divided and axis is not None else ()
            group = cut_ops(self.network.graph, ops, exported, splits, probe=True)
            zero = (0,) * len(splits)
            self._needs[key] = {
                name: self.network.layouts.bytes(
                    name, Box(tuple(cut.at(zero) for cut in cuts)).shape, aligned=True
                )
                for name, cuts in group.inputs.items()
            }
        return self._needs[key]

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
