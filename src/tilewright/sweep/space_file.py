"""SPACE.yaml: what may stand in it; all faults of it at once, each with its line and key."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path
from reprlib import repr as shown  # never longer than a line, whatever a file nests
from typing import Any, TypeVar, cast

from tilewright.errors import TilewrightError
from tilewright.frontend import zoo
from tilewright.machine.document import read_tree, take_tree
from tilewright.machine.dtypes import rate_class
from tilewright.machine.entries import list_at, mapping_at
from tilewright.machine.faults import Faults, FileError, Keys, key_fault
from tilewright.model import is_torch_name, no_model
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
_T = TypeVar("_T")
Field = tuple[str, Scalar]
Named = tuple[str, Expression]


class SpaceFileError(FileError, SpaceError):
    """A space that cannot be used; the text is its first fault, with file, line and key."""


def read_space(path: Path) -> Space:
    """A space from its file; the error of one that cannot be used has all its faults."""
    build = partial(_space, folder=path.parent, name=path.stem)
    return read_tree(path, "a space", build, SpaceFileError)


def space_of(document: object, folder: Path, name: str = "sweep") -> Space:
    """A space from the mapping of its file; what is named relative to `folder` has to be there."""
    return take_tree(
        "the space", lambda: _space(mapping_at(document, ()), folder, name), SpaceFileError
    )


def _space(top: Mapping[str, Any], folder: Path, name: str) -> Space:
    """What each key says; then what they say together; then whether what they name is there."""
    faults = Faults()
    faults.unknown(top, KEYS)
    axes = _axes(faults.take(partial(_part, top, "axes"), {}), faults)
    fixed = _fields(top, "fixed", _option, faults)
    sets = [
        (field.removeprefix("machine."), text)
        for field, text in _fields(top, "set", _as_set, faults)
    ]
    defines = _defines(top, faults)
    requires = _requires(top, faults)
    front = faults.take(partial(_names, top, "front"), ())
    under = faults.take(partial(_milliseconds, top.get("under_ms")), None)
    title = faults.take(partial(_text, top.get("name", name), ("name",)), "")
    faults.end()

    known = {axis.name for axis in axes}
    faults.found += _field_faults(axes, fixed, sets)
    faults.found += _name_faults(sets, known, "set")
    for each, expression in defines:
        faults.found += _name_faults([(each, expression)], {*known, *FACTS}, "define")
        if each in {*known, *FACTS, *METRICS, *OPTIONS, *CONSTANTS, *FUNCTIONS}:
            text = f"'{each}' has a meaning already; call it otherwise"
            faults.found.append((("define", each), text))
        known.add(each)
    numbers = known | set(FACTS)
    for number, expression in enumerate(requires):
        faults.found += _name_faults([(number, expression)], numbers, "require")
    own = [each for each, _ in defines if each == "cost"]
    front = front or ("latency_ms", *(own or ["energy_pj"]))
    columns = {*METRICS, *FACTS, *(each for each, _ in defines)}
    faults.found += _column_faults(front, columns, axes, ("front",))
    guided = faults.take(partial(_guided, top.get("guided"), front, columns, axes), None)
    faults.end()

    space = Space(
        title,
        folder,
        top,
        axes,
        fixed,
        tuple(sets),
        defines,
        requires,
        front,
        under,
        guided,
    )
    if guided is None and space.size > MOST_POINTS:
        text = f"the grid has {space.size:,} points, more than {MOST_POINTS:,}: take out values, "
        raise key_fault(("axes",), text + "or say 'guided'")
    faults.found += _file_faults(space)
    faults.end()
    return space


def _part(top: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A mapping below a key; the axes have to be there."""
    found = mapping_at(top.get(key) or {}, (key,))
    if key == "axes" and not found:
        raise key_fault((key,), "is missing: there is nothing to sweep")
    return found


