"""`tilewright plan`: a network on a machine, executed. `tilewright verify`: the same, again."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright import api
from tilewright.cli.common import (
    JsonOption,
    ModelArgument,
    ShapeOption,
    err,
    note,
    out,
    parse_shapes,
    print_json,
)
from tilewright.cli.progress import progress_line
from tilewright.errors import TilewrightError
from tilewright.program.metrics import Objective
from tilewright.program.pipeline import PASSES, description
from tilewright.program.program import Program
from tilewright.report.verified import failure_json
from tilewright.search.effort import Effort

if TYPE_CHECKING:
    from tilewright.planning import Planned

UNVERIFIED = 3  # exit code of a run that gave other numbers than the original


def with_switches(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option `--no-PASS` for every pass of the pipeline."""
    signature = inspect.signature(command)
    given = [p for p in signature.parameters.values() if p.name != "without"]
    names = {f"no_{step.name.replace('-', '_')}": step for step in PASSES}
    for name, step in names.items():
        option = typer.Option(
            f"--no-{step.name}",
            help=f"Leave out: {description(step)}",
            rich_help_panel="Passes left out",
        )
        keyword = inspect.Parameter.KEYWORD_ONLY
        kind = Annotated[bool, option]
        given.append(inspect.Parameter(name, keyword, default=False, annotation=kind))

    @wraps(command)
    def run(**arguments: Any) -> None:
        without = frozenset(step.name for name, step in names.items() if arguments.pop(name))
        command(**arguments, without=without)

    run.__signature__ = signature.replace(parameters=given)  # pyright: ignore[reportAttributeAccessIssue]
    run.__annotations__ = {p.name: p.annotation for p in given}
    return run


