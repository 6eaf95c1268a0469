"""Arithmetic over the fields of a point, as a person writes it in a space file.

The text is parsed, checked against a short list of what may stand in it, and walked. Nothing in it
is ever run as Python: no attributes, no subscripts, no calls but those of FUNCTIONS.
"""

import ast
import math
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tilewright.sweep.errors import SpaceError

Number = float
CONSTANTS: Mapping[str, float] = {
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "kHz": 1e3,
    "MHz": 1e6,
    "GHz": 1e9,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "sqrt": math.sqrt,
    "log2": math.log2,
    "ceil": math.ceil,
    "floor": math.floor,
    "round": round,
}
_BINARY: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: math.pow,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}
_MOST_CHARACTERS, _MOST_PARTS = 2000, 400
Look = Callable[[str], float]


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression; `names` are the fields it reads, dots and all."""

    text: str
    tree: ast.expr
    names: tuple[str, ...]

    def value(self, look: Look) -> float:
        """Its number, or 1 and 0 for true and false, where `look` gives a field's number."""
        try:
            found = float(_value(self.tree, look))
        except ZeroDivisionError:
            raise SpaceError(f"'{self.text}' divides by zero") from None
        except (OverflowError, ValueError, TypeError) as error:
            raise SpaceError(f"'{self.text}' has no value: {error}") from None
        if not math.isfinite(found):
            raise SpaceError(f"'{self.text}' has no finite value")
        return found


def parse_expression(text: object) -> Expression:
    """Check an expression; raise `SpaceError` where anything but arithmetic is in it."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise SpaceError(f"{reprlib.repr(text)} is no expression")
    source = str(text).strip()
    if len(source) > _MOST_CHARACTERS:
        raise SpaceError(f"'{source[:40]}...' is too long for an expression")
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SpaceError(f"'{source}' is no expression") from None
    names: dict[str, None] = {}
    count = 0
    waiting: list[ast.expr] = [tree]
    while waiting:  # no recursion: the depth is the user's
        part = waiting.pop()
        count += 1
        if count > _MOST_PARTS:
            raise SpaceError(f"'{source[:40]}...' is too long for an expression")
        waiting += _checked(part, source, names)
    return Expression(source, tree, tuple(names))


def _checked(part: ast.expr, source: str, names: dict[str, None]) -> list[ast.expr]:
    """The parts below one that is allowed; the fields it names are added to `names`."""
    name = _dotted(part)
    if name is not None:
        if name not in CONSTANTS:
            names[name] = None
        return []
    match part:
        case ast.Constant(value=bool()) | ast.Constant(value=int()) | ast.Constant(value=float()):
            return []
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return [left, right]
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() | ast.Not(), operand=operand):
            return [operand]
        case ast.BoolOp(values=values):
            return values
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            type(op) in _COMPARE for op in ops
        ):
            return [left, *others]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return [test, body, orelse]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return arguments
        case _:
            raise SpaceError(
                f"'{source}': '{ast.unparse(part)}' is not allowed; expressions have numbers, "
                f"fields, + - * / // % **, comparisons, and, or, not, if, {', '.join(FUNCTIONS)}"
            )


def _dotted(part: ast.expr) -> str | None:
    """`machine.memories.ddr.bandwidth` as a name; None for anything else."""
    names: list[str] = []
    while isinstance(part, ast.Attribute):
        names.append(part.attr)
        part = part.value
    return ".".join([part.id, *reversed(names)]) if isinstance(part, ast.Name) else None


def _value(part: ast.expr, look: Look) -> float:
    name = _dotted(part)
    if name is not None:
        return CONSTANTS[name] if name in CONSTANTS else look(name)
    match part:
        case ast.Constant(value=number) if isinstance(number, int | float):
            return float(number)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, look), _value(right, look))
        case ast.UnaryOp(op=op, operand=operand):
            number = _value(operand, look)
            if isinstance(op, ast.Not):
                return float(not number)
            return -number if isinstance(op, ast.USub) else number
        case ast.BoolOp(op=op, values=values):
            wants = isinstance(op, ast.Or)
            return float(any(bool(_value(v, look)) == wants for v in values) == wants)
        case ast.Compare(left=left, ops=ops, comparators=others):
            numbers = [_value(each, look) for each in (left, *others)]
            pairs = pairwise(numbers)
            return float(
                all(_COMPARE[type(op)](a, b) for op, (a, b) in zip(ops, pairs, strict=True))
            )
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, look) else orelse, look)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return float(FUNCTIONS[name](*(_value(each, look) for each in arguments)))
        case _:
            raise TypeError("not an expression")
