"""Patterns of the user: operators that are always fused, or always kept apart.

A pattern is a path through the network, operator by operator. What is fused becomes one unit of the
search, which sees only groups that contain all of it or none; across what is kept apart there is
neither a group nor a resident tensor.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError, TilingError
from tilewright.graph.graph import Graph
from tilewright.graph.ops import SPECS
from tilewright.machine.document import Document
from tilewright.machine.entries import list_at, mapping_at
from tilewright.machine.faults import Fault, Faults, FileError, Keys, written
from tilewright.plan.plan import Place, Plan
from tilewright.program.metrics import Objective
from tilewright.search.candidates.candidate import Candidate, Candidates, plan_of
from tilewright.search.candidates.forced import forced_cuts, least_bytes
from tilewright.search.candidates.network import Network
from tilewright.units import format_bytes

SMALL_GROUP = 16  # units; larger groups are rather planned again with a smaller share
_KEYS = ("name", "operators", "action")


class Action(StrEnum):
    """What becomes of the operators of a pattern."""

    FUSE = "fuse"
    APART = "keep apart"


class PatternError(TilewrightError):
    """A pattern that cannot be read or kept; the text names it."""


class PatternFileError(FileError, PatternError):
    """A file of patterns that cannot be used; the text is its first fault, with line and key."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Operators in a row. One in parentheses may be absent."""

    name: str
    operators: tuple[str, ...]
    action: Action


@dataclass(frozen=True, slots=True)
class Match:
    """Nodes of a network that a pattern names, by number, in order."""

    pattern: Pattern
    nodes: tuple[int, ...]


def read_patterns(path: Path) -> tuple[Pattern, ...]:
    """Patterns from a YAML file: a list of name, operators and action."""
    try:
        document = Document(path, "a file of patterns", listed=True)
    except FileError as error:
        raise PatternFileError(error.faults) from None
    if not document.entries:
        raise PatternFileError([Fault(str(path), None, "", "it has to be a list of patterns")])
    faults = Faults()
    found = [_pattern(row, (number,), faults) for number, row in enumerate(document.entries)]
    if faults.found:
        raise PatternFileError(document.faults(faults.found))
    return tuple(found)


def pattern_of(row: object, where: str) -> Pattern:
    """A pattern from plain data, which faults call `where`."""
    faults = Faults()
    pattern = _pattern(row, (), faults)
    if faults.found:
        raise PatternFileError([Fault(where, None, written(k), text) for k, text in faults.found])
    return pattern


def _pattern(row: object, where: Keys, faults: Faults) -> Pattern:
    """A pattern as far as it can be read; what is wrong with it is told."""
    entry = faults.take(partial(mapping_at, row, where), None)
    if entry is None:
        return Pattern("", (), Action.FUSE)
    faults.unknown(entry, _KEYS, where)
    name, action = entry.get("name"), entry.get("action")
    raw = faults.take(partial(list_at, entry, "operators", where), [])
    operators = tuple(str(item) for item in raw)

    def wrong(keys: Keys, text: str) -> None:
        faults.found.append(((*where, *keys), text))

    if not isinstance(name, str) or not name:
        wrong(("name",), "has to be text")
    if action not in tuple(Action):
        wrong(("action",), f"is {' or '.join(Action)}")
    if len(operators) < 2:
        wrong(("operators",), "has to be a list of two operators or more")
    for number, kind in enumerate(operators):
        if _kind(kind) not in SPECS:
            wrong(("operators", number), f"there is no operator '{kind}'{_near(kind)}")
    if operators and any(_optional(kind) for kind in (operators[0], operators[-1])):
        wrong(("operators",), "the first and the last cannot be optional")
    return Pattern(str(name), operators, Action(action) if action in tuple(Action) else Action.FUSE)


def _near(kind: str) -> str:
    near = get_close_matches(_kind(kind), SPECS, 1)
    return f": did you mean '{near[0]}'?" if near else ""


def pattern_row(pattern: Pattern) -> dict[str, Any]:
    """A pattern as plain data."""
    operators = list(pattern.operators)
    return {"name": pattern.name, "operators": operators, "action": pattern.action.value}


def matches(graph: Graph, pattern: Pattern) -> Iterator[Match]:
    """Every path that a pattern names, in execution order."""
    for index in range(len(graph.nodes)):
        for nodes in _paths(graph, (index,), pattern.operators):
            yield Match(pattern, nodes)


def _paths(
    graph: Graph, path: tuple[int, ...], operators: Sequence[str]
) -> Iterator[tuple[int, ...]]:
    """Ways to continue a path whose last node has to be the first operator."""
    if graph.nodes[path[-1]].kind != _kind(operators[0]):
        return
    if len(operators) == 1:
        yield path
        return
    for skipped in range(1, len(operators)):
        for following in sorted(graph.successors(path[-1])):
            yield from _paths(graph, (*path, following), operators[skipped:])
        if not _optional(operators[skipped]):
            return


