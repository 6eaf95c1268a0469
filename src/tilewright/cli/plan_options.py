"""What `tilewright plan` can be asked: one field for every option."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.cli.arguments import JsonOption, ModelArgument, ShapeOption
from tilewright.cli.options import parameters_of, with_parameters
from tilewright.errors import TilewrightError
from tilewright.program.metrics import Objective
from tilewright.program.pipeline import PASSES, description
from tilewright.search.effort import Effort, effort_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of one call; `without` are the passes that `--no-PASS` leaves out."""

    model: ModelArgument
    machine: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="MACHINE",
            help="A machine by name (`tilewright show machines` lists them), or a .yaml file.",
        ),
    ]
    layer_by_layer: Annotated[
        bool,
        typer.Option(
            "--layer-by-layer", help="Each operator alone, every activation through the memory."
        ),
    ] = False
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", metavar="plan.yaml", help="Groups and tiles from a file instead."),
    ] = None
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to write the run's files.")
    ] = None
    dtype: Annotated[
        str | None,
        typer.Option(metavar="fp16|int8|...", help="Element type; the machine's own if not given."),
    ] = None
    objective: Annotated[Objective, typer.Option(help="What the search wants least of.")] = (
        Objective.LATENCY
    )
    effort: Annotated[
        Effort | None,
        typer.Option(
            help="How many plans the search simulates: low for a first look, high for the last "
            "percent.",
            metavar="|".join(Effort),
            show_default=Effort.NORMAL.value,
        ),
    ] = None
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="256KiB", help="What the plan may take of each on-chip memory, at most."
        ),
    ] = None
    fast: Annotated[bool, typer.Option("--fast", hidden=True, help="The same as --effort low.")] = (
        False
    )
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Validate, but do not execute the plan.")
    ] = False
    patterns: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.yaml", help="Operators to fuse or to keep apart (see examples/patterns)."
        ),
    ] = None
    ablation: Annotated[
        bool,
        typer.Option(
            "--ablation",
            help="Plan with one technique more at a time: none, + vertical fusion, + implicit "
            "reshape, + matrix/vector pipelining.",
        ),
    ] = False
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Reasons for up to 40 boundaries in the report, not for a few (--out).",
        ),
    ] = False
    seed: Annotated[int, typer.Option(help="Seed of missing weights and of inputs.")] = 0
    mapping: Annotated[
        Path | None,
        typer.Option(
            metavar="mapping.yaml",
            help="Stream's mapping file; --on is then its accelerator file (docs/from-stream.md).",
            rich_help_panel="Many cores",
        ),
    ] = None
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="fused|lbl",
            help="With --mapping: tiles flow between layers (the default), or layer by layer.",
            rich_help_panel="Many cores",
        ),
    ] = None
    core_costs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="With --mapping: cycles and energy of tiles on cores from a file.",
            rich_help_panel="Many cores",
        ),
    ] = None
    no_final_write: Annotated[
        bool,
        typer.Option(
            "--no-final-write",
            help="With --mapping: leave out the writing of results, as tools do that forget it.",
            rich_help_panel="Many cores",
        ),
    ] = False
    open_tiles: Annotated[
        bool,
        typer.Option(
            "--open-tiles",
            help="With --mapping: search the sizes of tiles too, whatever the mapping says.",
            rich_help_panel="Many cores",
        ),
    ] = False
    print_after: Annotated[
        str | None,
        typer.Option(
            metavar="PASS",
            help="Print the program after this pass: build (before all), "
            + ", ".join(step.name for step in PASSES)
            + ".",
        ),
    ] = None
    shape: ShapeOption = None
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Write MACs, bytes, cycles, engine and share by layer to FILE.csv, and by group "
            "to FILE.groups.csv (with --mapping, cores, tiles, cycles and energy by layer).",
        ),
    ] = None
    force: Annotated[
        bool, typer.Option("--force", help="Replace an earlier run in the folder of --out.")
    ] = False
    as_json: JsonOption = False
    without: frozenset[str] = frozenset()

    @property
    def searched(self) -> Effort:
        """The effort that `--effort` or `--fast` asks for."""
        return effort_of(self.effort, self.fast)

    def refuse(self, why: str, *names: str) -> None:
        """Raise where an option of these is given that does not go with the others."""
        for field in fields(self):
            if field.name in names and getattr(self, field.name) != field.default:
                others = {"plan_file": "plan", "folder": "out"}
                option = others.get(field.name, field.name.replace("_", "-"))
                raise TilewrightError(f"--{option} {why}")


def with_options(command: Callable[[Asked], None]) -> Callable[..., None]:
    """The command with its options, and a `--no-PASS` for every pass of the pipeline."""
    given = parameters_of(Asked, without=("without",))
    names = {f"no_{step.name.replace('-', '_')}": step for step in PASSES}
    for name, step in names.items():
        option = typer.Option(
            f"--no-{step.name}",
            help=f"Leave out: {description(step)}",
            rich_help_panel="Passes left out",
        )
        kind = Annotated[bool, option]
        keyword = inspect.Parameter.KEYWORD_ONLY
        given.append(inspect.Parameter(name, keyword, default=False, annotation=kind))

    @wraps(command)
    def run(**arguments: Any) -> None:
        without = frozenset(step.name for name, step in names.items() if arguments.pop(name))
        command(Asked(**arguments, without=without))

    return with_parameters(run, given)
