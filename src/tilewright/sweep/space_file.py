"""SPACE.yaml: what may stand in it, and errors that name file and key."""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from reprlib import repr as shown  # never longer than a line, whatever a file nests
from typing import Any, cast

from tilewright.errors import TilewrightError
from tilewright.frontend import zoo
from tilewright.machine.document import Document
from tilewright.machine.dtypes import rate_class
from tilewright.model import is_torch_name
from tilewright.sweep.errors import SpaceError
from tilewright.sweep.expression import CONSTANTS, FUNCTIONS, Expression, parse_expression
from tilewright.sweep.fields import places_of
from tilewright.sweep.point import EFFORTS, METRICS, OBJECTIVES, OLD_EFFORTS, Planner, parse_shape
from tilewright.sweep.quantities import MOST_VALUES, Scalar, quantity_of, spread_values
from tilewright.sweep.space import FACTS, MOST_POINTS, OPTIONS, Axis, Guided, Space

KEYS = (
    "name",
    "fixed",
    "axes",
    "set",
    "define",
    "require",
    "front",
    "under_ms",
    "guided",
)
_AXIS_KEYS = frozenset(
    {"field", "fields", "values", "from", "to", "step", "times", "count", "with"}
)
_GUIDED_KEYS = frozenset({"minimise", "budget", "generation", "seed"})


def read_space(path: Path) -> Space:
    """A space from its file; the error of one that cannot be used names the file and the key."""
    document = Document(path, "a space").tree
    try:
        return space_of(document, path.parent, path.stem)
    except TilewrightError as error:
        raise SpaceError(f"'{path}': {error}") from None


def space_of(document: object, folder: Path, name: str = "sweep") -> Space:
    """A space from the mapping of its file; what is named relative to `folder` has to be there."""
    top = _mapping(document, "the space")
    _only(top, frozenset(KEYS), "the space")
    axes = _axes(_mapping(top.get("axes") or {}, "axes"))
    if not axes:
        raise SpaceError("'axes' is missing: there is nothing to sweep")
    fixed = tuple(
        (field, _option(field, value, f"fixed.{field}"))
        for field, value in _mapping(top.get("fixed") or {}, "fixed").items()
        if _is_field(field, "fixed")
    )
    sets = tuple(
        (field.removeprefix("machine."), _expression(text, f"set.{field}"))
        for field, text in _mapping(top.get("set") or {}, "set").items()
        if _is_field(field, "set")
    )
    defines = tuple(
        (_checked_name(each, "define"), _expression(text, f"define.{each}"))
        for each, text in _mapping(top.get("define") or {}, "define").items()
    )
    requires = tuple(
        _expression(text, f"require[{i}]") for i, text in enumerate(_list(top, "require"))
    )
    known = {axis.name for axis in axes}
    _check_fields(axes, fixed, sets)
    _check_names(sets, known, "set")
    numbers = known | set(FACTS)
    for each, expression in defines:
        if each in {*numbers, *METRICS, *OPTIONS, *CONSTANTS, *FUNCTIONS}:
            raise SpaceError(f"define.{each}: '{each}' has a meaning already; call it otherwise")
        _check_names(((each, expression),), numbers, "define")
        numbers.add(each)
    _check_names([("require", each) for each in requires], numbers, "require")
    own = [each for each, _ in defines if each == "cost"]
    front = _names(top, "front") or ("latency_ms", *(own or ["energy_pj"]))
    _check_columns(front, {*METRICS, *numbers}, "front")
    guided = _guided(top.get("guided"), front, numbers)
    space = Space(
        _text(top.get("name", name), "name"),
        folder,
        top,
        axes,
        fixed,
        sets,
        defines,
        requires,
        front,
        _milliseconds(top.get("under_ms")),
        guided,
    )
    if guided is None and space.size > MOST_POINTS:
        raise SpaceError(
            f"the grid has {space.size:,} points, more than {MOST_POINTS:,}: take out values, "
            "or say 'guided'"
        )
    _check_files(space)
    return space


def _axes(entries: Mapping[str, Any]) -> tuple[Axis, ...]:
    found: dict[str, Axis] = {}
    for name, entry in entries.items():
        where = f"axes.{name}"
        plain = {"values": cast(object, entry)} if isinstance(entry, list) else entry
        spec = _mapping(plain, where)
        _only(spec, _AXIS_KEYS, where)
        fields = _axis_fields(name, spec, where)
        values = tuple(_option(field, v, where) for v in _values(spec, where) for field in fields)
        values = values[:: len(fields)]
        along = _text(spec["with"], f"{where}.with") if "with" in spec else None
        if along is None:
            _check_distinct(values, where)
        else:
            leader = found.get(along)
            if leader is None or leader.along is not None:
                raise SpaceError(f"{where}.with: no axis '{along}' before it moves by itself")
            if len(leader.values) != len(values):
                raise SpaceError(
                    f"{where} has {len(values)} values, '{along}' has {len(leader.values)}"
                )
        found[name] = Axis(name, fields, values, along)
    return tuple(found.values())


