# pyright: basic
"""sweep.png: the front, and what each parameter matters."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tilewright.report.plots import save_figure
from tilewright.sweep.answers import Answers, Front, machines_of
from tilewright.sweep.space import Space
from tilewright.sweep.table import SweepTable

_MOST_FRONTS = 6
_COLOURS = ("#2b6cb0", "#dd6b20", "#2f855a", "#b83280", "#6b46c1", "#975a16")


def plot_sweep(space: Space, table: SweepTable, answers: Answers, path: Path) -> None:
    """The first two columns of the front against each other, and elasticities, as a PNG."""
    figure = Figure(figsize=(13, 5))
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": (3, 2)})
    vertical, across = space.front[:2]
    _clouds(left, table, answers, across, vertical)
    left.set(xlabel=across, ylabel=vertical, title=f"{space.name}: {len(table)} points")
    left.grid(alpha=0.25)
    _elasticities(right, answers)
    save_figure(figure, path)


def _clouds(axes, table: SweepTable, answers: Answers, across: str, vertical: str) -> None:
    if answers.together is not None:
        machines = machines_of(table)
        figures = machines.figures[across], machines.figures[vertical]
        axes.scatter(*figures, s=10, color="#cbd5e0", label="machines, mean of all networks")
        _line(axes, answers.together, "front", _COLOURS[0], table)
    else:
        for front, colour in zip(answers.fronts[:_MOST_FRONTS], _COLOURS, strict=False):
            figures = table.figures[across][table.ok], table.figures[vertical][table.ok]
            axes.scatter(*figures, s=10, color="#cbd5e0", label="points")
            _line(axes, front, "front", colour, table)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=9, loc="upper right")


def _line(axes, front: Front, label: str, colour: str, table: SweepTable) -> None:
    ys = np.array([figures[0] for figures in front.figures])
    xs = np.array([figures[1] for figures in front.figures])
    if not len(xs):
        return
    order = np.argsort(xs, kind="stable")
    plain = len(front.columns) == 2
    if plain:
        axes.step(xs[order], ys[order], where="post", color=colour, linewidth=1.4)
    axes.scatter(xs, ys, s=26, color=colour, zorder=3, label=label)
    if front.knee is not None:
        at = front.rows.index(front.knee)
        names = [name for name in table.hardware if _varies(table, name)]
        text = "\n".join(f"{name} {table.value(name, front.knee)}" for name in names)
        axes.scatter(
            xs[at : at + 1], ys[at : at + 1], s=130, facecolors="none", edgecolors="#c53030"
        )
        axes.annotate(
            f"knee:\n{text}",
            (xs[at], ys[at]),
            xytext=(14, 14),
            textcoords="offset points",
            fontsize=8.5,
            color="#c53030",
        )


def _varies(table: SweepTable, name: str) -> bool:
    return any(axis.name == name and len(axis.values) > 1 for axis in table.axes)


def _elasticities(axes, answers: Answers) -> None:
    known = [s for s in answers.sensitivity if s.elasticity is not None]
    axes.axvline(0, color="#4a5568", linewidth=1)
    for place, each in enumerate(reversed(known)):
        colour = _COLOURS[0] if each.figure == "latency_ms" else _COLOURS[1]
        axes.barh(place, each.elasticity, color=colour, height=0.6)
        if each.low is not None and each.high is not None:
            axes.plot([each.low, each.high], [place, place], color="#1a202c", linewidth=1.4)
    names = [f"{each.axis}: {each.figure}" for each in reversed(known)]
    axes.set_yticks(range(len(known)), names, fontsize=9)
    axes.set(title="elasticity (line: quartiles)", xlabel="% for 1 % more of the parameter")
    axes.grid(alpha=0.25, axis="x")
