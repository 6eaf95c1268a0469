# pyright: basic
"""Pictures; only this module and sweep/plots.py import matplotlib (slow to load: import them to
draw)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tilewright.errors import OutputError
from tilewright.planning import Planned
from tilewright.report.ablated import published, times_of
from tilewright.report.verified import titled
from tilewright.shrinking import ShrinkResult
from tilewright.units import format_bytes

_MOST_ROWS = 40  # shapes that a table shows


def plot_memory(result: ShrinkResult, title: str, path: Path) -> None:
    """Memory over the run, before and after, as a PNG."""
    figure = Figure(figsize=(9, 4))
    axes = figure.subplots()
    traces = (("original", result.shrunk.original), ("tiled", result.shrunk.predicted))
    for label, prediction in traces:
        heights = [moment.bytes / 1e6 for moment in prediction.trace]
        heights.append(heights[-1] if heights else 0.0)
        steps = [i / max(1, len(heights) - 1) for i in range(len(heights))]
        axes.fill_between(steps, heights, step="post", alpha=0.35)
        axes.step(steps, heights, where="post", label=f"{label}: {prediction.peak / 1e6:.1f} MB")
    axes.set(xlabel="progress through the network", ylabel="activation memory, MB", title=title)
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.legend()
    save_figure(figure, path)


def plot_ablation(planned: Planned, path: Path) -> None:
    """What each technique buys: a bar for every step, beside the published ones if any."""
    ablation = planned.ablation
    assert ablation is not None
    times, other = times_of(ablation, planned.machine), published(planned)
    figure = Figure(figsize=(9, 4.6))
    axes = figure.subplots()
    places = list(range(len(times)))
    wide = 0.62 if other is None else 0.4
    left = [place - (0 if other is None else wide / 2) for place in places]
    bars = axes.bar(left, times, wide, color="#2b6cb0", label=f"{planned.machine.name}, simulated")
    axes.bar_label(bars, [f"{ms:.3g} ms" for ms in times], padding=2, fontsize=9)
    if other is not None:
        right = [place + wide / 2 for place in places]
        label = "published: another block, machine not named"
        bars = axes.bar(right, other, wide, color="#cbd5e0", label=label)
        axes.bar_label(bars, [f"{ms:.0f} ms" for ms in other], padding=2, fontsize=9)
        axes.legend(fontsize=9)
    axes.set_xticks(places, [step.name for step in ablation.steps])
    axes.set_ylabel("latency, ms")
    axes.set_title(f"{titled(planned)}: what each technique buys")
    axes.margins(y=0.12)
    save_figure(figure, path)


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


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture as PNG."""
    figure.tight_layout()
    try:
        figure.savefig(path, dpi=110, metadata={"Software": "tilewright"})
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write '{path}': {error}") from None