def _axis_fields(name: str, spec: Mapping[str, Any], where: str) -> tuple[str, ...]:
    one = _text(spec.get("field", name), f"{where}.field")
    fields = _names(spec, "fields", where) if "fields" in spec else (one,)
    if not fields or not all(_is_field(field, where) for field in fields):
        raise SpaceError(f"{where}.fields is empty")
    if name not in OPTIONS and not name.startswith("machine."):
        _checked_name(name, "axes")
        if name in FACTS or name in METRICS:
            raise SpaceError(f"{where}: '{name}' is the name of a figure; call the axis otherwise")
    return fields


def _values(spec: Mapping[str, Any], where: str) -> list[object]:
    ranged = "from" in spec or "to" in spec
    if ranged == ("values" in spec):
        raise SpaceError(f"{where} needs either values, or from and to")
    if not ranged:
        values = _list(spec, "values", where)
        if not values or len(values) > MOST_VALUES:
            raise SpaceError(f"{where}.values needs 1 to {MOST_VALUES} entries")
        return values
    ends = {key: quantity_of(spec.get(key)) for key in ("from", "to", "step")}
    first, last = ends["from"], ends["to"]
    if first is None or last is None or ("step" in spec and ends["step"] is None):
        raise SpaceError(f"{where}: from, to and step have to be numbers, such as 4 or 256 KiB")
    times, count = quantity_of(spec.get("times")), spec.get("count")
    if ("times" in spec and times is None) or not isinstance(count, int | None):
        raise SpaceError(f"{where}: times has to be a number, count a whole number")
    try:
        spread = spread_values(first, last, ends["step"], times.number if times else None, count)
    except ValueError as error:
        raise SpaceError(f"{where}: {error}") from None
    return list(spread)


def _option(field: str, value: object, where: str) -> Scalar:
    """A value that the field can have."""
    if isinstance(value, Mapping) and field == "shape":
        shapes = _mapping(cast(object, value), where)
        value = " ".join(f"{n}={','.join(map(shown, _list(shapes, n, where)))}" for n in shapes)
    if not isinstance(value, str | int | float | bool) or value in (inf, -inf) or value != value:
        raise SpaceError(f"{where}: {shown(cast(object, value))} is neither text nor a number")
    wrong = False
    match field:
        case "objective":
            wrong, wanted = value not in OBJECTIVES, f"one of {', '.join(OBJECTIVES)}"
        case "effort":
            value = OLD_EFFORTS.get(str(value), value)
            wrong, wanted = value not in EFFORTS, f"one of {', '.join(EFFORTS)}"
        case "batch":
            wrong, wanted = type(value) is not int or value < 1, "a whole number above 0"
        case "verify":
            wrong, wanted = not isinstance(value, bool), "true or false"
        case "dtype":
            rate_class(str(value))
            wanted = ""
        case "shape":
            parse_shape(str(value))
            wanted = ""
        case _:
            wrong, wanted = field in OPTIONS and not isinstance(value, str), "text"
    if wrong:
        raise SpaceError(f"{where}: '{value}' has to be {wanted}")
    return value


def _guided(entry: object, front: tuple[str, ...], known: set[str]) -> Guided | None:
    if entry is None or entry is False:
        return None
    spec = _mapping({} if entry is True else entry, "guided")
    _only(spec, _GUIDED_KEYS, "guided")
    minimise = _names(spec, "minimise", "guided") or front
    _check_columns(minimise, {*METRICS, *known}, "guided.minimise")
    generation, seed = spec.get("generation", 16), spec.get("seed", 0)
    if type(generation) is not int or not 2 <= generation <= 10_000 or type(seed) is not int:
        raise SpaceError("guided: generation is a whole number of at least 2, seed a whole number")
    budget = spec.get("budget")
    if budget is not None and (type(budget) is not int or budget < 1):
        raise SpaceError("guided.budget has to be a whole number above 0")
    return Guided(minimise, budget, generation, seed)