@with_switches
def plan(
    *,
    model: ModelArgument,
    machine: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="MACHINE",
            help="A machine by name (`tilewright show machines` lists them), or a .yaml file.",
        ),
    ],
    layer_by_layer: Annotated[
        bool,
        typer.Option(
            "--layer-by-layer", help="Each operator alone, every activation through the memory."
        ),
    ] = False,
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", metavar="plan.yaml", help="Groups and tiles from a file instead."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where to write the run's files."),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="fp16|int8|...", help="Element type; the machine's own if not given."),
    ] = None,
    objective: Annotated[
        Objective, typer.Option(help="What the search wants least of.")
    ] = Objective.LATENCY,
    effort: Annotated[
        Effort,
        typer.Option(
            help="How many plans the search simulates: low for a first look, high for the last "
            "percent."
        ),
    ] = Effort.NORMAL,
    fast: Annotated[bool, typer.Option("--fast", hidden=True)] = False,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Validate, but do not execute the plan.")
    ] = False,
    patterns: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.yaml",
            help="Operators to fuse or to keep apart (see examples/patterns).",
        ),
    ] = None,
    ablation: Annotated[
        bool,
        typer.Option(
            "--ablation",
            help="Plan with one technique more at a time: none, + vertical fusion, + implicit "
            "reshape, + matrix/vector pipelining.",
        ),
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Reasons for up to 40 boundaries in the report, not for a few (--out).",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of missing weights and of inputs.")] = 0,
    mapping: Annotated[
        Path | None,
        typer.Option(
            metavar="mapping.yaml",
            help="Stream's mapping file; --on is then its accelerator file (docs/from-stream.md).",
            rich_help_panel="Many cores",
        ),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            metavar="fused|lbl",
            help="With --mapping: tiles flow between layers, or layer by layer.",
            rich_help_panel="Many cores",
        ),
    ] = "fused",
    core_costs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="With --mapping: cycles and energy of tiles on cores from a file.",
            rich_help_panel="Many cores",
        ),
    ] = None,
    no_final_write: Annotated[
        bool,
        typer.Option(
            "--no-final-write",
            help="With --mapping: leave out the writing of results, as tools do that forget it.",
            rich_help_panel="Many cores",
        ),
    ] = False,
    open_tiles: Annotated[
        bool,
        typer.Option(
            "--open-tiles",
            help="With --mapping: search the sizes of tiles too, whatever the mapping says.",
            rich_help_panel="Many cores",
        ),
    ] = False,
    print_after: Annotated[
        str | None,
        typer.Option(
            metavar="PASS",
            help="Print the program after this pass: build (before all), "
            + ", ".join(step.name for step in PASSES)
            + ".",
        ),
    ] = None,
    shape: ShapeOption = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            metavar="FILE.csv",
            help="Write MACs, bytes, cycles, engine and share by layer to FILE.csv, and by group "
            "to FILE.groups.csv.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an earlier run in the folder of --out.")
    ] = False,
    as_json: JsonOption = False,
    without: frozenset[str] = frozenset(),
) -> None:
    """Plan a network on a machine, execute the plan, and write all of it down.

    Searches which operators run together, how they are cut and what stays in the scratchpads.
    Ctrl-C ends the search with the best plan so far.

    Writes report.html (open it in a browser), plan.yaml, program.txt, schedule.json (for
    ui.perfetto.dev), memory.png and summary.json; `tilewright verify DIR` checks them again.

    Examples:

      tilewright plan resnet18 --on npu-2.7 --out resnet18-run

      tilewright plan resnet18 --on npu-2.7 --layer-by-layer

      tilewright plan net.onnx --on mcu --plan resnet18-run/plan.yaml --out again

      tilewright plan sd15_down_block --on npu-2.7 --ablation --out ablation

      tilewright plan net.onnx --on hda.yaml --mapping mapping.yaml --out run
    """
    if mapping is not None:
        from tilewright.cli.cores import plan_on_cores

        others = {"--plan": plan_file, "--patterns": patterns, "--dtype": dtype, "--csv": csv}
        others |= {"--ablation": ablation or None, "--explain": explain or None}
        for option, given in {**others, "--print-after": print_after}.items():
            if given is not None:
                raise TilewrightError(f"{option} is not for --mapping")
        loaded = api.load(model, parse_shapes(shape))
        plan_on_cores(
            loaded.name,
            loaded.graph,
            None if no_verify else loaded.with_numbers(seed),
            machine,
            mapping,
            mode="lbl" if layer_by_layer else mode,
            core_costs=core_costs,
            final_write=not no_final_write,
            open_tiles=open_tiles,
            objective=objective.value,
            fast=fast,
            seed=seed,
            folder=folder,
            force=force,
            as_json=as_json,
        )
        return
    if core_costs is not None or no_final_write or open_tiles or mode != "fused":
        raise TilewrightError(
            "--mode, --core-costs, --no-final-write and --open-tiles need --mapping"
        )
    _check_print_after(print_after, without)
    from tilewright.manycore.read_hardware import is_accelerator_file
    from tilewright.runs.folder import check_folder

    if is_accelerator_file(Path(machine)):
        raise TilewrightError(f"'{machine}' is an accelerator file of Stream: give --mapping too")
    target = api.machine(machine)
    if folder is not None:
        check_folder(folder, force=force)
    elif explain:
        raise TilewrightError("--explain is for the report: say where with --out DIR")
    tables = {} if csv is None else {csv: "layers", _beside(csv): "groups"}
    for path in tables:
        api.check_writable(path)
    loaded = api.load(model, parse_shapes(shape))
    printed: list[str] = []

    def watch(step: str, program: Program) -> None:
        from tilewright.program.text import program_text

        if step == print_after:
            printed.append(program_text(program))

    with progress_line("planning") as tell:
        result = api.plan(
            loaded,
            target,
            layer_by_layer=layer_by_layer,
            plan=plan_file,
            dtype=dtype,
            objective=objective,
            effort=Effort.LOW if fast else effort,
            without=without,
            verify=not no_verify,
            seed=seed,
            patterns=patterns,
            ablation=ablation,
            watch=None if print_after is None else watch,
            progress=tell,
        )
        if folder is not None:
            result.save(folder, explained=explain, force=force, progress=tell)
    planned = result.planned
    for path, what in tables.items():
        (result.layers if what == "layers" else result.groups).to_csv(path)
    from tilewright.report.ablated import ablation_table
    from tilewright.report.ablated import notes as ablation_notes
    from tilewright.report.plan_summary import (
        engines_table,
        memory_table,
        summary_json,
        summary_lines,
    )
    from tilewright.report.verified import verified_line

    for text in planned.notes:
        note(text)
    numbers = planned.numbers
    if numbers is not None and numbers.seeded:
        note("the model has no weights of its own here: seeded random ones were used")
    for text in printed:
        (err if as_json else out).print(text, end="", soft_wrap=True)
    for text in planned.warnings:
        note(f"warning: {text}")
    if as_json:
        print_json(summary_json(planned))
        _end(planned)
        return
    for line in summary_lines(planned):
        out.print(line, soft_wrap=True)
    out.print(engines_table(planned))
    out.print(memory_table(planned))
    if planned.ablation is not None:
        out.print(ablation_table(planned))
        for text in ablation_notes(planned):
            out.print(text, soft_wrap=True)
    out.print(verified_line(planned), soft_wrap=True)
    if folder is not None:
        out.print(f"written: {folder}   (check it with: tilewright verify {folder})")
    _end(planned)


def _beside(csv: Path) -> Path:
    """Where the table by group goes: `name.groups.csv` beside `name.csv`."""
    return csv.with_name(f"{csv.stem}.groups{csv.suffix}")


def _end(planned: "Planned") -> None:
    """A run whose numbers are wrong ends with an exit code of its own, behind all output."""
    if planned.failure is not None:
        note(f"UNVERIFIED: {planned.failure.told()}")
        raise typer.Exit(UNVERIFIED)


def _check_print_after(name: str | None, without: frozenset[str]) -> None:
    known = ["build", *(step.name for step in PASSES)]
    if name is not None and name not in known:
        raise TilewrightError(f"there is no pass '{name}': give one of {', '.join(known)}")
    if name in without:
        raise TilewrightError(f"nothing to print after '{name}': --no-{name} leaves it out")


def verify(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="A folder that `tilewright plan` wrote.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Check a saved run from its files alone: validators, then execution, then the numbers."""
    with err.status("checking ..."):
        checked = api.verify(folder)
    for text in checked.notes:
        note(text)
    verified = checked.verified
    if as_json:
        print_json(
            {
                "model": checked.model,
                "machine": checked.machine,
                "latency_cycles": checked.account.latency_cycles,
                "failure": failure_json(checked.failure),
                "verified": None
                if verified is None
                else {
                    "max_rel_error": verified.difference.max_rel_error,
                    "tasks_executed": verified.tasks,
                },
            }
        )
    else:
        for line in checked.headline():
            out.print(line, soft_wrap=True)
    if checked.failure is not None:
        raise typer.Exit(UNVERIFIED)
