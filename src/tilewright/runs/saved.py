"""A run as files, and its re-check from those files alone.

`RUN/run/` holds what was placed, the machine, and the numbers of the execution; `run.json` says
what there is, with the SHA-256 of every file of the run and of itself.
"""

import hashlib
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.drafts import writing
from tilewright.errors import ModelError, TilewrightError, VerificationError
from tilewright.execute.compare import Difference
from tilewright.files import load_npz, save_arrays
from tilewright.frontend.network_file import load_network, save_network
from tilewright.graph.graph import Array, Graph
from tilewright.machine.load import list_machines
from tilewright.machine.machine import Machine
from tilewright.model import load_model
from tilewright.plan.plan import Plan, plan_text
from tilewright.plan.read import read_plan
from tilewright.planning.judge import weights_of
from tilewright.planning.prepare import prepared
from tilewright.planning.proof import agreed, run_tasks, validate
from tilewright.planning.result import Arrays, Failure, Numbers, Planned, Verified
from tilewright.program import store
from tilewright.program.account import Account, account_of
from tilewright.program.lower import lowered
from tilewright.program.place import Placed
from tilewright.report.verified import failure_json, failure_of
from tilewright.search.grouping.patterns import Pattern, pattern_of, pattern_row
from tilewright.search.progress import Tell, silent
from tilewright.tables import Shown, Table, picked
from tilewright.units import noun, number_of, several
from tilewright.version import __version__

VERSION = 2
FOLDER, MANIFEST = "run", "run.json"
PLAN_FILE = "plan.yaml"
CORES_FILE = "cost_lut.png"  # only plans with --mapping have it
_PLACED, _MACHINE, _NETWORK = "placed.json", "machine.json", "network.json"
_INPUTS, _WEIGHTS, _EXPECTED = "inputs.npz", "weights.npz", "expected.npz"
_DAMAGE = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    ArithmeticError,
    AssertionError,  # what a sound network keeps to
    MemoryError,
)


