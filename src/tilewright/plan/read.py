"""Reads plan.yaml: all faults of it at once, each with its line and key."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from tilewright.errors import TilewrightError
from tilewright.machine.document import read_tree, take_tree
from tilewright.machine.dtypes import rate_class
from tilewright.machine.entries import list_at, mapping_at
from tilewright.machine.faults import Faults, FileError, Keys, key_fault
from tilewright.plan.plan import GroupPlan, Place, Plan, PlanError
from tilewright.tiling.grid import Halo, Split

_PLAN_KEYS = frozenset(field.name for field in fields(Plan)) - {"notes"}
_GROUP_KEYS = frozenset(field.name for field in fields(GroupPlan) if field.init)
_OLD_KEYS = {"spread": "core_split", "everywhere": "replicated"}  # of groups, still read
# Lists of names, of nodes, tensors and cores: text, whatever YAML takes them for.
_NAMES = frozenset({"nodes", "cores", "resident", "batched", "reloaded", "shared", "rewrites"})
_ON_CORES = frozenset({"splits", "core_split", "replicated", "cores", "shares"})
_SPLIT_KEYS = frozenset({"axis", "parts", "halo", "grain"})

Tree = Mapping[str, Any]
_Choice = TypeVar("_Choice", bound=Enum)


class PlanFileError(FileError, PlanError):
    """A plan file that cannot be used; the text is its first fault, with file, line and key."""


def read_plan(path: Path) -> Plan:
    """A plan from a YAML file."""
    return read_tree(path, "a plan", lambda tree: _plan(tree, path), PlanFileError, _NAMES)


def plan_of(tree: Mapping[str, Any], label: str = "the plan") -> Plan:
    """A plan from the mapping that a file of one holds."""
    return take_tree(label, lambda: _plan(mapping_at(dict(tree), ()), label), PlanFileError)


def _plan(top: Tree, path: Path | str) -> Plan:
    faults = Faults()
    faults.unknown(top, _PLAN_KEYS)
    model, machine = (faults.take(partial(_text, top, key), "") for key in ("model", "machine"))
    dtype = faults.take(partial(_dtype, top), "")
    faults.take(partial(_there, top, "groups"), None)
    entries = faults.take(partial(list_at, top, "groups"), [])
    groups = [_group(entry, ("groups", i), faults) for i, entry in enumerate(entries)]
    resident, batched = (
        faults.take(partial(_names, top, key), ()) for key in ("resident", "batched")
    )
    reloaded, shared = (
        faults.take(partial(_lists, top, key, faults), ()) for key in ("reloaded", "shared")
    )
    rewrites = faults.take(partial(_names, top, "rewrites"), ()) if "rewrites" in top else None
    images = faults.take(partial(_whole, top.get("images", 1), ("images",), 1), 1)
    if batched and images == 1:
        faults.found.append((("batched",), "has no effect without `images`, of two or more"))
    limit = top.get("memory_limit")
    if limit is not None:
        limit = faults.take(partial(_whole, limit, ("memory_limit",), 1), None)
    faults.end()
    notes = tuple(
        f"'{path}': '{old}' of groups is called '{new}' now"
        for old, new in _OLD_KEYS.items()
        if any(old in entry for entry in entries)
    )
    lists = resident, reloaded, shared
    return Plan(
        model, machine, dtype, tuple(groups), *lists, images, batched, limit, rewrites, notes
    )


def _dtype(top: Tree) -> str:
    found = _text(top, "dtype")
    try:
        rate_class(found)
    except TilewrightError as error:
        raise key_fault(("dtype",), str(error)) from None
    return found


def _group(given: object, where: Keys, faults: Faults) -> GroupPlan:
    """A group, as far as it can be read; what is wrong with it is told."""
    raw = faults.take(partial(mapping_at, given, where), None)
    if raw is None:
        return GroupPlan((), ())
    entry = {_OLD_KEYS.get(key, key): value for key, value in raw.items()}
    faults.unknown(entry, _GROUP_KEYS, where)
    take: Callable[..., Any] = faults.take
    nodes = take(partial(_nodes, entry, where), ())
    cuts = enumerate(take(partial(list_at, entry, "splits", where), []))
    splits = tuple(_split(cut, (*where, "splits", number), faults) for number, cut in cuts)
    core_splits = take(partial(_core_splits, entry, len(splits), where), ())
    core_split = core_splits[0] if core_splits else None
    splits = tuple(replace(s, crossed=k in core_splits[1:]) for k, s in enumerate(splits))
    place = take(partial(_choice, Place.CORES, entry, "place", where), Place.CORES)
    replicated = take(partial(_replicated, entry, core_split, where), False)
    cores = take(partial(_names, entry, "cores", where), ())
    if "cores" in entry and entry["cores"] in (None, []):
        text = "names no core: leave it out for all of them"
        faults.found.append(((*where, "cores"), text))
    shares = take(partial(_shares, entry, core_splits, cores, where), ())
    if place is not Place.CORES:
        for key in sorted(_ON_CORES.intersection(entry)):
            text = f"has no effect with `place: {place.value}`, which runs on no core"
            faults.found.append(((*where, key), text))
    return GroupPlan(nodes, splits, core_split, place, replicated, cores, shares)


def _shares(
    entry: Tree, core_splits: tuple[int, ...], cores: tuple[str, ...], where: Keys
) -> tuple[int, ...]:
    """In which proportion the cores divide the parts of a split."""
    place = (*where, "shares")
    found = tuple(
        _whole(share, (*place, number), 1)
        for number, share in enumerate(list_at(entry, "shares", where))
    )
    if "shares" not in entry:
        return ()
    if len(core_splits) != 1:
        raise key_fault(place, "divides the parts of one split: give `core_split` its number")
    if not found or (cores and len(found) != len(cores)):
        raise key_fault(place, "has to be a list of whole numbers, one for each core")
    return found


def _split(given: object, where: Keys, faults: Faults) -> Split:
    entry = faults.take(partial(mapping_at, given, where), None)
    if entry is None:
        return Split(0, 1)
    faults.unknown(entry, _SPLIT_KEYS, where)
    axis = faults.take(partial(_whole, entry.get("axis"), (*where, "axis"), 0), 0)
    parts = faults.take(partial(_whole, entry.get("parts"), (*where, "parts"), 1), 1)
    halo = partial(_choice, Halo.RECOMPUTE, entry, "halo", where)
    grain = faults.take(partial(_whole, entry.get("grain", 1), (*where, "grain"), 1), 1)
    return Split(axis, parts, faults.take(halo, Halo.RECOMPUTE), grain=grain)


def _nodes(entry: Tree, where: Keys) -> tuple[str, ...]:
    found = entry.get("nodes")
    if not isinstance(found, list) or not found:
        raise key_fault((*where, "nodes"), "has to be a list of node names")
    return tuple(str(node) for node in cast(list[Any], found))


def _core_splits(entry: Tree, splits: int, where: Keys) -> tuple[int, ...]:
    """The split that is divided among the cores, and the one that is crossed with it."""
    found = entry.get("core_split")
    if found is None:
        return ()
    named = cast(list[Any], found) if isinstance(found, list) else [found]
    whole = all(isinstance(k, int) and not isinstance(k, bool) and 0 <= k < splits for k in named)
    if not whole or not 0 < len(named) == len(set(named)) <= 2:
        text = "has to be the number of a split, from 0, or a list of two such numbers"
        raise key_fault((*where, "core_split"), text)
    return tuple(named)


def _replicated(entry: Tree, core_split: int | None, where: Keys) -> bool:
    found = entry.get("replicated", False)
    if not isinstance(found, bool) or (found and core_split is not None):
        text = "is true or false, and goes without core_split"
        raise key_fault((*where, "replicated"), text)
    return found


def _choice(otherwise: _Choice, entry: Tree, key: str, where: Keys) -> _Choice:
    """One of the words of a kind; a certain one where the key is left out."""
    try:
        return type(otherwise)(entry.get(key, otherwise))
    except ValueError:
        *words, last = (word.value for word in type(otherwise))
        raise key_fault((*where, key), f"is {', '.join(words)} or {last}") from None


def _whole(value: object, where: Keys, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise key_fault(where, f"has to be a whole number from {least} on")
    return value


def _there(top: Tree, key: str) -> Any:
    if top.get(key) is None:
        raise key_fault((key,), "is missing")
    return top[key]


def _text(top: Tree, key: str) -> str:
    value = _there(top, key)
    if not isinstance(value, str):
        raise key_fault((key,), "has to be text")
    return value


def _names(value: Tree, key: str, where: Keys = ()) -> tuple[str, ...]:
    return tuple(str(name) for name in list_at(value, key, where))


def _lists(top: Tree, key: str, faults: Faults) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """A mapping from names to lists of names."""
    found = mapping_at(top.get(key) or {}, (key,))
    return tuple((name, faults.take(partial(_names, found, name, (key,)), ())) for name in found)
