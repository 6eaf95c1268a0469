"""`tilewright tile`: exact tiles of one operator or of a fused run of operators."""

from math import prod
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright import api
from tilewright.cli.common import (
    JsonOption,
    ModelArgument,
    ShapeOption,
    out,
    parse_shapes,
    print_json,
)
from tilewright.errors import TilingError
from tilewright.units import format_bytes, noun

if TYPE_CHECKING:
    from tilewright.graph.graph import Graph
    from tilewright.report.tiles_on import OnMachine
    from tilewright.tiling.group import GroupTiles


def tile(
    model: ModelArgument,
    split: Annotated[
        list[str],
        typer.Option(
            "--split",
            metavar="H=4[,W=2]",
            help="Axes of the output and in how many parts to cut them: N, C, H, W, S (rows of a "
            "sequence), or the axis number.",
        ),
    ],
    node: Annotated[
        str | None, typer.Option("--node", metavar="NAME", help="Cut this one operator.")
    ] = None,
    first: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="First operator of a fused run (with --to)."),
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", metavar="NAME", help="Last operator of the fused run.")
    ] = None,
    halo: Annotated[
        str,
        typer.Option(
            "--halo",
            metavar="recompute|cache|H=cache",
            help="What neighbouring tiles share: computed again, or kept in line buffers; for all "
            "axes or per axis.",
        ),
    ] = "recompute",
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="MACHINE",
            help="Check every tile against a machine: its limits, and its scratchpad.",
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            metavar="fp16|int8|...",
            help="Element type on the machine; by default the one its file names.",
        ),
    ] = None,
    shape: ShapeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every tile: its output region, input regions, padding, and the recomputed share.

    Examples:

      tilewright tile rn50_stem --node conv1 --split H=4

      tilewright tile resnet18 --from conv1 --to layer1.0.add --split H=4,W=2 --halo cache

      tilewright tile rn50_stem --node conv1 --split H=4 --on npu-2.7 --dtype fp16
    """
    if node is not None and (first is not None or last is not None):
        raise TilingError("give either --node, or --from and --to")
    if dtype is not None and on is None:
        raise TilingError("--dtype is the element type on a machine: give --on MACHINE")
    graph = api.load(model, parse_shapes(shape)).graph
    splits = [part for text in split for part in text.split(",") if part.strip()]
    group = api.tile(
        graph, splits, node=node, first=first, last=last, cached_axes=_cached_axes(halo)
    )
    from tilewright.report.tiles import tiles_json, tiles_table

    machine = None if on is None else _on_machine(graph, on, dtype)
    if as_json:
        print_json(tiles_json(group, machine))
        return
    for tiled in group.ops:
        out.print(tiles_table(group, tiled, machine))
    grid = " x ".join(map(str, group.counts))
    tiles = noun(prod(group.counts), "tile")
    out.print(f"{grid} {tiles}; recomputed share {group.recompute_ratio:.1%}")
    if group.line_buffer_bytes:
        out.print(f"line buffers kept between tiles: {format_bytes(group.line_buffer_bytes)}")
    for name in group.fallbacks:
        out.print(f"'{name}' is recomputed: its rows are not needed in order")
    if machine is not None:
        _print_limits(group, machine)


def _on_machine(graph: "Graph", name: str, dtype: str | None) -> "OnMachine":
    from tilewright.machine.dtypes import rate_class
    from tilewright.machine.load import load_machine
    from tilewright.report.tiles_on import OnMachine

    machine = load_machine(name)
    return OnMachine.of(graph, machine, rate_class(dtype or machine.dtype))


def _print_limits(group: "GroupTiles", on: "OnMachine") -> None:
    from tilewright.report.tiles_on import limit_lines

    out.print(f"On {on.machine.name}, {on.dtype}:")
    for line in limit_lines(group, on):
        out.print(f"  {line}")
    tiles = ((op, group.tile(op, index)) for index in group.indices for op in group.ops)
    needed = [on.bytes(op, tile) for op, tile in tiles if tile is not None]
    large = sum(size > on.usable for size in needed)
    verdict = "every tile fits"
    if large:
        of, verb = noun(len(needed), "tile"), noun(large, "does", "do")
        verdict = f"{large} of {len(needed)} {of} {verb} not fit"
    out.print(
        f"  {verdict} the scratchpad: input, weights and output of one operator's tile take at "
        f"most {format_bytes(max(needed, default=0))} of {format_bytes(on.usable)}"
    )


def _cached_axes(text: str) -> list[str]:
    """`cache`, `recompute`, or a policy per axis."""
    cached: list[str] = []
    for part in text.split(","):
        axis, equals, policy = part.rpartition("=")
        if policy.strip() not in ("cache", "recompute") or (equals and not axis):
            raise TilingError(f"'{text}' is no halo policy: write recompute, cache or H=cache")
        if policy.strip() == "cache":
            cached.append(axis or "all")
    return cached