def _fields(
    top: Mapping[str, Any],
    key: str,
    read: Callable[[str, object, Keys], _T],
    faults: Faults,
) -> tuple[tuple[str, _T], ...]:
    """Fields of a machine, or options, each with what stands there."""

    def one(field: str, value: object) -> tuple[tuple[str, _T], ...]:
        _check_field(field, (key, field))
        return ((field, read(field, value, (key, field))),)

    entries = faults.take(partial(_part, top, key), {})
    none: tuple[tuple[str, _T], ...] = ()
    found = [faults.take(partial(one, *entry), none) for entry in entries.items()]
    return tuple(pair for some in found for pair in some)


def _as_set(field: str, text: object, where: Keys) -> Expression:
    return _expression(text, where)


def _defines(top: Mapping[str, Any], faults: Faults) -> tuple[Named, ...]:
    def one(name: str, text: object) -> tuple[Named, ...]:
        return ((_checked_name(name, ("define", name)), _expression(text, ("define", name))),)

    entries = faults.take(partial(_part, top, "define"), {})
    found = [faults.take(partial(one, *entry), ()) for entry in entries.items()]
    return tuple(pair for some in found for pair in some)


def _requires(top: Mapping[str, Any], faults: Faults) -> tuple[Expression, ...]:
    def one(number: int, text: object) -> tuple[Expression, ...]:
        return (_expression(text, ("require", number)),)

    texts = faults.take(partial(list_at, top, "require"), [])
    found = [faults.take(partial(one, *entry), ()) for entry in enumerate(texts)]
    return tuple(expression for some in found for expression in some)


def _axes(entries: Mapping[str, Any], faults: Faults) -> tuple[Axis, ...]:
    found: dict[str, Axis] = {}
    for name, entry in entries.items():
        axis = faults.take(partial(_axis, name, entry, found), None)
        if axis is not None:
            found[name] = axis
    return tuple(found.values())


def _axis(name: str, entry: object, before: Mapping[str, Axis]) -> Axis | None:
    where: Keys = ("axes", name)
    plain = {"values": cast(object, entry)} if isinstance(entry, list) else entry
    spec = mapping_at(plain, where)
    unknown = Faults()
    unknown.unknown(spec, _AXIS_KEYS, where)
    unknown.end()
    fields = _axis_fields(name, spec, where)
    values = tuple(_option(field, v, where) for v in _values(spec, where) for field in fields)
    values = values[:: len(fields)]
    along = _text(spec["with"], (*where, "with")) if "with" in spec else None
    if along is None:
        _check_distinct(values, where)
        return Axis(name, fields, values, along)
    leader = before.get(along)
    if leader is None or leader.along is not None:
        raise key_fault((*where, "with"), f"no axis '{along}' before it moves by itself")
    if len(leader.values) != len(values):
        text = f"has {len(values)} values, '{along}' has {len(leader.values)}"
        raise key_fault(where, text)
    return Axis(name, fields, values, along)


def _axis_fields(name: str, spec: Mapping[str, Any], where: Keys) -> tuple[str, ...]:
    one = _text(spec.get("field", name), (*where, "field"))
    fields = _names(spec, "fields", where) if "fields" in spec else (one,)
    if not fields:
        raise key_fault((*where, "fields"), "is empty")
    for field in fields:
        _check_field(field, where)
    if name not in OPTIONS and not name.startswith("machine."):
        _checked_name(name, where)
        if name in FACTS or name in METRICS:
            text = f"'{name}' is the name of a figure; call the axis otherwise"
            raise key_fault(where, text)
    return fields


