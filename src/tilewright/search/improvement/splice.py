"""Sections of one plan in another.

Luck decides early which moves a climb makes, and what is done at one end of a network hardly
matters at the other. So of two climbs the better goes on, with what the other does better.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from tilewright.graph.graph import Graph
from tilewright.plan.plan import GroupPlan, Plan, by_memory
from tilewright.program.metrics import Metrics
from tilewright.search.improvement.improve import Improver

Point = tuple[int, int]
"""Numbers of groups of two plans before which both have run the same operators."""


def spliced(graph: Graph, one: Plan, other: Plan) -> Iterator[Plan]:
    """The first plan with a section of the second: up to some point, from it on, or between two
    points that follow each other; those that take about as much from each come first."""
    points = _points(one.groups, other.groups)
    last = len(points) - 1
    heads = [(0, point) for point in range(1, last)]
    tails = [(point, last) for point in range(1, last)]
    spans = [*heads, *tails, *pairwise(range(last + 1))]
    spans.sort(key=lambda span: -min(span[1] - span[0], last - (span[1] - span[0])))
    for begin, end in dict.fromkeys(spans):
        plan = _with_section(graph, one, other, points[begin], points[end])
        if plan != one:
            yield plan


def better_spliced(
    improver: Improver, one: tuple[Plan, Metrics], other: Plan, evaluations: int
) -> Iterator[tuple[Plan, Metrics]]:
    """Better and better plans: the first with more and more sections of the second, until no other
    helps or so many were evaluated."""
    (plan, value), tried, found = one, {one[0], other}, True
    while found:
        found = False
        for changed in spliced(improver.moves.graph, plan, other):
            if changed in tried:
                continue
            if len(tried) > evaluations + 1:
                return
            tried.add(changed)
            metrics = improver.evaluate(changed)
            if metrics is not None and improver.ahead(metrics, value):
                plan, value, found = changed, metrics, True
                yield plan, value
                break


def _points(one: Sequence[GroupPlan], other: Sequence[GroupPlan]) -> list[Point]:
    """Where both plans have run the same, from the beginning to the end."""
    behind = {done: number for number, done in enumerate(_run_before(one))}
    return [
        (behind[done], number) for number, done in enumerate(_run_before(other)) if done in behind
    ]


def _run_before(groups: Sequence[GroupPlan]) -> Iterator[frozenset[str]]:
    """The operators that ran before each group, and in the end."""
    done = frozenset[str]()
    yield done
    for group in groups:
        done = done.union(group.nodes)
        yield done


def _with_section(graph: Graph, one: Plan, other: Plan, begin: Point, end: Point) -> Plan:
    """A plan with a section of another, and with what that keeps of the section's tensors."""
    section = other.groups[begin[1] : end[1]]
    nodes = (graph.nodes[graph.index[name]] for group in section for name in group.nodes)
    made = {name for node in nodes for name in node.writes}
    kept = [name for name in one.resident if name not in made]
    kept += [name for name in other.resident if name in made]
    shared = [(memory, [n for n in row if n not in made]) for memory, row in one.shared]
    shared += [(memory, [n for n in row if n in made]) for memory, row in other.shared]
    reloaded = [row for row in one.reloaded if row[0] not in made]
    reloaded += [row for row in other.reloaded if row[0] in made]
    return replace(
        one,
        groups=(*one.groups[: begin[0]], *section, *one.groups[end[0] :]),
        resident=tuple(kept),
        reloaded=tuple(reloaded),
        shared=by_memory(shared),
    )
