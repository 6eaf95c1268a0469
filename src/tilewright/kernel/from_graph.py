"""The problem of a convolution of a network, with the ReLU and the max-pool that follow it."""

import numpy as np

from tilewright.graph.graph import Graph, Node
from tilewright.graph.kernels import run_step, supports
from tilewright.graph.ops import spec_of
from tilewright.graph.ops.spec import Filter, Pool
from tilewright.kernel.problem import KernelError, KernelProblem

_PLAIN_PADS = ("NOTSET", "VALID", "")
_PROBE = np.array([-1e4, -2.0, -0.5, 0.0, 0.5, 2.0, 1e4], dtype=np.float32)


def problem_of(graph: Graph, name: str, dtype: str) -> KernelProblem:
    """The problem of one convolution; what kernels cannot do is an error that says so."""
    index = graph.index.get(name)
    if index is None:
        known = [node.name for node in graph.nodes if _is_convolution(graph, node)]
        shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
        wrong = f"the model has no node '{name}'" if name else "say which node of it (--node)"
        raise KernelError(f"{wrong}; its convolutions are: {shown or 'none'}")
    node = graph.nodes[index]
    if not _is_convolution(graph, node):
        raise KernelError(f"node '{name}' is a {node.kind}: kernels are made of a convolution")
    x, weights = graph.types.get(node.inputs[0]), graph.types.get(node.inputs[1])
    if x is None or weights is None or len(x.shape) != 4:
        raise KernelError(f"node '{name}': only convolutions of images of known size have kernels")
    kernel = (weights.shape[2], weights.shape[3])
    dilations = node.ints_of("dilations") or (1, 1)
    if dilations != (1, 1):
        raise KernelError(f"node '{name}': kernels have no dilations, it has {list(dilations)}")
    groups = node.int_of("group", 1)
    if groups != 1:
        each = f"{weights.shape[1]} to {weights.shape[0] // groups}"
        raise KernelError(
            f"node '{name}': kernels of grouped convolutions are not planned; each of its {groups} "
            f"groups is a convolution of {each} channels, which can be planned by its extents"
        )
    high, wide = node.ints_of("strides") or (1, 1)
    relu, pool = _followers(graph, node)
    return KernelProblem(
        x.shape[1],
        x.shape[2],
        x.shape[3],
        weights.shape[0],
        kernel,
        x.shape[0],
        pool,
        dtype,
        len(node.inputs) > 2 and bool(node.inputs[2]),
        relu,
        _pads(node, kernel, (high, wide), x.shape[2:]),
        strides=(high, wide),
    )


def _pads(
    node: Node, kernel: tuple[int, int], strides: tuple[int, int], extents: tuple[int, ...]
) -> tuple[int, int, int, int]:
    auto = str(node.attributes.get("auto_pad", "NOTSET"))
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        whole = [
            max(0, (-(-extent // stride) - 1) * stride + taps - extent)
            for taps, stride, extent in zip(kernel, strides, extents, strict=True)
        ]
        few = [total // 2 for total in whole]
        many = [total - small for total, small in zip(whole, few, strict=True)]
        before, after = (few, many) if auto == "SAME_UPPER" else (many, few)
        return before[0], before[1], after[0], after[1]
    given = node.ints_of("pads") if auto in _PLAIN_PADS else None
    top, left, bottom, right = given or (0, 0, 0, 0)
    return top, left, bottom, right


def _followers(graph: Graph, node: Node) -> tuple[bool, int]:
    """Whether a ReLU follows, and the size of the max-pool that follows; in either order."""
    relu, pool = False, 1
    while True:
        value = node.outputs[0]
        readers = graph.consumers.get(value, ())
        if len(readers) != 1 or value in graph.outputs:
            return relu, pool
        node = graph.nodes[readers[0]]
        if not relu and _is_relu(graph, node):
            relu = True
        elif pool == 1 and _is_plain_pool(graph, node):
            pool = (node.ints_of("kernel_shape") or (1, 1))[0]
        else:
            return relu, pool


def _is_convolution(graph: Graph, node: Node) -> bool:
    """Whether it multiplies with a filter, of plain numbers."""
    known = spec_of(graph, node)
    return known is not None and known[0].filter == Filter(1)


def _is_relu(graph: Graph, node: Node) -> bool:
    """Whether it is an activation that does to numbers what a ReLU does."""
    known = spec_of(graph, node)
    if known is None or known[0].finish != "clamp" or len(list(node.reads)) != 1:
        return False
    if not supports(node.kind):
        return False
    (made,) = run_step(node.kind, node.attributes, (_PROBE,), graph.opset)
    return bool(np.array_equal(made, np.maximum(_PROBE, 0)))


def _is_plain_pool(graph: Graph, node: Node) -> bool:
    """Largest of square windows that do not overlap, without padding, rounding down."""
    known = spec_of(graph, node)
    window = node.ints_of("kernel_shape") or ()
    return (
        known is not None
        and known[0].pool is Pool.MAXIMUM
        and len(window) == 2
        and window[0] == window[1]
        and (node.ints_of("strides") or (1, 1)) == window
        and (node.ints_of("dilations") or (1, 1)) == (1, 1)
        and not any(node.ints_of("pads") or ())
        and not node.int_of("ceil_mode", 0)
        and len([name for name in node.outputs if name]) == 1
    )
