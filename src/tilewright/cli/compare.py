"""`tilewright compare`: what differs between plans, and what it costs."""

from pathlib import Path
from typing import Annotated

import typer

from tilewright import api
from tilewright.cli.arguments import CsvOption, JsonOption
from tilewright.cli.common import out, print_json
from tilewright.files import check_writable


def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [...]",
            help="Folders that `tilewright plan` wrote, or points of sweeps: DIR#NUMBER.",
        ),
    ],
    top: Annotated[int, typer.Option(min=1, help="How many causes to print.")] = 12,
    page: Annotated[
        Path | None, typer.Option("--html", metavar="FILE.html", help="Write it as a page too.")
    ] = None,
    csv: CsvOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare plans with the first: groups, cuts, what stays resident, cycles, bytes, energy.

    Parts of the network that both plans divide into whole groups are set against each other; those
    that change the most cycles come first. Their cycles add up to the difference in latency.

    Examples:

      tilewright compare layers-run fused-run

      tilewright compare edge#0 edge#17 edge#18 --html compare.html
    """
    from tilewright.compare import told

    check_writable(page, csv)
    found = api.compare(*names)
    if page is not None:
        found.save(page)
    if csv is not None:
        found.to_csv(csv)
    if as_json:
        print_json(found.json)
        return
    for each in found:
        out.print(each.headline()[0], soft_wrap=True)
        for line in told.notes(each):
            out.print(f"  {line}", soft_wrap=True)
        if each.regions:
            out.print(told.causes_table(each, top))
        out.print(told.figures_table(each))
    if page is not None:
        out.print(f"written: {page}")
