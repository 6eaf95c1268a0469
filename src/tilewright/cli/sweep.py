"""`tilewright sweep`: many plans, none lost, and what they say together."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tilewright.cli.arguments import JsonOption
from tilewright.cli.common import err, note, out, print_json, print_lines
from tilewright.errors import TilewrightError
from tilewright.tables import picked

if TYPE_CHECKING:
    from tilewright.sweep.api import Swept
    from tilewright.sweep.run import Progress as Done
    from tilewright.sweep.run import Watch
    from tilewright.sweep.store import StoredPoint

EVERY = 10.0  # seconds between lines where nobody sees a bar


SpaceArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[SPACE.yaml]", help="The space; with --resume, the last one."),
]
FolderOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Where the store and the answers are kept."),
]
EngineOption = Annotated[
    str, typer.Option(metavar="local|dask", help="Who plans: this computer, or a cluster.")
]
SchedulerOption = Annotated[
    str | None, typer.Option(metavar="tcp://HOST:PORT", help="The Dask scheduler.")
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Local processes; one per core if not given.")
]
ResumeOption = Annotated[
    bool,
    typer.Option("--resume", help="Go on with the sweep in DIR; there has to be one."),
]
BudgetOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="At most N points: the first of a grid, or of a guided search."
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(min=0.001, metavar="SECONDS", help="Give a point up after so long."),
]
RetriesOption = Annotated[
    int, typer.Option(min=0, help="Further attempts for a point whose worker dies.")
]
UnderOption = Annotated[
    float | None,
    typer.Option(
        "--under", min=0, metavar="MS", help="Cheapest machine that runs all networks in time."
    ),
]
ExportOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Write the table as .csv or .parquet. May be repeated."),
]
ShowOption = Annotated[
    str | None,
    typer.Option(metavar="POINT", help="Print a point's plan by number or key; sweep nothing."),
]
AnswersOption = Annotated[
    bool, typer.Option("--answers", help="Answer from what is there; sweep nothing.")
]


def sweep(
    space: SpaceArgument = None,
    folder: FolderOption = None,
    engine: EngineOption = "local",
    scheduler: SchedulerOption = None,
    workers: WorkersOption = None,
    resume: ResumeOption = False,
    budget: BudgetOption = None,
    timeout: TimeoutOption = None,
    retries: RetriesOption = 2,
    under: UnderOption = None,
    export: ExportOption = None,
    show: ShowOption = None,
    answers: AnswersOption = False,
    as_json: JsonOption = False,
) -> None:
    """Plan a whole space: machines x networks x objectives, on every core or on a cluster.

    Each result is kept the moment it is known, in DIR/sweep.sqlite. Points that are there are not
    planned again; a sweep that was killed goes on with --resume. Then: the Pareto front and its
    knee, what each parameter matters, the cheapest machine; sweep.html, sweep.png, answers.json.

    Examples:

      tilewright sweep examples/sweeps/edge.yaml --out edge

      tilewright sweep --out edge --resume --under 2.5 --export edge.csv

      tilewright sweep big.yaml --out big --engine dask --scheduler tcp://head:8786

      tilewright sweep --out edge --show 17 > plan.yaml
    """
    from tilewright.sweep.api import find_point, results, write_answers
    from tilewright.sweep.api import sweep as run_sweep
    from tilewright.sweep.export import check_export
    from tilewright.sweep.export import export as write_table

    if folder is None:
        raise TilewrightError("say where the sweep is kept: --out DIR")
    if show is not None:
        _show(find_point(folder, show), as_json)
        return
    for path in export or ():
        check_export(path)
    began = time.monotonic()
    if answers:
        swept = results(folder, under)
    else:
        with _progress() as watch:
            swept = run_sweep(
                space,
                folder,
                engine=engine,
                scheduler=scheduler,
                workers=workers,
                resume=resume,
                budget=budget,
                timeout=timeout,
                retries=retries,
                under_ms=under,
                watch=watch,
            )
    seconds = time.monotonic() - began
    write_answers(swept)
    for path in export or ():
        write_table(swept.table, path)
    _tell(swept, seconds, under, as_json)


def _show(row: "StoredPoint", as_json: bool) -> None:
    if as_json:
        point = {"point": dict(row.point), "summary": row.summary, "plan": row.plan}
        print_json({**picked(row, "key", "status", "reason"), **point})
    elif row.plan is None:
        raise TilewrightError(f"point {row.key[:12]} has no plan: {row.reason}")
    else:
        out.print(row.plan, end="", soft_wrap=True)


def _tell(swept: "Swept", seconds: float, under: float | None, as_json: bool) -> None:
    from tilewright.sweep import told

    table, found = swept.table, swept.answers
    if as_json:
        print_json(told.answers_json(swept.space, table, found))
        return
    if swept.progress is not None:
        line = told.progress_line(swept.progress, seconds)
        out.print(f"{swept.space.name}: {line}", soft_wrap=True)
    print_lines(told.failure_lines(table))
    for front in found.fronts if found.together is None else [found.together]:
        out.print(told.front_table(table, front, front is found.together))
    if not table.ok.any():
        raise TilewrightError("no point has a plan: there is nothing to answer")
    if any(each.elasticity is not None for each in found.sensitivity):
        out.print(told.sensitivity_table(found))
    if under is not None or swept.space.under_ms is not None:
        out.print(told.cheapest_line(table, found), soft_wrap=True)
    out.print(f"written: {swept.folder}   (open {swept.folder / 'sweep.html'} in a browser)")


@contextmanager
def _progress() -> "Generator[Watch]":
    """A bar with rate and time left on a terminal; elsewhere a line now and then. Ctrl-C says how
    to go on."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    said = time.monotonic()
    last: Done | None = None
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=None, rate="", left="")

        def watch(done: "Done") -> None:
            from tilewright.sweep.told import rate_text, time_text

            nonlocal said, last
            last, now = done, time.monotonic()
            rate = "" if done.rate is None else rate_text(done.rate)
            left = "" if done.seconds_left is None else f"about {time_text(done.seconds_left)} left"
            bar.update(
                task,
                description=done.phase,
                completed=done.done,
                total=done.total,
                rate=rate,
                left=left,
            )
            if not err.is_terminal and now - said >= EVERY:
                said = now
                parts = [f"{done.phase}: {done.done} of {done.total} points", rate]
                parts += [f"{done.without} without a plan" if done.without else "", left]
                note(", ".join(filter(None, parts)))

        try:
            yield watch
        except KeyboardInterrupt:
            bar.stop()
            if last is not None:
                note(f"{last.done} of {last.total} points are kept; go on with --resume")
            raise