def _values(spec: Mapping[str, Any], where: Keys) -> list[object]:
    ranged = "from" in spec or "to" in spec
    if ranged == ("values" in spec):
        raise key_fault(where, "needs either values, or from and to")
    if not ranged:
        values = list_at(spec, "values", where)
        if not values or len(values) > MOST_VALUES:
            raise key_fault((*where, "values"), f"needs 1 to {MOST_VALUES} entries")
        return values
    ends = {key: quantity_of(spec.get(key)) for key in ("from", "to", "step")}
    first, last = ends["from"], ends["to"]
    for key, value in ends.items():
        if value is None and (key in spec or key != "step"):
            here = f"; here it is {spec[key]!r}" if key in spec else "; it is missing"
            raise key_fault((*where, key), f"has to be a number, such as 4 or 256 KiB{here}")
    assert first is not None and last is not None
    times, count = quantity_of(spec.get("times")), spec.get("count")
    if ("times" in spec and times is None) or not isinstance(count, int | None):
        raise key_fault(where, "times has to be a number, count a whole number")
    try:
        spread = spread_values(first, last, ends["step"], times.number if times else None, count)
    except ValueError as error:
        raise key_fault(where, str(error)) from None
    return list(spread)


def _option(field: str, value: object, where: Keys) -> Scalar:
    """A value that the field can have."""
    if isinstance(value, Mapping) and field == "shape":
        shapes = mapping_at(cast(object, value), where)
        value = " ".join(f"{n}={','.join(map(shown, list_at(shapes, n, where)))}" for n in shapes)
    if not isinstance(value, str | int | float | bool) or value in (inf, -inf) or value != value:
        raise key_fault(where, f"{shown(cast(object, value))} is neither text nor a number")
    wrong, wanted = False, ""
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
            with _of(where):
                rate_class(str(value))
        case "shape":
            with _of(where):
                parse_shape(str(value))
        case _:
            wrong, wanted = field in OPTIONS and not isinstance(value, str), "text"
    if wrong:
        raise key_fault(where, f"'{value}' has to be {wanted}")
    return value


def _guided(
    entry: object, front: tuple[str, ...], columns: set[str], axes: tuple[Axis, ...]
) -> Guided | None:
    if entry is None or entry is False:
        return None
    spec, faults = mapping_at({} if entry is True else entry, ("guided",)), Faults()
    faults.unknown(spec, _GUIDED_KEYS, ("guided",))
    minimise = faults.take(partial(_names, spec, "minimise", ("guided",)), ()) or front
    faults.found += _column_faults(minimise, columns, axes, ("guided", "minimise"))
    generation, seed = spec.get("generation", 16), spec.get("seed", 0)
    if type(generation) is not int or not 2 <= generation <= 10_000 or type(seed) is not int:
        text = "generation is a whole number of at least 2, seed a whole number"
        faults.found.append((("guided",), text))
    budget = spec.get("budget")
    if budget is not None and (type(budget) is not int or budget < 1):
        faults.found.append((("guided", "budget"), "has to be a whole number above 0"))
    faults.end()
    return Guided(minimise, budget, generation, seed)


def _field_faults(
    axes: tuple[Axis, ...], fixed: Iterable[Field], sets: Iterable[Named]
) -> Iterator[tuple[Keys, str]]:
    """Every field is set in one place, and the model and the machine are among them."""
    places = [(field, ("axes", axis.name)) for axis in axes for field in axis.fields]
    places += [(field, ("fixed", field)) for field, _ in fixed]
    places += [(f"machine.{path}", ("set", f"machine.{path}")) for path, _ in sets]
    named = [field for field, _ in places]
    for field, keys in places:
        if named.count(field) > 1:
            yield keys, f"'{field}' is set in more than one place"
    for field in ("model", "machine"):
        if field not in named:
            yield (field,), "is missing: give it in 'fixed' or as an axis"


