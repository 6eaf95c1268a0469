"""Which input elements influence which output elements, worked out naively, element by element.

Written without the geometry it checks: windows are loops over taps, data movement is the real
operator run on element numbers.
"""

from dataclasses import replace
from itertools import product

import numpy as np

from tilewright.execute.runtime import run
from tilewright.frontend.save import serialize
from tilewright.geometry.box import Box
from tilewright.geometry.interval import Interval
from tilewright.graph.graph import Array, Constant, Graph, Node, constant_of

ELEMENTWISE = frozenset("Relu Neg Abs Sigmoid Tanh Add Sub Max Min Mul Identity".split())
MOVEMENT = frozenset(
    "Concat Split Slice Transpose Reshape Pad DepthToSpace SpaceToDepth Tile Gather".split()
)
POOLS = frozenset({"MaxPool", "AveragePool", "LpPool"})


def relation(graph: Graph, node: Node, output: int, operand: int) -> Array:
    """A boolean array [elements of the output, elements of the input]: does one need the other?"""
    shape = graph.types[node.inputs[operand]].shape
    result = graph.types[node.outputs[output]].shape
    if node.kind in ELEMENTWISE:
        return _from_sources(np.broadcast_to(_numbers(shape), result), shape)
    if node.kind in MOVEMENT:
        return _from_sources(_moved(graph, node, output, operand), shape)
    if node.kind == "Conv" or node.kind in POOLS:
        return _window(graph, node, shape, result)
    if node.kind == "ConvTranspose":
        return _transposed(graph, node, shape, result)
    raise NotImplementedError(node.kind)


def understood(node: Node) -> bool:
    """Whether `relation` knows the operator."""
    return node.kind in ELEMENTWISE | MOVEMENT | POOLS | {"Conv", "ConvTranspose"}


def _numbers(shape: tuple[int, ...]) -> Array:
    """Elements numbered from 1; 0 stands for what comes from nowhere."""
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.int64).reshape(shape)


def _from_sources(sources: Array, shape: tuple[int, ...]) -> Array:
    needs = np.zeros((sources.size, int(np.prod(shape)) + 1), dtype=bool)
    needs[np.arange(sources.size), sources.reshape(-1)] = True
    return needs[:, 1:]


def _without_numbers(constant: Constant) -> Constant:
    """Lists of integers steer an operator; floats (what padding is filled with) become 0."""
    assert constant.data is not None
    return constant if constant.type.dtype == "int64" else constant_of(np.zeros_like(constant.data))


def _moved(graph: Graph, node: Node, output: int, operand: int) -> Array:
    """The operator itself, in onnxruntime, on the element numbers of one input."""
    kinds = {name: graph.types[name] for name in node.inputs if name not in graph.constants}
    result = graph.types[node.outputs[output]]
    alone = replace(
        graph,
        nodes=(replace(node, inputs=tuple(n and f"i{k}" for k, n in enumerate(node.inputs))),),
        inputs=tuple(f"i{k}" for k, n in enumerate(node.inputs) if n in kinds),
        outputs=node.outputs,
        types={f"i{k}": graph.types[n] for k, n in enumerate(node.inputs) if n}
        | {name: graph.types[name] for name in node.outputs},
        constants={
            f"i{k}": _without_numbers(graph.constants[n])
            for k, n in enumerate(node.inputs)
            if n in graph.constants
        },
    )
    feeds = {
        f"i{k}": (_numbers(kinds[n].shape) if k == operand else np.zeros(kinds[n].shape))
        for k, n in enumerate(node.inputs)
        if n in kinds
    }
    sources = run(serialize(alone), {n: v.astype(result.dtype) for n, v in feeds.items()})
    return sources[node.outputs[output]].astype(np.int64)


def _attribute(node: Node, name: str, rank: int, default: int) -> tuple[int, ...]:
    value = node.attributes.get(name, (default,) * rank)
    assert isinstance(value, tuple)
    return value  # type: ignore[return-value]


