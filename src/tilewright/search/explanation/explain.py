"""Why each boundary of a plan is where it is, and what binds each group.

A boundary is between two groups; its tensors pass through the main memory, or are kept in the
scratchpads, which makes it a boundary of tiles only. Every reason is backed by forced trials.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, product

from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph, Node
from tilewright.graph.ops import runs_whole
from tilewright.machine.machine import Machine
from tilewright.machine.rates import bytes_per_cycle, main_bytes_per_cycle
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.program.account import TaskSums, added_cycles, engine_names, task_sums, traffic
from tilewright.program.place import Placed
from tilewright.search.explanation.trials import (
    BoundaryKind,
    Forced,
    Shortage,
    Trials,
    on_cores,
)
from tilewright.search.improvement.boundaries import TIE, Edge, edges_of, moving_groups
from tilewright.search.progress import Tell, silent
from tilewright.tiling.cutting import cut_group, inner_span
from tilewright.tiling.grid import core_grid
from tilewright.tiling.group import output_axes
from tilewright.units import noun

MOST_BOUNDARIES = 40
RULE_OF_THUMB = (
    "join where extra compute = fused - unfused < saved DMA = 2 x tensor / bandwidth; it knows no "
    "overlap of copies and work"
)


@dataclass(frozen=True, slots=True)
class Passing:
    """A tensor between two groups: its bytes as it lies in memory, the memory that it passes
    through (None: it stays in the scratchpads), and the bytes a cycle of that."""

    tensor: str
    bytes: int
    memory: str | None
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Boundary:
    """Two groups that a tensor passes between, or several, and the reason why they are two. `edge`
    is that of the largest of the tensors that are `passing`, which come in this order."""

    edge: Edge
    passing: tuple[Passing, ...]
    kind: BoundaryKind
    text: str
    trials: tuple[Forced, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors by name."""
        return tuple(row.tensor for row in self.passing)

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(row.bytes for row in self.passing)

    @property
    def resident(self) -> bool:
        """Whether all tensors stay in the scratchpads."""
        return all(row.memory is None for row in self.passing)

    @property
    def through(self) -> str:
        """What the tensors pass through, in words."""
        return " and ".join(dict.fromkeys(row.memory or "the scratchpads" for row in self.passing))

    @property
    def saved_dma(self) -> float:
        """The cycles 2 x tensor / bandwidth of those that move."""
        return sum(2 * row.bytes / row.bandwidth for row in self.passing if row.memory)

    @property
    def trial(self) -> Forced | None:
        """The fastest trial that could be simulated."""
        ran = [trial for trial in self.trials if trial.cycles is not None]
        return min(ran, key=lambda trial: trial.cycles or 0, default=None)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group as it runs: its grid in words, the share of its work that more than one tile does,
    the engine or link it keeps busiest and for how many cycles, from when to when it computes, by
    how many cycles it moves the end of the run, bytes of the main memory, nodes that run in the
    output stage of another."""

    number: int
    label: str
    place: Place
    grid: str
    tiles: int
    halo_share: float
    binding: str
    binding_cycles: int
    start: int
    end: int
    adds: int
    read_bytes: int
    written_bytes: int
    folded: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All boundaries and groups. `cycles` and `dram_bytes` are the plan's, simulated as its trials
    are: addresses are searched less than for the plan that is reported, which takes
    `reported_cycles`."""

    boundaries: tuple[Boundary, ...]
    left_out: int
    simulated: int
    groups: tuple[GroupFacts, ...]
    cycles: int
    reported_cycles: int
    dram_bytes: int
    bandwidth: float


