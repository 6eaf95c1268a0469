"""Where two plans differ, and what each difference costs: the largest causes first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.compare.side import Part, PlanSide
from tilewright.plan.plan import Place
from tilewright.tables import Shown, Table
from tilewright.tiling.grid import Halo
from tilewright.units import noun, number_of, several

FIGURES = (
    "latency_cycles latency_ms lower_bound_cycles energy_pj dram_read_bytes dram_write_bytes "
    "groups tasks spilled_bytes"
).split()


CAUSES = "nodes groups_before groups_after cycles bytes energy_pj what".split()
TOP = 12  # causes, engines and keys told
_FILE, _LEFT_OUT = "as in the file", "left out"


@dataclass(frozen=True, slots=True)
class Change:
    """A figure on both sides; None where one side does not have it."""

    name: str
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """After to before."""
        if not self.before or self.after is None:
            return None
        return self.after / self.before


@dataclass(frozen=True, slots=True)
class PlanRegion:
    """The smallest part of the network that both plans divide into whole groups of their own:
    what it takes in each, and what is done differently there (nothing: it only takes longer or
    shorter)."""

    nodes: tuple[str, ...]
    before: tuple[Part, ...]
    after: tuple[Part, ...]
    what: tuple[str, ...]

    @property
    def cycles(self) -> int:
        """Cycles it takes more in the second plan."""
        return sum(p.cycles for p in self.after) - sum(p.cycles for p in self.before)

    @property
    def bytes(self) -> int:
        """Bytes of the main memory it moves more."""
        return sum(p.bytes for p in self.after) - sum(p.bytes for p in self.before)

    @property
    def energy_pj(self) -> float | None:
        """Energy it takes more; None where one of the machines has no figures for it."""
        before, after = ([p.energy_pj for p in parts] for parts in (self.before, self.after))
        if None in (*before, *after):
            return None
        return round(sum(filter(None, after)) - sum(filter(None, before)), 3)


@dataclass(frozen=True, slots=True, repr=False)
class PlanDifference(Shown):
    """Two sides. `regions` are those that differ in plan or in figures, by cycles, then bytes;
    `told` says whether the regions have figures at all."""

    before: PlanSide
    after: PlanSide
    setting: tuple[tuple[str, str, str], ...]
    keys: tuple[tuple[str, str, str], ...]  # of the machines' files
    figures: tuple[Change, ...]
    engines: tuple[Change, ...]
    peaks: tuple[Change, ...]
    regions: tuple[PlanRegion, ...]
    same_regions: int
    resident: tuple[str, ...]
    evicted: tuple[str, ...]
    told: bool

    def headline(self) -> list[str]:
        """The comparison in a line, and what is not the same from the start."""
        latency = next(c for c in self.figures if c.name == "latency_cycles")
        ratio, names = latency.ratio, (self.after.name, self.before.name)
        if latency.before == latency.after:
            text = f"{names[0]} takes as many cycles as {names[1]}"
        elif ratio is None:
            text = f"{names[0]} cannot be compared in cycles with {names[1]}"
        else:
            text = f"{names[0]} takes {ratio:.3f}x the cycles of {names[1]}"
        return [text, *filter(None, [self.strangers]), *self.asked_lines()]

    def asked_lines(self) -> list[str]:
        """What was asked for differently, and the first keys that the machines' files differ in."""
        more = len(self.keys) - TOP
        return [
            *(f"{name}: {old} against {new}" for name, old, new in self.setting),
            *(f"machine file, {key}: {old} -> {new}" for key, old, new in self.keys[:TOP]),
            *([f"machine file: {more} more keys differ (--json has all)"] if more > 0 else []),
        ]

    @property
    def strangers(self) -> str:
        """What is said of plans of different networks; nothing of plans of the same."""
        old, new = (
            frozenset(name.partition("@")[0] for group in side.plan.groups for name in group.nodes)
            for side in (self.before, self.after)
        )  # of nodes that are repeated for images, one
        models = [side.summary.get("model", side.plan.model) for side in (self.before, self.after)]
        both = len(old & new)
        if old == new or (both and models[0] == models[1]):
            return ""
        return (
            f"DIFFERENT NETWORKS: {models[0]} ({len(old)} operators) and {models[1]} ({len(new)}), "
            f"{both or 'none'} of them by the same name: most of what differs is the network"
        )

    def causes(self) -> Iterable[tuple[PlanRegion, tuple[float | None, ...]]]:
        """Every part of the network that differs, with those of `CAUSES` that are numbers."""
        for region in self.regions:
            figures = (region.cycles, region.bytes, region.energy_pj) if self.told else (None,) * 3
            yield region, (len(region.before), len(region.after), *figures)

    def as_table(self) -> Table:
        """One row per part of the network that differs, the largest cause first."""
        rows = tuple((" ".join(r.nodes), *cells, "; ".join(r.what)) for r, cells in self.causes())
        return Table("causes", tuple(CAUSES), rows)


