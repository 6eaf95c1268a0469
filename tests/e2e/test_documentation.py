"""Pages that teach: their commands run as they stand there, their code too, and what is generated
is up to date."""

import json
import re
import shlex
from pathlib import Path

import pytest

from support.golden import check_golden

ROOT = Path(__file__).parents[2]
PAGES = ("tutorial.md", "questions.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_runs(
    page: str, succeeds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / page).read_text()
    monkeypatch.chdir(tmp_path)
    ran = 0
    for language, block in re.findall(r"```(python|console|yaml)\n(.*?)```", text, re.DOTALL):
        if language == "python":
            exec(compile(block, page, "exec"), {})
            continue
        if language == "yaml":  # its first line says how the file is called
            Path(block.splitlines()[0].removeprefix("# ")).write_text(block)
            continue
        for line in block.splitlines():
            assert line.startswith("$ tilewright "), line
            succeeds(*shlex.split(line.removeprefix("$ tilewright ")))
            ran += 1
    assert ran >= 9
    if page == "questions.md":  # what it says that twice the scratchpad buys
        before, after = (
            json.loads(Path(name, "summary.json").read_text())["latency_cycles"]
            for name in ("little", "twice")
        )
        assert f"({1 - after / before:.0%} of the cycles, here)".replace("%", " %") in text


@pytest.mark.parametrize(
    "page", [*sorted(path.name for path in (ROOT / "docs").glob("*.md")), "../README.md"]
)
def test_links_lead_somewhere(page: str) -> None:
    file = ROOT / "docs" / page
    for target in re.findall(r"\]\(([^)#:]+)\)", file.read_text()):
        assert (file.parent / target).exists(), target


@pytest.mark.parametrize(
    "page", ["../README.md", "planning.md", "tiles-and-memory.md", "kernels.md"]
)
def test_commands_that_are_shown_exist_with_their_options(page: str) -> None:
    """Every command and every option that the page writes is in the reference."""
    reference = (ROOT / "docs" / "commands.md").read_text()
    known = dict(
        re.findall(r"^## tilewright (\S+)(.*?)(?=^## |\Z)", reference, re.DOTALL | re.MULTILINE)
    )
    shown = re.findall(r"(?m)tilewright ([a-z]\w*)\b([^`\n#]*)", (ROOT / "docs" / page).read_text())
    called = [(name, rest) for name, rest in shown if name in known or rest.startswith(" --")]
    assert len(called) >= 1
    for name, rest in called:
        assert name in known
        for option in re.findall(r"(?<=\s)--[a-z][a-z-]*", rest):
            assert option in known[name], (name, option)


@pytest.mark.golden
def test_the_command_reference_is_that_of_the_commands(succeeds) -> None:
    text = succeeds("show", "commands").out
    check_golden(ROOT / "docs" / "commands.md", text)
    assert "`--effort low\\|normal\\|high`" in text and "Default: normal." in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert all(told.strip("| ") for _, told in rows), "every option is explained"
    assert "`--apply plan.yaml`" in text and "## tilewright sweep" in text


def test_the_notebook_runs_and_shows_tables() -> None:
    notebook = json.loads((ROOT / "examples" / "first_hour.ipynb").read_text())
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    space: dict[str, object] = {}
    shown = 0
    for cell in cells:
        *before, last = cell.splitlines()
        exec(compile("\n".join(before), "cell", "exec"), space)
        try:
            value = eval(compile(last, "cell", "eval"), space)
        except SyntaxError:
            exec(compile(last, "cell", "exec"), space)
            continue
        if hasattr(value, "_repr_html_"):
            assert "</table>" in value._repr_html_()
            shown += 1
        else:
            assert float(value) >= 1.0
    assert shown == len(cells) - 1
