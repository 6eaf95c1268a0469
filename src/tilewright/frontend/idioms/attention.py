"""Attention, and squeeze-and-excite: regions that a planner treats as one."""

from dataclasses import dataclass

from tilewright.frontend.idioms.matching import Idiom, Matcher

LONGEST_CHAIN = 8
VIEWS = ("Reshape", "Squeeze", "Unsqueeze")
LARGEST_GATE = 12
# fmt: off
GATE_KINDS = frozenset({
    "Conv", "Gemm", "MatMul", "Add", "Mul", "Div", "BatchNormalization", "Identity", "Erf", "Gelu",
    "Relu", "PRelu", "LeakyRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh",
    "Mish", "Swish", "Softplus",
    "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose",
})
# fmt: on


@dataclass(slots=True)
class _Scores:
    """The product of queries and keys on its way into the softmax."""

    product: int
    nodes: set[int]
    scale: float


def attention(matcher: Matcher, index: int) -> Idiom | None:
    """softmax(scale q k + mask) v, the softmax given.

    The scale may be on the scores, or on queries or keys right before their product; reshapes and
    transposes that make the heads stay outside.
    """
    node = matcher.node(index)
    shape = matcher.shape(node.inputs[0])
    if shape is None or len(shape) < 2 or node.int_of("axis", -1) % len(shape) != len(shape) - 1:
        return None
    scores = _scores(matcher, node.inputs[0], LONGEST_CHAIN)
    if scores is None:
        return None
    nodes = scores.nodes | {index}
    product = _weighted(matcher, node.outputs[0], nodes)
    if product is None:
        return None
    weights, values = matcher.node(product).inputs
    if weights == values:
        return None
    nodes.add(product)
    queries, keys = matcher.node(scores.product).inputs
    queries, before = _scaled(matcher, queries, scores.product, nodes)
    keys, behind = _scaled(matcher, keys, scores.product, nodes)
    core = (queries, keys, values)
    made = {name for i in nodes for name in matcher.node(i).writes}
    if made & set(core):
        return None
    masks = [
        name
        for i in sorted(nodes)
        for name in matcher.node(i).reads
        if name not in made and name not in core and not _is_parameter(matcher, name)
    ]
    inputs = (*core, *dict.fromkeys(masks))
    parameters = {"scale": scores.scale * before * behind}
    return matcher.idiom("attention", nodes, inputs, matcher.result(product), parameters)


def _is_parameter(matcher: Matcher, name: str) -> bool:
    """Whether a value is a single number or a shape, not a mask."""
    kind = matcher.graph.types.get(name)
    return (
        name in matcher.graph.constants
        and kind is not None
        and (kind.size == 1 or kind.dtype == "int64")
    )


def _scores(matcher: Matcher, value: str, depth: int) -> _Scores | None:
    """Walk back from the softmax, over scale and mask, to the product of queries and keys."""
    index = matcher.graph.producer.get(value)
    if index is None or not depth or len(matcher.graph.consumers.get(value, ())) != 1:
        return None
    if not matcher.sound[index] or value in matcher.exposed:
        return None
    node = matcher.node(index)
    factor, ways = 1.0, tuple[str, ...]()
    match node.kind:
        case "MatMul":
            return _Scores(index, {index}, 1.0)
        case "Mul" | "Div":
            for operand, other in (node.inputs, node.inputs[::-1]):
                number = matcher.number(other)
                if number and (node.kind == "Mul" or other == node.inputs[1]):
                    factor = number if node.kind == "Mul" else 1 / number
                    ways = (operand,)
        case "Add" | "Max":
            ways = tuple(name for name in node.inputs if name not in matcher.graph.parameters)
        case "Sub" | "Cast" | "Identity" | "Dropout" | "Clip":
            ways = node.inputs[:1]
        case "Where":
            ways = node.inputs[1:]
        case _:
            if node.kind in VIEWS and _keeps_matrix(matcher, node.inputs[0], value):
                ways = node.inputs[:1]
    for way in ways:
        if _batchless(matcher, way, value):
            continue
        found = _scores(matcher, way, depth - 1)
        if found is not None:
            found.nodes.add(index)
            found.scale *= factor
            return found
    return None