def difference(before: PlanSide, after: PlanSide) -> PlanDifference:
    """Compare two sides."""
    told = bool(before.parts) and bool(after.parts)
    regions = _regions(_parts(before), _parts(after))
    differ = [r for r in regions if r.what or r.cycles or r.bytes]
    ranked = sorted(differ, key=lambda r: (-abs(r.cycles), -abs(r.bytes), not r.what))
    kept, there = frozenset(before.plan.resident), frozenset(after.plan.resident)
    pairs = ((name, before.summary.get(name), after.summary.get(name)) for name in FIGURES)
    return PlanDifference(
        before,
        after,
        tuple(_setting(before, after)),
        tuple(_keys(before, after)),
        tuple(_change(*pair) for pair in pairs if pair[1:] != (None, None)),
        _changes(before.busy, after.busy),
        _changes(before.peaks, after.peaks),
        tuple(ranked),
        len(regions) - len(differ),
        tuple(name for name in after.plan.resident if name not in kept),
        tuple(name for name in before.plan.resident if name not in there),
        told,
    )


def _setting(before: PlanSide, after: PlanSide) -> Iterable[tuple[str, str, str]]:
    """What was asked for differently: of two points of sweeps all their options, else what every
    summary holds."""
    for name in ("model", "machine", "dtype", "objective"):
        old, new = before.summary.get(name), after.summary.get(name)
        if old != new and name not in before.asked:
            yield name, str(old), str(new)
    if before.asked and after.asked:
        for name in dict.fromkeys((*before.asked, *after.asked)):
            old, new = before.asked.get(name, _FILE), after.asked.get(name, _FILE)
            if old != new:
                yield name, old, new


def _keys(before: PlanSide, after: PlanSide) -> Iterable[tuple[str, str, str]]:
    """Keys of the machines' files that differ, those that both have first."""
    if not before.keys or not after.keys:
        return  # not known
    both = before.keys.keys() & after.keys.keys()
    for name in sorted({**before.keys, **after.keys}, key=lambda name: name not in both):
        old, new = before.keys.get(name, _LEFT_OUT), after.keys.get(name, _LEFT_OUT)
        if old != new:
            yield name, old, new


def _parts(side: PlanSide) -> tuple[Part, ...]:
    return side.parts or tuple(Part(group) for group in side.plan.groups)


