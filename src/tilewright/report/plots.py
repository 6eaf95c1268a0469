# pyright: basic
"""Pictures; only this module, core_plots.py and sweep/plots.py import matplotlib (slow to load:
import them to draw)."""

from pathlib import Path

from matplotlib import colormaps
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from tilewright.errors import OutputError
from tilewright.planning import Planned
from tilewright.program.place import Placed
from tilewright.report.ablated import published, times_of
from tilewright.report.verified import titled
from tilewright.shrinking import ShrinkResult
from tilewright.units import format_bytes


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


_MOST_MEMORIES = 9  # of a machine with many cores, the first ones
_NEAR = 3  # times the peak: a capacity up to there is drawn to scale


def plot_memory_map(planned: Planned, path: Path) -> None:
    """Every buffer of every memory as a rectangle: addresses over time, as a PNG."""
    placed, machine = planned.placed, planned.machine
    memories = [machine.memory(name) for name, _ in placed.peaks][:_MOST_MEMORIES]
    peaks = dict(placed.peaks)
    height = 1.2 + 4.2 * len(memories)
    figure = Figure(figsize=(16, height))
    rows = figure.subplots(len(memories), 1, sharex=True, squeeze=False)
    total = max(1, placed.schedule.makespan)
    to_ms = machine.seconds(1) * 1e3
    lifetimes = _lifetimes(placed)
    for axes, memory in zip(rows[:, 0], memories, strict=True):
        scale, unit = (1e6, "MB") if peaks[memory.name] >= 1e6 else (1e3, "kB")
        top = max(1, peaks[memory.name]) / scale
        boxes = []
        for number, (start, stop, group) in lifetimes.items():
            buffer = placed.program.buffers[number]
            if buffer.memory != memory.name:
                continue
            left, width = start * to_ms, max(1, stop - start) * to_ms
            low, tall = placed.address[number] / scale, buffer.size / scale
            boxes.append(((left, low, width, tall), group, buffer.value or buffer.name))
        limit = memory.usable / scale
        near = limit <= _NEAR * top
        room = max(top, limit) * 1.06 if near else top * 1.12
        _draw_boxes(axes, boxes, total * to_ms, room)
        axes.set_ylim(0, room)
        line = limit if near else room * 0.985
        axes.axhline(line, color="crimson", linewidth=1.5, linestyle="-" if near else ":")
        axes.set_title(
            f"{memory.name}: peak {format_bytes(peaks[memory.name])} of "
            f"{format_bytes(memory.usable)} usable"
            + (" (red line)" if near else " (far above: dotted red line)"),
            loc="left",
            fontsize=12,
        )
        axes.set_ylabel(f"address, {unit}")
        axes.set_xlim(0, total * to_ms)
        axes.grid(alpha=0.25)
    rows[-1, 0].set_xlabel("time, ms; one colour per group of the plan")
    title = f"{titled(planned)}: buffers in memory over time"
    figure.suptitle(title, fontsize=14, y=1 - 0.25 / height)
    figure.subplots_adjust(0.055, 0.55 / height, 0.985, 1 - 0.85 / height, hspace=0.16)
    _write(figure, path, dpi=100)


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
    _write(figure, path, dpi=110)


def _write(figure: Figure, path: Path, dpi: int) -> None:
    try:
        figure.savefig(path, dpi=dpi, metadata={"Software": "tilewright"})
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write '{path}': {error}") from None


def _lifetimes(placed: Placed) -> dict[int, tuple[int, int, int]]:
    """For every buffer: the cycle of its first use, the one after its last, and the group of its
    first user. What the network brings or takes away is there from beginning to end."""
    found: dict[int, tuple[int, int, int]] = {}
    starts, ends = placed.schedule.start.tolist(), placed.schedule.end.tolist()
    for number, task in enumerate(placed.program.tasks):
        for view in (*task.reads, *task.writes):
            start, stop, group = found.get(view.buffer, (starts[number], 0, task.group))
            found[view.buffer] = (min(start, starts[number]), max(stop, ends[number]), group)
    program = placed.program
    for _, view in (*program.inputs, *program.constants, *program.outputs):
        group = found.get(view.buffer, (0, 0, 0))[2]
        found[view.buffer] = (0, placed.schedule.makespan, group)
    return found


def _draw_boxes(axes, boxes, width: float, height: float) -> None:
    """Rectangles in one collection; names where there is room for them."""
    colours = [colormaps["tab20"](i) for i in range(20)]
    corners = [[(x, y), (x + w, y), (x + w, y + h), (x, y + h)] for (x, y, w, h), _, _ in boxes]
    faces = [colours[group % len(colours)] for _, group, _ in boxes]
    axes.add_collection(
        PolyCollection(corners, facecolors=faces, edgecolors="black", linewidths=0.3, alpha=0.85)
    )
    for (x, y, w, h), _, name in boxes:
        if w > 0.011 * len(name) * width * 0.6 and h > 0.045 * height:
            axes.text(x + w / 2, y + h / 2, name, ha="center", va="center", fontsize=8)
