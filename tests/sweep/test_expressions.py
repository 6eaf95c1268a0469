"""Expressions of a space: arithmetic, and nothing that runs."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.sweep.errors import SpaceError
from tilewright.sweep.expression import parse_expression

FIELDS = {"a": 3.0, "b": 0.5, "machine.memories.ddr.bandwidth": 27e9}

pytestmark = pytest.mark.quick


def value(text: object) -> float:
    return parse_expression(text).value(FIELDS.__getitem__)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + 2 * b", 4.0),
        ("2 ** a - 1", 7.0),
        ("-a // 2", -2.0),
        ("7 % a", 1.0),
        ("a <= 3 and not b > 1", 1.0),
        ("a < 3 or b < 0", 0.0),
        ("1 < a <= 3", 1.0),
        ("min(a, b, 9) + max(a, b)", 3.5),
        ("10 if a > b else 20", 10.0),
        ("machine.memories.ddr.bandwidth / GB", 27.0),
        ("512 * KiB / MiB", 0.5),
        ("ceil(b) + floor(b) + round(2.4) + sqrt(4) + log2(8) + abs(-1)", 9.0),
        (12, 12.0),
    ],
)
def test_values(text: object, expected: float) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch HACKED')",
        "open('x', 'w')",
        "(lambda: 1)()",
        "[x for x in (1, 2)]",
        "a.__class__.__mro__[1]",
        "().__class__",
        "'a' * 9",
        "f'{a}'",
        "eval('1')",
        "min(*[1, 2])",
        "min(a, key=abs)",
        "a if (b := 3) else 1",
        "{1: 2}",
        "a @ b",
        "1 << 9",
        "a in (1, 2)",
        "1j",
        "import os",
        "a; b",
        "",
        "a b",
        True,
        None,
        [1],
        "(" * 300 + "1" + ")" * 300,
        "+".join(["1"] * 3000),
        "9" * 5000,
    ],
)
def test_refused(text: object) -> None:
    with pytest.raises(SpaceError):
        parse_expression(text)


@pytest.mark.parametrize("text", ["1 / 0", "9.0 ** 9 ** 9 ** 9", "sqrt(-1)", "1e300 * 1e300"])
def test_no_value(text: str) -> None:
    with pytest.raises(SpaceError):
        value(text)


@given(st.text(max_size=60))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    try:
        expression = parse_expression(text)
    except SpaceError:
        return
    allowed = (ast.Call, ast.Name, ast.Attribute, ast.Constant, ast.operator, ast.cmpop, ast.expr)
    assert isinstance(expression.tree, allowed)
    for part in ast.walk(expression.tree):
        assert not isinstance(part, ast.Subscript | ast.Lambda | ast.comprehension | ast.Starred)


NUMBER = st.integers(0, 9).map(str)
ARITHMETIC = st.recursive(
    NUMBER | st.sampled_from(["a", "b"]),
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({''.join(t)})"),
    max_leaves=12,
)


@given(ARITHMETIC)
def test_arithmetic_is_that_of_python(text: str) -> None:
    assert value(text) == pytest.approx(eval(text, {}, dict(FIELDS)))
