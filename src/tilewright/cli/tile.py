"""`tilewright tile`: exact tiles of one operator or of a fused run of operators."""

from typing import TYPE_CHECKING, Annotated

import typer

from tilewright import api
from tilewright.cli.arguments import CsvOption, JsonOption, ModelArgument, ShapeOption, parse_shapes
from tilewright.cli.common import out, print_json
from tilewright.files import check_writable
from tilewright.units import format_bytes, noun

if TYPE_CHECKING:
    from tilewright.report.tiles_on import OnMachine
    from tilewright.tiling.group import GroupTiles


def tile(
    model: ModelArgument,
    split: Annotated[
        list[str],
        typer.Option(
            metavar="H=4[,W=2]",
            help="Axes of the output and in how many parts to cut them: N, C, H, W, L (a signal), "
            "S (rows of a sequence), or the axis number.",
        ),
    ],
    node: Annotated[str | None, typer.Option(metavar="NAME", help="Cut this one operator.")] = None,
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
            metavar="recompute|cache|H=cache",
            help="What neighbouring tiles share: computed again, or kept in line buffers; for all "
            "axes or per axis.",
        ),
    ] = "recompute",
    on: Annotated[
        str | None,
        typer.Option(
            metavar="MACHINE",
            help="Check every tile against a machine: its limits, and its scratchpad.",
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="fp16|int8|...",
            help="Element type on the machine; by default the one its file names.",
        ),
    ] = None,
    shape: ShapeOption = None,
    csv: CsvOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every tile: its output region, input regions, padding, and the recomputed share.

    Examples:

      tilewright tile rn50_stem --node conv1 --split H=4

      tilewright tile resnet18 --from conv1 --to layer1.0.add --split H=4,W=2 --halo cache

      tilewright tile rn50_stem --node conv1 --split H=4 --on npu-2.7 --dtype fp16
    """
    check_writable(csv)
    tiles = api.tile(
        model,
        split,
        node=node,
        first=first,
        last=last,
        halo=halo,
        on=on,
        dtype=dtype,
        shapes=parse_shapes(shape),
    )
    from tilewright.report.tiles import tiles_table

    group, machine = tiles.group, tiles.machine
    if csv is not None:
        tiles.to_csv(csv)
    if as_json:
        print_json(tiles.json)
        return
    for tiled in group.ops:
        out.print(tiles_table(group, tiled, machine))
    for line in tiles.headline():
        out.print(line)
    if machine is not None:
        _print_limits(group, machine)


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