def _file_faults(space: Space) -> Iterator[tuple[Keys, str]]:
    """Networks, machines and fields that are named are there: a wrong name is a mistake of the
    space, not of every point."""
    planner = Planner(space.folder)
    for keys, model in _all_of(space, "model"):
        if is_torch_name(model) and not (space.folder / model).is_file():
            text = f"model '{model}': a space runs no code, so that torch networks cannot be named "
            yield keys, text + "in it; export it to an .onnx file first"
        elif not zoo.is_zoo_name(model) and not (space.folder / model).is_file():
            yield keys, no_model(model)
    paths = [(("axes", a.name), f) for a in space.axes for f in a.fields if f not in OPTIONS]
    paths += [(("fixed", f), f) for f, _ in space.fixed if f not in OPTIONS]
    paths += [(("set", f"machine.{path}"), f"machine.{path}") for path, _ in space.sets]
    for keys, expression in (
        *((("require", n), e) for n, e in enumerate(space.requires)),
        *((("define", name), e) for name, e in space.defines),
        *((("set", f"machine.{path}"), e) for path, e in space.sets),
    ):
        paths += [(keys, name) for name in expression.names if name.startswith("machine.")]
    for keys, machine in _all_of(space, "machine"):
        try:
            planner.machine(machine, ())
        except TilewrightError as error:
            yield keys, str(error)
            continue
        for where, path in paths:
            try:
                places_of(planner.tree(machine), path.removeprefix("machine."))
            except TilewrightError as error:
                yield where, str(error)


def _all_of(space: Space, option: str) -> list[tuple[Keys, str]]:
    """All that a point may have for an option, and where that stands."""
    found: list[tuple[Keys, str]] = [
        (("axes", axis.name), str(value))
        for axis in space.axes
        if option in axis.fields
        for value in axis.values
    ]
    return found + [(("fixed", option), str(v)) for field, v in space.fixed if field == option]


def _name_faults(
    expressions: Sequence[tuple[int | str, Expression]] | Sequence[Named],
    known: set[str],
    where: str,
) -> Iterator[tuple[Keys, str]]:
    for label, expression in expressions:
        key = f"machine.{label}" if where == "set" else label
        for name in expression.names:
            if name not in known and not name.startswith("machine."):
                text = f"'{expression.text}' reads '{name}', which is not known; there are "
                yield (where, key), f"{text}{', '.join(sorted(known))} and machine.FIELD"


def _column_faults(
    names: tuple[str, ...], columns: set[str], axes: tuple[Axis, ...], where: Keys
) -> Iterator[tuple[Keys, str]]:
    numeric = {axis.name: axis.numbers is not None for axis in axes}
    for number, name in enumerate(names):
        if name in columns:
            continue
        text = f"no column '{name}'; there are {', '.join(sorted(columns))}"
        if numeric.get(name):
            text = f"'{name}' is an axis: define a column of it, as in {{my_{name}: {name}}}"
        elif name in numeric:
            text = f"'{name}' is an axis whose values are no numbers"
        yield (*where, number), text
    if len(set(names)) < max(2, len(names)):
        yield where, "needs at least two columns, each once: with one alone, sort by it"


def _check_field(name: str, where: Keys) -> None:
    if name not in OPTIONS and not (name.startswith("machine.") and name != "machine."):
        raise key_fault(
            where,
            f"'{name}' is no field: give one of {', '.join(OPTIONS)}, or machine.PATH of a key in "
            "the machine's file",
        )


def _checked_name(name: str, where: Keys) -> str:
    if not name.isidentifier():
        raise key_fault(where, f"'{name}' is no name: letters, digits and _ only")
    return name


def _milliseconds(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
        raise key_fault(("under_ms",), f"{shown(value)} has to be a number above 0")
    return float(value)


def _expression(text: object, where: Keys) -> Expression:
    with _of(where):
        return parse_expression(text)


@contextmanager
def _of(where: Keys) -> Generator[None]:
    """What others complain about is a fault of a key."""
    try:
        yield
    except TilewrightError as error:
        raise key_fault(where, str(error)) from None


def _names(value: Mapping[str, Any], key: str, where: Keys = ()) -> tuple[str, ...]:
    return tuple(_text(each, (*where, key)) for each in list_at(value, key, where))


def _text(value: object, where: Keys) -> str:
    if not isinstance(value, str | int | float):
        raise key_fault(where, f"{shown(value)} has to be text")
    return str(value)


def _check_distinct(values: tuple[Scalar, ...], where: Keys) -> None:
    found: set[Scalar] = set()
    for value in values:
        if value in found:
            raise key_fault(where, f"has {shown(value)} more than once")
        found.add(value)