class RunError(TilewrightError):
    """A saved run is incomplete or is not what was written."""


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A saved run to ask questions of: the network has no weights."""

    graph: Graph
    machine: Machine
    plan: Plan
    placed: Placed
    without: frozenset[str]
    patterns: tuple[Pattern, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Rechecked(Shown):
    """A run that holds; `verified` is None where it was saved without an execution, or with the
    `failure` of one."""

    model: str
    machine: str
    account: Account
    verified: Verified | None
    failure: Failure | None = None
    notes: tuple[str, ...] = ()

    def headline(self) -> list[str]:
        """What was checked and how well it did, in a line."""
        cycles, verified = self.account.latency_cycles, self.verified
        how = "valid; not executed, as it was saved without (--no-verify or interrupted)"
        if self.failure is not None:
            how = f"UNVERIFIED: {self.failure.told()}"
        elif verified is not None:
            how = (
                f"valid; {several(verified.tasks, 'task')} executed, largest difference "
                f"{verified.difference.max_rel_error:.1e} of the largest output, compared "
                "with onnxruntime"
            )
        cycle = noun(cycles, "cycle")
        return [f"{self.model} on {self.machine}, {cycles:,} {cycle}: {how}"]

    def as_table(self) -> Table:
        """How busy every engine and link is."""
        rows = tuple((name, use.busy, use.utilisation) for name, use in self.account.engines)
        return Table("engines", ("engine", "busy_cycles", "utilisation"), rows)


def recheck(planned: Planned, tell: Tell = silent) -> Rechecked:
    """Validate and execute a planned network again."""
    validate(planned.placed, planned.machine)
    account = account_of(planned.placed, planned.machine)
    machine, numbers, verified = planned.machine, planned.numbers, None
    if numbers is not None and planned.failure is None:
        opsets = planned.graph.opsets
        done = run_tasks(planned.placed, machine, opsets, account, numbers, tell)
        verified = agreed(done, numbers)
    return Rechecked(planned.plan.model, machine.name, account, verified, planned.failure)


def save_run(planned: Planned, folder: Path) -> None:
    """Write the files that `check_run` needs beside those that are in the folder already."""
    inside = folder / FOLDER
    with writing(inside):
        inside.mkdir()
        store.save(planned.placed, inside / _PLACED)
        store.save(planned.machine, inside / _MACHINE)
        save_network(planned.graph, inside / _NETWORK)
        (inside / PLAN_FILE).write_text(plan_text(planned.plan), encoding="utf-8")
        numbers = planned.numbers
        if numbers is not None:
            save_arrays(_plain(numbers.inputs), inside / _INPUTS)
            save_arrays(numbers.expected, inside / _EXPECTED)
            if numbers.zoo is None:
                save_arrays(_plain(numbers.weights), inside / _WEIGHTS)
        about: dict[str, Any] = {
            "version": VERSION,
            "tilewright": __version__,
            "model": planned.plan.model,
            "dtype": planned.plan.dtype,
            "rewrites": planned.plan.rewrites,
            "opsets": dict(planned.graph.opsets),
            "without": sorted(planned.without),
            "patterns": [pattern_row(pattern) for pattern in planned.patterns],
            "executed": numbers is not None,
            "failure": failure_json(planned.failure),
            "as_written": numbers is not None and numbers.as_written,
            **{key: getattr(numbers, key, None) for key in ("steps", "seed", "zoo")},
            "files": {},
        }
        _write_manifest(folder, about)


def reseal(folder: Path) -> None:
    """Declare the files of a run, as they are now, to be the run; nothing is checked."""
    _write_manifest(folder, store.load_json(folder / FOLDER / MANIFEST))


def _write_manifest(folder: Path, about: dict[str, Any]) -> None:
    path = folder / FOLDER / MANIFEST
    files = {name: _digest(folder / name) for name in _files(folder) if folder / name != path}
    unsealed = {key: value for key, value in about.items() if key != "sha256"}
    path.write_text(_sealed({**unsealed, "files": files}), encoding="utf-8")


def check_run(folder: Path, tell: Tell = silent) -> Rechecked:
    """Validate and execute a saved run; raise where anything is not as it was."""
    about, notes = _unchanged(folder)
    with sense(folder):
        tell("validating")
        placed, machine, account = _validated(folder)
        _compare_summary(folder, account, placed)
        notes += _replayed(folder, about, machine, account)
        failure, verified = failure_of(about.get("failure")), None
        if about["executed"] and failure is None:
            numbers = _numbers(folder / FOLDER, about, machine)
            done = run_tasks(placed, machine, about["opsets"], account, numbers, tell)
            verified = agreed(done, numbers)
        return Rechecked(about["model"], machine.name, account, verified, failure, notes)


@contextmanager
def sense(folder: Path) -> Generator[None]:
    """What is done with a run whose files may have been sealed anew over values that are not even
    of the right kind: that is said, in a line."""
    try:
        yield
    except _DAMAGE as error:
        detail = " ".join(f"{type(error).__name__}: {error}".split())
        raise RunError(f"'{folder}' makes no sense: {detail}") from None


def _replayed(
    folder: Path, about: dict[str, Any], machine: Machine, account: Account
) -> tuple[str, ...]:
    """A note where the plan of a run, taken again, is not the run any more."""
    network = folder / FOLDER / _NETWORK
    if not network.is_file():
        return ()  # of an earlier version, which saved none
    own = plan_of_run(folder)
    try:
        again = lowered(load_network(network), machine, read_plan(own), frozenset(about["without"]))
        cycles = again.schedule.makespan
        told = f"gives {cycles:,} {noun(cycles, 'cycle')}"
    except TilewrightError as error:
        cycles, told = -1, f"cannot be taken again: {error}"
    if cycles == account.latency_cycles:
        return ()
    older = about["tilewright"] != __version__
    why = f"it was written by version {about['tilewright']}" if older else "they are not one"
    return (f"'{own}' {told}, where the run has {account.latency_cycles:,}: {why}",)


def load_run(folder: Path) -> SavedRun:
    """A saved run, as it was written; nothing is executed."""
    about, notes = _unchanged(folder)
    inside = folder / FOLDER
    if not (inside / _NETWORK).is_file():
        raise RunError(f"'{folder}' was written by an earlier version: plan it again")
    with sense(folder):
        placed, machine, _ = _validated(folder)
        return SavedRun(
            load_network(inside / _NETWORK),
            machine,
            read_plan(plan_of_run(folder)),
            placed,
            frozenset(about["without"]),
            tuple(pattern_of(row, f"'{inside / MANIFEST}'") for row in about["patterns"]),
            notes,
        )


def plan_of_run(folder: Path) -> Path:
    """The plan that a run was made with; the one beside it may have been edited since."""
    own = folder / FOLDER / PLAN_FILE
    return own if own.is_file() else folder / PLAN_FILE


def keys_of_run(folder: Path) -> tuple[tuple[str, str], ...]:
    """The keys of the machine's file that a run was made with; none where it does not say."""
    try:
        return store.load(Machine, folder / FOLDER / _MACHINE).keys
    except TilewrightError:  # a run of another version
        return ()


