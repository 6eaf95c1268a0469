"""What the checker of the schema finds, in the words of the person who wrote the file."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tilewright.machine.document import Tree
from tilewright.machine.faults import Keys

_TAGS = {"array", "vector", "table"}  # what the engine union adds to a key path
_EITHER = {"str", "dict[str,str]"}  # what the union of a source's forms adds
_LONGEST = 60  # characters of a value that are shown
_UNKNOWN = "no such key"
# Kinds of faults, and what they say: about the key itself, or about what has to stand there.
_PLAIN = {
    "missing": "is missing",
    "extra_forbidden": _UNKNOWN,
    "unexpected_keyword_argument": _UNKNOWN,
    "too_short": "has to have at least one entry",
    "string_too_short": "is empty",
    "invalid_key": "keys have to be text",
    "union_tag_not_found": "is missing",
    "string_pattern_mismatch": "names are made of letters, digits, - and _",
    "recursion_loop": "contains itself",
}
_MAPPINGS = ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type")
_WANTED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(_MAPPINGS, "a mapping"),
    "int_parsing_size": "a smaller number",
    "string_type": "text",
    "finite_number": "a finite number",
    "literal_error": "one of {expected}",
    "union_tag_invalid": "one of {expected_tags}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
}


def complaints(error: ValidationError, tree: Tree, kind: type[BaseModel]) -> list[tuple[Keys, str]]:
    """The key of each fault of a kind of file, what has to stand there, and what does; one per
    key."""
    found: dict[Keys, str] = {}
    for problem in error.errors(include_url=False):
        keys = tuple(_keys(problem["loc"]))
        if problem["loc"][-2:] == ("source", "str") and isinstance(problem["input"], Mapping):
            continue  # a source per parameter, of which something else is said
        if problem["type"].startswith("union_tag"):
            keys = (*keys, "model")  # what tells the kinds of engines apart
        found.setdefault(keys, _complaint(problem, keys, tree, kind))
    return list(found.items())


def _keys(place: tuple[int | str, ...]) -> Iterator[int | str]:
    """The keys of a place in the file, without what the checker adds to them."""
    for i, part in enumerate(place):
        tag = part in _TAGS and i > 1 and place[i - 2] == "engines"
        tag = tag or (part in _EITHER and i > 0 and place[i - 1] == "source")
        if not tag and part != "[key]" and not str(part).startswith("function-"):
            yield part


def _complaint(problem: ErrorDetails, keys: Keys, tree: Tree, file: type[BaseModel]) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "value_error":
        return problem["msg"].removeprefix("Value error, ")
    if _PLAIN.get(kind) == _UNKNOWN:
        near = get_close_matches(str(keys[-1]), sorted(_keys_at(keys[:-1], file)), n=1)
        return f"{_UNKNOWN}: did you mean '{near[0]}'?" if near else _UNKNOWN
    if kind in _PLAIN:
        return _PLAIN[kind]
    limits = {key: f"{v:g}" if isinstance(v, float) else v for key, v in context.items()}
    wanted = _WANTED.get(kind, "").format(**limits)
    wanted = wanted or problem["msg"].removeprefix("Input should be ")  # as the checker says it
    if problem["loc"][-2:] == ("source", "str"):
        wanted = "text, or a mapping of texts"
    return f"has to be {wanted}, is {_shown(_given(problem, keys, tree))}"


def _keys_at(place: Keys, file: type[BaseModel]) -> set[str]:
    """The keys that the schema knows at a place of a file."""
    schema = file.model_json_schema()
    nodes: list[Tree] = [schema]
    for key in place:
        forms = [form for node in nodes for form in _forms(node, schema)]
        nodes = [inner for form in forms for inner in _inner(form, key)]
    forms = [form for node in nodes for form in _forms(node, schema)]
    return {name for form in forms for name in form.get("properties", {})}


def _inner(form: Tree, key: int | str) -> list[Tree]:
    """The schema of what a key leads to."""
    if key in form.get("properties", {}):
        return [form["properties"][key]]
    others: list[Any] = [form.get("items" if isinstance(key, int) else "additionalProperties")]
    others += form.get("patternProperties", {}).values()
    return [cast(Tree, other) for other in others if isinstance(other, dict)]


def _forms(node: Tree, schema: Tree) -> Iterator[Tree]:
    """What a part of a JSON schema may be: what it refers to, and each of its alternatives."""
    if "$ref" in node:
        yield from _forms(schema["$defs"][node["$ref"].rpartition("/")[2]], schema)
        return
    yield node
    for union in ("anyOf", "oneOf", "allOf"):
        for form in node.get(union, ()):
            yield from _forms(form, schema)


def _given(problem: ErrorDetails, keys: Keys, tree: Tree) -> object:
    """What stands in the file: the checker sees quantities without their units."""
    found: Any = tree
    try:
        for key in keys:
            found = found[key]
    except (KeyError, IndexError, TypeError):
        return problem["input"]
    return found


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "empty"
    text = str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
    return f"'{text}'" if len(text) <= _LONGEST else f"'{text[:_LONGEST]}...'"
