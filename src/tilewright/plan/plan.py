"""Plan: which operators run together, how they are cut, and on which cores; YAML in and out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from pathlib import Path
from typing import Any, cast

import yaml

from tilewright.errors import TilewrightError
from tilewright.tiling.grid import Halo, Split
from tilewright.units import noun

_PLAN_KEYS = frozenset(
    {"model", "machine", "dtype", "images", "batched", "groups", "resident", "reloaded", "shared"}
)
_GROUP_KEYS = frozenset({"nodes", "splits", "core_split", "place", "replicated", "cores"})
_OLD_KEYS = {"spread": "core_split", "everywhere": "replicated"}  # of groups, still read
_SPLIT_KEYS = frozenset({"axis", "parts", "halo"})


class PlanError(TilewrightError):
    """A plan file that cannot be used; the text names the file and the key."""


class Place(StrEnum):
    """Where a group runs: on the cores; in the main memory, by copies alone; or nowhere, because
    its result is a view of what is there already."""

    CORES = "cores"
    MAIN = "main"
    VIEW = "view"


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Operators that run tile by tile. The first dimension of the grid is the outermost loop;
    `core_split` is the dimension whose tiles go to the cores in turn (None: all to the first).
    Where `replicated`, every core computes all tiles, so that each has all of the result. `cores`
    are the names of those that it runs on (none: all of them); groups on different ones run side by
    side where nothing else orders them."""

    nodes: tuple[str, ...]
    splits: tuple[Split, ...]
    core_split: int | None = None
    place: Place = Place.CORES
    replicated: bool = False
    cores: tuple[str, ...] = ()


def group_label(number: int, group: GroupPlan) -> str:
    """A group as messages about a plan file call it: `groups[3] ('conv1' ...)`."""
    first, *others = group.nodes
    return f"groups[{number}] ('{first}'{' ...' if others else ''})"


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """Decisions only: what follows from them is the Program's. `resident` tensors stay in the
    scratchpads from the group that makes them to those that read them, except for the nodes that
    `reloaded` names for a tensor: these read it from the main memory. `shared` names memories that
    all cores reach, and the tensors that pass through them instead of the main memory. It is one of
    a network whose nodes are repeated for so many `images`, but for those that stay `batched`.
    `notes` are remarks of who read it from a file."""

    model: str
    machine: str
    dtype: str
    groups: tuple[GroupPlan, ...]
    resident: tuple[str, ...] = ()
    reloaded: tuple[tuple[str, tuple[str, ...]], ...] = ()
    shared: tuple[tuple[str, tuple[str, ...]], ...] = ()
    images: int = 1
    batched: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        groups, kept = len(self.groups), len(self.resident)
        return (
            f"Plan({self.model!r} on {self.machine!r}, {self.dtype}: {groups} "
            f"{noun(groups, 'group')}, {kept} resident {noun(kept, 'tensor')})"
        )

    def __str__(self) -> str:
        return plan_text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(plan_text(self))}</pre>"


def plan_text(plan: Plan) -> str:
    """The plan as YAML, stable and readable."""
    groups: list[dict[str, Any]] = []
    for group in plan.groups:
        entry: dict[str, Any] = {"nodes": list(group.nodes)}
        if group.splits:
            entry["splits"] = [
                {"axis": s.axis, "parts": s.parts, "halo": s.halo.value} for s in group.splits
            ]
        if group.core_split is not None:
            entry["core_split"] = group.core_split
        if group.replicated:
            entry["replicated"] = True
        if group.cores:
            entry["cores"] = list(group.cores)
        if group.place is not Place.CORES:
            entry["place"] = group.place.value
        groups.append(entry)
    document: dict[str, Any] = {
        "model": plan.model,
        "machine": plan.machine,
        "dtype": plan.dtype,
    }
    if plan.images > 1:
        document["images"] = plan.images
    if plan.batched:
        document["batched"] = list(plan.batched)
    document["groups"] = groups
    if plan.resident:
        document["resident"] = list(plan.resident)
    if plan.reloaded:
        document["reloaded"] = {name: list(nodes) for name, nodes in plan.reloaded}
    if plan.shared:
        document["shared"] = {memory: list(names) for memory, names in plan.shared}
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=100)


