"""Activations as exporters write them out: GELU, SiLU, hard swish, Mish."""

from collections.abc import Callable
from math import pi, sqrt

from tilewright.frontend.idioms.matching import (
    Idiom,
    Matcher,
    Parameter,
    Polynomial,
    same_polynomial,
)
from tilewright.graph.rules import NoMatch, need, optional, require

ERF_ARGUMENT: Polynomial = (0.0, 1 / sqrt(2))
TANH_ARGUMENT: Polynomial = (0.0, sqrt(2 / pi), 0.0, 0.044715 * sqrt(2 / pi))
LONGEST_PRODUCT = 3


@optional
def gelu(matcher: Matcher, index: int) -> Idiom:
    """x/2 (1 + erf(x/sqrt 2)), or the same with tanh, the factors in any order."""
    node = matcher.node(index)
    exact = node.kind == "Erf"
    wanted = ERF_ARGUMENT if exact else TANH_ARGUMENT
    plus = need(matcher.reader(node.outputs[0], "Add"))
    require(matcher.near(need(matcher.other(plus, node.outputs[0])), 1.0))

    def accepted(found: Polynomial) -> dict[str, Parameter]:
        require(same_polynomial(found, wanted, matcher.tolerance(node.outputs[0])))
        return {"approximate": "none" if exact else "tanh"}

    return _gated(matcher, "gelu", (index, plus), accepted, 0.5)


def by_tanh(matcher: Matcher, index: int) -> Idiom | None:
    """What a hyperbolic tangent is part of: a GELU, or a Mish."""
    return gelu(matcher, index) or mish(matcher, index)


@optional
def mish(matcher: Matcher, index: int) -> Idiom:
    """x tanh(softplus(x)); the softplus may be written as log(1 + exp(x))."""
    inside = need(matcher.maker(matcher.node(index).inputs[0], "Softplus", "Log"))
    nodes = {index, inside}
    x = matcher.node(inside).inputs[0]
    if matcher.is_kind(inside, "Log"):
        x = matcher.node(_one_plus_power(matcher, x, nodes)).inputs[0]
    product = need(matcher.reader(matcher.result(index), "Mul"))
    require(matcher.other(product, matcher.result(index)) == x)
    return matcher.idiom("mish", {*nodes, product}, (x,), matcher.result(product), {})


@optional
def silu_by_exp(matcher: Matcher, index: int) -> Idiom:
    """x / (1 + exp(-beta x))."""
    plus = need(matcher.reader(matcher.result(index), "Add"))
    quotient = need(matcher.reader(matcher.result(plus), "Div"))
    nodes = {plus, quotient}
    x, denominator = matcher.node(quotient).inputs
    require(denominator == matcher.result(plus))
    _one_plus_power(matcher, denominator, nodes)
    found = need(matcher.polynomial(matcher.node(index).inputs[0], x, nodes))
    require(len(found) == 2 and found[0] == 0.0 and found[1] < 0.0)
    result = matcher.result(quotient)
    require(need(matcher.shape(x)) == matcher.shape(result))
    return matcher.idiom("silu", nodes, (x,), result, {"beta": -found[1]})


def _one_plus_power(matcher: Matcher, value: str, nodes: set[int]) -> int:
    """The Exp whose result and one add up to the value; both nodes join the nodes."""
    plus = need(matcher.maker(value, "Add"))
    for side in matcher.node(plus).inputs:
        power, one = matcher.maker(side, "Exp"), matcher.other(plus, side)
        if power is not None and one is not None and matcher.near(one, 1.0):
            nodes |= {plus, power}
            return power
    raise NoMatch


@optional
def silu(matcher: Matcher, index: int) -> Idiom:
    """x sigmoid(beta x); beta is 1 in SiLU and 1.702 in the quick GELU of CLIP."""

    def accepted(found: Polynomial) -> dict[str, Parameter]:
        require(len(found) == 2 and found[0] == 0.0 and found[1] > 0.0)
        return {"beta": found[1]}

    return _gated(matcher, "silu", (index,), accepted, 1.0)


@optional
def hard_swish(matcher: Matcher, index: int) -> Idiom:
    """x HardSigmoid(x), or x clip(x + 3, 0, 6) / 6 with the division anywhere."""
    node = matcher.node(index)
    tolerance = matcher.tolerance(node.outputs[0])
    hard = node.kind == "HardSigmoid"
    if hard:
        given = node.float_of("beta", 0.5), node.float_of("alpha", 0.2)
        require(same_polynomial(given, (0.5, 1 / 6), tolerance))
    else:
        require(len(node.inputs) == 3)
        require(matcher.near(node.inputs[1], 0.0) and matcher.near(node.inputs[2], 6.0))

    def accepted(found: Polynomial) -> dict[str, Parameter]:
        require(found == (0.0, 1.0) if hard else same_polynomial(found, (3.0, 1.0), tolerance))
        return {}

    return _gated(matcher, "hard_swish", (index,), accepted, 1.0 if hard else 1 / 6)


Accepted = Callable[[Polynomial], dict[str, Parameter]]
"""What follows from the argument of a gate, as a polynomial of x that is required to fit."""


def _gated(
    matcher: Matcher, kind: str, gate: tuple[int, ...], accepted: Accepted, wanted: float
) -> Idiom:
    """wanted * x * gate(x): climb the products above the gate until they are just that.

    The first node of the gate has the argument, which must be an accepted polynomial of x.
    """
    argument, value = matcher.node(gate[0]).inputs[0], matcher.result(gate[-1])
    tolerance = matcher.tolerance(value)
    nodes, parameters = set(gate), dict[str, Parameter]()
    x, factor = "", 1.0
    for _ in range(LONGEST_PRODUCT):
        index = need(matcher.reader(value, "Mul", "Div"))
        other, times = need(matcher.other(index, value)), matcher.is_kind(index, "Mul")
        require(times or matcher.node(index).inputs[0] == value)
        number = matcher.number(other)
        if number:
            factor *= number if times else 1 / number
        else:
            require(times and not x)
            x, part, parameters = _variable(matcher, argument, other, accepted, nodes)
            factor *= part
        nodes.add(index)
        value = matcher.result(index)
        if x and same_polynomial((factor,), (wanted,), tolerance):
            require(need(matcher.shape(x)) == matcher.shape(value))
            return matcher.idiom(kind, nodes, (x,), value, parameters)
    raise NoMatch


def _variable(
    matcher: Matcher, argument: str, factor: str, accepted: Accepted, nodes: set[int]
) -> tuple[str, float, dict[str, Parameter]]:
    """x, c and parameters, where the factor is c x and the argument an accepted polynomial of x."""
    candidates = [factor]
    maker = matcher.maker(factor, "Mul", "Div")
    if maker is not None:
        candidates += [n for n in matcher.node(maker).inputs if matcher.number(n) is None]
    for x in candidates:
        inner: set[int] = set()
        found = matcher.polynomial(argument, x, inner)
        part = matcher.polynomial(factor, x, inner)
        if found is None or part is None or len(part) != 2 or part[0] != 0.0:
            continue
        parameters = optional(accepted)(found)
        if parameters is not None:
            nodes |= inner
            return x, part[1], parameters
    raise NoMatch