def explain(
    graph: Graph,
    machine: Machine,
    plan: Plan,
    placed: Placed,
    *,
    without: frozenset[str] = frozenset(),
    apart: Mapping[tuple[str, str], str] | None = None,
    limit: int | None = MOST_BOUNDARIES,
    remedies: bool = True,
    tell: Tell = silent,
) -> Explanation:
    """Try to take every boundary away, the largest tensors first and at most `limit` of them; made
    to fit by spills or less overlap, if `remedies`, where they do not.

    `apart` are pairs of nodes that a pattern of the user keeps apart, with its name.
    """
    facts = group_facts(graph, machine, plan, placed)
    trials = Trials(graph, machine, plan, without, remedies=remedies)
    explainer = _Explainer(trials, apart or {})
    edges = sorted(edges_of(graph, plan), key=lambda e: (-explainer.bytes(e.tensor), e.tensor))
    pairs: dict[tuple[int, int], list[Edge]] = {}
    for edge in edges:
        pairs.setdefault((edge.before, edge.after), []).append(edge)
    tried = [pair for pair, row in pairs.items() if explainer.whole(_whole_edge(row)) is None]
    chosen = set(tried if limit is None else tried[:limit])
    done = count(1)
    found: dict[tuple[int, int], Boundary] = {}
    for pair, row in pairs.items():
        if pair in chosen:
            number = next(done)
            tell(f"fusing across boundary {number} of {len(chosen)}", (number - 1) / len(chosen))
        found[pair] = explainer.boundary(row, forced=pair in chosen)
    base = trials.base if chosen else placed
    return Explanation(
        tuple(found[pair] for pair in sorted(found)),
        len(tried) - len(chosen),
        trials.simulated,
        facts,
        base.schedule.makespan,
        placed.schedule.makespan,
        sum(traffic(base.program, machine.main_memory.name)),
        explainer.bandwidth,
    )


def _whole_edge(edges: Sequence[Edge]) -> Edge:
    """The first of some edges between two groups, with the views on the way of all of them."""
    return replace(edges[0], via=tuple(dict.fromkeys(name for edge in edges for name in edge.via)))