def read_plan(path: Path) -> Plan:
    """A plan from a YAML file."""
    try:
        document: Any = yaml.safe_load(path.read_text())
    except OSError as error:
        raise PlanError(f"cannot read '{path}': {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise PlanError(f"'{path}' is not YAML: {_yaml_fault(error)}") from None
    top = _mapping(document, path, "the plan")
    _only(top, _PLAN_KEYS, path, "the plan")
    groups = _there(top, "groups", path)
    if not isinstance(groups, list):
        raise PlanError(f"'{path}': 'groups' has to be a list")
    return Plan(
        _text(top, "model", path),
        _text(top, "machine", path),
        _text(top, "dtype", path),
        tuple(
            _group(_mapping(entry, path, f"groups[{i}]"), path, f"groups[{i}]")
            for i, entry in enumerate(cast(list[Any], groups))
        ),
        tuple(str(name) for name in _items(top, "resident", path, "the plan")),
        _lists(top, "reloaded", path),
        _lists(top, "shared", path),
        _images(top, path),
        tuple(str(name) for name in _items(top, "batched", path, "the plan")),
        tuple(
            f"'{path}': '{old}' of groups is called '{new}' now"
            for old, new in _OLD_KEYS.items()
            if any(isinstance(entry, dict) and old in entry for entry in cast(list[Any], groups))
        ),
    )


def _yaml_fault(error: yaml.YAMLError | UnicodeDecodeError) -> str:
    """The line of a fault, and what is wrong with it."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return str(error).splitlines()[0]


def _there(top: Mapping[str, Any], key: str, path: Path) -> Any:
    if key not in top:
        raise PlanError(f"'{path}': '{key}' is missing")
    return top[key]


def _only(value: Mapping[str, Any], known: frozenset[str], path: Path, where: str) -> None:
    """No key that nobody reads."""
    for key in value:
        if key not in known:
            raise PlanError(
                f"'{path}': {where} has no key '{key}'; known are {', '.join(sorted(known))}"
            )


def _items(value: Mapping[str, Any], key: str, path: Path, where: str) -> list[Any]:
    found: Any = value.get(key)
    if found is not None and not isinstance(found, list):
        raise PlanError(f"'{path}': {where}.{key} has to be a list")
    return cast(list[Any], found or [])


def _lists(top: Mapping[str, Any], key: str, path: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """A mapping from names to lists of names."""
    found = _mapping(top.get(key) or {}, path, key)
    return tuple(
        (str(name), tuple(str(item) for item in _items(found, name, path, key))) for name in found
    )


def _images(top: Mapping[str, Any], path: Path) -> int:
    found: Any = top.get("images", 1)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise PlanError(f"'{path}': 'images' has to be a whole number from 1 on")
    return found


def _mapping(value: Any, path: Path, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise PlanError(f"'{path}': {where} has to be a mapping")
    return cast(Mapping[str, Any], value)


def _text(top: Mapping[str, Any], key: str, path: Path) -> str:
    value = _there(top, key, path)
    if not isinstance(value, str):
        raise PlanError(f"'{path}': '{key}' has to be text")
    return value


def _group(given: Mapping[str, Any], path: Path, where: str) -> GroupPlan:
    entry = {_OLD_KEYS.get(key, key): value for key, value in given.items()}
    _only(entry, _GROUP_KEYS, path, where)
    nodes = entry.get("nodes")
    if not isinstance(nodes, list) or not nodes:
        raise PlanError(f"'{path}': {where}.nodes has to be a list of node names")
    splits: list[Split] = []
    for position, raw in enumerate(_items(entry, "splits", path, where)):
        at = f"{where}.splits[{position}]"
        item = _mapping(raw, path, at)
        _only(item, _SPLIT_KEYS, path, at)
        axis, parts = item.get("axis"), item.get("parts")
        if not isinstance(axis, int) or not isinstance(parts, int) or parts < 1 or axis < 0:
            raise PlanError(f"'{path}': {at} needs axis and parts as whole numbers")
        try:
            halo = Halo(item.get("halo", "recompute"))
        except ValueError:
            raise PlanError(f"'{path}': {at}.halo is recompute or cache") from None
        splits.append(Split(axis, parts, halo))
    core_split = entry.get("core_split")
    if core_split is not None and (
        not isinstance(core_split, int) or not 0 <= core_split < len(splits)
    ):
        raise PlanError(f"'{path}': {where}.core_split has to be the number of a split")
    try:
        place = Place(entry.get("place", "cores"))
    except ValueError:
        raise PlanError(f"'{path}': {where}.place is cores, main or view") from None
    names = tuple(str(node) for node in cast(list[Any], nodes))
    replicated = entry.get("replicated", False)
    if not isinstance(replicated, bool) or (replicated and core_split is not None):
        raise PlanError(
            f"'{path}': {where}.replicated is true or false, and goes without core_split"
        )
    cores = tuple(str(core) for core in _items(entry, "cores", path, where))
    return GroupPlan(names, tuple(splits), core_split, place, replicated, cores)
