# pyright: basic
"""Pictures of plans on many cores."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tilewright.report.plots import save_figure
from tilewright.units import format_bytes

_MOST_ROWS = 40  # shapes that a table shows


def plot_levels(levels: Sequence[Any], title: str, path: Path) -> None:
    """Bytes held over time, a strip for each memory, with its size as a red line."""
    count = max(1, len(levels))
    figure = Figure(figsize=(14, 1.2 + 1.7 * count))
    rows = figure.subplots(count, 1, sharex=True, squeeze=False)
    for axes, (name, size, times, held) in zip(rows[:, 0], levels, strict=False):
        axes.fill_between(times, held / 1e3, step="post", alpha=0.45)
        peak = float(held.max(initial=0))
        near = size <= 3 * max(1.0, peak)
        axes.set_ylim(0, (max(size, peak) if near else max(1.0, peak) * 1.3) * 1.05 / 1e3)
        if near:
            axes.axhline(size / 1e3, color="crimson", linewidth=1.2)
        axes.set_title(f"{name}: peak {format_bytes(peak)} of {format_bytes(size)}", loc="left")
        axes.set_ylabel("kB")
        axes.grid(alpha=0.25)
    rows[-1, 0].set_xlabel("cycles")
    figure.suptitle(title)
    save_figure(figure, path)


def plot_cost_table(
    rows: list[str], columns: list[str], cycles: Any, energy: Any, path: Path
) -> None:
    """Cycles and energy of every tile shape on every core, as coloured tables."""
    count, rows = len(rows), rows[:_MOST_ROWS]
    figure = Figure(figsize=(5 + 2.2 * len(columns), 1.6 + 0.42 * len(rows)))
    both = figure.subplots(1, 2, sharey=True)
    possible = np.asarray(cycles[: len(rows)], float) < 2**39
    for axes, table, name in zip(both, (cycles, energy), ("cycles", "energy, pJ"), strict=True):
        values = np.asarray(table[: len(rows)], float)
        levels = np.log10(np.maximum(np.where(possible, values, np.nan), 1e-3))
        picture = axes.imshow(levels, cmap="YlGnBu", aspect="auto")
        for y in range(values.shape[0]):
            for x in range(values.shape[1]):
                text = f"{values[y, x]:,.0f}" if possible[y, x] else "cannot"
                dark = possible[y, x] and picture.norm(levels[y, x]) > 0.55
                ink = "white" if dark else "black"
                axes.text(x, y, text, ha="center", va="center", fontsize=8, color=ink)
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(rows)), rows, fontsize=8)
        axes.set_title(f"{name} of a tile")
    if count > len(rows):
        figure.suptitle(f"the first {len(rows)} of {count} shapes")
    save_figure(figure, path)