def _optional(operator: str) -> bool:
    return operator.startswith("(") and operator.endswith(")")


def _kind(operator: str) -> str:
    return operator[1:-1] if _optional(operator) else operator


def apart_edges(graph: Graph, patterns: Sequence[Pattern]) -> dict[tuple[str, str], str]:
    """Pairs of neighbouring nodes that patterns keep apart, and which pattern does."""
    return {
        (graph.nodes[one].name, graph.nodes[other].name): pattern.name
        for pattern in patterns
        if pattern.action is Action.APART
        for match in matches(graph, pattern)
        for one, other in zip(match.nodes, match.nodes[1:], strict=False)
    }


class PatternSpace:
    """What a search may put together: the units of a network, those of a pattern as one.

    Bitmasks are of `blocks`; without patterns every unit is a block of its own.
    """

    def __init__(self, candidates: Candidates, patterns: Sequence[Pattern] = ()) -> None:
        self.candidates, self.network = candidates, candidates.network
        graph = self.network.graph
        self.notes: list[str] = []
        self.apart = self._apart(apart_edges(graph, patterns))
        self.forced = self._forced([p for p in patterns if p.action is Action.FUSE])
        found = {match.pattern.name for match in self.forced.values()}
        kept = set(self.apart.values())
        for pattern in patterns:
            if pattern.name not in found | kept:
                self.notes.append(f"pattern '{pattern.name}' matches nothing in this network")
        taken = {unit: mask for mask in self.forced for unit in self.network.members(mask)}
        blocks = {taken.get(u.number, 1 << u.number): None for u in self.network.units}
        self.blocks = self._ordered(tuple(blocks))
        self._tiled: dict[int, Candidate | None] = {}

    @property
    def predecessors(self) -> tuple[int, ...]:
        """For each block, those it needs, as a bitmask."""
        return self._needs(self.blocks)

    @property
    def singles(self) -> tuple[int, ...]:
        """Every block as a group of its own, in an order that runs."""
        return tuple(1 << number for number in range(len(self.blocks)))

    def _needs(self, blocks: tuple[int, ...]) -> tuple[int, ...]:
        home = {u: b for b, mask in enumerate(blocks) for u in self.network.members(mask)}
        masks: list[int] = []
        for number, block in enumerate(blocks):
            needed = 0
            for unit in self.network.members(block):
                for other in self.network.members(self.network.predecessors[unit]):
                    needed |= 1 << home[other]
            masks.append(needed & ~(1 << number))
        return tuple(masks)

    def _ordered(self, blocks: tuple[int, ...]) -> tuple[int, ...]:
        """Blocks in an order that runs, close to the one given."""
        before = self._needs(blocks)
        done, left = 0, list(range(len(blocks)))
        order: list[int] = []
        while left:
            number = next((n for n in left if not before[n] & ~done), None)
            if number is None:
                stuck = next(self.forced[blocks[n]] for n in left if blocks[n] in self.forced)
                raise PatternError(f"{self._what(stuck)} cannot be fused: other groups lie between")
            left.remove(number)
            done |= 1 << number
            order.append(blocks[number])
        return tuple(order)

    def units(self, mask: int) -> int:
        """The units of blocks, as a bitmask of units."""
        if not self.forced:
            return mask
        return sum(self.blocks[number] for number in self.network.members(mask))

    def candidate(self, mask: int) -> Candidate | None:
        """The best way to run blocks together, as the patterns have it; None: there is none."""
        units = self.units(mask)
        if any(units & pair == pair for pair in self.apart):
            return None
        if not any(units & block == block for block in self.forced):
            return self.candidates.candidate(units)
        if units not in self._tiled:
            self._tiled[units] = depth_first(self.candidates, units)
        return self._tiled[units]

    def plan(self, model: str, masks: Sequence[int]) -> Plan:
        """Groups in order, as a plan."""
        return plan_of(self.network, model, (self.candidate(mask) for mask in masks))

    def may_stay(self, name: str) -> bool:
        """Whether a tensor may be resident: no pattern keeps its maker and a reader apart."""
        graph, home = self.network.graph, self.network.home
        maker = graph.producer[name]
        pairs = (1 << home[maker] | 1 << home[r] for r in graph.consumers.get(name, ()))
        return not any(pair in self.apart for pair in pairs)

    def parted(self, groups: tuple[int, ...], nodes: Sequence[str]) -> tuple[int, ...]:
        """The groups without those of some nodes that are small: their parts run one by one."""
        home, index = self.network.home, self.network.graph.index
        units = {home[index[name]] for name in nodes}
        found: list[int] = []
        for group in groups:
            inside = self.network.members(self.units(group))
            small = len(inside) <= SMALL_GROUP and not units.isdisjoint(inside)
            found += [1 << number for number in self.network.members(group)] if small else [group]
        return tuple(found)

    def check(self) -> None:
        """Raise where a pattern that has to be fused cannot be."""
        for mask, match in self.forced.items():
            inside = [pair for pair in self.apart if mask & pair == pair]
            what = self._what(match)
            if inside:
                raise PatternError(f"{what}: pattern '{self.apart[inside[0]]}' keeps it apart")
            if depth_first(self.candidates, mask) is None:
                raise PatternError(f"{what} cannot be fused: {_why_not(self.candidates, mask)}")

    def _what(self, match: Match) -> str:
        nodes = self.network.graph.nodes
        first, last = nodes[match.nodes[0]].name, nodes[match.nodes[-1]].name
        return f"pattern '{match.pattern.name}' at '{first}' .. '{last}'"

    def _apart(self, edges: Mapping[tuple[str, str], str]) -> dict[int, str]:
        """Pairs of units as bitmasks. What runs inside another operator cannot be apart from it."""
        graph, home = self.network.graph, self.network.home
        found: dict[int, str] = {}
        within: dict[str, tuple[str, str]] = {}
        for (one, other), pattern in edges.items():
            pair = 1 << home[graph.index[one]] | 1 << home[graph.index[other]]
            if pair.bit_count() == 2:
                found.setdefault(pair, pattern)
            else:
                within.setdefault(pattern, (one, other))
        for pattern, (one, other) in within.items():
            if pattern not in found.values():
                raise PatternError(
                    f"pattern '{pattern}': '{other}' runs inside '{one}' on "
                    f"{self.network.machine.name} and cannot be kept apart from it"
                )
        return found

    def _forced(self, patterns: Sequence[Pattern]) -> dict[int, Match]:
        """Units of every match as bitmasks, the first match of each node. What lies on paths
        between the units of a match belongs to it."""
        graph, home = self.network.graph, self.network.home
        taken = 0
        found: dict[int, Match] = {}
        for pattern in patterns:
            for match in matches(graph, pattern):
                units = sorted({home[node] for node in match.nodes})
                mask = self._closed(sum(1 << unit for unit in units))
                if mask & taken:
                    continue
                taken |= mask
                found[mask] = match
        return found

    def _closed(self, mask: int) -> int:
        """Units with all that lie between them."""
        before = self.network.predecessors
        low, high = min(self.network.members(mask)), mask.bit_length()
        after = 0  # what follows from the units
        for unit in range(low, high):
            if mask >> unit & 1 or before[unit] & (after | mask):
                after |= 1 << unit
        needed = mask
        for unit in reversed(range(low, high)):
            if needed >> unit & 1:
                needed |= before[unit]
        return mask | after & needed


