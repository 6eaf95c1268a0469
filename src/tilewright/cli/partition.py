"""`tilewright partition`: kernels, FLOPs and bytes of a network, before and after fusion."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright import api
from tilewright.cli.arguments import CsvOption, JsonOption, ModelArgument, ShapeOption, parse_shapes
from tilewright.cli.common import out, print_json, print_lines
from tilewright.cli.progress import shown_line
from tilewright.errors import TilewrightError
from tilewright.partition.partition import FusionLevel

if TYPE_CHECKING:
    from tilewright.results.partitioned import PartitionResult


def partition(
    model: ModelArgument,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="MACHINE",
            help="Map every kernel on a machine: h100-sxm, a100, rtx-3060-laptop, tpu-v4, kpu-t64, "
            "kpu-t256, a machine of `tilewright show machines`, or a .yaml file.",
        ),
    ] = None,
    level: Annotated[
        FusionLevel,
        typer.Option(
            help="pattern: convolution or linear with norm and activation, element-wise chains, "
            "attention. block: whole residual, attention and MLP blocks. capacity: the largest "
            "groups whose tiles fit the machine's cache or scratchpad (needs --on)."
        ),
    ] = FusionLevel.PATTERN,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write partition.html, .json, .csv, .mmd (Mermaid) and .dot there.",
        ),
    ] = None,
    graph: Annotated[
        str,
        typer.Option(
            metavar="auto|module|aten",
            help="Which graph of a torch module is counted: the module graph of FX, the ATen graph "
            "of torch.export, or the first that can be had.",
        ),
    ] = "auto",
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="fp32|bf16|...",
            help="Element type; the network's own if a processor has a rate for it, that of "
            "the file on machines that plans are made for.",
        ),
    ] = None,
    shape: ShapeOption = None,
    csv: CsvOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count kernels, FLOPs and bytes of a network, what operator fusion saves, and how it maps.

    Operators are counted as the network's own graph has them, before any rewriting; the rules of
    counting are in docs/partition.md. A torch module comes with example inputs if its function
    returns (module, inputs); --shape gives their shapes otherwise.

    Examples:

      tilewright partition resnet18

      tilewright partition mymodels.py:build --on h100-sxm --out run

      tilewright partition net.onnx --level capacity --on kpu-t64 --json
    """
    from tilewright.api.studies import load_for_partition
    from tilewright.files import check_place, check_writable
    from tilewright.model import is_torch_name

    if folder is not None:
        check_place(folder)
    if dtype is not None and on is None:
        raise TilewrightError("--dtype is the element type on a machine: it goes with --on MACHINE")
    if graph != "auto" and not is_torch_name(model):
        raise TilewrightError(f"--graph goes with a torch module; '{model}' has one graph alone")
    check_writable(csv)
    shapes = parse_shapes(shape)
    with shown_line("reading the network"):
        loaded = load_for_partition(model, shapes=shapes, graph=graph)
    with shown_line("counting kernels, FLOPs and bytes"):
        result = api.partition(loaded, on=on, level=level, dtype=dtype)
    _tell(result, folder, csv, as_json)


def _tell(result: "PartitionResult", folder: Path | None, csv: Path | None, as_json: bool) -> None:
    """Write the files that are asked for, and print what was counted."""
    from tilewright.report.partition.figures import partition_json
    from tilewright.report.partition.page import write_partition
    from tilewright.report.partition.tables import kernels_table, summary_lines

    if folder is not None:
        write_partition(result.partition, result.mapped, folder)
    if csv is not None:
        result.to_csv(csv)
    if as_json:
        print_json(partition_json(result.partition, result.mapped))
        return
    out.print(kernels_table(result.partition, result.mapped))
    print_lines(summary_lines(result.partition, result.mapped))
    if folder is not None:
        out.print(f"Written: {folder / 'partition.html'}", soft_wrap=True)