class _Explainer:
    """Reasons for the boundaries of one plan."""

    def __init__(self, trials: Trials, apart: Mapping[tuple[str, str], str]) -> None:
        self.trials, self.apart = trials, apart
        self.graph, self.plan = trials.graph, trials.plan
        self.bandwidth = main_bytes_per_cycle(trials.machine)

    def bytes(self, name: str) -> int:
        """A tensor as it lies in memory."""
        shape = self.graph.types[name].shape
        return self.trials.network.layouts.bytes(name, shape, aligned=True)

    def whole(self, edge: Edge) -> Node | None:
        """An operator that cannot be cut, in one of the groups that a trial would join."""
        members = (self.plan.groups[n].nodes for n in (edge.before, edge.after))
        names = (*(name for row in members for name in row), *edge.via)
        nodes = (self.graph.nodes[self.graph.index[name]] for name in names)
        return next((node for node in nodes if runs_whole(self.graph, node)), None)

    def _passing(self, name: str) -> Passing:
        machine = self.trials.machine
        lies = (memory for memory, names in self.plan.shared if name in names)
        memory = next(lies, machine.main_memory.name)
        kept, rate = name in self.plan.resident, bytes_per_cycle(machine, memory)
        return Passing(name, self.bytes(name), None if kept else memory, rate)

    def boundary(self, edges: Sequence[Edge], *, forced: bool) -> Boundary:
        """The reason for one boundary: all edges between two groups, the largest first."""
        edge = _whole_edge(edges)
        passing = tuple(self._passing(edge.tensor) for edge in edges)
        blank = Boundary(edge, passing, BoundaryKind.NOT_TRIED, "")
        whole = self.whole(edge)
        if whole is not None:
            text = (
                f"'{whole.name}' ({whole.kind}) runs whole: "
                "no rule says which part of its inputs a part of its results needs"
            )
            return replace(blank, kind=BoundaryKind.NOT_TILEABLE, text=text)
        if not forced:
            return replace(blank, text="its tensors are smaller than those that were tried")
        moving = moving_groups(self.plan, edge)
        between = [number for number in moving if number not in (edge.before, edge.after)]
        numbers = (edge.before, *between, edge.after)
        together = self.trials.together(*numbers)
        kept = [
            self.trials.kept(each, named=len(edges) > 1)
            for each, row in zip(edges, passing, strict=True)
            if row.memory is not None or moving_groups(self.plan, each)
        ]
        staying = min(kept, key=lambda t: (t.cycles is None, t.cycles or 0), default=None)
        fewer = self.trials.on_fewer_cores(numbers, together, staying)
        trials = [trial for trial in (together, *kept, fewer) if trial is not None]
        verdicts = [(trial, *self.verdict(trial, blank)) for trial in trials]
        verdicts.sort(key=_rank)
        text = "; ".join(f"{trial.told}: {words}" for trial, _, words in verdicts)
        if moving:
            text = f"{', '.join(map(self._movement, moving))}; {text}"
        kind = verdicts[0][1]
        before, after = (self.plan.groups[n].nodes for n in (edge.before, edge.after))
        apart = (self.apart.get(pair) for pair in product(before, after))
        pattern = next((name for name in apart if name is not None), None)
        if pattern is not None:
            kind, text = BoundaryKind.KEPT_APART, f"pattern '{pattern}' keeps them apart ({text})"
        return replace(blank, kind=kind, text=text, trials=tuple(v[0] for v in verdicts))

    def verdict(self, trial: Forced, boundary: Boundary) -> tuple[BoundaryKind, str]:
        """What a trial says about a boundary, against the plan as it is."""
        base, base_bytes = self.trials.base.schedule.makespan, self.trials.base_bytes
        short = "" if trial.shortage is None else _short(trial.shortage)
        if trial.cycles is None or trial.dram_bytes is None:
            kind, text = trial.obstacle or (BoundaryKind.NOT_TILEABLE, "")
            return kind, text or short
        figures = (
            f"{trial.cycles:,} cycles instead of {base:,}, "
            f"{trial.dram_bytes:,} bytes instead of {base_bytes:,}"
        )
        rule = self._rule(trial, boundary)
        faster = trial.cycles < base * (1 - TIE)
        if faster or (trial.cycles <= base and trial.dram_bytes < base_bytes):
            what = "joined" if not trial.cores else "joined on fewer cores"
            return BoundaryKind.MISSED, f"{figures}: {what} is better{rule}"
        if trial.cycles <= base:
            less = "as fast" if trial.cycles == base else "less than half a percent faster"
            return BoundaryKind.NO_GAIN, f"{figures}: {less}{rule}"
        if trial.shortage is not None:
            return BoundaryKind.MEMORY, f"{short}; {figures}{rule}"
        if trial.limit:
            return BoundaryKind.LIMIT, f"{trial.limit}; {figures}{rule}"
        if trial.compute is not None:
            fused, unfused = trial.compute
            extra = fused - unfused - boundary.saved_dma
            halo = 0.0 if trial.cut is None else _halo_share(self.graph, trial.cut)
            if extra > 0 and extra * 2 >= trial.cycles - base:  # most of what is lost
                kind, text = BoundaryKind.NO_GAIN, "slower, its tiles take more work"
                if halo:
                    again = f"{halo:.1%} again of what the group takes uncut"
                    kind, text = BoundaryKind.HALO, f"slower, as tiles compute {again}"
                return kind, f"{figures}: {text}{rule}"
        return BoundaryKind.NO_GAIN, f"{figures}: slower{rule}"

    def _rule(self, trial: Forced, boundary: Boundary) -> str:
        """The rule of thumb: its numbers, what it would do, and where the run says otherwise."""
        if trial.compute is None or trial.cycles is None:
            return ""
        fused, unfused = trial.compute
        stay = noun(len(boundary.passing), "the tensor stays", "the tensors stay")
        saved = f"saved DMA = 0 cycles ({stay} in the scratchpads)"
        if not boundary.resident:
            parts = [
                f"2 x {row.bytes:,} B / {row.bandwidth:.4g} B/cycle of {row.memory}"
                for row in boundary.passing
                if row.memory is not None
            ]
            saved = f"saved DMA = {' + '.join(parts)} = {boundary.saved_dma:,.0f} cycles"
        joins = fused - unfused < boundary.saved_dma
        otherwise = joins != (trial.cycles < self.trials.base.schedule.makespan)
        return (
            f"; extra compute = {fused:,.0f} - {unfused:,.0f} = {fused - unfused:,.0f} cycles, "
            f"{saved}: the rule of thumb {'joins' if joins else 'keeps apart'}"
            f"{', the simulated run says otherwise' if otherwise else ''}"
        )

    def _movement(self, number: int) -> str:
        """How a group moves the tensor outside the cores in the plan as it is."""
        group = self.plan.groups[number]
        node = self.graph.nodes[self.graph.index[group.nodes[0]]]
        what = "a view of" if group.place is Place.VIEW else "copies within"
        return f"'{node.name}' ({node.kind}) is {what} the main memory"


