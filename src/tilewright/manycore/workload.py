"""The network as layers: an operator with what folds into it, its loops and its bit widths.

Loops have the names that mapping and core files use: B, K, G, OX, OY, C, FX, FY, and for products
and element-wise work H and D. Activations, scales and biases fold into the layer before them; they
cost nothing of their own, and their small constants are part of the instruction.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tilewright.errors import ModelError
from tilewright.geometry.access import Whole
from tilewright.graph.graph import Graph
from tilewright.graph.ops.spec import same_rules
from tilewright.graph.ops.windows import WindowParameters, window_parameters
from tilewright.tiling.group import TiledOp, typed_group

BITS = {"weight": 8, "input": 8, "output": 8}
"""Where an operator's attributes give no widths."""

LOOPS: tuple[str, ...] = ("B", "K", "G", "OX", "OY", "C", "FX", "FY")


@dataclass(frozen=True, slots=True)
class LayerShape:
    """What a core's cost depends on: extents of the loops in the order of LOOPS, strides and
    dilations of the window, bit widths, and whether every channel is by itself."""

    extents: tuple[int, ...]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    weight_bits: int = 8
    input_bits: int = 8
    output_bits: int = 8
    weights: bool = True

    @property
    def macs(self) -> int:
        """Operations of the loop nest."""
        return prod(self.extents)


@dataclass(frozen=True, slots=True)
class Layer:
    """An operator of the network and those folded into it. `data` are the activations it reads
    (position among its inputs, name), `weight` its constant operand. `axes` says which axis of its
    result each loop of the mapping files is."""

    number: int
    name: str
    kind: str
    also: tuple[str, ...]
    ops: tuple[TiledOp, ...]
    data: tuple[tuple[int, str], ...]
    weight: tuple[int, str] | None
    result: str
    shape: tuple[int, ...]
    axes: Mapping[str, int]
    reductions: frozenset[str]
    weight_bits: int
    input_bits: int
    output_bits: int

    @property
    def main(self) -> TiledOp:
        """The operator that gives the layer its name."""
        return self.ops[0]


@dataclass(frozen=True, slots=True)
class LayerGraph:
    """Layers in an order in which they can run, and the width of every tensor in bits."""

    graph: Graph
    layers: tuple[Layer, ...]
    bits: Mapping[str, int]


def workload_of(graph: Graph) -> LayerGraph:
    """The layers of a network."""
    home: dict[str, int] = {}  # value -> the layer that makes it
    members: list[list[int]] = []
    for index, node in enumerate(graph.nodes):
        before = _folds_into(graph, index, home, members)
        if before is None:
            members.append([index])
            before = len(members) - 1
        else:
            members[before].append(index)
        for name in node.writes:
            home[name] = before
    layers: list[Layer] = []
    bits: dict[str, int] = {}
    for number, nodes in enumerate(members):
        layer = _layer(graph, number, nodes, bits)
        layers.append(layer)
        bits[layer.result] = layer.output_bits
        for _, name in layer.data:
            bits.setdefault(name, layer.input_bits)
        if layer.weight is not None:
            bits[layer.weight[1]] = layer.weight_bits
    return LayerGraph(graph, tuple(layers), bits)


def _folds_into(
    graph: Graph, index: int, home: Mapping[str, int], members: list[list[int]]
) -> int | None:
    """The layer that a node is part of: it changes the elements of the layer's result one by one,
    or only their shape, and nobody else reads that result. What looks at several elements at once
    (softmax, norms of rows or images) is a layer: the one before may be cut where it may not."""
    node = graph.nodes[index]
    if not node.inputs or node.inputs[0] not in home or len([*node.writes]) != 1:
        return None
    first, others = node.inputs[0], [name for name in node.inputs[1:] if name]
    if any(name not in graph.constants for name in others) or node.captures:
        return None
    if graph.consumers.get(first, ()) != (index,) or first in graph.outputs:
        return None
    before = home[first]
    if graph.nodes[members[before][-1]].outputs[0] != first:
        return None
    (tiled,) = typed_group(graph, [index])
    result = tiled.op.result().shape
    access = tiled.access[0]
    if access.inputs[0] == same_rules(len(result)) and all(grain == 1 for grain in access.grain):
        return before
    return before if tiled.spec.keeps_order and _leading(tiled.op.shape(0), result) else None


