"""Normalisations as exporters write them out: layer, group and root-mean-square."""

from dataclasses import dataclass

from tilewright.frontend.idioms.matching import Idiom, Matcher
from tilewright.graph.rules import NoMatch, need, optional, require


@dataclass(frozen=True, slots=True)
class _Core:
    """(x - mean) / sqrt(variance + epsilon), or x / sqrt(mean square + epsilon) if not centred."""

    nodes: frozenset[int]
    x: str
    output: str
    axes: tuple[int, ...]
    epsilon: float
    centred: bool


@optional
def written_out(matcher: Matcher, index: int) -> Idiom:
    """A normalisation made of means: the node divides by a root or multiplies by its inverse."""
    core = _core(matcher, index)
    grouped = optional(_grouped)(matcher, core) if core.centred else None
    if grouped is not None:
        return grouped
    shape = need(matcher.shape(core.x))
    require(core.axes == tuple(range(core.axes[0], len(shape))))
    nodes = set(core.nodes)
    kinds = ("Mul", "Add") if core.centred else ("Mul",)
    weights = (1,) * core.axes[0] + shape[core.axes[0] :]
    output, *parts = _affine(matcher, core.output, weights, nodes, kinds)
    x = _before_cast(matcher, core.x, output, nodes)
    parameters = {"axis": core.axes[0] - len(shape), "epsilon": core.epsilon}
    kind = "layer_norm" if core.centred else "rms_norm"
    return matcher.idiom(kind, nodes, (x, *parts), output, parameters)


@optional
def group_norm(matcher: Matcher, index: int) -> Idiom:
    """Reshape to groups, InstanceNormalization with unit scale, Reshape back, scale and bias."""
    node = matcher.node(index)
    require(_filled(matcher, node.inputs[1], 1.0) and _filled(matcher, node.inputs[2], 0.0))
    x, output = node.inputs[0], node.outputs[0]
    axes = tuple(range(2, len(matcher.shape(x) or ())))
    epsilon = node.float_of("epsilon", 1e-5)
    return _grouped(matcher, _Core(frozenset({index}), x, output, axes, epsilon, True))


def _grouped(matcher: Matcher, core: _Core) -> Idiom:
    """A normalisation between a reshape to groups and one back."""
    inner = need(matcher.shape(core.x))
    split = need(matcher.maker(core.x, "Reshape"))
    joined = need(matcher.reader(core.output, "Reshape"))
    x, output = matcher.node(split).inputs[0], matcher.result(joined)
    shape = need(matcher.shape(x))
    ranks = len(inner), len(shape)
    require(ranks[0] > 2 and ranks[1] > 1 and core.axes == tuple(range(2, ranks[0])))
    require(matcher.shape(output) == shape and inner[0] == shape[0])
    require(inner[1] > 0 and not shape[1] % inner[1])
    nodes = {*core.nodes, split, joined}
    channels = (1, shape[1], *(1 for _ in shape[2:]))
    output, *parts = _affine(matcher, output, channels, nodes)
    parameters = {"groups": inner[1], "epsilon": core.epsilon}
    return matcher.idiom("group_norm", nodes, (x, *parts), output, parameters)


def _core(matcher: Matcher, index: int) -> _Core:
    node = matcher.node(index)
    pairs = [node.inputs] if node.kind == "Div" else [node.inputs, node.inputs[::-1]]
    cores = (optional(_core_of)(matcher, index, *pair) for pair in pairs)
    return need(next(filter(None, cores), None))


def _core_of(matcher: Matcher, index: int, numerator: str, denominator: str) -> _Core:
    nodes, output = {index}, matcher.result(index)
    root = _root(matcher, denominator, matcher.is_kind(index, "Mul"), nodes)
    added = need(matcher.maker(matcher.source(root, nodes), "Add"))
    deviation, axes, epsilon = _mean_square(matcher, added, nodes)
    x = optional(_centred)(matcher, deviation, numerator, axes, nodes)
    if x is not None:
        return _Core(frozenset(nodes), x, output, axes, epsilon, True)
    x = deviation
    if numerator != deviation:
        x = matcher.source(deviation, nodes)
        require(matcher.source(numerator, nodes) == x)
    return _Core(frozenset(nodes), x, output, axes, epsilon, False)


def _root(matcher: Matcher, value: str, inverted: bool, nodes: set[int]) -> str:
    """What the root (or its inverse) is taken of."""
    value, exponent = matcher.source(value, nodes), 0.5
    if inverted:
        inverse = matcher.maker(value, "Reciprocal", "Div")
        if inverse is None:
            exponent = -0.5
        else:
            *one, value = matcher.node(inverse).inputs
            require(all(matcher.near(name, 1.0) for name in one))
            nodes.add(inverse)
    root = need(matcher.maker(value, "Sqrt", "Pow"))
    base, *given = matcher.node(root).inputs
    require(matcher.near(given[0], exponent) if given else exponent == 0.5)
    nodes.add(root)
    return base