def _unchanged(folder: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The manifest of a run whose files are as they were written, and remarks. People edit the
    plan.yaml of a run: the run itself does not read it, so it stands, and they are told how to
    plan anew."""
    about = _manifest(folder)
    changed = _changed(folder, about["files"])
    edited = folder / PLAN_FILE
    if PLAN_FILE in changed and f"{FOLDER}/{PLAN_FILE}" in about["files"] and edited.is_file():
        changed.remove(PLAN_FILE)
    else:
        edited = None
    if changed:
        # Nothing in the files can be trusted now; say what is wrong with them if that is plain.
        raise RunError(f"'{folder / changed[0]}' is not as it was written{_reason(folder)}")
    if edited is None:
        return about, ()
    model = about["zoo"] or "MODEL"
    name = store.load(Machine, folder / FOLDER / _MACHINE).name
    machine = name if name in list_machines() else "MACHINE"
    return about, (
        f"'{edited}' was edited since; this is the run as it was made. Plan the edited one with: "
        f"tilewright plan {model} --on {machine} --plan {edited} --out NEW_DIR",
    )


def _validated(folder: Path) -> tuple[Placed, Machine, Account]:
    inside = folder / FOLDER
    machine = store.load(Machine, inside / _MACHINE)
    if (number_of(machine.clock_hz) or 0) <= 0:  # asked for only where times are printed
        raise RunError(f"'{inside / _MACHINE}' makes no sense: a clock of {machine.clock_hz!r}")
    placed = store.load(Placed, inside / _PLACED)
    validate(placed, machine)
    return placed, machine, account_of(placed, machine)


def _reason(folder: Path) -> str:
    """What the validators say about files that were changed, if anything."""
    try:
        _validated(folder)
    except TilewrightError as error:
        return f": {error}"
    except _DAMAGE:
        return ": it makes no sense any more"
    return ""


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / FOLDER / MANIFEST).is_file()


def is_mapped(folder: Path) -> bool:
    """Whether a folder holds a plan that was made with a mapping."""
    return not is_run(folder) and (folder / CORES_FILE).is_file()


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / FOLDER / MANIFEST
    if not is_run(folder):
        what = (
            "was planned with a mapping, and executed then: it cannot be run again"
            if is_mapped(folder)
            else f"is no run of tilewright plan: there is no {FOLDER}/{MANIFEST}"
        )
        raise RunError(f"'{folder}' {what}")
    about = store.load_json(path)
    if about.get("version") != VERSION:
        raise RunError(f"'{path}' is of version {about.get('version')}, not {VERSION}")
    about.pop("sha256", None)
    if path.read_text(encoding="utf-8") != _sealed(about):
        raise RunError(f"'{path}' is not as it was written")
    return about


def _sealed(about: dict[str, Any]) -> str:
    """The manifest with its own digest."""
    own = hashlib.sha256(json.dumps(about).encode()).hexdigest()
    return json.dumps({**about, "sha256": own}, indent=2) + "\n"


def _changed(folder: Path, files: dict[str, str]) -> list[str]:
    """The files whose bytes are others than when they were written."""
    changed: list[str] = []
    for name, digest in files.items():
        try:
            if _digest(folder / name) != digest:
                changed.append(name)
        except OSError as error:
            reason = error.strerror or error
            raise RunError(f"cannot read '{folder / name}': {reason}") from None
    return changed


def _compare_summary(folder: Path, account: Account, placed: Placed) -> None:
    """The figures that were printed are those of the files."""
    path = folder / "summary.json"
    summary = store.load_json(path)
    figures: dict[str, object] = {
        **picked(account, "latency_cycles", "energy_pj", "dram_read_bytes", "dram_write_bytes"),
        "peak_bytes": dict(placed.most_live),
        "highest_address_bytes": dict(placed.highest),
        "tasks": len(placed.program.tasks),
        "buffers": len(placed.program.buffers),
    }
    for key, value in figures.items():
        if summary.get(key) != value:
            raise VerificationError(f"'{path}' says {key} {summary.get(key)}; the run has {value}")


def _numbers(inside: Path, about: dict[str, Any], machine: Machine) -> Numbers:
    zoo, seed = about["zoo"], about["seed"]
    if zoo is None:
        weights: Arrays = _arrays(inside / _WEIGHTS)
    else:
        numbered = load_model(zoo).with_numbers(seed)
        legal = prepared(numbered, machine, about["dtype"], about.get("rewrites"))
        weights = weights_of(legal.graph)
    inputs, expected = _arrays(inside / _INPUTS), _arrays(inside / _EXPECTED)
    as_written, steps = about["as_written"], about.get("steps")
    judged = None if steps is None else Difference(*map(float, steps))
    return Numbers(seed, zoo, zoo is not None, inputs, weights, expected, as_written, judged)


def _plain(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays as a file of them can be read again: all numbers of element types that numpy itself
    does not know (int4) are numbers of float32."""
    return {n: a.astype(np.float32) if a.dtype.kind == "V" else a for n, a in arrays.items()}


def _arrays(path: Path) -> dict[str, Array]:
    try:
        return load_npz(path)
    except ModelError as error:
        raise RunError(str(error)) from None


def _files(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in found)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
