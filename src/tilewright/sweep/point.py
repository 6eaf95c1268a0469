"""One point of a space: a network on a machine with options, planned. The one module of the sweep
that knows the planner: a point goes in, a result comes out; nothing is printed or written."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from dataclasses import fields as fields_of
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from tilewright.cost.models import peak_macs
from tilewright.errors import ModelError, TilewrightError
from tilewright.frontend import zoo
from tilewright.frontend.network_file import network_text
from tilewright.frontend.save import save_onnx
from tilewright.machine.dtypes import rate_class
from tilewright.machine.load import machine_of, machine_tree
from tilewright.machine.machine import Machine
from tilewright.machine.rates import main_bytes_per_cycle
from tilewright.model import Model, load_model
from tilewright.plan.plan import plan_text
from tilewright.planning import Options, Planned, plan_model
from tilewright.program.metrics import Objective
from tilewright.report.plan_summary import summary_json
from tilewright.search.effort import Effort
from tilewright.sweep.errors import SpaceError
from tilewright.sweep.fields import Tree, field_at, places_of, with_field
from tilewright.sweep.quantities import Scalar
from tilewright.version import __version__

RESULT_VERSION = 1  # of what a result holds: part of every key
LAYERS = "layers"  # an effort of sweeps alone: layer by layer
EFFORTS = (LAYERS, *(effort.value for effort in Effort))
OLD_EFFORTS = {"fast": "low", "full": "normal"}  # still read
OBJECTIVES = tuple(str(each.value) for each in Objective)
METRICS: Mapping[str, str] = {  # figures of a result that tables hold, and their types there
    "latency_ms": "REAL",
    "latency_cycles": "INTEGER",
    "lower_bound_cycles": "INTEGER",
    "gap": "REAL",
    "energy_pj": "REAL",
    "dram_bytes": "INTEGER",
    "peak_scratchpad_bytes": "INTEGER",
    "groups": "INTEGER",
    "tasks": "INTEGER",
}


Fields = tuple[tuple[str, Scalar], ...]  # of a machine, by path


@dataclass(frozen=True, slots=True)
class Point:
    """What is planned. `fields` replace those of the machine's file; a batch replaces the first
    extent of every input; the effort is `layers` (layer by layer), or one of `plan`."""

    model: str
    machine: str
    fields: Fields = ()
    shape: str = ""
    batch: int | None = None
    dtype: str | None = None
    objective: str = "latency"
    effort: str = Effort.NORMAL.value
    verify: bool = False

    def row(self) -> dict[str, Any]:
        """The point as JSON holds it."""
        return {**asdict(self), "fields": dict(self.fields)}

    @staticmethod
    def of_row(row: Mapping[str, Any]) -> "Point":
        """Read what `row` gave."""
        options: dict[str, Any] = {**row, "fields": tuple(row["fields"].items())}
        return Point(**options)


@dataclass(frozen=True, slots=True)
class Result:
    """A planned point: figures, and the plan as YAML."""

    summary: Mapping[str, Any]
    plan: str


@dataclass(frozen=True, slots=True)
class Known:
    """What is to be known of a machine without planning on it: its content as a name, the rates of
    an element type, and figures for expressions and tables."""

    digest: str
    dtype: str
    facts: Mapping[str, float]


class Planner:
    """Plans points, one after the other: what they share is loaded once. Files are looked for in
    `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.model: Callable[[str, str, int | None], Model]
        self.model = lru_cache(maxsize=16)(self._load_model)
        self.machine: Callable[[str, Fields], Machine]
        self.machine = lru_cache(maxsize=256)(self._build_machine)
        self.tree: Callable[[str], Tree] = lru_cache(maxsize=64)(self._load_tree)
        self._model_digest: Callable[[str, str, int | None, bool], str]
        self._model_digest = lru_cache(maxsize=4096)(self._digest_model)
        self._known: Callable[[str, Fields, str | None], Known]
        self._known = lru_cache(maxsize=1 << 16)(self._know_machine)

    def plan(self, point: Point) -> Result:
        """Plan a point; raise `TilewrightError` where it cannot be."""
        planned = self.planned(point)
        return Result(_summary(planned), plan_text(planned.plan))

    def planned(self, point: Point) -> Planned:
        """All that became of a point. This is the call of the planner."""
        model = self.model(point.model, point.shape, point.batch)
        machine = self.machine(point.machine, point.fields)
        options = Options(
            dtype=point.dtype,
            objective=Objective(point.objective),
            effort=Effort.NORMAL if point.effort == LAYERS else Effort(point.effort),
            layer_by_layer=point.effort == LAYERS,
        )
        return plan_model(model, machine, options, verify=point.verify)

    def key(self, point: Point) -> str:
        """The content of a point as a name: equal networks, machines and options of one version of
        the program have one key, however they are written. A point that names no network or
        machine is known by its text."""
        try:
            known = self._known(point.machine, point.fields, point.dtype)
            network = self._model_digest(point.model, point.shape, point.batch, point.verify)
            content: object = [network, known.digest, known.dtype]
        except TilewrightError:
            content = point.row()
        options = [point.objective, point.effort, point.verify]
        return _digest(json.dumps([RESULT_VERSION, __version__, content, options]))

    def facts(self, point: Point) -> Mapping[str, float]:
        """What a point's machine has, for expressions and tables."""
        return self._known(point.machine, point.fields, point.dtype).facts

    def field(self, point: Point, path: str) -> object:
        """What stands at a path of the point's machine file."""
        tree = _with_fields(self.tree(point.machine), point.fields)
        return field_at(tree, places_of(tree, path)[0])

    def _load_tree(self, name: str) -> Tree:
        return machine_tree(self._place(name, (".yaml", ".yml")))

    def _build_machine(self, name: str, fields: Fields) -> Machine:
        return machine_of(_with_fields(self.tree(name), fields), f"machine '{name}'")

    def _load_model(self, name: str, shape: str, batch: int | None) -> Model:
        where = name if zoo.is_zoo_name(name) else self._place(name, (".onnx",))
        shapes = parse_shape(shape)
        if batch is None:
            return load_model(where, shapes)
        return _batched(where, shapes, batch)

    def _place(self, name: str, suffixes: tuple[str, ...]) -> str:
        return str(self._folder / name) if name.endswith(suffixes) else name

    def _digest_model(self, name: str, shape: str, batch: int | None, verify: bool) -> str:
        model = self.model(name, shape, batch)
        weights = ""
        if verify and model.path is not None:
            with model.path.open("rb") as file:
                weights = hashlib.file_digest(file, "sha256").hexdigest()
        return _digest(model.name + "\n" + network_text(model.graph) + weights)

    def _know_machine(self, name: str, fields: Fields, asked: str | None) -> Known:
        machine = self.machine(name, fields)
        dtype = rate_class(asked or machine.dtype)
        content = {
            k: v for k, v in _plain(machine).items() if k not in ("title", "sources", "keys")
        }
        return Known(
            _digest(json.dumps(content, sort_keys=True, default=_plain)),
            dtype,
            {
                "core_count": float(len(machine.cores)),
                "scratchpad_bytes": float(sum(core.memory.usable for core in machine.cores)),
                "main_bandwidth": main_bytes_per_cycle(machine) * machine.clock_hz,
                "macs_per_cycle": peak_macs(machine, dtype) or 0.0,
                "clock_hz": machine.clock_hz,
            },
        )


def warm_up() -> None:
    """Plan something small, so that compiled code is there before time is taken."""
    planner = Planner(Path())
    for effort in (LAYERS, Effort.LOW.value):
        planner.plan(Point("four_convs@8x8", "npu-2.7", effort=effort))


def parse_shape(text: str) -> dict[str, tuple[int, ...]]:
    """`x=1,3,64,64 y=1,8` as shapes by name."""
    shapes: dict[str, tuple[int, ...]] = {}
    for part in text.split():
        name, equals, extents = part.rpartition("=")
        numbers = extents.split(",")
        if not equals or not name or not all(n.isdecimal() and int(n) > 0 for n in numbers):
            raise SpaceError(f"'{part}' is no shape: write NAME=1,3,224,224")
        shapes[name] = tuple(map(int, numbers))
    return shapes


def _batched(name: str, shapes: Mapping[str, tuple[int, ...]], batch: int) -> Model:
    """A network with another first extent of every input."""
    model = load_model(name, shapes)
    given = {n: model.graph.types[n].shape for n in model.graph.inputs}
    if not all(given.values()):
        raise ModelError(f"'{name}' has an input without dimensions: it takes no batch")
    wanted = {n: (batch, *shape[1:]) for n, shape in given.items()}
    if wanted == given:
        return model
    if model.path is not None:
        return load_model(str(model.path), wanted)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path = Path(folder) / "batched.onnx"
        save_onnx(model.with_numbers(), path)
        try:
            loaded = load_model(str(path), wanted)
        except TilewrightError as error:  # its text is kept: it must not name a passing file
            reason = str(error).replace(str(path), name)
            raise ModelError(f"'{name}' takes no batch of {batch}: {reason}") from None
    return Model(name, loaded.graph, None, loaded.missing_files)


def _with_fields(tree: Tree, fields: Fields) -> Tree:
    for path, value in fields:
        for place in places_of(tree, path):
            tree = with_field(tree, place, value)
    return tree


def _summary(planned: Planned) -> dict[str, Any]:
    """The figures of a run's summary.json, and those of every group."""
    summary = summary_json(planned)
    main = planned.machine.main_memory.name
    peaks = cast(dict[str, int], summary["peak_bytes"])
    return {
        **summary,
        "dram_bytes": summary["dram_read_bytes"] + summary["dram_write_bytes"],
        "peak_scratchpad_bytes": max((b for n, b in peaks.items() if n != main), default=0),
    }


def _plain(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields_of(value)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
