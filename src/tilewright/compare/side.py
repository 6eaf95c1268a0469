"""What is compared: a run's folder, or a point of a sweep."""

import json
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from tilewright.errors import TilewrightError
from tilewright.plan.plan import GroupPlan, Plan
from tilewright.plan.read import read_plan
from tilewright.tiling.grid import Split
from tilewright.units import number_of

_SUMMARY, _PLAN = "summary.json", "plan.yaml"
_FIGURES = ("latency_cycles", "energy_pj", "dram_read_bytes", "dram_write_bytes")
_WANTED = (*_FIGURES, "engines")


class CompareError(TilewrightError):
    """Something cannot be compared; the text says what and why."""


@dataclass(frozen=True, slots=True)
class Part:
    """A group of a plan with what it adds to the run, and its results that stay resident."""

    plan: GroupPlan
    cycles: int = 0
    bytes: int = 0
    energy_pj: float | None = 0.0  # None where the machine has no figures for it
    resident: tuple[str, ...] = ()
    folded: Mapping[str, str] | None = None  # into whose output stage; None: not known
    axes: tuple[str, ...] = ()  # that it is cut along, as people call them; empty: not known


@dataclass(frozen=True, slots=True)
class PlanSide:
    """A plan with its figures, by the name the user gave. `parts` are empty where the run was
    written without them."""

    name: str
    summary: Mapping[str, Any]
    plan: Plan
    parts: tuple[Part, ...]
    busy: Mapping[str, int] = field(default_factory=dict[str, int])  # cycles of each engine
    peaks: Mapping[str, int] = field(default_factory=dict[str, int])  # bytes of each memory
    asked: Mapping[str, str] = field(default_factory=dict[str, str])  # what a point's space set
    folder: Path | None = None  # of a run
    edited: Path | None = None  # its plan.yaml, where that is not the one it was made with any more
    keys: Mapping[str, str] = field(default_factory=dict[str, str])  # of the machine's file
    mapped: bool = False  # whether it was planned with a mapping, on the cores of an accelerator


