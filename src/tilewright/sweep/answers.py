"""What a sweep is for: fronts and their knees, what matters how much, the cheapest machine."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.sweep.space import Axis, Space
from tilewright.sweep.table import Codes, Floats, Marks, SweepTable

COSTS = ("latency_ms", "energy_pj")  # against what sensitivity is told
CHEAPEST = 5  # machines told


@dataclass(frozen=True, slots=True)
class Machines:
    """Rows that differ in what they run alone, as one: a row of `members` are their rows. A figure
    is the geometric mean over them, `slowest_ms` the largest latency."""

    members: Codes
    figures: dict[str, Floats]
    slowest_ms: Floats


@dataclass(frozen=True, slots=True)
class Front:
    """What no other point beats in all columns: for one workload its rows, for all together its
    machines (a row that stands for each). The knee is where one column stops paying for another."""

    workload: str
    columns: tuple[str, ...]
    rows: tuple[int, ...]
    figures: tuple[tuple[float, ...], ...]
    knee: int | None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How a figure answers to an axis. The elasticity is the percentage by which it changes for
    one percent of the axis: the median over `pairs` of neighbouring points that differ in nothing
    else, with its quartiles; where there are none, it is fitted. `curve` is the figure at each
    value against the first: its geometric mean over such points."""

    axis: str
    figure: str
    elasticity: float | None
    low: float | None
    high: float | None
    pairs: int
    fitted: bool
    curve: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The machines that run everything in time, by cost; rows stand for each."""

    under_ms: float
    rows: tuple[int, ...]
    costs: tuple[float, ...]
    slowest_ms: tuple[float, ...]
    judged: int


@dataclass(frozen=True, slots=True)
class Answers:
    """All of it. `together` is the front over all workloads, where there are several."""

    fronts: tuple[Front, ...]
    together: Front | None
    sensitivity: tuple[Sensitivity, ...]
    cheapest: Cheapest | None


def answers_of(table: SweepTable, space: Space, under_ms: float | None = None) -> Answers:
    """Answer everything that the space and its results allow."""
    columns = _known(table, space.front)
    groups = table.group(table.workload)
    fronts: list[Front] = []
    for group in np.unique(groups[table.ok]):
        rows = np.flatnonzero(table.ok & (groups == group))
        label = table.label(int(rows[0]), table.workload) or "all points"
        fronts.append(_front(label, columns, rows, {c: table.figures[c][rows] for c in columns}))
    machines = machines_of(table)
    together = None
    if len(fronts) > 1:
        figures = {c: machines.figures[c] for c in columns}
        together = _front(f"all {len(fronts)} workloads", columns, machines.members[:, 0], figures)
    limit = under_ms if under_ms is not None else space.under_ms
    return Answers(
        tuple(fronts),
        together,
        tuple(
            _sensitivity(table, axis, figure)
            for figure in _known(table, COSTS)
            for axis in table.axes
            if axis.along is None and axis.name not in table.workload and len(axis.values) > 1
        ),
        None if limit is None else cheapest(machines, limit),
    )


def _known(table: SweepTable, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that any point has a figure for: machines may have none for energy, and are told
    apart by their traffic then."""
    known = [c for c in columns if np.isfinite(table.figures[c][table.ok]).any()]
    if not known or known == list(columns):
        return columns
    return tuple(dict.fromkeys((*known, "dram_bytes"))) if len(known) < 2 else tuple(known)