def _check_fields(
    axes: tuple[Axis, ...],
    fixed: tuple[tuple[str, Scalar], ...],
    sets: tuple[tuple[str, Expression], ...],
) -> None:
    """Every field is set in one place, and the model and the machine are among them."""
    named = [field for axis in axes for field in axis.fields]
    named += [field for field, _ in fixed] + [f"machine.{path}" for path, _ in sets]
    for field in named:
        if named.count(field) > 1:
            raise SpaceError(f"'{field}' is set in more than one place")
    for field in ("model", "machine"):
        if field not in named:
            raise SpaceError(f"'{field}' is missing: give it in 'fixed' or as an axis")


def _check_files(space: Space) -> None:
    """Networks, machines and fields that are named are there: a wrong name is a mistake of the
    space, not of every point."""
    planner = Planner(space.folder)
    for model in _all_of(space, "model"):
        if is_torch_name(model) and not (space.folder / model).is_file():
            raise SpaceError(
                f"model '{model}': a space runs no code, so that torch networks cannot be named in "
                "it; export it to an .onnx file first"
            )
        if not zoo.is_zoo_name(model) and not (space.folder / model).is_file():
            raise SpaceError(
                f"there is no file '{model}', and no network of the zoo is called so; "
                f"the zoo has: {', '.join(zoo.MODELS)}"
            )
    paths = [f for axis in space.axes for f in axis.fields if f not in OPTIONS]
    paths += [f for f, _ in space.fixed if f not in OPTIONS]
    paths += [f"machine.{path}" for path, _ in space.sets]
    for expression in (*space.requires, *(e for _, e in (*space.defines, *space.sets))):
        paths += [name for name in expression.names if name.startswith("machine.")]
    for machine in _all_of(space, "machine"):
        planner.machine(machine, ())
        for path in paths:
            places_of(planner.tree(machine), path.removeprefix("machine."))


def _all_of(space: Space, option: str) -> list[str]:
    """All that a point may have for an option."""
    values = [str(v) for axis in space.axes if option in axis.fields for v in axis.values]
    return [*values, *(str(value) for field, value in space.fixed if field == option)]


def _check_names(expressions: Any, known: set[str], where: str) -> None:
    for label, expression in cast(list[tuple[str, Expression]], expressions):
        for name in expression.names:
            if name not in known and not name.startswith("machine."):
                raise SpaceError(
                    f"{where}: '{expression.text}' of '{label}' reads '{name}', which is not "
                    f"known; there are {', '.join(sorted(known))} and machine.FIELD"
                )


def _check_columns(names: tuple[str, ...], known: set[str], where: str) -> None:
    for name in names:
        if name not in known:
            raise SpaceError(f"{where}: no column '{name}'; there are {', '.join(sorted(known))}")
    if len(set(names)) < max(2, len(names)):
        raise SpaceError(f"{where} needs at least two columns, each once")


def _is_field(name: str, where: str) -> bool:
    if name in OPTIONS or (name.startswith("machine.") and len(name) > len("machine.")):
        return True
    raise SpaceError(
        f"{where}: '{name}' is no field: give one of {', '.join(OPTIONS)}, or machine.PATH of a "
        "key in the machine's file"
    )


def _checked_name(name: str, where: str) -> str:
    if not name.isidentifier():
        raise SpaceError(f"{where}: '{name}' is no name: letters, digits and _ only")
    return name


def _milliseconds(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
        raise SpaceError(f"under_ms: {shown(value)} has to be a number above 0")
    return float(value)


def _expression(text: object, where: str) -> Expression:
    try:
        return parse_expression(text)
    except SpaceError as error:
        raise SpaceError(f"{where}: {error}") from None


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(k, str) for k in cast(Any, value)):
        raise SpaceError(f"{where} has to be a mapping of names")
    return cast(Mapping[str, Any], value)


def _list(value: Mapping[str, Any], key: str, where: str = "") -> list[Any]:
    found: Any = value.get(key)
    if found is not None and not isinstance(found, list):
        raise SpaceError(f"{where}{'.' if where else ''}{key} has to be a list")
    return cast(list[Any], found or [])


def _names(value: Mapping[str, Any], key: str, where: str = "") -> tuple[str, ...]:
    label = f"{where}.{key}" if where else key
    return tuple(_text(each, label) for each in _list(value, key, where))


def _text(value: object, where: str) -> str:
    if not isinstance(value, str | int | float):
        raise SpaceError(f"{where}: {shown(value)} has to be text")
    return str(value)


def _check_distinct(values: tuple[Scalar, ...], where: str) -> None:
    found: set[Scalar] = set()
    for value in values:
        if value in found:
            raise SpaceError(f"{where} has {shown(value)} more than once")
        found.add(value)


def _only(value: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    for key in value:
        if key not in known:
            raise SpaceError(f"{where} has no key '{key}'; known are {', '.join(sorted(known))}")
