"""Every key of a machine file, from the schema itself: for editors, and as a page for people."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from tilewright.machine.ranges import OPERATOR_CLASSES
from tilewright.machine.schema import MachineFile

Schema = dict[str, Any]
_DEFS = "#/$defs/"
_PARTIAL = "Partial"
_EXTENDS: Schema = {
    "type": "string",
    "description": "A shipped machine, or a file beside this one; only what differs is given.",
}


def editor_schema() -> Schema:
    """A JSON schema for editors. A file that extends another may leave out any key, and takes one
    away with null; in all others what is required is required, sources excepted: they may stand at
    the top alone."""
    whole = cast(Schema, _plain(MachineFile.model_json_schema()))
    definitions = cast("dict[str, Schema]", whole.pop("$defs"))
    whole["required"].remove("name")
    whole["properties"]["extends"] = _EXTENDS
    definitions["MachineFile"] = whole
    partial = {f"{name}{_PARTIAL}": _partial(item) for name, item in definitions.items()}
    for name, item in definitions.items():
        if name != "MachineFile" and "source" in item.get("required", ()):
            item["required"].remove("source")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tilewright machine file",
        "if": {"required": ["extends"]},
        "then": {"$ref": f"{_DEFS}MachineFile{_PARTIAL}"},
        "else": {"$ref": f"{_DEFS}MachineFile"},
        "$defs": dict(sorted({**definitions, **partial}.items())),
    }


def _plain(schema: Any) -> Any:
    """The schema without titles that only repeat the keys; names that fit no pattern are wrong."""
    if isinstance(schema, list):
        return [_plain(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    given = cast(Schema, schema)
    found = {k: _plain(v) for k, v in given.items() if k != "title" or isinstance(v, dict)}
    if "patternProperties" in found:
        found["additionalProperties"] = False
    return found


def _partial(schema: Any) -> Any:
    """The schema of what may stand above another file: nothing required, null allowed."""
    if isinstance(schema, list):
        return [_partial(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    found: Schema = {}
    for key, value in cast(Schema, schema).items():
        if key in ("required", "minProperties", "discriminator"):
            continue
        if key == "$ref":
            value = f"{value}{_PARTIAL}"
        elif key in ("properties", "patternProperties"):
            value = {name: _or_null(_partial(item)) for name, item in value.items()}
        elif key == "additionalProperties" and isinstance(value, dict):
            value = _or_null(_partial(value))
        else:
            value = _partial(value)
        found["anyOf" if key == "oneOf" else key] = value
    return found


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_HEAD = """# Keys of a machine file

Written by `make golden` from the schema; [machine-files.md](machine-files.md) starts
from a small file and explains how they are used. NAME is a name of your own; engines
stand under `cores.NAME`, their `model` in parentheses.
"""


def reference_page() -> str:
    """All keys as Markdown: a table per block, in the order of a file."""
    whole = MachineFile.model_json_schema()
    definitions = cast("Mapping[str, Schema]", whole["$defs"])
    blocks: dict[str, list[str]] = {}
    _collect(whole, "", definitions, blocks)
    lines = [_HEAD]
    for name, paths in {"": ["the file"], **blocks}.items():
        block = definitions[name] if name else whole
        title = ", ".join(f"`{path}`" if name else path for path in paths)
        lines.append(f"## {title}\n\n{' '.join(block['description'].split())}\n")
        lines.append("| key | what it is | value | if left out |\n|---|---|---|---|")
        if not name:
            lines.append(f"| `extends` | {_EXTENDS['description']} | text | a file of its own |")
        for key, item in block["properties"].items():
            needed = key in block.get("required", ()) and key not in ("name", "source")
            about = item.get("description", "")
            lines.append(f"| `{key}` | {about} | {_value(item)} | {_left_out(item, needed)} |")
        lines.append("")
    lines.append("## Operator classes of vector engines\n\n| class | operators |\n|---|---|")
    lines += (f"| `{name}` | {text} |" for name, text in OPERATOR_CLASSES.items())
    return "\n".join(lines) + "\n"


def _collect(
    block: Schema, path: str, definitions: Mapping[str, Schema], found: dict[str, list[str]]
) -> None:
    """The paths of every block, by the name of its definition, in the order of a file."""
    for key, item in block["properties"].items():
        for name, below in _refs(item, f"{path}.{key}".removeprefix(".")):
            model = definitions[name]["properties"].get("model", {}).get("const")
            below = f"engines.NAME ({model})" if model else below
            if below not in found.setdefault(name, []):
                found[name].append(below)
                if key != "otherwise":  # an array like any other
                    _collect(definitions[name], below, definitions, found)


def _refs(item: Schema, path: str) -> Iterator[tuple[str, str]]:
    """The definitions that a key's value may be, each with its path."""
    if "$ref" in item:
        yield item["$ref"].removeprefix(_DEFS), path
    for choice in (*item.get("anyOf", ()), *item.get("oneOf", ())):
        yield from _refs(choice, path)
    inner = [*item.get("patternProperties", {}).values(), item.get("additionalProperties")]
    for value in inner:
        if isinstance(value, dict):
            yield from _refs(cast(Schema, value), f"{path}.NAME")
    if isinstance(item.get("items"), dict):
        yield from _refs(item["items"], f"{path}[]")


def _value(item: Schema) -> str:
    """What may stand there, in a few words."""
    choices = [c for c in (*item.get("anyOf", ()), *item.get("oneOf", ())) if c != {"type": "null"}]
    if choices:
        return ", or ".join(dict.fromkeys(_value(choice) for choice in choices))
    if "enum" in item or "const" in item:
        return ", ".join(f"`{word}`" for word in item.get("enum", [item.get("const")]))
    kind = item.get("type")
    if kind == "array":
        return f"a list of {_value(item['items'])}"
    if kind == "boolean":
        return "true, false"
    if kind == "object" or "$ref" in item:
        return "a mapping"
    bounds = [_figure(item[key]) for key in ("minimum", "maximum") if key in item]
    limits = f", {bounds[0]} to {bounds[1]}" if len(bounds) == 2 else ""
    if "examples" in item:
        return " or ".join(f"`{text}`" for text in item["examples"]) + limits
    words = {"integer": "whole number", "number": "number", "string": "text"}
    return f"{words.get(str(kind), 'text')}{limits}"


def _left_out(item: Schema, needed: bool) -> str:
    if needed:
        return "required"
    default = item.get("default")
    if default is None or default == []:
        return ""
    return str(default).lower() if isinstance(default, bool) else _figure(default)


def _figure(value: object) -> str:
    if isinstance(value, bool | str):
        return str(value)
    number = cast(float, value)
    if number == int(number) and abs(number) < 1 << 51:
        exact = int(number)
        power = exact.bit_length() - 1
        return f"2^{power}" if power >= 16 and exact == 1 << power else f"{exact:,}"
    return f"{number:g}"
