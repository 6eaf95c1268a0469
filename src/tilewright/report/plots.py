# pyright: basic
"""Pictures; only this module, core_plots.py and sweep/plots.py import matplotlib (slow to load:
import them to draw)."""

from pathlib import Path

from matplotlib.figure import Figure

from tilewright.errors import OutputError
from tilewright.planning import Planned
from tilewright.report.ablated import published, times_of
from tilewright.report.verified import titled
from tilewright.shrinking import ShrinkResult


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


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture as PNG."""
    figure.tight_layout()
    try:
        figure.savefig(path, dpi=110, metadata={"Software": "tilewright"})
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write '{path}': {error}") from None
