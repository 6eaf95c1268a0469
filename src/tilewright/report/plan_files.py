"""The folder of a run: everything or nothing."""

import json
import os
import shutil
import tempfile
from pathlib import Path

from tilewright.errors import OutputError
from tilewright.plan.plan import plan_text
from tilewright.planning import Planned
from tilewright.program.text import program_text
from tilewright.replay import FOLDER, save_run
from tilewright.report.html import write_report
from tilewright.report.perfetto import write_trace
from tilewright.report.plan_summary import summary_json
from tilewright.report.told import told

FILES = ("report.html", "summary.json", "plan.yaml", "program.txt", "schedule.json", "memory.png")


def check_folder(folder: Path) -> None:
    """Raise before the work begins where the folder could not be written."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise OutputError(f"cannot write '{folder}': it is not a folder")
    existing = next((p for p in (folder, *folder.absolute().parents) if os.path.lexists(p)), None)
    if existing is None or not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write '{folder}': '{existing}' is not a folder to write in")
    theirs = folder / FOLDER
    if theirs.is_dir() and not (theirs / "run.json").is_file() and any(theirs.iterdir()):
        raise OutputError(f"cannot write '{folder}': its folder '{FOLDER}' is not of a run")


def write_run(planned: Planned, folder: Path) -> None:
    """Write all files of a run. What was in the folder stays, except an earlier run's files."""
    from tilewright.report.plots import plot_memory_map

    target = folder.absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        near = target if target.exists() else target.parent  # on the same disk: moving is renaming
        with tempfile.TemporaryDirectory(prefix=".tilewright-", dir=near) as place:
            draft = Path(place) / "draft"
            draft.mkdir()
            summary = json.dumps(summary_json(planned), indent=2)
            (draft / "summary.json").write_text(summary + "\n", encoding="utf-8")
            (draft / "plan.yaml").write_text(plan_text(planned.plan), encoding="utf-8")
            text = program_text(planned.placed.program, planned.placed)
            (draft / "program.txt").write_text(text, encoding="utf-8")
            write_trace(planned, draft / "schedule.json")
            plot_memory_map(planned, draft / "memory.png")
            write_report(planned, draft / "report.html", told(planned), planned.graph)
            save_run(planned, draft)
            _move(draft, target)
    except OSError as error:
        raise OutputError(f"cannot write '{folder}': {error.strerror or error}") from None


def _move(draft: Path, target: Path) -> None:
    if not target.exists():
        os.replace(draft, target)
        return
    if (target / FOLDER).exists():
        shutil.rmtree(target / FOLDER)  # a run of ours: `check_folder` looked
    for name in (*FILES, FOLDER):
        os.replace(draft / name, target / name)
