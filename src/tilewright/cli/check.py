"""`tilewright check`: whether a file is as it should be, before anything is run with it."""

import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.arguments import JsonOption, ShapeOption, parse_shapes
from tilewright.cli.common import print_json, print_lines
from tilewright.cli.kinds import UNKNOWN, kind_of, unknown_kind
from tilewright.errors import TilewrightError
from tilewright.tables import picked
from tilewright.units import noun, several

if TYPE_CHECKING:
    from tilewright.machine.machine import Machine

MOST_CORES = 256  # that a mapping may name, as long as nobody says how many there are
TRIED = 200  # points of a space whose expressions are evaluated and machines built


@dataclass(frozen=True, slots=True)
class Checked:
    """A file, what it is taken for, what is in it, and what is wrong with it."""

    file: Path
    kind: str
    content: str
    unchecked: str = ""  # what nobody can tell from the file alone
    faults: tuple[tuple[int | None, str, str], ...] = ()  # line, key, text


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Files of machines, processors, plans, patterns, spaces of sweeps, kernel nests; "
            "Stream's accelerators, cores and mappings; - is standard input.",
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="The network of plans: whether they name its nodes and tensors, and fit.",
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--on", metavar="MACHINE", help="With --model: the machine; that of the plan if none."
        ),
    ] = None,
    shape: ShapeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check files without running anything: machines, processors, plans, patterns, spaces, nests.

    What a file is, is seen from its content. All faults of a machine, a plan, patterns or a space
    are named at once, each with its line and key. Exit code 2 if there is any. A plan by itself is
    checked for its form; with --model for its nodes, tensors, cuts and room too. `tilewright show
    keys` lists the keys of machine files, `tilewright show schema` is a JSON schema of them for
    editors.

    Example:

      tilewright check my-npu.yaml run/plan.yaml examples/sweeps/edge.yaml

      tilewright check plan.yaml --model net.onnx --on my-npu.yaml
    """
    if model is None and (machine is not None or shape):
        raise TilewrightError(f"{'--on' if machine is not None else '--shape'} needs --model")

    def fits(path: Path) -> None:
        """Raise unless a plan is one of the network and finds room on the machine."""
        from tilewright import api

        loaded = api.load(model, parse_shapes(shape))
        api.plan(loaded, machine or _machine_of(path), plan=path, verify=False)

    results = [_check(path, None if model is None else fits) for path in files]
    if as_json:
        print_json({"files": [_row(result) for result in results]})
    else:
        print_lines(line for result in results for line in _lines(result))
    if any(result.faults for result in results):
        raise typer.Exit(2)


def _check(path: Path, fits: Callable[[Path], None] | None) -> Checked:
    """A file as what it looks like; what comes through a pipe can be read only once."""
    if str(path) in ("-", "/dev/stdin") or path.is_fifo():
        from tilewright.machine.document import LARGEST

        with TemporaryDirectory(prefix="tilewright-") as folder, ExitStack() as open_:
            piped = path.is_fifo()
            stream = open_.enter_context(path.open("rb")) if piped else sys.stdin.buffer
            copy = Path(folder) / "stdin.yaml"
            copy.write_bytes(stream.read(LARGEST + 1))
            return replace(_check(copy, fits), file=path)
    kind = kind_of(path)
    try:
        told, unchecked = _content(kind, path), ""
        if kind == "plan" and fits is None:
            unchecked = "nodes, tensors, cuts and room, which take its network (--model)"
        elif kind == "plan" and fits is not None:
            fits(path)
        return Checked(path, kind, told, unchecked)
    except TilewrightError as error:
        return Checked(path, kind, "", "", _faults(error, path))


def _machine_of(path: Path) -> "str | Path | Machine":
    """The machine that a plan names: one that is shipped, that of the run whose folder the plan
    lies in, or the file of this name beside the plan."""
    from tilewright.machine.load import list_machines
    from tilewright.plan.read import read_plan
    from tilewright.runs.saved import is_run, load_run

    name = read_plan(path).machine
    if name in list_machines():
        return name
    if is_run(path.parent):
        return load_run(path.parent).machine
    beside = [path.parent / f"{name}{suffix}" for suffix in (".yaml", ".yml")]
    found = next((file for file in beside if file.is_file()), None)
    if found is None:
        raise TilewrightError(
            f"machine: '{name}' is none that is shipped, and there is no {name}.yaml beside the "
            "plan: say which file it is with --on"
        )
    return found


def _faults(error: TilewrightError, path: Path) -> tuple[tuple[int | None, str, str], ...]:
    from tilewright.machine.faults import FileError

    if isinstance(error, FileError):
        return tuple(
            (fault.line, fault.key, fault.text if fault.file == str(path) else str(fault))
            for fault in error.faults
        )
    text = str(error).removeprefix(f"'{path}'").removeprefix(f"{path}").removeprefix(": ").strip()
    return ((_line_of(text, path), "", text),)


def _line_of(text: str, path: Path) -> int | None:
    """The line of the key that a complaint begins with, or says that nobody knows."""
    from tilewright.machine.document import Document

    match = re.match(r"([\w.\[\]-]+)?:?(?: has)? ?(?:no key '([^']+)')?", text)
    named = ".".join(filter(None, match.groups())) if match is not None else ""
    keys = [int(k) if k.isdecimal() else k for k in re.split(r"[.\[\]]+", named) if k]
    try:
        return Document(path).find(tuple(keys))[1]
    except TilewrightError:
        return None


def _content(kind: str, path: Path) -> str:
    """What is in a file of a kind."""
    match kind:
        case "machine":
            from tilewright.machine.load import load_machine

            machine = load_machine(path)
            links = several(len(machine.links), "link")
            return f"{machine.title}: {several(len(machine.cores), 'core')}, {links}"
        case "processor":
            from tilewright.processor import load_processor

            processor = load_processor(str(path))
            return f"{processor.title}: a {processor.kind}"
        case "plan":
            from tilewright.plan.read import read_plan

            plan = read_plan(path)
            return f"{several(len(plan.groups), 'group')} of {plan.model} for {plan.machine}"
        case "patterns":
            from tilewright.search.grouping.patterns import read_patterns

            return several(len(read_patterns(path)), "pattern")
        case "space":
            return _space(path)
        case "nest":
            from tilewright.kernel.nest_file import read_nest

            nest = read_nest(path)
            return f"{nest.name}: {' > '.join(nest.order)}"
        case "accelerator of Stream":
            from tilewright.manycore.read_hardware import read_accelerator

            read = read_accelerator(path)
            wires = several(len(read.wires), "wire")
            return f"{read.name}: {several(len(read.cores), 'core')}, {wires}"
        case "core of Stream":
            from tilewright.manycore.read_hardware import read_core

            core, _ = read_core(path)
            memories = several(len(core.levels), "memory", "memories")
            return f"{core.name}: {core.units} units, {memories}"
        case "mapping of Stream":
            from tilewright.manycore.mapping import read_mapping

            given = read_mapping(path, range(MOST_CORES))  # which there are, the accelerator says
            fused = f", {several(len(given.groups), 'fused group')}" if given.groups else ""
            return several(len(given.entries), "entry", "entries") + fused
        case _:
            raise TilewrightError(unknown_kind(path))


def _space(path: Path) -> str:
    from tilewright.sweep.point import Planner
    from tilewright.sweep.space_file import read_space

    space = read_space(path)
    planner, met = Planner(space.folder), 0
    for candidate in islice(space.grid(planner), TRIED):
        planner.machine(candidate.point.machine, candidate.point.fields)
        met += 1
    if not met:
        raise TilewrightError("require: no point meets all of it")
    axes = several(len(space.axes), "axis", "axes")
    kept = " before 'require'" if space.requires else ""
    return f"{space.name}: {axes}, {space.size:,} {noun(space.size, 'point')}{kept}"


def _lines(result: Checked) -> list[str]:
    if not result.faults:
        unchecked = f"; not checked: {result.unchecked}" if result.unchecked else ""
        return [f"{result.file}: {result.kind}, no faults: {result.content}{unchecked}"]
    lines: list[str] = []
    for line, key, text in result.faults:
        place = f"{result.file}:{line}" if line is not None else str(result.file)
        lines.append(f"{place}: {key}: {text}" if key else f"{place}: {text}")
    kind = f"{result.kind}, " if result.kind != UNKNOWN else ""
    return [*lines, f"{result.file}: {kind}{several(len(result.faults), 'fault')}"]


def _row(result: Checked) -> dict[str, object]:
    return {
        "file": str(result.file),
        "kind": result.kind,
        "ok": not result.faults,
        **picked(result, "content", "unchecked"),
        "faults": [{"line": line, "key": key, "text": text} for line, key, text in result.faults],
    }
