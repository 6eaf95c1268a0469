"""Which groups to cut so that the peak stays under a budget at the least extra work.

The network is seen in execution order. Any run of nodes between two cut points may become a group;
dynamic programming over the cut points picks the runs. A node outside every group needs what it
needs today; a group needs what lives through it, its outputs, and one tile's inside.
"""

from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from tilewright.graph.graph import Graph
from tilewright.peak.predict import Prediction
from tilewright.shrink.candidates import (
    Choice,
    CutPattern,
    LiveTimeline,
    Meter,
    Segment,
    TileProbe,
    signature,
)
from tilewright.tiling.grid import Split
from tilewright.tiling.group import exports

MOST_CUT_POINTS = 36
NEAREST = 4  # cut points kept before and behind every stretch that is over the budget
LONGEST_RUNS = (50, 200)  # nodes in one group; long ones only where short ones do not do
MOST_TRIALS = 200_000  # operators cut on trial in one search, for short and for long runs each
WORTHWHILE = 0.97  # more tiles have to save at least this much to look at still more
SURPRISE = 1.02  # a full prediction so far above the estimate corrects it


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen groups; `peak` and `extra_work` are the search's own estimates."""

    choices: tuple[Choice, ...]
    peak: int
    extra_work: float


def silent(text: str) -> None:
    """Progress that nobody watches."""


