"""Whatever the loader lets through gets a prediction: odd arities, unknown types, opaque nodes."""

import random

import pytest

from support.builder import GraphBuilder
from tilewright.graph.graph import Attribute, Constant, Graph, Node, Opaque
from tilewright.graph.types import TensorType
from tilewright.peak import Runtime, execution_order, predict_peak

KINDS = (
    *("Conv", "FusedConv", "ConvTranspose", "QLinearConv", "MatMul", "Gemm", "Add", "Sum", "Mul"),
    *("Div", "Sub", "Pow", "Sqrt", "Erf", "Relu", "Clip", "Sigmoid", "Softmax", "HardSwish"),
    *("ReduceMean", "LayerNormalization", "BatchNormalization", "MaxPool", "GlobalAveragePool"),
    *("Concat", "Slice", "Pad", "Resize", "Transpose", "Reshape", "Identity", "Dropout", "Where"),
    *("QuantizeLinear", "DequantizeLinear", "Constant", "LSTM", "If", "Mystery"),
)
SHAPES = ((), (4,), (8, 8), (1, 4, 8), (1, 8, 8, 8), (1, 8, 4, 4), (8, 8, 3, 3), (1, 0, 4, 4))
ATTRIBUTES: dict[str, tuple[Attribute, ...]] = {
    "group": (1, 8, 0, "two"),
    "axis": (0, 1, -1, 9),
    "perm": ((0, 2, 3, 1), (0, 3, 1, 2), (1, 0), ()),
    "strides": ((1, 1), (2, 2), 3),
    "mode": ("nearest", "linear", "cubic", 1.0),
    "body": (Opaque(b""),),
}

NUMBERS = Runtime(bookkeeping=False)


def any_graph(seed: int) -> Graph:
    """A graph in which hardly anything makes sense, except that it can be ordered."""
    chance = random.Random(seed)
    types = {
        name: TensorType(chance.choice(("float32", "uint8", "int64")), chance.choice(SHAPES))
        for name in ("x", "y", "w", "v")
    }
    constants = {name: Constant(types[name], None) for name in ("w", "v")}
    values = ["x", "y", "w", "v", "", "nowhere"]
    nodes: list[Node] = []
    for number in range(chance.randrange(1, 25)):
        outputs = tuple(f"v{number}.{k}" for k in range(chance.choice((0, 1, 1, 1, 1, 2))))
        attributes = {
            key: chance.choice(choices)
            for key, choices in ATTRIBUTES.items()
            if chance.random() < 0.3
        }
        inputs = tuple(chance.choice(values[-8:]) for _ in range(chance.choice((0, 1, 1, 2, 2, 3))))
        weights = tuple(chance.choice(("w", "v")) for _ in range(chance.choice((0, 0, 1, 3))))
        captures = (chance.choice(("x", "y")),) if chance.random() < 0.1 else ()
        domain = chance.choice(("", "", "", "ai.onnx", "com.microsoft", "mine"))
        kind = chance.choice(KINDS)
        nodes.append(
            Node(f"n{number}", kind, inputs + weights, outputs, attributes, domain, captures)
        )
        for name in outputs:
            values.append(name)
            if chance.random() < 0.8:
                types[name] = TensorType("float32", chance.choice(SHAPES))
    made = [name for node in nodes for name in node.writes]
    outputs = tuple(chance.sample(made, min(len(made), 2)))
    return Graph("any", tuple(nodes), ("x", "y"), outputs, types, constants, {"": 17})


@pytest.mark.parametrize("runtime", [Runtime(8), Runtime(16), Runtime(1), Runtime(8, False)])
def test_any_graph_gets_a_prediction(runtime: Runtime) -> None:
    for seed in range(600):
        graph = any_graph(seed)
        assert sorted(execution_order(graph)) == list(range(len(graph.nodes)))
        found = predict_peak(graph, runtime)
        assert found.peak == max((moment.bytes for moment in found.trace), default=0)
        assert min((moment.bytes for moment in found.trace), default=0) >= 0
        known = {"", *graph.inputs, *(name for node in graph.nodes for name in node.outputs)}
        known |= set(graph.constants) | {"nowhere"}
        assert {moment.value for moment in found.trace} <= known
        assert {live.name for live in found.live} <= known


def test_no_nodes_need_no_memory() -> None:
    graph = Graph("empty", (), ("x",), ("x",), {"x": TensorType("float32", (4,))}, {}, {"": 17})
    found = predict_peak(graph)
    assert (found.peak, found.at, found.trace, found.live, found.scratch) == (0, "", (), (), 0)
    assert execution_order(graph) == ()


def test_an_unknown_type_counts_nothing() -> None:
    b = GraphBuilder()
    b.add("Exp", b.add("Abs", b.input(1024), name="a"), name="z")
    graph = b.graph()
    types = {name: kind for name, kind in graph.types.items() if name != "a"}
    hidden = Graph(graph.name, graph.nodes, graph.inputs, graph.outputs, types, {}, graph.opsets)
    assert predict_peak(graph, NUMBERS).peak == 8192
    assert predict_peak(hidden, NUMBERS).peak == 4096


def test_what_a_subgraph_captures_stays_alive() -> None:
    kind = TensorType("float32", (1024,))
    nodes = (
        Node("a", "Exp", ("x",), ("a",)),
        Node("b", "Abs", ("x",), ("b",)),
        Node("c", "If", ("x",), ("c",), {"then_branch": Opaque(b"")}, captures=("a", "b")),
        Node("d", "Neg", ("c",), ("d",)),
    )
    types = dict.fromkeys("xabcd", kind)
    graph = Graph("g", nodes, ("x",), ("d",), types, {}, {"": 17})
    assert [moment.bytes // 4096 for moment in predict_peak(graph, NUMBERS).trace] == [1, 2, 3, 2]
