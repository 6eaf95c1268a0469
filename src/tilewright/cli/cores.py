"""`tilewright plan --mapping`: a network on the cores of an accelerator file."""

from pathlib import Path

from tilewright import api
from tilewright.cli.common import end_unverified, note, out, parse_shapes, print_json
from tilewright.cli.plan_options import Asked
from tilewright.cli.progress import progress_line
from tilewright.errors import TilewrightError
from tilewright.program.metrics import Objective
from tilewright.search.effort import Effort

MODES = ("fused", "lbl")


def plan_on_cores(asked: Asked, mapping: Path) -> None:
    """Plan, tell, and write the files."""
    from tilewright.manycore.output import check_target, write_plan
    from tilewright.manycore.plan import plan_cores
    from tilewright.manycore.told import cores_table, headline, lines, memories_table, summary

    asked.refuse("is not for --mapping", "plan_file", "patterns", "dtype", "csv")
    asked.refuse("is not for --mapping", "ablation", "explain", "print_after")
    mode = "lbl" if asked.layer_by_layer else asked.mode
    if mode not in MODES:
        raise TilewrightError(f"--mode is '{mode}': give fused or lbl")
    if asked.objective is Objective.TRAFFIC:
        raise TilewrightError(
            "--objective traffic is not for --mapping: give latency, energy, memory or edp"
        )
    folder = asked.folder
    if folder is not None:
        check_target(folder, force=asked.force)
    loaded = api.load(asked.model, parse_shapes(asked.shape))
    with progress_line("planning") as tell:
        plan = plan_cores(
            loaded.name,
            loaded.graph,
            Path(asked.machine),
            mapping,
            numbered=None if asked.no_verify else loaded.with_numbers(asked.seed),
            fused=mode == "fused",
            core_costs=asked.core_costs,
            final_write=not asked.no_final_write,
            open_tiles=asked.open_tiles,
            objective=asked.objective.value,
            fast=asked.fast or asked.effort is Effort.LOW,
            seed=asked.seed,
            tell=tell,
        )
        if folder is not None:
            tell("writing files")
            write_plan(plan, folder)
    for text in plan.notes:
        note(text)
    if asked.as_json:
        print_json(summary(plan))
        end_unverified(plan.failure)
        return
    out.print(headline(plan), soft_wrap=True)
    for line in lines(plan):
        out.print(line, soft_wrap=True)
    out.print(cores_table(plan))
    out.print(memories_table(plan))
    if folder is not None:
        out.print(f"written: {folder}")
    end_unverified(plan.failure)