class Chooser:
    """Searches one network; what it learns about a run of nodes serves all budgets."""

    def __init__(
        self, graph: Graph, original: Prediction, progress: Callable[[str], None] = silent
    ) -> None:
        self.timeline = LiveTimeline(graph)
        self.original = original
        self.progress = progress
        self.levels = _node_levels(graph, original)
        self._meters = {longest: Meter(MOST_TRIALS) for longest in LONGEST_RUNS}
        self._inner = _kernel_borders(graph, original)
        self._segments: dict[tuple[int, int], Segment | None] = {}
        self._patterns: dict[tuple[object, ...], CutPattern] = {}

    def forget(self) -> None:
        """Drop what full predictions corrected: it was true of other choices."""
        self.levels = _node_levels(self.timeline.graph, self.original)
        self._segments.clear()

    def segment(self, start: int, stop: int) -> Segment | None:
        """The run of nodes between two points, or None where one of them has to run whole."""
        key = (start, stop)
        if key not in self._segments:
            self._segments[key] = self._new_segment(start, stop)
        return self._segments[key]

    def _new_segment(self, start: int, stop: int) -> Segment | None:
        look = signature(self.timeline, start, stop)
        if look is None:
            return None
        if look not in self._patterns:
            typed = [self.timeline.typed(index) for index in range(start, stop)]
            ops = tuple(op for op in typed if op is not None)
            outside = exports(self.timeline.graph, range(start, stop))
            meter = self._meters[next(n for n in LONGEST_RUNS if len(ops) <= n)]
            self._patterns[look] = CutPattern(self.timeline, ops, outside, meter)
        return Segment(self.timeline, start, stop, self._patterns[look])

    def within(self, budget: int) -> Selection | None:
        """The least extra work that stays under the budget; None if nothing does."""
        found = (self._within(budget, longest) for longest in LONGEST_RUNS)
        return next(filter(None, found), None)

    def _within(self, budget: int, longest: int) -> Selection | None:
        points = self._cut_points(budget)
        best: list[tuple[float, int, Choice | None]] = [(0.0, 0, None)]
        for position in range(1, len(points)):
            options: list[tuple[float, int, Choice | None]] = []
            self.progress(f"looking for groups: {position} of {len(points) - 1} cut points")
            for before in range(position - 1, -1, -1):
                start, stop = points[before], points[position]
                if best[before][0] == inf:
                    continue
                if max(self.levels[start:stop], default=0) <= budget:
                    options.append((best[before][0], before, None))
                    continue
                if stop - start > longest:
                    continue
                choice = self._cheapest(self.segment(start, stop), budget)
                if choice is not None:
                    options.append((best[before][0] + choice.extra_work, before, choice))
            best.append(min(options, key=lambda o: (o[0], -o[1]), default=(inf, 0, None)))
        return None if best[-1][0] == inf else self._traced(best)

    def _cut_points(self, budget: int) -> list[int]:
        """Where groups may begin and end: between kernels, where little is live, near what is
        over the budget."""
        crossing, inner = self.timeline.crossing, self._inner
        minima = [
            point
            for i, point in enumerate(inner)
            if crossing[point] <= min(crossing[p] for p in inner[max(0, i - 1) : i + 2])
        ]
        if len(inner) <= MOST_CUT_POINTS:
            minima = inner
        over = [i for i, level in enumerate(self.levels) if level > budget]
        near: set[int] = set()
        for index in over:
            place = bisect(minima, index)
            near.update(minima[max(0, place - NEAREST) : place + NEAREST])
        if len(near) > MOST_CUT_POINTS:
            near = set(sorted(near, key=lambda p: (crossing[p], p))[:MOST_CUT_POINTS])
            for index in over:  # the closest ones stay, however much is live there
                place = bisect(minima, index)
                near.update(minima[max(0, place - 1) : place + 1])
        return [0, *sorted(near), len(self.levels)]

    def _traced(self, best: list[tuple[float, int, Choice | None]]) -> Selection:
        choices: list[Choice] = []
        position = len(best) - 1
        while position > 0:
            _, position, choice = best[position]
            if choice is not None:
                choices.append(choice)
        choices.reverse()
        inside = {i for c in choices for i in range(c.start, c.stop)}
        outside = max((v for i, v in enumerate(self.levels) if i not in inside), default=0)
        peak = max([outside, *(c.peak for c in choices)])
        return Selection(tuple(choices), peak, sum(c.extra_work for c in choices))

    @staticmethod
    def _cheapest(segment: Segment | None, budget: int) -> Choice | None:
        """The least extra work among the ways to cut a run under the budget."""
        if segment is None or segment.floor > budget:
            return None
        best: Choice | None = None
        for family in segment.pattern.families:
            before: TileProbe | None = None
            for splits in family[_first_that_may_fit(segment, family, budget) :]:
                probe = segment.pattern.probe(splits)
                if probe is None or probe.hopeless:
                    break
                if best is not None and probe.extra_work >= best.extra_work:
                    break
                if not segment.may_fit(probe, budget):
                    continue
                if before is not None and probe.inner > WORTHWHILE * before.inner:
                    if probe.tiles >= 2 * before.tiles:
                        break
                    continue  # a few more parts need not make the largest one smaller
                choice = segment.choice(probe)
                if choice.peak <= budget:
                    best = choice
                    break
                before = probe
        return best

    def learn(self, full: Prediction, choices: tuple[Choice, ...], budget: int) -> bool:
        """Take over what a full prediction knows better; True if that may change the choice.

        A neighbour that is cut may cost a node outside the groups a change of layout. And the
        runtime does not always finish one tile before the next: a group with several outputs may
        hold what its tiles share.
        """
        producer = self.timeline.graph.producer
        inside = {i: choice for choice in choices for i in range(choice.start, choice.stop)}
        raised = False
        for moment in full.trace:
            position = producer.get(moment.value)
            if position is None or position in inside:
                continue
            raised = raised or self.levels[position] <= budget < moment.bytes
            self.levels[position] = max(self.levels[position], moment.bytes)
        culprit = inside.get(producer.get(full.at.partition("@")[0], -1))
        segment = self.segment(culprit.start, culprit.stop) if culprit is not None else None
        if culprit is None or segment is None or len(segment.pattern.exported) < 2:
            return raised
        if full.peak <= SURPRISE * culprit.peak:
            return raised
        segment.raise_by(full.peak - culprit.peak)
        return True


def _first_that_may_fit(
    segment: Segment, family: tuple[tuple[Split, ...], ...], budget: int
) -> int:
    """Index of the fewest tiles whose cheap bound is under the budget: bounds fall with tiles."""
    low, high = 0, len(family)
    while low < high:
        middle = (low + high) // 2
        probe = segment.pattern.probe(family[middle])
        if probe is not None and not probe.hopeless and not segment.may_fit(probe, budget):
            low = middle + 1
        else:
            high = middle
    return low


def _node_levels(graph: Graph, original: Prediction) -> list[int]:
    """Memory at each node of the uncut network; nodes fused into another count with it."""
    levels = [0] * len(graph.nodes)
    position = 0
    for moment in original.trace:
        position = graph.producer.get(moment.value, position)
        levels[position] = max(levels[position], moment.bytes)
    return levels


def _kernel_borders(graph: Graph, original: Prediction) -> list[int]:
    """Points right behind the last node of a kernel."""
    after = {graph.producer[m.value] + 1 for m in original.trace if m.value in graph.producer}
    return sorted(point for point in after if 0 < point < len(graph.nodes))
