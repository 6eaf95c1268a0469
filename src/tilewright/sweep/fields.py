"""Fields of a machine file by their path, read and set in the mapping the file is."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from tilewright.sweep.errors import SpaceError
from tilewright.sweep.quantities import Scalar

Tree = dict[str, Any]
SOURCE = "set by a sweep"


def places_of(tree: Tree, path: str) -> list[tuple[str, ...]]:
    """Where a path such as `cores.cluster.engines.dpu.parameters.modes.*.unroll.width` leads: its
    mappings have to be there, the last key need not (the file may leave it out)."""
    parts = tuple(path.split("."))
    found = list(_walk(tree, parts, ()))
    if not found or not all(parts):
        raise SpaceError(f"'machine.{path}': machine {tree.get('name')} has no such field")
    return found


def _walk(tree: object, parts: Sequence[str], before: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not isinstance(tree, dict):
        return
    mapping = cast(Tree, tree)
    if len(parts) == 1:
        names = [k for k in mapping if k != "source"] if parts[0] == "*" else [parts[0]]
        yield from ((*before, str(name)) for name in names)
        return
    for name in mapping if parts[0] == "*" else [parts[0]]:
        yield from _walk(mapping.get(name), parts[1:], (*before, str(name)))


def field_at(tree: Tree, place: Sequence[str]) -> object:
    """What stands at a place; None where the file leaves it out."""
    found: Any = tree
    for key in place:
        found = found.get(key) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return cast(object, found)


def with_field(tree: Tree, place: Sequence[str], value: Scalar) -> Tree:
    """The mapping with another value at a place, whose source is the sweep then."""
    key, *rest = place
    if not rest:
        return _sourced({**tree, key: value}, key)
    below = tree.get(key)
    changed = with_field(cast(Tree, below) if isinstance(below, dict) else {}, rest, value)
    own = {**tree, key: changed}
    return own if _has_source(changed, rest) else _sourced(own, key)


def _has_source(tree: Tree, rest: Sequence[str]) -> bool:
    """Whether a block on the way to the field already carries its source."""
    for key in rest:
        if "source" in tree:
            return True
        below = tree.get(key)
        if not isinstance(below, dict):
            return False
        tree = cast(Tree, below)
    return False


def _sourced(tree: Tree, key: str) -> Tree:
    source = tree.get("source")
    if source is None:
        return tree
    rest: Tree = cast(Tree, source) if isinstance(source, dict) else {"*": source}
    return {**tree, "source": {**rest, key: SOURCE}}