def _rank(verdict: tuple[Forced, BoundaryKind, str]) -> tuple[bool, int, int]:
    """Trials that ran first, fast ones before slow ones; then those that nearly could."""
    trial, kind, _ = verdict
    order = (
        BoundaryKind.MEMORY,
        BoundaryKind.LIMIT,
        BoundaryKind.HALO,
        BoundaryKind.NOT_CONVEX,
        BoundaryKind.NOT_TILEABLE,
    )
    hardness = order.index(kind) if kind in order else 0
    return trial.cycles is None, trial.cycles or 0, hardness


def _short(shortage: Shortage) -> str:
    text = (
        f"{shortage.memory} is short by {shortage.short_by:,} bytes "
        f"({shortage.needed:,} needed, {shortage.there:,} there)"
    )
    return f"{text}, {shortage.remedy}" if shortage.remedy else text


def group_facts(
    graph: Graph, machine: Machine, plan: Plan, placed: Placed
) -> tuple[GroupFacts, ...]:
    """Every group as the placed program has it."""
    names, folded = engine_names(machine), placed.program.folded()
    found = task_sums(placed, machine, lambda task: task.group)
    sums = [found.get(number, TaskSums()) for number in range(len(plan.groups))]
    added = added_cycles(total.end for total in sums)
    facts: list[GroupFacts] = []
    for number, (group, total) in enumerate(zip(plan.groups, sums, strict=True)):
        most = max(names, key=total.engines.__getitem__)
        tiles, span = total.computed, (total.active or 0, total.until)
        if not on_cores(group):  # by copies alone
            tiles, span = total.tiles, (total.start or 0, total.end)
        facts.append(
            GroupFacts(
                number,
                label_of(group),
                group.place,
                grid_words(graph, group, len(machine.cores)),
                len(tiles),
                _halo_share(graph, group),
                most if total.engines[most] else "",
                total.engines[most],
                *span,
                added[number],
                total.read,
                total.written,
                folded=tuple((name, folded[name]) for name in group.nodes if name in folded),
            )
        )
    return tuple(facts)


def label_of(group: GroupPlan) -> str:
    """A group by its first and last operator."""
    first, last = group.nodes[0], group.nodes[-1]
    return first if len(group.nodes) == 1 else f"{first} .. {last}"


def grid_words(graph: Graph, group: GroupPlan, cores: int) -> str:
    """How a group is cut, for a person."""
    if group.place is Place.VIEW:
        return "a view"
    if group.place is Place.MAIN:
        return "in the main memory"
    if not group.splits:
        return "in one piece" + _cores_words(group)
    final, axes = output_axes(graph, group.nodes)
    shape = graph.types[final].shape
    words: list[str] = []
    cores = len(group.cores) or cores
    grid = {} if group.replicated else core_grid(group.splits, group.core_split, cores)
    shares = f" in shares {':'.join(map(str, group.shares))}" if group.shares else ""
    for dim, split in enumerate(group.splits):
        axis = axes.get(split.axis, f"axis {split.axis}")
        start, stop = inner_span(shape[split.axis], split)
        each = f"{'up to ' if split.grain > 1 else ''}{stop - start}"
        kept = ", halo kept" if split.halo.value == "cache" else ""
        among = min(grid.get(dim, 1), split.parts)
        over = f" over {among} cores{shares}" if among > 1 else ""
        words.append(f"{axis} {shape[split.axis]} in {split.parts} of {each}{over}{kept}")
    return " x ".join(words) + _cores_words(group)


def _cores_words(group: GroupPlan) -> str:
    """Which cores a group runs on, where it is not plain that they are all of them."""
    if not group.cores:
        return " on every core" if group.replicated else ""
    return f" on {', '.join(group.cores)}" + (", on each" if group.replicated else "")


def _halo_share(graph: Graph, group: GroupPlan) -> float:
    """The recomputed share, as `tile` and `shrink` count it."""
    if not on_cores(group) or not group.splits:
        return 0.0
    try:
        tiles = cut_group(graph, (graph.index[name] for name in group.nodes), group.splits)
    except TilewrightError:
        return 0.0
    return max(0.0, tiles.recompute_ratio)
