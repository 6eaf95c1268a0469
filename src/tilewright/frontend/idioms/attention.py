"""Attention, and squeeze-and-excite: regions that a planner treats as one."""

from tilewright.frontend.idioms.matching import Idiom, Matcher
from tilewright.graph.rules import NoMatch, need, optional, require

LONGEST_CHAIN = 8
VIEWS = ("Reshape", "Squeeze", "Unsqueeze")
LARGEST_GATE = 12
GATE_KINDS = frozenset(
    (
        "Conv Gemm MatMul Add Mul Div BatchNormalization Identity Erf Gelu Relu PRelu "
        "LeakyRelu Clip Sigmoid HardSigmoid HardSwish Tanh Mish Swish Softplus Reshape "
        "Flatten Squeeze Unsqueeze Transpose"
    ).split()
)


@optional
def attention(matcher: Matcher, index: int) -> Idiom:
    """softmax(scale q k + mask) v, the softmax given.

    The scale may be on the scores, or on queries or keys right before their product; reshapes and
    transposes that make the heads stay outside.
    """
    node = matcher.node(index)
    rank = len(need(matcher.shape(node.inputs[0])))
    require(rank >= 2 and node.int_of("axis", -1) % rank == rank - 1)
    scores, nodes, scale = need(_scores(matcher, node.inputs[0], LONGEST_CHAIN))
    nodes.add(index)
    product = _weighted(matcher, node.outputs[0], nodes)
    weights, values = matcher.node(product).inputs
    require(weights != values)
    nodes.add(product)
    queries, keys = matcher.node(scores).inputs
    queries, before = _scaled(matcher, queries, scores, nodes)
    keys, behind = _scaled(matcher, keys, scores, nodes)
    core = (queries, keys, values)
    made = {name for i in nodes for name in matcher.node(i).writes}
    require(not made & set(core))
    masks = [
        name
        for i in sorted(nodes)
        for name in matcher.node(i).reads
        if name not in made and name not in core and not _is_parameter(matcher, name)
    ]
    inputs = (*core, *dict.fromkeys(masks))
    parameters = {"scale": scale * before * behind}
    return matcher.idiom("attention", nodes, inputs, matcher.result(product), parameters)


def _is_parameter(matcher: Matcher, name: str) -> bool:
    """Whether a value is a single number or a shape, not a mask."""
    kind = matcher.graph.types.get(name)
    return (
        name in matcher.graph.constants
        and kind is not None
        and (kind.size == 1 or kind.dtype == "int64")
    )


@optional
def _scores(matcher: Matcher, value: str, depth: int) -> tuple[int, set[int], float]:
    """Walk back from the softmax to the product of queries and keys: it, all on the way, the scale
    there."""
    index = need(matcher.graph.producer.get(value))
    require(depth > 0 and len(matcher.graph.consumers.get(value, ())) == 1)
    require(matcher.sound[index] and value not in matcher.exposed)
    node = matcher.node(index)
    factor, ways = 1.0, tuple[str, ...]()
    match node.kind:
        case "MatMul":
            return index, {index}, 1.0
        case "Mul" | "Div":
            operand, factor = need(_scale(matcher, index))
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
        found = None if _batchless(matcher, way, value) else _scores(matcher, way, depth - 1)
        if found is not None:
            product, nodes, scale = found
            return product, nodes | {index}, scale * factor
    raise NoMatch


def _keeps_matrix(matcher: Matcher, before: str, after: str) -> bool:
    """Whether a view only regroups heads: rows and columns stay."""
    rows = (matcher.shape(before) or ())[-2:]
    return len(rows) == 2 and rows == (matcher.shape(after) or ())[-2:]


def _batchless(matcher: Matcher, operand: str, result: str) -> bool:
    """Whether the operand is broadcast: a mask or a bias, not the scores."""
    kinds = matcher.graph.types.get(operand), matcher.graph.types.get(result)
    return kinds[0] is None or kinds[1] is None or kinds[0].size != kinds[1].size


def _weighted(matcher: Matcher, value: str, nodes: set[int]) -> int:
    """Walk on from the softmax, over casts and guards, to the product with the values."""
    for _ in range(LONGEST_CHAIN):
        product = matcher.reader(value, "MatMul")
        if product is not None:
            require(matcher.node(product).inputs[0] == value)
            return product
        guard = _nan_guard(matcher, value)
        if guard:
            nodes.update(guard)
            value = matcher.result(guard[-1])
            continue
        step = need(matcher.reader(value, "Cast", "Dropout", "Identity", "Where", *VIEWS))
        node = matcher.node(step)
        require(node.kind not in VIEWS or _keeps_matrix(matcher, value, node.outputs[0]))
        require(node.kind == "Where" or node.inputs[0] == value)
        nodes.add(step)
        value = node.outputs[0]
    raise NoMatch


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
    found = _scale(matcher, index)
    if found is None:
        return value, 1.0
    nodes.add(index)
    return found


def _scale(matcher: Matcher, index: int) -> tuple[str, float] | None:
    """The operand of a product or quotient whose other one is a number, and the factor."""
    node = matcher.node(index)
    for operand, other in (node.inputs, node.inputs[::-1]):
        number = matcher.number(other)
        if number and (node.kind == "Mul" or other == node.inputs[1]):
            return operand, number if node.kind == "Mul" else 1 / number
    return None


@optional
def squeeze_excite(matcher: Matcher, index: int) -> Idiom:
    """x times a gate per channel that is computed from the mean of x over the image."""
    pool = matcher.node(index)
    x = pool.inputs[0]
    before, after = need(matcher.shape(x)), need(matcher.shape(pool.outputs[0]))
    require(len(before) > 2 and after[:2] == before[:2] and set(after[2:]) <= {1})
    nodes = {index}
    todo = list(matcher.graph.consumers.get(pool.outputs[0], ()))
    product: int | None = None
    while todo and len(nodes) <= LARGEST_GATE:
        step = todo.pop()
        node = matcher.node(step)
        if step in nodes:
            continue
        require(matcher.is_kind(step, *GATE_KINDS))
        nodes.add(step)
        if x in node.inputs:
            require(node.kind == "Mul" and product is None)
            product = step
            continue
        todo += matcher.graph.consumers.get(node.outputs[0], ())
    result = matcher.result(need(product))
    require(not todo and matcher.shape(result) == before)
    return matcher.idiom("squeeze_excite", nodes, (x,), result, {})