def machines_of(table: SweepTable) -> Machines:
    """Rows that run everything there is, by what they run it on."""
    owners = table.group(table.hardware)
    wanted = len(np.unique(table.group(table.workload)))
    order = np.lexsort((table.numbers, owners))
    starts = np.flatnonzero(np.diff(owners[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    whole = starts[sizes == wanted]  # a machine has one row for each workload
    members = order[whole[:, None] + np.arange(wanted)] if len(whole) else order[:0].reshape(0, 1)
    members = members[table.ok[members].all(axis=1)]
    figures = {name: means(column[members]) for name, column in table.figures.items()}
    return Machines(members, figures, table.figures["latency_ms"][members].max(axis=1))


def front_rows(columns: Sequence[Floats]) -> Codes:
    """Positions that no other beats: at most as much in every column and less in one. Equal ones
    stay together."""
    if not columns or not len(columns[0]):
        return np.zeros(0, np.int64)
    points = np.stack(columns, axis=1)
    order = np.lexsort(points.T[::-1])
    points = points[order]
    if points.shape[1] == 2:
        before = np.minimum.accumulate(points[:, 1])
        least = np.concatenate(([np.inf], before[:-1]))
        kept = points[:, 1] < least
        same = (points[1:] == points[:-1]).all(axis=1)
        for i in np.flatnonzero(same) + 1:  # an equal one is as good as the one before it
            kept[i] = kept[i - 1]
        return np.sort(order[kept])
    left = np.arange(len(points))
    found: list[int] = []
    while len(left):
        best = left[0]  # nothing that is left comes before it, so nothing beats it
        found.append(int(best))
        rest = points[left]
        beaten = (rest >= points[best]).all(axis=1)
        equal = (rest == points[best]).all(axis=1)
        found += [int(i) for i in left[equal & (left != best)]]
        left = left[~beaten]
    return np.sort(order[np.array(found, np.int64)])


def knee_of(columns: Sequence[Floats]) -> int | None:
    """The position farthest below the plane through the ends of a front, each column scaled to
    what it spans; None where a front has no inside."""
    if len(columns[0]) < 3:
        return None
    total = np.zeros(len(columns[0]))
    for column in columns:
        low, high = float(column.min()), float(column.max())
        total += (column - low) / (high - low) if high > low else 0.0
    best = int(np.argmin(total))
    return best if total[best] < 1 else None


def cheapest(machines: Machines, under_ms: float) -> Cheapest | None:
    """The least cost at which everything runs in time; None where no cost is defined."""
    costs = machines.figures.get("cost")
    if costs is None:
        return None
    fit = np.flatnonzero(machines.slowest_ms <= under_ms)
    order = fit[np.lexsort((machines.slowest_ms[fit], costs[fit]))][:CHEAPEST]
    return Cheapest(
        under_ms,
        tuple(int(machines.members[i, 0]) for i in order),
        tuple(float(costs[i]) for i in order),
        tuple(float(machines.slowest_ms[i]) for i in order),
        len(machines.members),
    )


def _front(
    workload: str, columns: tuple[str, ...], rows: Codes, figures: dict[str, Floats]
) -> Front:
    known = np.isfinite(np.stack([figures[c] for c in columns])).all(axis=0)
    rows = rows[known]
    used = [figures[c][known] for c in columns]
    kept = front_rows(used)
    kept = kept[np.lexsort([column[kept] for column in used][::-1])]
    knee = knee_of([column[kept] for column in used])
    return Front(
        workload,
        columns,
        tuple(int(rows[i]) for i in kept),
        tuple(tuple(float(column[i]) for column in used) for i in kept),
        None if knee is None else int(rows[kept[knee]]),
    )


def means(numbers: Floats) -> Floats:
    """Geometric means of rows; arithmetic ones where a number is not above zero; a row of equal
    numbers keeps them exactly."""
    positive: Marks = np.all(numbers > 0, axis=1)
    logs = np.log(np.where(positive[:, None], numbers, 1.0))
    powers: Floats = np.exp(np.mean(logs, axis=1))
    found: Floats = np.where(positive, powers, np.mean(numbers, axis=1))
    return np.where((numbers == numbers[:, :1]).all(axis=1), numbers[:, 0], found)


def _sensitivity(table: SweepTable, axis: Axis, figure: str) -> Sensitivity:
    name = "+".join([axis.name, *(a.name for a in table.axes if a.along == axis.name)])
    moved = {axis.name, *(a.name for a in table.axes if a.along == axis.name)}
    others = table.group([a.name for a in table.axes if a.name not in moved])
    good = table.ok & (table.figures[figure] > 0)
    rows = np.flatnonzero(good)
    logs = np.log(table.figures[figure][rows])
    codes, owners = table.codes[axis.name][rows], others[rows]
    curve = _curve(axis, codes, owners, logs)
    if axis.numbers is None or min(axis.numbers) <= 0 or len(set(axis.numbers)) < 2:
        return Sensitivity(name, figure, None, None, None, 0, False, curve)
    at = np.log(np.array(axis.numbers))[codes]
    order = np.lexsort((at, owners))
    near = np.diff(owners[order]) == 0
    steps, rises = np.diff(at[order])[near], np.diff(logs[order])[near]
    slopes = rises[steps > 0] / steps[steps > 0]
    if len(slopes):
        low, middle, high = (float(np.quantile(slopes, q)) for q in (0.25, 0.5, 0.75))
        return Sensitivity(name, figure, middle, low, high, len(slopes), False, curve)
    fitted = _fitted(table, axis, rows, logs)
    return Sensitivity(name, figure, fitted, None, None, 0, fitted is not None, curve)


def _curve(
    axis: Axis, codes: Codes, owners: Codes, logs: Floats
) -> tuple[tuple[str, float | None], ...]:
    """The figure at each value against the first, over points that have both."""
    base = dict(zip(owners[codes == 0].tolist(), logs[codes == 0].tolist(), strict=True))
    curve: list[tuple[str, float | None]] = []
    for position, value in enumerate(axis.values):
        here: Marks = codes == position
        pairs = [
            log - base[owner]
            for owner, log in zip(owners[here].tolist(), logs[here].tolist(), strict=True)
            if owner in base
        ]
        curve.append((str(value), float(np.exp(np.mean(pairs))) if pairs else None))
    return tuple(curve)


def _fitted(table: SweepTable, axis: Axis, rows: Codes, logs: Floats) -> float | None:
    """The exponent of an axis in a product of powers of all numeric axes, by least squares."""
    leaders = [
        a for a in table.axes if a.along is None and a.numbers is not None and min(a.numbers) > 0
    ]
    columns = [np.log(np.array(a.numbers))[table.codes[a.name][rows]] for a in leaders]
    loads = table.group(table.workload)[rows]
    columns += [(loads == load).astype(np.float64) for load in np.unique(loads)]
    matrix = np.stack(columns, axis=1)
    if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        return None
    solution = np.linalg.lstsq(matrix, logs, rcond=None)[0]
    return float(solution[leaders.index(axis)])
