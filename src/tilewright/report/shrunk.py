"""A shrunk model as JSON and as text."""

from typing import Any

from rich.table import Table

from tilewright.shrinking import ShrinkResult, named_cut
from tilewright.tables import picked


def shrunk_json(result: ShrinkResult) -> dict[str, Any]:
    """All figures, for a program to read."""
    shrunk, measured = result.shrunk, result.measured
    return {
        "original_peak_bytes": shrunk.original.peak,
        "predicted_peak_bytes": shrunk.predicted.peak,
        "measured_peak_bytes": measured.peak_bytes if measured else None,
        "measured_original_peak_bytes": measured.original_peak_bytes if measured else None,
        "measured_peaks": list(measured.peaks) if measured else None,
        "measured_original_peaks": list(measured.original_peaks) if measured else None,
        "measured_over_budget": result.over_budget,
        "budget": result.verdict,
        "cpu_ratio": measured.cpu_ratio if measured else None,
        **picked(result.difference, "max_abs_error", "max_rel_error"),
        "recompute_ratio": shrunk.recompute_ratio,
        "groups": [
            {
                "nodes": [tiled.node.name for tiled in group.ops],
                "split": named_cut(group),
                "tiles": len(list(group.indices)),
                "outputs": list(group.outputs),
                "recompute_ratio": group.recompute_ratio,
            }
            for group in shrunk.groups
        ],
        "nodes": len(shrunk.graph.nodes),
        "weight_bytes": shrunk.graph.weight_bytes,
        "weights_seeded": result.weights_seeded,
    }


def groups_table(result: ShrinkResult) -> Table:
    """The groups that were cut."""
    table = Table("group", "from", "to", "operators", "cut", "recomputed")
    for number, group in enumerate(result.shrunk.groups):
        cut = " ".join(f"{axis}={count}" for axis, count in named_cut(group).items())
        first, last = group.ops[0].node.name, group.ops[-1].node.name
        recomputed = f"{group.recompute_ratio:.1%}"
        table.add_row(str(number), first, last, str(len(group.ops)), cut, recomputed)
    return table
