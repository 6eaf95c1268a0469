"""The folder of a run: everything or nothing."""

import json
import logging
import os
import shutil
from pathlib import Path

from tilewright.drafts import draft_in, writing
from tilewright.errors import OutputError
from tilewright.files import check_place
from tilewright.plan.plan import plan_text
from tilewright.planning import Planned
from tilewright.program.text import program_text
from tilewright.report.html.page import write_report
from tilewright.report.html.story import cheap_boundaries
from tilewright.report.memory_map import plot_memory_map
from tilewright.report.perfetto import write_trace
from tilewright.report.plan_summary import summary_json, summary_lines
from tilewright.report.verified import verified_line
from tilewright.runs.saved import FOLDER, is_run, save_run
from tilewright.search.explanation.explain import MOST_BOUNDARIES, Explanation, explain
from tilewright.search.grouping.patterns import apart_edges
from tilewright.search.progress import Tell, silent

_log = logging.getLogger(__name__)

FILES = ("report.html", "summary.json", "plan.yaml", "program.txt", "schedule.json", "memory.png")
SOMETIMES = ("ablation.png",)  # files that only some runs have


def check_folder(folder: Path, *, force: bool = False) -> None:
    """Raise before the work begins where the folder could not be written: it holds an earlier run
    and `force` does not say to replace it, or anything else."""
    check_place(folder)
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    why = "it holds a run; force=True (--force) replaces it"
    if not is_run(folder):
        why = "there are files in it that are not of a run; give a new folder, or an empty one"
    elif force:
        return
    raise OutputError(f"cannot write '{folder}': {why}")


def write_run(
    planned: Planned, folder: Path, *, explained: bool = False, tell: Tell = silent
) -> None:
    """Write all files of a run. What was in the folder stays, except an earlier run's files.

    The report has reasons for a few boundaries of a search's plan; if `explained`, for those of the
    largest tensors, as many as `tilewright explain` tries.
    """
    target = folder.absolute()
    reasons = _explanation(planned, explained, tell)
    with writing(folder):
        target.parent.mkdir(parents=True, exist_ok=True)
        near = target if target.exists() else target.parent  # on the same disk: moving is renaming
        with draft_in(near) as place:
            draft = place / "draft"
            draft.mkdir()
            summary = json.dumps(summary_json(planned), indent=2)
            (draft / "summary.json").write_text(summary + "\n", encoding="utf-8")
            first = f"# {verified_line(planned)}\n" if planned.failure is not None else ""
            (draft / "plan.yaml").write_text(first + plan_text(planned.plan), encoding="utf-8")
            text = program_text(planned.placed.program, planned.placed)
            (draft / "program.txt").write_text(first + text, encoding="utf-8")
            write_trace(planned, draft / "schedule.json")
            plot_memory_map(planned, draft / "memory.png")
            if planned.ablation is not None:
                from tilewright.report.plots import plot_ablation

                plot_ablation(planned, draft / "ablation.png")
            plain = (*summary_lines(planned), verified_line(planned), *planned.notes)
            report = draft / "report.html"
            write_report(planned, report, reasons, remedies=explained, plain=plain)
            save_run(planned, draft)
            _move(draft, target)


def _explanation(planned: Planned, explained: bool, tell: Tell) -> Explanation | None:
    """Reasons for the report: all that were asked for, else what a few seconds give."""
    explanation = None
    try:
        if planned.found is not None or explained:
            explanation = explain(
                planned.graph,
                planned.machine,
                planned.plan,
                planned.placed,
                without=planned.without,
                apart=apart_edges(planned.graph, planned.patterns),
                limit=MOST_BOUNDARIES if explained else cheap_boundaries(planned),
                remedies=explained,
                tell=tell,
            )
        tell("writing files")
    except KeyboardInterrupt:  # the plan is there: it is written, if need be without reasons
        if explanation is None:
            _log.info("interrupted: the report has no reasons (`tilewright explain` finds them)")
    return explanation


def _move(draft: Path, target: Path) -> None:
    if not target.exists():
        os.replace(draft, target)
        return
    if (target / FOLDER).exists():
        shutil.rmtree(target / FOLDER)  # a run of ours: `check_folder` looked
    for name in SOMETIMES:
        (target / name).unlink(missing_ok=True)
    for name in (*FILES, *SOMETIMES, FOLDER):
        if name not in SOMETIMES or (draft / name).exists():
            os.replace(draft / name, target / name)
