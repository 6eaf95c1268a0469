"""`tilewright kernel`: plan, cost and check one fused kernel on a Trainium-like core."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.cli.arguments import CsvOption, JsonOption, ShapeOption, parse_shapes
from tilewright.cli.common import note, out, print_json, print_lines
from tilewright.cli.options import own_options, taking
from tilewright.cli.progress import shown_line
from tilewright.errors import TilewrightError

app = typer.Typer(
    help="Plan, cost and check a fused kernel on a Trainium-like core, before anything is compiled."
    "\n\nThe loop nest is data: tiles, loop order, where operands are loaded, cast and transposed. "
    "For each nest: SBUF bytes per partition and PSUM banks, DMAs with their runs, busy time of "
    "every engine, the rule it breaks if it is illegal, and a predicted time.",
    no_args_is_help=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """The options that all kernels take."""

    dtype: Annotated[
        str, typer.Option(metavar="fp32|fp16|bf16", help="Element type of all tensors.")
    ] = "fp16"
    on: Annotated[
        str, typer.Option(metavar="MACHINE", help="trn1, trn2, or a machine file with a PSUM.")
    ] = "trn2"
    nest: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A nest to plan: YAML as `--out` writes it.")
    ] = None
    ladder: Annotated[
        bool,
        typer.Option(
            "--ladder", help="All rungs of the ladder, measured beside modelled where known."
        ),
    ] = False
    search: Annotated[
        bool,
        typer.Option(
            "--search", help="Find the fastest legal nest, and say what each change buys."
        ),
    ] = False
    claim_us: Annotated[
        float | None,
        typer.Option(
            metavar="US",
            help="A time somebody claims for these operands: an error where it is below the "
            "tensor engine's floor.",
        ),
    ] = None
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help="Run the whole nest in numpy, or none of it; by default the first rows of large "
            "problems.",
        ),
    ] = None
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write kernel.html, kernel.json, nest.yaml, listing.txt and trace.json "
            "(Perfetto).",
        ),
    ] = None
    csv: CsvOption = None
    as_json: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Convolution(_Kernel):
    """What else a convolution is given by."""

    image: Annotated[
        str | None,
        typer.Option("--in", metavar="CxHxW", help="Channels, height and width of the input."),
    ] = None
    out_channels: Annotated[
        int | None,
        typer.Option(metavar="N", help="Output channels; as many as the input's if not given."),
    ] = None
    kernel: Annotated[
        str, typer.Option(metavar="3|3x5", help="Height and width of the filter.")
    ] = "3"
    pool: Annotated[int, typer.Option(metavar="N", help="Max-pool NxN behind it; 1 for none.")] = 1
    batch: Annotated[int, typer.Option(metavar="N", help="Images.")] = 1
    stride: Annotated[str, typer.Option(metavar="1|2x1", help="Steps down and across.")] = "1"
    pad: Annotated[int, typer.Option(metavar="N", help="Zero rows and columns on every side.")] = 0
    relu: Annotated[bool, typer.Option("--relu", help="A ReLU behind it.")] = False
    bias: Annotated[bool, typer.Option("--bias/--no-bias", help="With a bias.")] = True
    model: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="MODEL", help="Take the convolution from a model (with --node)."
        ),
    ] = None
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The convolution; ReLU and max-pool behind it go with it."
        ),
    ] = None
    shape: ShapeOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product(_Kernel):
    """What else a product is given by."""

    size: Annotated[
        str | None, typer.Option(metavar="MxKxN", help="A product of (M x K) and (K x N).")
    ] = None


@app.command("conv2d")
@taking(_Convolution)
def conv2d(asked: _Convolution) -> None:
    """A convolution with bias, ReLU and max-pool as one kernel.

    Examples:

      tilewright kernel conv2d --in 256x224x224 --out-channels 256 --pool 2 --on trn2

      tilewright kernel conv2d --in 256x224x224 --out-channels 256 --ladder

      tilewright kernel conv2d --in 256x224x224 --out-channels 256 --search --out found

      tilewright kernel conv2d --in 256x224x224 --out-channels 256 --nest found/nest.yaml

      tilewright kernel conv2d --from vgg16 --node block3.conv2 --search
    """
    if asked.model is not None and asked.node is None:
        raise TilewrightError("--from MODEL needs --node NAME: which convolution is it?")
    if asked.model is None and (asked.node is not None or asked.shape):
        what = "--shape" if asked.node is None else "--node NAME"
        raise TilewrightError(f"{what} needs --from MODEL")
    _plan("conv2d", asked)


@app.command("matmul")
@taking(_Product)
def matmul(asked: _Product) -> None:
    """A matrix product as one kernel: K on the partitions, tiles of at most 512 columns.

    Example:

      tilewright kernel matmul --size 512x1024x4096 --dtype fp16 --search
    """
    _plan("matmul", asked)


def _plan(kind: str, asked: _Kernel) -> None:
    """Plan a kernel of a kind, and tell it."""
    from tilewright import api
    from tilewright.files import check_place, check_writable
    from tilewright.report.kernel_facts import kernel_json, ladder_json
    from tilewright.report.kernel_text import kernel_lines, ladder_table, parameter_lines

    problem: dict[str, Any] = {name: getattr(asked, name) for name in own_options(type(asked))}
    if "shape" in problem:
        problem["shapes"] = parse_shapes(problem.pop("shape"))
    if sum((asked.nest is not None, asked.ladder, asked.search)) > 1:
        raise TilewrightError("give one of --nest, --ladder and --search")
    if asked.folder is not None:
        check_place(asked.folder)
    check_writable(asked.csv)
    with shown_line("searching loop nests" if asked.search else "counting the loop nest"):
        plan = api.kernel(
            kind,
            **problem,
            dtype=asked.dtype,
            on=asked.on,
            nest=asked.nest,
            searched=asked.search,
            claim_us=asked.claim_us,
            check=False if asked.ladder else asked.check,
        )
    if asked.csv is not None:
        plan.to_csv(asked.csv)
    broken = plan.assessment.violations
    if broken and not asked.ladder:
        if asked.as_json:
            print_json(kernel_json(plan))
        rules = "; ".join(f"rule {each.rule}: {each.text}" for each in broken)
        raise TilewrightError(f"nest '{plan.assessment.nest.name}' is illegal: {rules}")
    if asked.folder is not None:
        from tilewright.report.kernel_files import write_kernel

        write_kernel(plan, asked.folder, ladder=asked.ladder)
    if asked.as_json:
        print_json(ladder_json(plan.ladder, plan.target) if asked.ladder else kernel_json(plan))
    elif asked.ladder:
        out.print(ladder_table(plan.ladder))
        print_lines(parameter_lines(plan.target))
    else:
        print_lines(kernel_lines(plan))
    if asked.folder is not None:
        note(f"written: {asked.folder / 'kernel.html'}")
    if asked.claim_us is not None:
        note(f"claimed {asked.claim_us:g} us: not below the tensor engine's floor")
