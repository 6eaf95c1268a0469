# pyright: basic
"""Pictures; the one module that imports matplotlib (slow to load: import it only to draw)."""

from pathlib import Path

import matplotlib

from tilewright.api import ShrinkResult
from tilewright.errors import OutputError

matplotlib.use("Agg")
from matplotlib import pyplot


def plot_memory(result: ShrinkResult, title: str, path: Path) -> None:
    """Memory over the run, before and after, as a PNG."""
    figure, axes = pyplot.subplots(figsize=(9, 4))
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
    figure.tight_layout()
    try:
        figure.savefig(path, dpi=110, metadata={"Software": "tilewright"})
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write '{path}': {error}") from None
    finally:
        pyplot.close(figure)
