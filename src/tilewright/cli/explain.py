"""`tilewright explain`: why a plan's boundaries are where they are."""

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.arguments import CsvOption, JsonOption
from tilewright.cli.common import note, out, print_json, print_lines
from tilewright.cli.progress import progress_line

WIDE = 140  # columns that a table of reasons needs


def explain(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="A folder that `tilewright plan` wrote.")
    ],
    everything: Annotated[
        bool, typer.Option("--all", help="Try every boundary, not the 40 of the largest tensors.")
    ] = False,
    apply: Annotated[
        Path | None,
        typer.Option(
            "--apply",
            metavar="plan.yaml",
            help="Write the plan with every boundary taken away that is better joined: for plans "
            "edited by hand, or read from a file.",
        ),
    ] = None,
    csv: CsvOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell for each boundary of a plan what fusing across it would cost, and what binds each group.

    Each reason is backed by forced trials: the two groups as one, tiled together, the tensor
    between them kept in the scratchpads, and the best of both on fewer cores; lowered and simulated
    as a whole, all else unchanged.

    Example:

      tilewright explain resnet18-run

      tilewright explain edited-run --apply better.yaml
    """
    from tilewright import api
    from tilewright.files import check_writable, write_text
    from tilewright.report import explained

    check_writable(csv, apply)
    with progress_line("reading the run") as tell:
        run = api.explain(folder, everything=everything, apply=apply is not None, progress=tell)
    explanation = run.explanation
    for text in run.notes:
        note(text)
    if csv is not None:
        run.to_csv(csv)
    if apply is not None and run.applied is not None:
        from tilewright.plan.plan import plan_text
        from tilewright.results.explained import applied_line

        write_text(apply, plan_text(run.applied.plan))
        note(f"{applied_line(run.applied)}; written: {apply}")
    if as_json:
        print_json(run.json)
        return
    print_lines(explained.explanation_lines(run.plan, run.machine, explanation))
    out.print(explained.groups_table(explanation))
    if out.is_terminal and out.width >= WIDE:
        out.print(explained.boundaries_table(run.plan, explanation))
        return
    for line in explained.boundary_lines(run.plan, explanation):
        out.print(line, soft_wrap=not out.is_terminal)