def _keeps_matrix(matcher: Matcher, before: str, after: str) -> bool:
    """Whether a view only regroups heads: rows and columns stay."""
    shapes = matcher.shape(before), matcher.shape(after)
    return all(shape is not None and len(shape) >= 2 for shape in shapes) and (
        (shapes[0] or ())[-2:] == (shapes[1] or ())[-2:]
    )


def _batchless(matcher: Matcher, operand: str, result: str) -> bool:
    """Whether the operand is broadcast: a mask or a bias, not the scores."""
    kinds = matcher.graph.types.get(operand), matcher.graph.types.get(result)
    return kinds[0] is None or kinds[1] is None or kinds[0].size != kinds[1].size


def _weighted(matcher: Matcher, value: str, nodes: set[int]) -> int | None:
    """Walk on from the softmax, over casts and guards, to the product with the values."""
    for _ in range(LONGEST_CHAIN):
        product = matcher.reader(value, "MatMul")
        if product is not None:
            return product if matcher.node(product).inputs[0] == value else None
        guard = _nan_guard(matcher, value)
        if guard:
            nodes.update(guard)
            value = matcher.result(guard[-1])
            continue
        step = matcher.reader(value, "Cast", "Dropout", "Identity", "Where", *VIEWS)
        if step is None:
            return None
        node = matcher.node(step)
        if node.kind in VIEWS and not _keeps_matrix(matcher, value, node.outputs[0]):
            return None
        if node.kind != "Where" and node.inputs[0] != value:
            return None
        nodes.add(step)
        value = node.outputs[0]
    return None


def _nan_guard(matcher: Matcher, value: str) -> tuple[int, ...]:
    """Where(IsNaN(p), 0, p): what torch adds for rows that are masked entirely."""
    readers = matcher.graph.consumers.get(value, ())
    if len(readers) != 2 or value in matcher.exposed:
        return ()
    if not (matcher.is_kind(readers[0], "IsNaN") and matcher.is_kind(readers[1], "Where")):
        return ()
    test, choice = (matcher.node(index) for index in readers)
    if choice.inputs[0] != test.outputs[0] or choice.inputs[2] != value:
        return ()
    return readers


def _scaled(matcher: Matcher, value: str, product: int, nodes: set[int]) -> tuple[str, float]:
    """The value before a scale that only the product sees, and the scale."""
    index = matcher.maker(value, "Mul", "Div")
    if index is None or matcher.reader(value, "MatMul") != product:
        return value, 1.0
    node = matcher.node(index)
    for operand, other in (node.inputs, node.inputs[::-1]):
        number = matcher.number(other)
        if not number or (node.kind == "Div" and other != node.inputs[1]):
            continue
        nodes.add(index)
        return operand, number if node.kind == "Mul" else 1 / number
    return value, 1.0


def squeeze_excite(matcher: Matcher, index: int) -> Idiom | None:
    """x times a gate per channel that is computed from the mean of x over the image."""
    pool = matcher.node(index)
    x = pool.inputs[0]
    before, after = matcher.shape(x), matcher.shape(pool.outputs[0])
    if before is None or after is None or len(before) < 3 or after[:2] != before[:2]:
        return None
    if any(extent != 1 for extent in after[2:]):
        return None
    nodes = {index}
    todo = list(matcher.graph.consumers.get(pool.outputs[0], ()))
    product: int | None = None
    while todo and len(nodes) <= LARGEST_GATE:
        step = todo.pop()
        node = matcher.node(step)
        if step in nodes:
            continue
        if not matcher.is_kind(step, *GATE_KINDS):
            return None
        nodes.add(step)
        if x in node.inputs:
            if node.kind != "Mul" or product is not None:
                return None
            product = step
            continue
        todo += matcher.graph.consumers.get(node.outputs[0], ())
    if todo or product is None or matcher.shape(matcher.result(product)) != before:
        return None
    return matcher.idiom("squeeze_excite", nodes, (x,), matcher.result(product), {})
