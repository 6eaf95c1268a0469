"""The command line as a person meets it: arguments in; exit code, standard output, errors out."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli import main

os.environ.pop("COLUMNS", None)  # pytest-xdist sets it; pipes of people have none


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which has to be JSON and nothing else."""
        return json.loads(self.out)

    @property
    def told(self) -> list[str]:
        """Lines of standard error, without those that say what takes so long."""
        waits = ("... ", "compiling the hot loops")
        return [line for line in self.err.splitlines() if not line.startswith(waits)]


Command = Callable[..., Outcome]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`command("tile", "rn50_stem", ...)` runs the program's own entry point in this process."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["tilewright", *map(str, arguments)])
        capsys.readouterr()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as a new process has it
        with pytest.raises(SystemExit) as stopped:
            main()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        captured = capsys.readouterr()
        return Outcome(int(stopped.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def succeeds(command: Command) -> Command:
    """A command that has to end with exit code 0."""

    def run(*arguments: object) -> Outcome:
        outcome = command(*arguments)
        assert outcome.code == 0, outcome.err
        return outcome

    return run


@pytest.fixture
def refused(command: Command, tmp_path: Path) -> Callable[..., str]:
    """A command that has to end with exit code 2, one line of error, and no new file; that line."""

    def run(*arguments: object) -> str:
        before = _files(tmp_path)
        outcome = command(*arguments)
        assert outcome.code == 2, outcome.out + outcome.err
        assert outcome.out == ""
        lines = outcome.told
        assert len(lines) == 1, outcome.err
        assert lines[0].startswith("tilewright: ")
        assert "Traceback" not in outcome.err
        assert _files(tmp_path) == before, "something was left behind"
        return lines[0].removeprefix("tilewright: ")

    return run


@pytest.fixture
def wrong_numbers() -> Iterator[pytest.MonkeyPatch]:
    """Executions of four_convs end with one wrong number, until `undo()` of what is given."""
    from tilewright.execute.vm import VirtualMachine

    true = VirtualMachine.run

    def wrong(self: VirtualMachine, *arguments: Any) -> Any:
        done = true(self, *arguments)
        done.outputs["conv4"][0, 3, 5, 7] += 100
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VirtualMachine, "run", wrong)
        yield patch


def _files(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}
