"""`tilewright plan`: a network on a machine, executed. `tilewright verify`: the same, again."""

from pathlib import Path
from typing import Annotated

import typer

from tilewright import api
from tilewright.cli.arguments import JsonOption, parse_shapes
from tilewright.cli.common import end_unverified, err, note, out, print_json, print_lines
from tilewright.cli.plan_options import Asked, with_options
from tilewright.cli.progress import progress_line
from tilewright.errors import TilewrightError
from tilewright.files import check_writable
from tilewright.planning import Planned
from tilewright.program.pipeline import PASSES
from tilewright.program.program import Program
from tilewright.program.text import program_text
from tilewright.report import ablated
from tilewright.report.plan_summary import engines_table, memory_table, summary_json, summary_lines
from tilewright.report.verified import failure_json, verified_line
from tilewright.tables import picked


@with_options
def plan(asked: Asked) -> None:
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
    if asked.mapping is not None:
        from tilewright.cli.cores import plan_on_cores

        plan_on_cores(asked, asked.mapping)
        return
    asked.refuse("needs --mapping", "mode", "core_costs", "no_final_write", "open_tiles")
    if asked.folder is None:
        asked.refuse("is for the report: say where with --out DIR", "explain")
    from tilewright.manycore.read_hardware import is_accelerator_file

    _check_pass(asked)
    if is_accelerator_file(Path(asked.machine)):
        text = f"'{asked.machine}' is an accelerator file of Stream: give --mapping too"
        raise TilewrightError(text)
    machine, printed = api.machine(asked.machine), list[str]()

    def watch(step: str, program: Program) -> None:
        if step == asked.print_after:
            printed.append(program_text(program))

    if asked.folder is not None:
        from tilewright.runs.folder import check_folder

        check_folder(asked.folder, force=asked.force)
    effort, csv = asked.searched, asked.csv
    by_group = None if csv is None else csv.with_name(f"{csv.stem}.groups{csv.suffix}")
    check_writable(csv, by_group)
    loaded = api.load(asked.model, parse_shapes(asked.shape))
    with progress_line("planning") as tell:
        result = api.plan(
            loaded,
            machine,
            layer_by_layer=asked.layer_by_layer,
            plan=asked.plan_file,
            dtype=asked.dtype,
            objective=asked.objective,
            effort=effort,
            without=asked.without,
            verify=not asked.no_verify,
            seed=asked.seed,
            patterns=asked.patterns,
            ablation=asked.ablation,
            memory_limit=asked.memory_limit,
            watch=None if asked.print_after is None else watch,
            progress=tell,
        )
        if asked.folder is not None:
            result.save(asked.folder, explained=asked.explain, force=asked.force, progress=tell)
    if csv is not None:
        result.layers.to_csv(csv)
        result.groups.to_csv(by_group)
    _tell(result.planned, printed, asked)


def _check_pass(asked: Asked) -> None:
    """Raise where there is nothing to print after the pass that was asked for."""
    name, known = asked.print_after, ["build", *(step.name for step in PASSES)]
    if name is not None and name not in known:
        raise TilewrightError(f"there is no pass '{name}': give one of {', '.join(known)}")
    if name in asked.without:
        raise TilewrightError(f"nothing to print after '{name}': --no-{name} leaves it out")


def _tell(planned: Planned, texts: list[str], asked: Asked) -> None:
    """What came out, for a person or a program."""
    for text in planned.notes:
        note(text)
    numbers = planned.numbers
    if numbers is not None and numbers.seeded:
        note("the model has no weights of its own here: seeded random ones were used")
    for text in texts:
        (err if asked.as_json else out).print(text, end="", soft_wrap=True)
    for text in planned.warnings:
        note(f"warning: {text}")
    if asked.as_json:
        print_json(summary_json(planned))
        end_unverified(planned.failure, planned.unproven)
        return
    print_lines(summary_lines(planned))
    out.print(engines_table(planned))
    out.print(memory_table(planned))
    if planned.ablation is not None:
        out.print(ablated.ablation_table(planned))
        print_lines(ablated.notes(planned))
    out.print(verified_line(planned), soft_wrap=True)
    if asked.folder is not None:
        out.print(f"written: {asked.folder}   (check it with: tilewright verify {asked.folder})")
    end_unverified(planned.failure, planned.unproven)


def verify(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="A folder that `tilewright plan` wrote.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Check a saved run from its files alone: validators, then execution, then the numbers."""
    with progress_line("checking") as tell:
        checked = api.verify(folder, progress=tell)
    for text in checked.notes:
        note(text)
    verified = checked.verified
    if as_json:
        proof = verified and {
            "max_rel_error": verified.difference.max_rel_error,
            "tasks_executed": verified.tasks,
        }
        print_json(
            {
                **picked(checked, "model", "machine"),
                "latency_cycles": checked.account.latency_cycles,
                "failure": failure_json(checked.failure),
                "verified": proof,
            }
        )
    else:
        print_lines(checked.headline())
    end_unverified(checked.failure)