def _pads(
    node: Node, shape: tuple[int, ...], result: tuple[int, ...], full: tuple[int, ...]
) -> list[int]:
    """Padding before, per spatial axis; `full` is the extent of a dilated kernel."""
    rank, mode = len(full), node.attributes.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", "VALID"):
        return list(_attribute(node, "pads", 2 * rank, 0)[:rank])
    strides = _attribute(node, "strides", rank, 1)
    pads = []
    for axis in range(rank):
        total = max(0, (result[2 + axis] - 1) * strides[axis] + full[axis] - shape[2 + axis])
        pads.append(total // 2 if mode == "SAME_UPPER" else total - total // 2)
    return pads


def _taps(graph: Graph, node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if node.kind in POOLS:
        kernel = node.attributes["kernel_shape"]
    else:
        kernel = graph.types[node.inputs[1]].shape[2:]
    return kernel, _attribute(node, "dilations", len(kernel), 1)  # type: ignore[arg-type, return-value]


def _window(graph: Graph, node: Node, shape: tuple[int, ...], result: tuple[int, ...]) -> Array:
    kernel, dilations = _taps(graph, node)
    strides = _attribute(node, "strides", len(kernel), 1)
    full = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    pads = _pads(node, shape, result, full)
    groups = node.attributes.get("group", 1)
    needs = np.zeros((*result, *shape), dtype=bool)
    for place in product(*(range(extent) for extent in result)):
        image, channel, *spatial = place
        if node.kind == "Conv":
            group = channel * groups // result[1]
            size = shape[1] // groups
            channels = slice(group * size, (group + 1) * size)
        else:
            channels = slice(channel, channel + 1)
        for tap in product(*(range(k) for k in kernel)):
            position = [
                o * s + t * d - p
                for o, s, t, d, p in zip(spatial, strides, tap, dilations, pads, strict=True)
            ]
            if all(0 <= i < extent for i, extent in zip(position, shape[2:], strict=True)):
                needs[(*place, image, channels, *position)] = True
    return needs.reshape(int(np.prod(result)), -1)


def _transposed(graph: Graph, node: Node, shape: tuple[int, ...], result: tuple[int, ...]) -> Array:
    """Scatter: every input element adds a kernel's worth of outputs."""
    kernel, dilations = _taps(graph, node)
    strides = _attribute(node, "strides", len(kernel), 1)
    pads = list(_attribute(node, "pads", 2 * len(kernel), 0)[: len(kernel)])
    mode = node.attributes.get("auto_pad", "NOTSET")
    if "output_shape" in node.attributes or mode in ("SAME_UPPER", "SAME_LOWER"):
        for a, (k, d, s) in enumerate(zip(kernel, dilations, strides, strict=True)):
            total = (shape[2 + a] - 1) * s + (k - 1) * d + 1 - result[2 + a]
            pads[a] = total // 2 if mode == "SAME_UPPER" else total - total // 2
    groups = node.attributes.get("group", 1)
    filters = result[1] // groups
    needs = np.zeros((*result, *shape), dtype=bool)
    for place in product(*(range(extent) for extent in shape)):
        image, channel, *spatial = place
        group = channel * groups // shape[1]
        channels = slice(group * filters, (group + 1) * filters)
        for tap in product(*(range(k) for k in kernel)):
            position = [
                i * s + t * d - p
                for i, s, t, d, p in zip(spatial, strides, tap, dilations, pads, strict=True)
            ]
            if all(0 <= o < extent for o, extent in zip(position, result[2:], strict=True)):
                needs[(image, channels, *position, *place)] = True
    return needs.reshape(int(np.prod(result)), -1)


def needed(relation: Array, box: Box, result: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """The input elements that a box of the output needs, as a mask of the input's shape."""
    mask = np.zeros(result, dtype=bool)
    mask[box.slices()] = True
    return backwards(relation, mask, shape)


def backwards(relation: Array, mask: Array, shape: tuple[int, ...]) -> Array:
    """The input elements that the marked output elements need."""
    return relation[mask.reshape(-1)].any(axis=0).reshape(shape)


def hull(mask: Array) -> Box:
    """The smallest box that holds all marked elements; empty intervals where there are none."""
    if not mask.any():
        return Box(tuple(Interval(0, 0) for _ in mask.shape))
    places = np.nonzero(mask)
    return Box(tuple(Interval(int(p.min()), int(p.max()) + 1) for p in places))
