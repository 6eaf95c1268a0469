"""Answers as text and as JSON."""

from collections.abc import Iterator
from typing import Any

from rich.table import Table as RichTable

from tilewright.sweep.answers import Answers, Front
from tilewright.sweep.run import Progress
from tilewright.sweep.space import Space
from tilewright.sweep.table import SweepTable
from tilewright.units import noun

TOLD = 12  # rows of a front that the text tells
REASONS = 3


def answers_json(space: Space, table: SweepTable, answers: Answers) -> dict[str, Any]:
    """All answers for a program; points by number and key."""
    cheapest = answers.cheapest

    def point(row: int) -> dict[str, Any]:
        return {
            "number": int(table.numbers[row]),
            "key": table.keys[row],
            "axes": table.values(row),
        }

    def front(each: Front) -> dict[str, Any]:
        return {
            "workload": each.workload,
            "columns": list(each.columns),
            "points": [
                {**point(row), **dict(zip(each.columns, figures, strict=True))}
                for row, figures in zip(each.rows, each.figures, strict=True)
            ],
            "knee": None if each.knee is None else int(table.numbers[each.knee]),
        }

    return {
        "space": space.name,
        "points": len(table),
        "without_plan": int((~table.ok).sum()),
        "fronts": [front(each) for each in answers.fronts],
        "front_of_all_workloads": None if answers.together is None else front(answers.together),
        "sensitivity": [
            {
                "axis": each.axis,
                "figure": each.figure,
                "elasticity": _rounded(each.elasticity),
                "quartiles": None
                if each.low is None or each.high is None
                else [_rounded(each.low), _rounded(each.high)],
                "pairs": each.pairs,
                "fitted": each.fitted,
                "curve": [[value, _rounded(ratio)] for value, ratio in each.curve],
            }
            for each in answers.sensitivity
        ],
        "cheapest": None
        if cheapest is None
        else {
            "under_ms": cheapest.under_ms,
            "machines_judged": cheapest.judged,
            "machines": [
                {**point(row), "cost": cost, "slowest_ms": slowest}
                for row, cost, slowest in zip(
                    cheapest.rows, cheapest.costs, cheapest.slowest_ms, strict=True
                )
            ],
        },
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 6)


def progress_line(done: Progress, seconds: float) -> str:
    """What a pass did, in a line."""
    before = done.done - done.planned
    parts = [f"{done.done} of {done.total} {noun(done.total, 'point')}"]
    if before:
        parts.append(f"{before} {'was' if before == 1 else 'were'} there")
    if done.planned:
        parts.append(f"{done.planned} planned in {seconds:.1f} s")
    if done.without:
        parts.append(f"{done.without} without a plan")
    return ", ".join(parts)


def rate_text(rate: float) -> str:
    """Points in a time in which there is at least one, if an hour is enough for that."""
    for unit, seconds in (("s", 1), ("min", 60)):
        if rate * seconds >= 1:
            return f"{rate * seconds:.1f} per {unit}"
    return f"{rate * 3600:.1f} per h"


def time_text(seconds: float) -> str:
    """A time in the unit in which people say it."""
    for unit, size in (("s", 60), ("min", 90)):
        if seconds < size:
            return f"{seconds:.0f} {unit}"
        seconds /= 60
    return f"{seconds:.1f} h"


def failure_lines(table: SweepTable) -> Iterator[str]:
    """The most frequent reasons why points have no plan."""
    count: dict[str, list[int]] = {}
    for row in (~table.ok).nonzero()[0]:
        count.setdefault(table.reasons[int(row)], []).append(int(table.numbers[row]))
    ranked = sorted(count.items(), key=lambda item: (-len(item[1]), item[0]))
    for reason, numbers in ranked[:REASONS]:
        yield (
            f"no plan for {len(numbers)} ({noun(len(numbers), 'point')} {numbers[0]}"
            + (" ..." if len(numbers) > 1 else "")
            + f"): {reason}"
        )
    if len(ranked) > REASONS:
        yield f"and {len(ranked) - REASONS} more reasons in the table"


def front_table(table: SweepTable, front: Front, together: bool) -> RichTable:
    """The points of a front, the knee marked."""
    axes = table.hardware if together else tuple(axis.name for axis in table.axes)
    shown = RichTable(title=f"Front of {front.workload}", title_justify="left")
    shown.add_column("point", justify="right")
    for name in axes:
        shown.add_column(name, justify="right")
    for name in front.columns:
        shown.add_column(name, justify="right")
    shown.add_column("")
    for row, figures in list(zip(front.rows, front.figures, strict=True))[:TOLD]:
        cells = [str(table.value(name, row)) for name in axes]
        numbers = [f"{figure:.5g}" for figure in figures]
        mark = "knee" if row == front.knee else ""
        shown.add_row(str(table.numbers[row]), *cells, *numbers, mark)
    left = len(front.rows) - TOLD
    if left > 0:
        shown.caption = f"and {left} more"
    return shown


def sensitivity_table(answers: Answers) -> RichTable:
    """What one percent more of each axis does."""
    shown = RichTable(title="Sensitivity: what 1 % more of an axis changes", title_justify="left")
    shown.add_column("axis")
    shown.add_column("figure")
    for name in ("elasticity", "quartiles", "pairs", "first to last value"):
        shown.add_column(name, justify="right")
    for each in answers.sensitivity:
        last = each.curve[-1][1] if each.curve else None
        known = each.low is not None and each.high is not None
        shown.add_row(
            each.axis,
            each.figure,
            "" if each.elasticity is None else f"{each.elasticity:+.3f} %",
            f"{each.low:+.3f} .. {each.high:+.3f}" if known else "fitted" if each.fitted else "",
            str(each.pairs) if each.pairs else "",
            "" if last is None else f"{last:.3f}x",
        )
    return shown


def cheapest_line(table: SweepTable, answers: Answers) -> str:
    """The cheapest machine in a sentence."""
    found = answers.cheapest
    if found is None:
        return "the cheapest machine needs a cost: give one in 'define' of the space"
    if not found.rows:
        return f"none of {found.judged} machines runs everything under {found.under_ms:g} ms"
    row = found.rows[0]
    return (
        f"cheapest of {found.judged} machines that runs everything under {found.under_ms:g} ms: "
        f"{table.label(row, table.hardware)} (cost {found.costs[0]:.5g}, slowest "
        f"{found.slowest_ms[0]:.4g} ms)"
    )
