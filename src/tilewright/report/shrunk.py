"""A shrunk model as JSON and as text."""

from typing import Any

from rich.table import Table

from tilewright.api import ShrinkResult
from tilewright.tiling.grid import AXES_BY_RANK
from tilewright.tiling.group import GroupTiles
from tilewright.units import format_bytes


def _axis_name(group: GroupTiles, axis: int) -> str:
    name = next(iter(group.outputs))
    rank = len(group.graph.types[name].shape)
    return next((n for n, a in AXES_BY_RANK.get(rank, {}).items() if a == axis), str(axis))


def _cut(group: GroupTiles) -> dict[str, int]:
    pairs = zip(group.splits, group.counts, strict=True)
    return {_axis_name(group, split.axis): count for split, count in pairs}


def shrunk_json(result: ShrinkResult) -> dict[str, Any]:
    """All figures, for a program to read."""
    shrunk, measured = result.shrunk, result.measured
    return {
        "original_peak_bytes": shrunk.original.peak,
        "predicted_peak_bytes": shrunk.predicted.peak,
        "measured_peak_bytes": measured.peak_bytes if measured else None,
        "measured_original_peak_bytes": measured.original_peak_bytes if measured else None,
        "cpu_ratio": measured.cpu_ratio if measured else None,
        "max_abs_error": result.difference.max_abs_error,
        "max_rel_error": result.difference.max_rel_error,
        "recompute_ratio": shrunk.recompute_ratio,
        "groups": [
            {
                "nodes": [tiled.node.name for tiled in group.ops],
                "split": _cut(group),
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
        cut = " ".join(f"{axis}={count}" for axis, count in _cut(group).items())
        first, last = group.ops[0].node.name, group.ops[-1].node.name
        recomputed = f"{group.recompute_ratio:.1%}"
        table.add_row(str(number), first, last, str(len(group.ops)), cut, recomputed)
    return table


def summary_lines(result: ShrinkResult) -> list[str]:
    """What a person wants to know, most important first."""
    shrunk, measured = result.shrunk, result.measured
    share = shrunk.predicted.peak / max(1, shrunk.original.peak)
    lines = [
        f"peak memory (predicted): {format_bytes(shrunk.original.peak)} -> "
        f"{format_bytes(shrunk.predicted.peak)} ({share:.0%}); "
        f"{shrunk.recompute_ratio:.1%} recomputed; "
        f"weights take another {format_bytes(shrunk.graph.weight_bytes)}"
    ]
    if measured is not None:
        lines.append(
            f"peak memory (measured):  {format_bytes(measured.original_peak_bytes)} -> "
            f"{format_bytes(measured.peak_bytes)} "
            f"({measured.peak_bytes / max(1, measured.original_peak_bytes):.0%}); "
            f"CPU time x{measured.cpu_ratio:.2f}"
        )
    lines.append(
        "same results: largest difference "
        f"{result.difference.max_rel_error:.1e} of the largest output"
    )
    return lines