def load_side(name: str) -> PlanSide:
    """A run's folder (`out`), or a point of a sweep by number or key (`sweep-folder#17`)."""
    from tilewright.runs.saved import is_mapped, keys_of_run, plan_of_run
    from tilewright.sweep.store import FILE

    folder, mark, point = name.rpartition("#")
    if mark and (Path(folder) / FILE).exists():
        return _point(name, folder, point)
    where = Path(name)
    if (where / FILE).exists() and not (where / _SUMMARY).exists():
        raise CompareError(f"'{name}' is a sweep: say which point, as in '{name}#0'")
    if not (where / _SUMMARY).is_file() or not ((where / _PLAN).is_file() or is_mapped(where)):
        raise CompareError(f"'{name}' is no run: there is no {_SUMMARY} with a {_PLAN}")
    try:
        summary: Any = json.loads((where / _SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CompareError(f"'{where / _SUMMARY}' cannot be read: {error}") from None
    if is_mapped(where):
        return replace(side_of_mapped(name, summary), folder=where)
    made_with = plan_of_run(where)
    plan = read_plan(made_with)
    # What was written is the same text, below remarks.
    same = (where / _PLAN).read_bytes().endswith(made_with.read_bytes())
    edited = None if same else where / _PLAN
    return replace(side_of(name, summary, plan, keys_of_run(where)), folder=where, edited=edited)


def _point(name: str, folder: str, point: str) -> PlanSide:
    from tilewright.sweep.api import find_point  # everything imports compare for its results

    row = find_point(folder, point)
    if row.plan is None or row.summary is None:
        raise CompareError(f"'{name}' has no plan: {row.reason}")
    with tempfile.TemporaryDirectory(prefix="tilewright-") as place:
        path = Path(place) / _PLAN
        path.write_text(row.plan, encoding="utf-8")
        plan = read_plan(path)
    # Its network, machine and element type are in every summary.
    told = ("model", "machine", "dtype", "fields")
    asked = {key: value for key, value in row.point.items() if key not in told}
    asked |= {f"machine.{path}": value for path, value in row.point["fields"].items()}
    given = {key: str(value) for key, value in asked.items() if value is not None}
    return replace(side_of(name, row.summary, plan), asked=given)


def side_of_mapped(name: str, summary: object) -> PlanSide:
    """What a plan with a mapping, on the cores of an accelerator, says of itself: its layers, their
    cores and cuts. Layers run beside each other, so none of them has cycles of its own that add up
    to the latency."""
    with _sense(name):
        told = cast(dict[str, Any], summary)
        layers = cast(dict[str, list[int]], told["allocation"])
        groups = tuple(_layer(layer, cores, told["cut"][layer]) for layer, cores in layers.items())
        traffic: dict[str, int] = told["traffic_bytes"]
        figures = {
            "model": told["model"],
            "machine": told["accelerator"],
            "objective": told["objective"],
            "latency_cycles": told["latency_cycles"],
            "lower_bound_cycles": told["bound_cycles"],
            "energy_pj": told["energy_pj"],
            "dram_read_bytes": traffic["read outside"],
            "dram_write_bytes": traffic["written outside"],
            "groups": len(groups),
            "tasks": told["tiles"] + told["transfers"],
        }
        side = PlanSide(
            name,
            figures,
            Plan(str(told["model"]), str(told["accelerator"]), "", groups),
            (),
            {str(core["name"]): int(core["busy_cycles"]) for core in told["cores"]},
            {str(memory["name"]): int(memory["peak_bytes"]) for memory in told["memories"]},
            {key: str(told[key]) for key in ("mode", "final_write", "core_costs")},
            mapped=True,
        )
        return _numbered(side)


def _layer(name: str, cores: list[int], cut: dict[str, Sequence[Sequence[int]]]) -> GroupPlan:
    """A layer with its cut; parts of the first dimensions go to the cores."""
    parts = [Split(int(axis), int(count)) for axis, count in (*cut["inter"], *cut["intra"])]
    names = tuple(f"core{number}" for number in dict.fromkeys(cores))
    return GroupPlan((name,), tuple(parts), 0 if cut["inter"] else None, cores=names)


def side_of(
    name: str, summary: object, plan: Plan, keys: Sequence[tuple[str, str]] = ()
) -> PlanSide:
    """A plan with the figures of its summary and the keys of its machine's file, under a name."""
    figures = cast(dict[str, Any], summary if isinstance(summary, dict) else {})
    missing = [key for key in _WANTED if key not in figures]
    if missing:
        raise CompareError(f"'{name}': its {_SUMMARY} has no '{missing[0]}'")
    with _sense(name):
        return _numbered(replace(_side(name, figures, plan), keys=dict(keys)))


def _numbered(side: PlanSide) -> PlanSide:
    """The side, if its figures are numbers."""
    for key in _FIGURES:
        if side.summary[key] is not None and number_of(side.summary[key]) is None:
            raise CompareError(f"'{side.name}': its {_SUMMARY} has a '{key}' that is no number")
    return side


@contextmanager
def _sense(name: str) -> Generator[None]:
    """What is made of a summary that anybody may have written."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        detail = f"{type(error).__name__}: {error}"
        raise CompareError(f"'{name}': its {_SUMMARY} makes no sense: {detail}") from None


def _side(name: str, figures: dict[str, Any], plan: Plan) -> PlanSide:
    rows = cast(list[dict[str, Any]], figures.get("parts") or [])
    if rows and [tuple(row["nodes"]) for row in rows] != [group.nodes for group in plan.groups]:
        raise CompareError(f"'{name}': {_PLAN} has other groups than {_SUMMARY}: it was edited")
    parts = tuple(
        Part(
            group,
            int(row["cycles"]),
            int(row["read_bytes"] + row["written_bytes"]),
            None if row["energy_pj"] is None else float(row["energy_pj"]),
            tuple(map(str, row["resident"])),
            {str(k): str(v) for k, v in row["folded"].items()} if "folded" in row else None,
            tuple(map(str, row.get("axes", ()))),
        )
        for group, row in zip(plan.groups, rows, strict=bool(rows))
    )
    busy = {str(engine): int(use["busy_cycles"]) for engine, use in figures["engines"].items()}
    held = cast(dict[str, Any], figures.get("peak_bytes") or {})
    peaks = {memory: int(peak) for memory, peak in held.items()}
    return PlanSide(name, figures, plan, parts, busy, peaks)