def _mean_square(
    matcher: Matcher, added: int, nodes: set[int]
) -> tuple[str, tuple[int, ...], float]:
    """What is squared, over which axes the mean goes, and epsilon."""
    for value, small in (matcher.node(added).inputs, matcher.node(added).inputs[::-1]):
        epsilon = matcher.number(small)
        mean = matcher.maker(value, "ReduceMean")
        if epsilon is None or mean is None or not 0.0 <= epsilon < 0.1:
            continue
        axes = _axes(matcher, mean)
        squared = matcher.square(matcher.node(mean).inputs[0], nodes)
        if axes is None or squared is None:
            continue
        nodes |= {added, mean}
        return squared, axes, epsilon
    raise NoMatch


def _centred(
    matcher: Matcher, deviation: str, numerator: str, axes: tuple[int, ...], nodes: set[int]
) -> str:
    """x, where both values are x minus its mean (the same value, or the same written twice)."""
    found: set[int] = set()
    xs: set[str] = set()
    for value in (deviation, numerator):
        minus = need(matcher.maker(matcher.source(value, found), "Sub"))
        x, mean = matcher.node(minus).inputs
        reduced = need(matcher.maker(matcher.source(mean, found), "ReduceMean"))
        averaged = matcher.node(reduced).inputs[0]
        require(_axes(matcher, reduced) == axes)
        require(averaged == x or matcher.source(averaged, found) == x)
        found |= {minus, reduced}
        xs.add(x)
    require(len(xs) == 1)
    nodes |= found
    return xs.pop()


def _axes(matcher: Matcher, index: int) -> tuple[int, ...] | None:
    """The axes a mean goes over, sorted and counted from the front; None if it drops them."""
    node = matcher.node(index)
    shape = matcher.shape(node.inputs[0])
    given = node.ints_of("axes")
    if len(node.inputs) > 1 and node.inputs[1]:
        constant = matcher.graph.constants.get(node.inputs[1])
        if constant is None or constant.data is None:
            return None
        given = tuple(int(axis) for axis in constant.data.reshape(-1))
    if shape is None or not given or node.int_of("keepdims", 1) != 1:
        return None
    return tuple(sorted(axis % len(shape) for axis in given))


def _affine(
    matcher: Matcher,
    value: str,
    shape: tuple[int, ...],
    nodes: set[int],
    kinds: tuple[str, ...] = ("Mul", "Add"),
) -> tuple[str, ...]:
    """Output, scale and bias: a product and a sum with weights of the shape may follow."""
    found = dict.fromkeys(kinds, "")
    for kind in kinds:
        after = _after_cast(matcher, value, kind)
        if not after:
            continue
        inner = value if len(after) == 1 else matcher.result(after[0])
        weight = matcher.other(after[-1], inner)
        if weight is None or weight not in matcher.graph.parameters:
            continue
        given = matcher.shape(weight)
        if given is None or (1,) * (len(shape) - len(given)) + given != shape:
            continue
        nodes.update(after)
        found[kind] = weight
        value = matcher.result(after[-1])
    return value, *found.values()


def _after_cast(matcher: Matcher, value: str, kind: str) -> tuple[int, ...]:
    """The node of the kind that alone reads the value, behind a cast if there is one."""
    index = matcher.reader(value, kind)
    if index is not None:
        return (index,)
    cast = matcher.reader(value, "Cast")
    index = None if cast is None else matcher.reader(matcher.result(cast), kind)
    return () if cast is None or index is None else (cast, index)


def _before_cast(matcher: Matcher, x: str, output: str, nodes: set[int]) -> str:
    """The value before a cast that only the normalisation reads, and that it undoes."""
    before: set[int] = set()
    source = matcher.source(x, before)
    types = matcher.graph.types
    if output not in types or types[source].dtype != types[output].dtype:
        return x
    inner = {name for index in before for name in matcher.node(index).writes}
    readers = {i for name in inner for i in matcher.graph.consumers.get(name, ())}
    if not before or readers - nodes - before or inner & matcher.exposed:
        return x
    nodes |= before
    return source


def _filled(matcher: Matcher, name: str, number: float) -> bool:
    """Whether a weight holds just this number, as far as its numbers are known."""
    constant = matcher.graph.constants.get(name)
    if constant is None:
        return False
    return constant.data is None or bool((constant.data == number).all())
