"""Activations as exporters write them out: GELU, SiLU, hard swish, Mish."""

from collections.abc import Callable
from math import pi, sqrt

from tilewright.frontend.idioms.matching import Idiom, Matcher, Polynomial, same_polynomial

ERF_ARGUMENT: Polynomial = (0.0, 1 / sqrt(2))
TANH_ARGUMENT: Polynomial = (0.0, sqrt(2 / pi), 0.0, 0.044715 * sqrt(2 / pi))
LONGEST_PRODUCT = 3


def gelu(matcher: Matcher, index: int) -> Idiom | None:
    """x/2 (1 + erf(x/sqrt 2)), or the same with tanh, the factors in any order."""
    node = matcher.node(index)
    exact = node.kind == "Erf"
    wanted = ERF_ARGUMENT if exact else TANH_ARGUMENT
    plus = matcher.reader(node.outputs[0], "Add")
    if plus is None:
        return None
    one = matcher.other(plus, node.outputs[0])
    if one is None or not matcher.near(one, 1.0):
        return None

    def accepts(found: Polynomial) -> bool:
        return same_polynomial(found, wanted, matcher.tolerance(node.outputs[0]))

    parameters = {"approximate": "none" if exact else "tanh"}
    return _gated(matcher, "gelu", (index, plus), accepts, 0.5, parameters)


def by_tanh(matcher: Matcher, index: int) -> Idiom | None:
    """What a hyperbolic tangent is part of: a GELU, or a Mish."""
    return gelu(matcher, index) or mish(matcher, index)


def mish(matcher: Matcher, index: int) -> Idiom | None:
    """x tanh(softplus(x)); the softplus may be written as log(1 + exp(x))."""
    value = matcher.node(index).inputs[0]
    inside = matcher.maker(value, "Softplus", "Log")
    if inside is None:
        return None
    nodes = {index, inside}
    x = matcher.node(inside).inputs[0]
    if matcher.is_kind(inside, "Log"):
        power = _one_plus_power(matcher, x, nodes)
        if power is None:
            return None
        x = matcher.node(power).inputs[0]
    product = matcher.reader(matcher.result(index), "Mul")
    if product is None or matcher.other(product, matcher.result(index)) != x:
        return None
    nodes.add(product)
    return matcher.idiom("mish", nodes, (x,), matcher.result(product), {})


def silu_by_exp(matcher: Matcher, index: int) -> Idiom | None:
    """x / (1 + exp(-beta x))."""
    plus = matcher.reader(matcher.result(index), "Add")
    quotient = matcher.reader(matcher.result(plus), "Div") if plus is not None else None
    if plus is None or quotient is None:
        return None
    nodes = {plus, quotient}
    x, denominator = matcher.node(quotient).inputs
    if denominator != matcher.result(plus) or _one_plus_power(matcher, denominator, nodes) is None:
        return None
    found = matcher.polynomial(matcher.node(index).inputs[0], x, nodes)
    if found is None or len(found) != 2 or found[0] != 0.0 or found[1] >= 0.0:
        return None
    result = matcher.result(quotient)
    if matcher.shape(x) is None or matcher.shape(x) != matcher.shape(result):
        return None
    return matcher.idiom("silu", nodes, (x,), result, {"beta": -found[1]})


def _one_plus_power(matcher: Matcher, value: str, nodes: set[int]) -> int | None:
    """The Exp whose result and one add up to the value; both nodes join the nodes."""
    plus = matcher.maker(value, "Add")
    for side in matcher.node(plus).inputs if plus is not None else ():
        power = matcher.maker(side, "Exp")
        one = matcher.other(plus, side) if plus is not None else None
        if power is not None and plus is not None and one is not None and matcher.near(one, 1.0):
            nodes |= {plus, power}
            return power
    return None


def silu(matcher: Matcher, index: int) -> Idiom | None:
    """x sigmoid(beta x); beta is 1 in SiLU and 1.702 in the quick GELU of CLIP."""
    slope: list[float] = []

    def accepts(found: Polynomial) -> bool:
        if len(found) != 2 or found[0] != 0.0 or found[1] <= 0.0:
            return False
        slope[:] = [found[1]]
        return True

    found = _gated(matcher, "silu", (index,), accepts, 1.0, {})
    if found is None:
        return None
    return Idiom("silu", found.nodes, found.inputs, found.outputs, {"beta": slope[0]})


def hard_swish(matcher: Matcher, index: int) -> Idiom | None:
    """x HardSigmoid(x), or x clip(x + 3, 0, 6) / 6 with the division anywhere."""
    node = matcher.node(index)
    tolerance = matcher.tolerance(node.outputs[0])
    if node.kind == "HardSigmoid":
        given = node.float_of("beta", 0.5), node.float_of("alpha", 0.2)
        if not same_polynomial(given, (0.5, 1 / 6), tolerance):
            return None
        return _gated(matcher, "hard_swish", (index,), lambda found: found == (0.0, 1.0), 1.0, {})
    if len(node.inputs) != 3:
        return None
    if not (matcher.near(node.inputs[1], 0.0) and matcher.near(node.inputs[2], 6.0)):
        return None

    def accepts(found: Polynomial) -> bool:
        return same_polynomial(found, (3.0, 1.0), tolerance)

    return _gated(matcher, "hard_swish", (index,), accepts, 1 / 6, {})


def _gated(
    matcher: Matcher,
    kind: str,
    gate: tuple[int, ...],
    accepts: Callable[[Polynomial], bool],
    wanted: float,
    parameters: dict[str, str],
) -> Idiom | None:
    """wanted * x * gate(x): climb the products above the gate until they are just that.

    The first node of the gate has the argument, which must be an accepted polynomial of x.
    """
    argument = matcher.node(gate[0]).inputs[0]
    value = matcher.result(gate[-1])
    tolerance = matcher.tolerance(value)
    nodes = set(gate)
    x, factor = "", 1.0
    for _ in range(LONGEST_PRODUCT):
        index = matcher.reader(value, "Mul", "Div")
        if index is None:
            return None
        node = matcher.node(index)
        other = matcher.other(index, value)
        if other is None or (node.kind == "Div" and node.inputs[0] != value):
            return None
        number = matcher.number(other)
        if number is not None and number != 0.0:
            factor *= number if node.kind == "Mul" else 1 / number
        elif x or node.kind == "Div":
            return None
        else:
            found = _variable(matcher, argument, other, accepts, nodes)
            if found is None:
                return None
            x, part = found
            factor *= part
        nodes.add(index)
        value = matcher.result(index)
        if x and same_polynomial((factor,), (wanted,), tolerance):
            if matcher.shape(x) is None or matcher.shape(x) != matcher.shape(value):
                return None
            return matcher.idiom(kind, nodes, (x,), value, parameters)
    return None


def _variable(
    matcher: Matcher,
    argument: str,
    factor: str,
    accepts: Callable[[Polynomial], bool],
    nodes: set[int],
) -> tuple[str, float] | None:
    """x and c, where the factor is c x and the argument is an accepted polynomial of x."""
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
        if accepts(found):
            nodes |= inner
            return x, part[1]
    return None
