"""Ends of routes: memories by name or pattern, and what one that names none may have meant."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, cast

from tilewright.machine.document import Tree
from tilewright.machine.faults import Keys
from tilewright.machine.ranges import MOST_CORES


def copies(name: str, count: int | None) -> tuple[str, ...]:
    """The names of equal cores or links."""
    return (name,) if count is None else tuple(f"{name}{index}" for index in range(count))


def no_pair(origin: str, to: str) -> str:
    """What is said of a route that leads nowhere."""
    return f"'{origin}' to '{to}' names no pair of memories"


def meant(
    origin: str, to: str, names: Sequence[str], counts: Mapping[str, int | None]
) -> str | None:
    """What an end that names no memory may have meant; None where both name some. `counts` are
    how many of each core there are, where a file says so."""
    for key, pattern in (("from", origin), ("to", to)):
        if any(fnmatchcase(name, pattern) for name in names):
            continue
        core, dot, rest = pattern.partition(".")
        count = counts.get(core)
        if dot and count is not None:
            cores = ", ".join(copies(core, count)[:2])
            return f": count {count} makes cores {cores}, ...: write '{core}*.{rest}' for all"
        near = get_close_matches(pattern, names, 1)
        hint = f" did you mean '{near[0]}'?" if near else f" there are {', '.join(names)}"
        return f": {key}:{hint}"
    return None


def loose_ends(tree: Tree) -> Iterator[tuple[Keys, str]]:
    """Routes of a file whose ends name no memory, whatever else is wrong with it; none where its
    memories cannot be told."""
    counts: dict[str, int | None] = {}
    names = [name for name, _ in _entries(tree, "memories")]
    for core, entry in _entries(tree, "cores"):
        given = entry.get("count")
        whole = isinstance(given, int) and not isinstance(given, bool)
        if given is not None and not (whole and 0 < given <= MOST_CORES):
            return
        counts[core] = given
        inside = [name for name, _ in _entries(entry, "memories")]
        names += [f"{each}.{name}" for each in copies(core, given) for name in inside]
    for link, entry in _entries(tree, "links"):
        for key, route in _entries(entry, "routes"):
            origin, to = route.get("from"), route.get("to")
            if not isinstance(origin, str) or not isinstance(to, str):
                continue
            told = meant(origin, to, names, counts)
            if told is not None:
                yield ("links", link, "routes", key), f"{no_pair(origin, to)}{told}"


def _entries(tree: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What stands under a key by name, as far as it has the form that it should."""
    found = tree.get(key)
    if isinstance(found, Mapping):
        for name, entry in cast("Mapping[object, object]", found).items():
            if isinstance(name, str) and isinstance(entry, Mapping):
                yield name, cast("Mapping[str, Any]", entry)