def depth_first(candidates: Candidates, mask: int) -> Candidate | None:
    """The best way to run units as one group, tile by tile; None where there is none."""
    network, tiler = candidates.network, candidates.tiler
    members = network.members(mask)
    nodes = sorted(n for number in members for n in network.units[number].nodes)
    try:
        ops = tuple(tiled for number in members for tiled in network.ops(number))
        ops = tuple(sorted(ops, key=lambda tiled: network.graph.index[tiled.node.name]))
        options = forced_cuts(tiler, ops, tiler.exported(nodes))
    except TilingError:
        return None
    if not options or _reads_views(network, members):
        return None
    if candidates.objective is Objective.TRAFFIC:
        options.sort(key=lambda o: (o.traffic, o.cycles))
    elif candidates.objective is Objective.MEMORY:
        options.sort(key=lambda o: (o.bytes, o.cycles))
    best = options[0]
    groups = [best.plan(network.names(nodes))]
    for number in members:
        groups += [g for g in network.movements(number) if g.place is Place.VIEW]
    return Candidate(tuple(groups), (), best.cycles, best.traffic, best.energy, best.bytes, "tiled")


def _reads_views(network: Network, members: Sequence[int]) -> str:
    """The view through which one of the units reads another, if any."""
    graph = network.graph
    for number in members:
        for node in network.units[number].nodes:
            for maker in graph.predecessors(node):
                home = network.home[maker]
                if home != number and home in members and maker in network.units[home].views:
                    return graph.nodes[maker].name
    return ""


def _why_not(candidates: Candidates, mask: int) -> str:
    network, tiler = candidates.network, candidates.tiler
    members = network.members(mask)
    whole = next((n for n in members if not network.on_cores(n)), None)
    if whole is not None:
        node = network.graph.nodes[network.units[whole].nodes[0]]
        return f"'{node.name}' ({node.kind}) does not run on the cores"
    view = _reads_views(network, members)
    if view:
        return (
            f"'{view}' lies between, a view of the main memory: "
            "only a plan.yaml can have it on the cores"
        )
    nodes = sorted(n for number in members for n in network.units[number].nodes)
    ops = tuple(tiled for number in members for tiled in network.ops(number))
    ops = tuple(sorted(ops, key=lambda tiled: network.graph.index[tiled.node.name]))
    least = least_bytes(tiler, ops, tiler.exported(nodes))
    if isinstance(least, str):
        return least
    return (
        f"its smallest tile needs {format_bytes(least)}, "
        f"{network.machine.name} has {format_bytes(tiler.usable)} a core"
    )