def _regions(before: Sequence[Part], after: Sequence[Part]) -> list[PlanRegion]:
    """Groups of both plans that share nodes, joined until nothing is shared any more."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for part in (*before, *after):
        first = find(part.plan.nodes[0])
        for name in part.plan.nodes[1:]:
            root[find(name)] = first
    found: dict[str, tuple[list[Part], list[Part]]] = {}
    for side, parts in enumerate((before, after)):
        for part in parts:
            found.setdefault(find(part.plan.nodes[0]), ([], []))[side].append(part)
    regions: list[PlanRegion] = []
    for old, new in found.values():
        nodes = dict.fromkeys(name for part in (*old, *new) for name in part.plan.nodes)
        regions.append(PlanRegion(tuple(nodes), tuple(old), tuple(new), tuple(_what(old, new))))
    return regions


def _what(before: Sequence[Part], after: Sequence[Part]) -> Iterable[str]:
    """What is done differently, in words."""
    if not before or not after:
        yield "only in the second" if after else "only in the first"
        return
    old, new = [p.plan.nodes for p in before], [p.plan.nodes for p in after]
    groups = several(len(old), "group")
    if len(old) != len(new):
        how, verb = "fused" if len(new) < len(old) else "split", noun(len(old), "becomes", "become")
        yield f"{how}: {groups} {verb} {several(len(new), 'group')}"
    elif old != new:
        yield f"grouped otherwise: {groups}"
    for name, describe in (("cut", _cut), ("cores", _cores), ("place", _place)):
        one, other = (", ".join(dict.fromkeys(map(describe, parts))) for parts in (before, after))
        if one != other:
            yield f"{name}: {one} becomes {other}"
    kept = [name for part in before for name in part.resident]
    stay = [name for part in after for name in part.resident]
    for label, one, other in (("now resident", stay, kept), ("resident no more", kept, stay)):
        names = [name for name in one if name not in other]
        if names:
            yield f"{label}: {', '.join(names)}"
    yield from _stages(before, after)


def _stages(before: Sequence[Part], after: Sequence[Part]) -> Iterable[str]:
    """Operators that moved into an output stage, or out of one."""
    if any(part.folded is None for part in (*before, *after)):
        return  # of an earlier version
    old, new = (
        {k: v for part in parts for k, v in (part.folded or {}).items()}
        for parts in (before, after)
    )
    moved = [f"{name} (of {host})" for name, host in new.items() if old.get(name) != host]
    left = [name for name in old if name not in new]
    for label, names in (("now in an output stage", moved), ("in no output stage now", left)):
        if names:
            yield f"{label}: {', '.join(names)}"


def group_text(part: Part) -> str:
    """How a group runs, in a line."""
    kept = f"; stays resident: {', '.join(part.resident)}" if part.resident else ""
    return f"{_cut(part)}; {_cores(part)}; {_place(part)}{kept}"


def _axis(part: Part, split: int) -> str:
    """The axis of a split: `H`, or `axis 2` where nobody said what it is."""
    return part.axes[split] if split < len(part.axes) else f"axis {part.plan.splits[split].axis}"


def _cut(part: Part) -> str:
    """A grid as people read it: `H in 8 x C in 2 (halo cached)`."""
    texts = [
        f"{_axis(part, k)} in {s.parts}"
        + (f" by {s.grain}" if s.grain > 1 else "")
        + (" (halo cached)" if s.halo is Halo.CACHE else "")
        for k, s in enumerate(part.plan.splits)
    ]
    return " x ".join(texts) or "whole"


def _cores(part: Part) -> str:
    group = part.plan
    if group.replicated:
        return "every core all tiles"
    axes = [_axis(part, k) for k in group.core_splits if k < len(group.splits)]
    named = ", ".join(group.cores)
    if not axes or len(group.cores) == 1:
        return named or "one core"
    shares = f" in shares {':'.join(map(str, group.shares))}" if group.shares else ""
    return f"split over {named or 'the cores'} along {' and '.join(axes)}{shares}"


def _place(part: Part) -> str:
    return {Place.CORES: "on cores", Place.MAIN: "in main memory", Place.VIEW: "as a view"}[
        part.plan.place
    ]


def _change(name: str, *sides: object) -> Change:
    numbers = map(number_of, sides)
    return Change(name, *(None if number is None else float(number) for number in numbers))


def _changes(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[Change, ...]:
    """The figures that differ, the largest difference first."""
    names = dict.fromkeys((*before, *after))
    changes = (_change(name, before.get(name), after.get(name)) for name in names)
    differ = [c for c in changes if c.before != c.after]
    return tuple(sorted(differ, key=lambda c: (-abs((c.after or 0) - (c.before or 0)), c.name)))