def _leading(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether two shapes differ only in ones at their ends: axes keep their meaning."""

    def bare(shape: tuple[int, ...]) -> tuple[int, ...]:
        while len(shape) > 1 and shape[-1] == 1:
            shape = shape[:-1]
        return shape

    return bare(before) == bare(after)


def _layer(graph: Graph, number: int, nodes: list[int], bits: Mapping[str, int]) -> Layer:
    ops = typed_group(graph, nodes)
    main = ops[0]
    if len([*main.node.writes]) != 1:
        raise ModelError(f"node '{main.node.name}' ({main.node.kind}): layers have one result")
    weight = _weight_of(graph, main)
    data = tuple(
        (position, name)
        for position, name in enumerate(main.node.inputs)
        if name and name not in graph.constants
    )
    result = ops[-1].node.outputs[0]
    axes, reductions = _loops(main)
    given = [bits[name] for _, name in data if name in bits]
    output = main.op.int_of("output_size", BITS["output"])
    return Layer(
        number,
        main.node.name,
        main.node.kind,
        () if main.spec.pool is None else ("Pool",),  # what mappings call pools of all kinds
        ops,
        data,
        weight,
        result,
        graph.types[result].shape,
        axes,
        reductions,
        main.op.int_of("weight_size", BITS["weight"]),
        main.op.int_of("act_size", max(given, default=BITS["input"])),
        output,
    )


def _weight_of(graph: Graph, main: TiledOp) -> tuple[int, str] | None:
    """The constant operand of a convolution or a product."""
    position = main.spec.filter.weight if main.spec.filter is not None else 1
    if main.spec.engine.value != "matrix" or position >= len(main.node.inputs):
        return None
    name = main.node.inputs[position]
    return (position, name) if name in graph.constants else None


def _loops(main: TiledOp) -> tuple[dict[str, int], frozenset[str]]:
    """Which axis of the result each loop name is, and which names are sums."""
    rank = len(main.op.result().shape)
    numbered = {f"D{axis}": axis for axis in range(rank)}
    window = main.spec.pool is not None or main.spec.filter is not None
    if window and rank == 4:
        axes = {"B": 0, "N": 0, "K": 1, "G": 1, "OY": 2, "OX": 3}
        if main.spec.pool is not None:
            return {**axes, **numbered}, frozenset({"C", "FX", "FY"})
        # The newer dialect numbers a convolution's loops N, OY, OX, C, FY, FX, K.
        return (
            {**axes, "D0": 0, "D1": 2, "D2": 3, "D6": 1},
            frozenset({"C", "FX", "FY", "D3", "D4", "D5"}),
        )
    named: dict[str, int] = dict(zip(("K", "D", "H", "B"), range(rank - 1, -1, -1), strict=False))
    if main.spec.engine.value == "matrix":
        return (
            {**named, "D0": max(0, rank - 2), "D2": rank - 1},
            frozenset({"C", "D1"}),
        )
    if rank == 4:
        named |= {"OY": 2, "OX": 3, "C": 1, "G": 1}
    return {**named, **numbered}, frozenset()


def tile_shape(layer: Layer, extents: tuple[int, ...]) -> LayerShape:
    """The loops of a tile whose result has these extents."""
    main = layer.main
    rank = len(main.op.result().shape)
    out = (*extents, *(1,) * rank)[:rank]
    widths = (layer.weight_bits, layer.input_bits, layer.output_bits)
    if main.spec.filter is not None and rank == 4:
        window = window_parameters(main.op, main.spec.filter.weight)
        groups = main.op.int_of("group", 1)
        inner = main.op.shape(main.spec.filter.weight)[1]
        per_group = max(1, main.op.result().shape[1] // groups)
        shared = max(1, out[1] // per_group) if groups > 1 else 1
        loops = (out[0], -(-out[1] // shared), shared, out[3], out[2], inner)
        return _windowed(loops, window, window.kernel, widths, True)
    if main.spec.pool is not None and rank == 4:
        # Every channel by itself; a pool over all positions has the image as its window.
        window = window_parameters(main.op)
        kernel = window.kernel
        if any(isinstance(rule, Whole) for rule in (main.access[0].inputs[0] or ())[2:]):
            kernel = main.op.shape(0)[2:]
        loops = (out[0], 1, out[1], out[3], out[2], 1)
        return _windowed(loops, window, kernel, widths, False)
    if main.spec.engine.value == "matrix":
        inner = main.op.shape(0)[0 if main.op.int_of("transA", 0) else -1]  # products of a sum
        loops = (1, out[-1], 1, 1, prod(out[:-1]), inner, 1, 1)
        return LayerShape(loops, (1, 1), (1, 1), *widths, True)
    padded = (*(1,) * (3 - min(3, rank)), *out[-3:])
    loops = (prod(out[:-3]), padded[2], padded[0], 1, padded[1], 1, 1, 1)
    return LayerShape(loops, (1, 1), (1, 1), *widths, len(layer.data) > 1)


def _windowed(
    loops: tuple[int, ...],
    window: WindowParameters,
    kernel: tuple[int, ...],
    widths: tuple[int, int, int],
    weights: bool,
) -> LayerShape:
    (down, across), (far_down, far_across) = window.strides, window.dilations
    extents = (*loops, kernel[1], kernel[0])
    return LayerShape(extents, (across, down), (far_across, far_down), *widths, weights)
