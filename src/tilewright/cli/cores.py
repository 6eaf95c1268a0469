"""`tilewright plan --mapping`: a network on the cores of an accelerator file."""

from pathlib import Path

from tilewright.cli.common import note, out, print_json
from tilewright.cli.progress import progress_line
from tilewright.errors import TilewrightError
from tilewright.graph.graph import Graph

MODES = ("fused", "lbl")


def plan_on_cores(
    name: str,
    graph: Graph,
    numbered: Graph | None,
    machine: str,
    mapping: Path,
    *,
    mode: str,
    core_costs: Path | None,
    final_write: bool,
    open_tiles: bool,
    objective: str,
    fast: bool,
    seed: int,
    folder: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Plan, tell, and write the files."""
    from tilewright.manycore.output import check_target, write_plan
    from tilewright.manycore.plan import plan_cores
    from tilewright.manycore.told import cores_table, headline, lines, memories_table, summary

    if mode not in MODES:
        raise TilewrightError(f"--mode is '{mode}': give fused or lbl")
    if objective == "traffic":
        raise TilewrightError("--objective traffic is not for --mapping: give latency or energy")
    if folder is not None:
        check_target(folder, force=force)
    with progress_line("planning") as tell:
        plan = plan_cores(
            name,
            graph,
            Path(machine),
            mapping,
            numbered=numbered,
            fused=mode == "fused",
            core_costs=core_costs,
            final_write=final_write,
            open_tiles=open_tiles,
            objective=objective,
            fast=fast,
            seed=seed,
            tell=tell,
        )
        if folder is not None:
            tell("writing files")
            write_plan(plan, folder)
    for text in plan.notes:
        note(text)
    if as_json:
        print_json(summary(plan))
        return
    out.print(headline(plan), soft_wrap=True)
    for line in lines(plan):
        out.print(line, soft_wrap=True)
    out.print(cores_table(plan))
    out.print(memories_table(plan))
    if folder is not None:
        out.print(f"written: {folder}")
