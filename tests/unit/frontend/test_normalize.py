"""Every pass makes the graph plainer and keeps its numbers."""

from collections.abc import Callable
from dataclasses import replace
from math import sqrt

import numpy as np
import onnxruntime as ort
import pytest

from support.builder import GraphBuilder
from support.compare import run_kernels
from support.models import LIGHT, real_model
from tilewright.frontend import zoo
from tilewright.frontend.idioms import recognise
from tilewright.frontend.load import load_onnx
from tilewright.frontend.normalize import PASSES, merge_views, normalize, remove_no_ops
from tilewright.frontend.normalize.collapse import collapse_idioms
from tilewright.frontend.normalize.fold import fold_channel_affine
from tilewright.frontend.normalize.scale import move_scales
from tilewright.frontend.normalize.weigh import fold_scales
from tilewright.frontend.proto import infer_types, model_proto
from tilewright.graph.graph import Array, Constant, Graph, Node
from tilewright.graph.verify import verify

Pass = Callable[[Graph], Graph]


# Activations that planners know in every operator set, and the set that first has them.
SINCE = {
    "HardSwish": 14,
    "LayerNormalization": 17,
    "Mish": 18,
    "Gelu": 20,
    "GroupNormalization": 21,
    "RMSNormalization": 23,
    "Swish": 24,
}


def is_newer(graph: Graph, node: Node) -> bool:
    """Whether no file of the graph's operator set can hold the node."""
    return graph.opset < SINCE.get(node.kind, 0)


def run(graph: Graph) -> list[Array]:
    """The network's outputs on seeded inputs, in onnxruntime where it can be written to a file."""
    random = np.random.default_rng(7)
    feeds = {
        name: random.standard_normal(graph.types[name].shape).astype(graph.types[name].dtype)
        for name in graph.inputs
    }
    if any(is_newer(graph, node) for node in graph.nodes):
        return list(run_kernels(graph, feeds).values())
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model_proto(graph, {}).SerializeToString(), options)
    return [np.asarray(result) for result in session.run(None, feeds)]


def check_structure(before: Graph, after: Graph) -> None:
    """A valid graph with the same inputs and outputs, its types those that inference finds."""
    verify(after)
    assert (after.inputs, after.outputs) == (before.inputs, before.outputs)
    assert {node.name for node in after.nodes} <= {node.name for node in before.nodes}
    read = {name for node in after.nodes for name in node.reads} | set(after.outputs)
    assert set(after.constants) <= read
    for name, constant in after.constants.items():
        assert after.types[name] == constant.type
        if constant.data is not None:
            assert (str(constant.data.dtype), constant.data.shape) == (
                constant.type.dtype,
                constant.type.shape,
            )
    for node in after.nodes:
        if is_newer(after, node):
            continue
        found = infer_types(node, after.types, after.constants, after.opsets)
        for name, kind in found.items():
            assert after.types[name] == kind, f"{node.kind} {name}"


def same_numbers(graph: Graph, run_pass: Pass) -> Graph:
    """The graph after the pass, once it is shown to give the numbers of before."""
    after = run_pass(graph)
    check_structure(graph, after)
    for got, want in zip(run(after), run(graph), strict=True):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        loose = 4e-3 if want.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(got, want, rtol=loose, atol=loose * np.abs(want).max())
    assert kinds(run_pass(after)) == kinds(after)
    return after


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def without_numbers(graph: Graph) -> Graph:
    """The graph as a file with cleared weights gives it."""
    cleared = {
        name: Constant(c.type, None) if c.type.dtype.startswith("float") else c
        for name, c in graph.constants.items()
    }
    return replace(graph, constants=cleared)


def positive(b: GraphBuilder, *shape: int) -> str:
    return b.constant(b.random.uniform(0.5, 2.0, shape), "float32")


def uneven(b: GraphBuilder, *shape: int) -> str:
    return b.constant(b.random.uniform(-1.0, 1.0, shape), "float32")


def batch_norm(b: GraphBuilder, x: str, channels: int) -> str:
    weights = (uneven(b, channels), uneven(b, channels), uneven(b, channels), positive(b, channels))
    return b.add("BatchNormalization", x, *weights, epsilon=1e-3)


# Nodes that do nothing


def test_copies_are_removed() -> None:
    b = GraphBuilder()
    x = b.add("Relu", b.input(2, 3, 1, 4))
    x = b.add("Identity", x)
    x = b.add("Dropout", x, b.constant(0.5, "float32"), outputs=2)
    x = b.add("Cast", x, to=1)
    x = b.add("Transpose", x, perm=[0, 1, 2, 3])
    x = b.add("Reshape", x, b.constant([2, 3, -1, 4], "int64"))
    x = b.add("Concat", b.add("Expand", x, b.constant([1], "int64")), axis=1)
    y = b.add("Sigmoid", x)
    assert kinds(same_numbers(b.graph(y), remove_no_ops)) == ["Relu", "Sigmoid"]


def test_a_transpose_that_only_moves_axes_of_one_element_is_removed() -> None:
    b = GraphBuilder()
    x = b.add("Relu", b.input(1, 1, 3, 4))
    b.add("Sigmoid", b.add("Transpose", x, perm=[1, 0, 2, 3]))
    assert kinds(same_numbers(b.graph(), remove_no_ops)) == ["Relu", "Sigmoid"]


def test_what_does_something_stays() -> None:
    b = GraphBuilder()
    x = b.add("Transpose", b.input(3, 3), perm=[1, 0])
    x = b.add("Cast", b.add("Reshape", x, b.constant([9], "int64")), to=11)
    b.add("Relu", x)
    graph = b.graph()
    assert remove_no_ops(graph) is graph


def test_outputs_keep_their_names() -> None:
    b = GraphBuilder()
    x = b.add("Relu", b.input(2, 3))
    first = b.add("Identity", x, name="first")
    second = b.add("Identity", x, name="second")
    third = b.add("Sigmoid", x)
    after = same_numbers(b.graph(first, second, third), remove_no_ops)
    assert kinds(after) == ["Relu", "Identity", "Sigmoid"]
    assert after.nodes[0].outputs == ("first",)
    assert after.nodes[2].inputs == ("first",)


def test_an_input_or_a_constant_that_is_an_output_is_still_copied() -> None:
    b = GraphBuilder()
    x = b.input(2, 3)
    y = b.add("Identity", b.add("Dropout", x))
    z = b.add("Identity", b.add("Relu", x))
    after = same_numbers(b.graph(y, z), remove_no_ops)
    assert kinds(after) == ["Identity", "Relu"]


def test_a_dropout_that_trains_or_whose_mask_is_read_stays() -> None:
    b = GraphBuilder()
    training = b.add("Dropout", b.input(2, 3), b.constant(0.0, "float32"), b.constant(True))
    masked = b.add("Dropout", b.input(2, 3), outputs=2)
    graph = b.graph(b.add("Relu", training), b.add("Relu", masked), f"{masked}.1")
    assert kinds(remove_no_ops(graph)).count("Dropout") == 2


def test_a_value_that_a_subgraph_reads_keeps_its_name() -> None:
    b = GraphBuilder()
    x = b.add("Relu", b.input(2, 3))
    copy = b.add("Identity", x)
    loop = Node("loop", "Scan", (copy,), ("y",), {}, captures=(copy,))
    b.nodes.append(loop)
    graph = b.graph("y")
    assert remove_no_ops(graph) is graph


def test_views_of_views_become_one() -> None:
    b = GraphBuilder()
    x = b.input(2, 3, 4, 5)
    x = b.add("Transpose", b.add("Transpose", x, perm=[0, 2, 3, 1]), perm=[0, 3, 1, 2])
    x = b.add("Transpose", b.add("Transpose", x, perm=[1, 0, 2, 3]), perm=[3, 0, 1, 2])
    x = b.add("Relu", x)
    x = b.add("Reshape", b.add("Flatten", x, axis=2), b.constant([0, 4, 2], "int64"))
    graph = b.graph(x)
    after = same_numbers(graph, lambda g: remove_no_ops(merge_views(g)))
    assert kinds(after) == ["Transpose", "Relu", "Reshape"]
    assert after.nodes[0].attributes["perm"] == (3, 1, 0, 2)


def test_a_view_that_others_read_is_not_merged() -> None:
    b = GraphBuilder()
    inner = b.add("Transpose", b.input(2, 3, 4), perm=[0, 2, 1])
    outer = b.add("Transpose", inner, perm=[2, 1, 0])
    graph = b.graph(outer, b.add("Relu", inner))
    assert merge_views(graph) is graph


def test_the_reshapes_of_a_group_norm_are_not_merged_away() -> None:
    b = GraphBuilder(opset=17)
    image = b.add("Reshape", b.input(2, 4, 9), b.constant([2, 4, 3, 3], "int64"))
    y = b.add("Reshape", group_norm(b, image), b.constant([2, 4, 9], "int64"))
    after = same_numbers(b.graph(b.add("Identity", y)), normalize)
    assert kinds(after) == ["Reshape", "GroupNormalization", "Reshape"]


# Folding into weights


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_batch_norm_and_what_follows_goes_into_a_convolution(
    kind: str, bias: bool, groups: int
) -> None:
    b = GraphBuilder()
    x = b.input(2, 4, 6, 5)
    shape = (6, 4 // groups, 3, 3) if kind == "Conv" else (4, 6 // groups, 3, 3)
    weights = (uneven(b, *shape), uneven(b, 6)) if bias else (uneven(b, *shape),)
    x = b.add(kind, x, *weights, group=groups, pads=[1, 1, 1, 1], strides=[2, 1])
    name = b.nodes[-1].name
    x = batch_norm(b, x, 6)
    x = b.add("Add", b.add("Mul", uneven(b, 6, 1, 1), x), uneven(b, 1, 6, 1, 1))
    y = b.add("Relu", x)
    after = same_numbers(b.graph(y), fold_channel_affine)
    assert kinds(after) == [kind, "Relu"]
    assert after.nodes[0].name == name
    empty = fold_channel_affine(without_numbers(b.graph(y)))
    check_structure(b.graph(y), empty)
    assert kinds(empty) == [kind, "Relu"]
    assert all(constant.data is None for constant in empty.constants.values())
    assert {n: c.type for n, c in empty.constants.items()} == {
        n: c.type for n, c in after.constants.items()
    }


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("bias", [None, (), (6,), (1, 6)])
def test_batch_norm_goes_into_a_matrix_product(
    bias: tuple[int, ...] | None, transposed: int
) -> None:
    b = GraphBuilder()
    weight = uneven(b, 6, 4) if transposed else uneven(b, 4, 6)
    extra = () if bias is None else (uneven(b, *bias),)
    x = b.add("Gemm", b.input(3, 4), weight, *extra, alpha=0.5, beta=2.0, transB=transposed)
    y = b.add("Sub", batch_norm(b, x, 6), uneven(b, 6))
    assert kinds(same_numbers(b.graph(y), fold_channel_affine)) == ["Gemm"]


def test_a_bias_per_row_is_not_one_per_channel() -> None:
    b = GraphBuilder()
    x = b.add("Gemm", b.input(3, 4), uneven(b, 4, 6), uneven(b, 3, 1))
    y = b.add("Mul", x, uneven(b, 6))
    graph = b.graph(y)
    assert fold_channel_affine(graph) is graph


@pytest.mark.parametrize("kind", ["Mul", "Div", "Add", "Sub"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("shape", [(), (1,), (6, 1, 1), (1, 6, 1, 1)])
def test_arithmetic_with_a_constant_goes_into_a_convolution(
    kind: str, first: bool, shape: tuple[int, ...]
) -> None:
    b = GraphBuilder()
    x = b.add("Conv", b.input(1, 4, 5, 5), uneven(b, 6, 4, 3, 3), uneven(b, 6))
    operands = (x, positive(b, *shape)) if first else (positive(b, *shape), x)
    y = b.add(kind, *operands)
    if kind == "Div" and not first:
        assert kinds(fold_channel_affine(b.graph(y))) == ["Conv", "Div"]
    else:
        after = same_numbers(b.graph(y), fold_channel_affine)
        assert kinds(after) == ["Conv"]
        assert after.outputs == (y,)


def test_what_varies_along_other_axes_is_not_folded() -> None:
    b = GraphBuilder()
    x = b.add("Conv", b.input(1, 4, 5, 5), uneven(b, 6, 4, 3, 3))
    x = b.add("Add", x, uneven(b, 1, 6, 3, 1))
    x = b.add("Conv", x, uneven(b, 1, 6, 3, 3))
    x = b.add("Mul", x, uneven(b, 1, 8, 1, 1))  # grows the channels
    graph = b.graph(x)
    assert fold_channel_affine(graph) is graph


def test_a_convolution_that_others_read_is_left_alone() -> None:
    b = GraphBuilder()
    x = b.add("Conv", b.input(1, 4, 5, 5), uneven(b, 6, 4, 3, 3))
    y = batch_norm(b, x, 6)
    z = b.add("Relu", x)
    graph = b.graph(y, z)
    assert fold_channel_affine(graph) is graph
    assert fold_channel_affine(b.graph(y, x)).nodes == graph.nodes


def test_scale_and_bias_go_into_a_batch_norm_that_stands_alone() -> None:
    b = GraphBuilder()
    x = batch_norm(b, b.input(2, 4, 3, 3), 4)
    y = b.add("Add", b.add("Mul", x, uneven(b, 4, 1, 1)), uneven(b, 4, 1, 1))
    assert kinds(same_numbers(b.graph(y), fold_channel_affine)) == ["BatchNormalization"]


def test_half_precision_folds_in_its_own_type() -> None:
    b = GraphBuilder()
    x = b.input(1, 4, 5, 5, dtype="float16")
    weight = b.constant(b.random.uniform(-1, 1, (6, 4, 3, 3)), "float16")
    y = b.add(
        "Mul", b.add("Conv", x, weight), b.constant(b.random.uniform(1, 2, (6, 1, 1)), "float16")
    )
    after = fold_channel_affine(b.graph(y))
    check_structure(b.graph(y), after)
    assert {constant.type.dtype for constant in after.constants.values()} == {"float16"}


# Idioms become single nodes


def gelu(b: GraphBuilder, x: str) -> str:
    erf = b.add("Erf", b.add("Div", x, b.constant(sqrt(2), "float32")))
    one = b.add("Add", erf, b.constant(1.0, "float32"))
    return b.add("Mul", b.add("Mul", x, one), b.constant(0.5, "float32"))


def hard_swish(b: GraphBuilder, x: str) -> str:
    six = b.constant(6.0, "float32")
    shifted = b.add("Add", x, b.constant(3.0, "float32"))
    clipped = b.add("Clip", shifted, b.constant(0.0, "float32"), six)
    return b.add("Div", b.add("Mul", x, clipped), six)


def mean(b: GraphBuilder, x: str) -> str:
    if b.inference.opsets[""] >= 18:
        return b.add("ReduceMean", x, b.constant([-1], "int64"))
    return b.add("ReduceMean", x, axes=[-1])


def layer_norm(b: GraphBuilder, x: str, *weights: str, centre: bool = True) -> str:
    deviation = b.add("Sub", x, mean(b, x)) if centre else x
    squared = b.add("Pow", deviation, b.constant(2.0, "float32"))
    root = b.add("Sqrt", b.add("Add", mean(b, squared), b.constant(1e-5, "float32")))
    y = b.add("Div", deviation, root)
    for kind, weight in zip(("Mul", "Add"), weights, strict=False):
        y = b.add(kind, y, weight)
    return y


def group_norm(b: GraphBuilder, x: str, *weights: str) -> str:
    grouped = b.add("Reshape", x, b.constant([0, 2, -1], "int64"))
    ones, zeros = b.constant([1.0] * 2, "float32"), b.constant([0.0] * 2, "float32")
    y = b.add("InstanceNormalization", grouped, ones, zeros, epsilon=1e-4)
    y = b.add("Reshape", y, b.constant(b.shape(x), "int64"))
    for kind, weight in zip(("Mul", "Add"), weights, strict=False):
        y = b.add(kind, y, weight)
    return y


@pytest.mark.parametrize("opset", [17, 20, 21])
def test_a_group_norm_becomes_one_node_whatever_the_operator_set(opset: int) -> None:
    b = GraphBuilder(opset=opset)
    y = group_norm(b, b.add("Relu", b.input(2, 4, 3, 3)))
    last = b.nodes[-1].name
    after = same_numbers(b.graph(b.add("Sigmoid", y)), collapse_idioms)
    assert kinds(after) == ["Relu", "GroupNormalization", "Sigmoid"]
    assert after.nodes[1].name == last


@pytest.mark.parametrize("shape", [(8,), (1, 8), (1, 1, 8)])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_layer_norm_becomes_one_node(shape: tuple[int, ...], count: int) -> None:
    b = GraphBuilder(opset=17)
    y = layer_norm(b, b.input(2, 5, 8), *(uneven(b, *shape) for _ in range(count)))
    after = same_numbers(b.graph(y), collapse_idioms)
    assert kinds(after) == ["LayerNormalization"]
    assert after.types[after.nodes[0].inputs[1]].shape == (8,)


def test_group_norm_with_weights_becomes_one_node() -> None:
    b = GraphBuilder(opset=21)
    y = group_norm(b, b.input(2, 4, 3, 3), uneven(b, 4, 1, 1), uneven(b, 1, 4, 1, 1))
    after = same_numbers(b.graph(y), collapse_idioms)
    assert kinds(after) == ["GroupNormalization"]
    assert [after.types[name].shape for name in after.nodes[0].inputs[1:]] == [(4,), (4,)]


def test_weights_without_numbers_stay_without() -> None:
    b = GraphBuilder(opset=21)
    y = group_norm(b, b.input(2, 4, 3, 3), uneven(b, 4, 1, 1), uneven(b, 4, 1, 1))
    graph = b.graph(y)
    after = collapse_idioms(without_numbers(graph))
    check_structure(graph, after)
    assert kinds(after) == ["GroupNormalization"]
    assert all(constant.data is None for constant in after.constants.values())


def test_half_precision_layer_norm_takes_its_casts_along() -> None:
    b = GraphBuilder(opset=17)
    y = layer_norm(b, b.add("Cast", b.input(2, 5, 8, dtype="float16"), to=1))
    y = b.add("Mul", b.add("Cast", y, to=10), b.weight(8, dtype="float16"))
    assert kinds(same_numbers(b.graph(y), collapse_idioms)) == ["LayerNormalization"]


def test_a_weight_of_another_type_keeps_the_norm_written_out() -> None:
    b = GraphBuilder(opset=17)
    weight = b.add("Relu", b.constant(np.zeros((1, 1, 8)), "float32"))
    y = layer_norm(b, b.input(2, 5, 8), weight)
    graph = without_numbers(b.graph(y))
    assert kinds(collapse_idioms(b.graph(y))) == ["LayerNormalization"]
    assert kinds(collapse_idioms(graph)) == kinds(graph)


def test_rms_norm_becomes_one_node() -> None:
    b = GraphBuilder(opset=23)
    y = layer_norm(b, b.input(2, 5, 8), uneven(b, 8), centre=False)
    assert kinds(same_numbers(b.graph(y), collapse_idioms)) == ["RMSNormalization"]


def test_attention_stays_as_it_is() -> None:
    b = GraphBuilder(opset=21)
    q, k, v = b.input(3, 5, 4), b.input(3, 4, 6), b.input(3, 6, 4)
    graph = b.graph(b.add("MatMul", b.add("Softmax", b.add("MatMul", q, k), axis=-1), v))
    assert collapse_idioms(graph) is graph


# Activations


def silu(b: GraphBuilder, x: str) -> str:
    return b.add("Mul", x, b.add("Sigmoid", x))


def silu_by_exp(b: GraphBuilder, x: str) -> str:
    power = b.add("Exp", b.add("Neg", x))
    return b.add("Div", x, b.add("Add", power, b.constant(1.0, "float32")))


def quick_gelu(b: GraphBuilder, x: str) -> str:
    return b.add("Mul", b.add("Sigmoid", b.add("Mul", x, b.constant(1.702, "float32"))), x)


def mish(b: GraphBuilder, x: str) -> str:
    return b.add("Mul", x, b.add("Tanh", b.add("Softplus", x)))


def mish_by_log(b: GraphBuilder, x: str) -> str:
    power = b.add("Add", b.constant(1.0, "float32"), b.add("Exp", x))
    return b.add("Mul", b.add("Tanh", b.add("Log", power)), x)


@pytest.mark.parametrize("opset", [13, 18, 22])
@pytest.mark.parametrize(
    ("write", "kind", "attributes"),
    [
        (gelu, "Gelu", {"approximate": "none"}),
        (silu, "Swish", {"alpha": 1.0}),
        (silu_by_exp, "Swish", {"alpha": 1.0}),
        (quick_gelu, "Swish", {"alpha": pytest.approx(1.702)}),
        (hard_swish, "HardSwish", {}),
        (mish, "Mish", {}),
        (mish_by_log, "Mish", {}),
    ],
)
def test_an_activation_becomes_one_node_whatever_the_operator_set(
    write: Callable[[GraphBuilder, str], str], kind: str, attributes: dict[str, object], opset: int
) -> None:
    b = GraphBuilder(opset=opset)
    y = write(b, b.add("LeakyRelu", b.input(2, 4, 3, 3)))
    last = b.nodes[-1].name
    graph = b.graph(b.add("Floor", y))
    after = same_numbers(graph, collapse_idioms)
    assert kinds(after) == ["LeakyRelu", kind, "Floor"]
    assert after.nodes[1].name == last
    assert after.nodes[1].attributes == attributes


def test_a_gate_that_something_else_reads_stays() -> None:
    b = GraphBuilder()
    x = b.input(2, 3)
    gate = b.add("Sigmoid", x)
    graph = b.graph(b.add("Mul", x, gate), b.add("Relu", gate))
    assert collapse_idioms(graph) is graph


# Scales behind matrix products


@pytest.mark.parametrize("kind", ["Mul", "Div"])
@pytest.mark.parametrize("rows", [5, 20])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_a_scale_moves_to_the_smaller_operand(kind: str, rows: int, shape: tuple[int, ...]) -> None:
    b = GraphBuilder()
    q, k = b.input(3, rows, 4), b.input(3, 4, 12)
    scores = b.add("MatMul", q, k, name="scores")
    x = b.add(kind, scores, b.constant(np.full(shape, 0.3), "float32"), name="scale")
    graph = b.graph(b.add("Softmax", x, axis=-1))
    after = same_numbers(graph, move_scales)
    scale, product, _ = after.nodes
    assert [node.name for node in after.nodes] == [f"{kind}_scale", "MatMul_scores", "Softmax_v4"]
    assert scale.inputs[0] == (q if rows < 12 else k)
    assert product.inputs == ((scale.outputs[0], k) if rows < 12 else (q, scale.outputs[0]))
    assert product.outputs == ("scale",)  # values keep their names and their numbers


def test_a_scale_moves_on_random_shapes() -> None:
    random = np.random.default_rng(5)
    moved = 0
    for seed in range(40):
        b = GraphBuilder(seed=seed)
        rows, depth, columns = (int(n) for n in random.integers(1, 9, 3))
        heads = tuple(int(n) for n in random.integers(2, 4, random.integers(0, 3)))
        left = (*heads, rows, depth) if random.random() < 0.8 else (depth,)
        right = (*heads[: random.integers(0, 2) and None], depth, columns)
        operands = [
            uneven(b, *operand) if random.random() < 0.3 else b.input(*operand)
            for operand in (left, right)
        ]
        if not b.inputs:
            continue
        x = b.add("MatMul", *operands)
        axes = (1,) * int(random.integers(0, len(b.shape(x)) + 1))
        number = b.constant(random.uniform(-4, 4, axes), "float32")
        if random.random() < 0.5:
            x = b.add("Div", x, number)
        else:
            x = b.add("Mul", *((x, number) if random.random() < 0.5 else (number, x)))
        graph = b.graph(x)
        moved += same_numbers(graph, move_scales) is not graph
    assert moved > 15


@pytest.mark.parametrize("known", [True, False])
def test_a_scale_is_folded_into_a_weight(known: bool) -> None:
    b = GraphBuilder()
    x = b.add("MatMul", b.input(2, 3, 40), uneven(b, 40, 6))  # larger than the product, but its own
    graph = b.graph(b.add("Div", x, b.constant(8.0, "float32")))
    if known:
        after = same_numbers(graph, move_scales)
    else:
        after = move_scales(without_numbers(graph))
        check_structure(graph, after)
        assert all(constant.data is None for constant in after.constants.values())
    assert kinds(after) == ["MatMul"]


def test_scales_move_as_far_as_they_get() -> None:
    b = GraphBuilder()
    q = b.add("MatMul", b.input(9, 8), uneven(b, 8, 4))
    x = b.add("MatMul", q, b.input(4, 9))
    for kind in ("Mul", "Div"):
        x = b.add(kind, x, b.constant(0.7, "float32"))
    assert kinds(same_numbers(b.graph(x), move_scales)) == ["MatMul", "MatMul"]


def test_a_scale_on_what_a_convolution_makes_is_folded() -> None:
    b = GraphBuilder()
    x = b.add(
        "MatMul", b.add("Conv", b.input(1, 3, 9, 2), uneven(b, 3, 3, 1, 1)), b.input(1, 3, 2, 9)
    )
    graph = b.graph(b.add("Mul", x, b.constant(0.5, "float32")))
    assert kinds(same_numbers(graph, normalize)) == ["Conv", "MatMul"]


def test_weightless_scales_move_too() -> None:
    b = GraphBuilder()
    x = b.add("MatMul", b.input(3, 9, 4), b.input(3, 4, 9))
    graph = without_numbers(b.graph(b.add("Mul", x, b.constant(0.5, "float32"))))
    after = move_scales(graph)
    check_structure(graph, after)
    assert kinds(after) == ["Mul", "MatMul"]


def test_attention_is_still_seen_once_its_scale_has_moved() -> None:
    b = GraphBuilder()
    q, k, v = b.input(3, 9, 4), b.input(3, 4, 9), b.input(3, 9, 4)
    x = b.add("Mul", b.add("MatMul", q, k), b.constant(0.5, "float32"))
    x = b.add("MatMul", b.add("Softmax", b.add("Add", x, b.input(9, 9)), axis=-1), v)
    before = b.graph(x)
    after = same_numbers(before, move_scales)
    assert kinds(after) == ["Mul", "MatMul", "Add", "Softmax", "MatMul"]
    seen = [[(i.kind, i.inputs, i.parameters) for i in recognise(g)] for g in (before, after)]
    assert seen[0] == seen[1] != []


def test_scales_that_are_better_left_alone() -> None:
    def graph_of(write: Callable[[GraphBuilder, str], str], dtype: str = "float32") -> Graph:
        b = GraphBuilder()
        x = b.add("MatMul", b.input(9, 4, dtype=dtype), b.input(4, 9, dtype=dtype), name="product")
        return b.graph(write(b, x))

    def by(number: object, kind: str = "Mul") -> Callable[[GraphBuilder, str], str]:
        return lambda b, x: b.add(kind, x, b.constant(number, str(b.type(x).dtype)))

    b = GraphBuilder()
    small = b.add("MatMul", b.input(3, 8), b.input(8, 3))
    scaled = b.add("Mul", small, b.constant(0.5, "float32"))
    half = graph_of(by(2.0), "float16")
    graphs = [
        b.graph(scaled),  # operands are larger
        half,  # may not grow
        graph_of(by(0.0)),
        graph_of(by(0.0, "Div")),
        graph_of(by(float("inf"))),
        graph_of(by([[[0.5]]])),  # adds an axis
        graph_of(by(np.full(9, 0.5))),
        graph_of(lambda b, x: b.add("Mul", x, x)),
        graph_of(lambda b, x: b.add("Mul", x, b.input(1))),
        graph_of(lambda b, x: b.add("Div", b.constant(2.0, "float32"), x)),
        graph_of(lambda b, x: b.add("Add", b.add("Mul", x, b.constant(2.0, "float32")), x)),
    ]
    shown = graph_of(by(0.5))
    graphs.append(replace(shown, outputs=(*shown.outputs, "product")))
    for graph in graphs:
        assert move_scales(graph) is graph
    assert move_scales(graph_of(by(0.5), "float16")).nodes != half.nodes


@pytest.mark.parametrize(
    ("model", "scaled"),
    [("vit_b16", 12), ("vit_b16@64x64", 0), ("bert_base", 12), ("sd15_down_block", 4)],
)
def test_attention_of_the_zoo_scales_queries_or_keys(model: str, scaled: int) -> None:
    graph = zoo.build(model)
    after = normalize(graph)
    verify(after)
    assert [n.name for n in after.nodes if n.kind == "MatMul"] == [
        n.name for n in graph.nodes if n.kind == "MatMul"
    ]
    products = {x for n in after.nodes if n.name.endswith(".scores") for x in n.inputs}
    moved = [n for n in after.nodes if n.kind == "Mul" and n.outputs[0] in products]
    assert len(moved) == scaled
    assert [i.parameters for i in recognise(after) if i.kind == "attention"] == [
        i.parameters for i in recognise(graph) if i.kind == "attention"
    ]


# Scales in weights


def folded(graph: Graph) -> Graph:
    return fold_scales(graph)[0]


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("product", ["MatMul", "Gemm", "Conv"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("scores", [True, False])
def test_a_scale_goes_into_the_filters_that_make_its_operand(
    product: str, bias: bool, joint: bool, shared: bool, scores: bool
) -> None:
    b = GraphBuilder()
    width = 24 if joint else 12
    more = [uneven(b, width)] if bias else []
    match product:
        case "MatMul":
            weight, data = uneven(b, 6, width), b.input(1, 9, 6)
            x = b.add("MatMul", data, weight)
            x = b.add("Add", *more, x) if bias else x
        case "Gemm":
            weight, data = uneven(b, width, 6), b.input(9, 6)
            x = b.add("Gemm", data, weight, *more, transB=1, alpha=0.5)
        case _:
            weight, data = uneven(b, width, 6, 1, 1), b.input(1, 6, 3, 3)
            x = b.add("Conv", data, weight, *more)
            x = b.add("Transpose", x, perm=[0, 2, 3, 1])
    others = [b.add("Tanh", b.add("Add", weight, weight))] if shared else []
    if joint:
        x = b.add("Reshape", x, b.constant([1, 9, 2, 3, 4], "int64"))
        x = b.add("Transpose", x, perm=[2, 0, 3, 1, 4])
        x = b.add("Split", x, b.constant([1, 1], "int64"), outputs=2, axis=0)
        others.append(b.add("Tanh", f"{x}.1"))
    x = b.add("Reshape", x, b.constant([3, 9, 4], "int64"))
    x = b.add("MatMul", x, b.input(3, 4, 9)) if scores else x
    x = b.add("Div", x, b.constant(2.5, "float32"))
    graph = b.graph(b.add("Relu", x), *others)
    after = same_numbers(graph, folded)
    assert kinds(after) == [kind for kind in kinds(graph) if kind != "Div"]
    assert set(after.outputs) == set(graph.outputs) and x in after.producer


def test_scales_stay_where_no_filters_make_just_their_operand() -> None:
    def graph_of(write: Callable[[GraphBuilder, str], str]) -> Graph:
        b = GraphBuilder()
        x = b.add("MatMul", b.input(1, 4, 6), uneven(b, 6, 8))
        return b.graph(b.add("Relu", write(b, x)))

    def half(b: GraphBuilder, x: str) -> str:
        return b.add("Mul", x, b.constant(0.5, "float32"))

    def of_rows(b: GraphBuilder, x: str) -> str:
        first = b.add("Split", x, b.constant([2, 2], "int64"), outputs=2, axis=1)
        return b.add("Add", half(b, first), f"{first}.1")

    def squared(b: GraphBuilder, x: str) -> str:
        x = b.add("Reshape", x, b.constant([2, 4, 4], "int64"))
        return half(b, b.add("MatMul", x, x))

    graphs = [
        graph_of(of_rows),  # a filter makes other numbers too
        graph_of(squared),
        graph_of(lambda b, x: b.add("Add", half(b, x), x)),
        graph_of(lambda b, x: half(b, b.add("Relu", x))),
        graph_of(lambda b, x: half(b, b.add("Add", x, uneven(b, 4, 1)))),  # a bias for every row
        graph_of(lambda b, x: half(b, b.add("Add", x, b.input(8)))),
        graph_of(lambda b, x: b.add("Div", b.constant(0.5, "float32"), x)),
    ]
    for graph in graphs:
        assert folded(graph) is graph


def test_scales_without_numbers_leave_weights_without() -> None:
    b = GraphBuilder()
    x = b.add("Add", b.add("MatMul", b.input(4, 6), uneven(b, 6, 8)), uneven(b, 8))
    graph = without_numbers(b.graph(b.add("Relu", b.add("Mul", x, b.constant(0.5, "float32")))))
    after = folded(graph)
    check_structure(graph, after)
    assert kinds(after) == ["MatMul", "Add", "Relu"]
    assert all(constant.data is None for constant in after.constants.values())


@pytest.mark.parametrize("model", ["vit_b16", "vit_b16@64x64", "bert_base", "sd15_down_block"])
def test_attention_of_the_zoo_can_do_without_scales(model: str) -> None:
    graph = normalize(zoo.build(model))
    after, scales = fold_scales(graph)
    verify(after)
    assert len(after.nodes) == len(graph.nodes) - len(scales) < len(graph.nodes)
    assert not [
        n for n in after.nodes if n.kind == "Mul" and any(x in after.constants for x in n.inputs)
    ]
    seen = [[i.nodes[-1] for i in recognise(g) if i.kind == "attention"] for g in (graph, after)]
    assert seen[0] == seen[1] != []


# All together


def test_all_passes_together() -> None:
    b = GraphBuilder(opset=21)
    x = b.add("Conv", b.add("Identity", b.input(1, 4, 8, 8)), uneven(b, 8, 4, 3, 3))
    x = b.add("Dropout", batch_norm(b, x, 8))
    x = group_norm(b, hard_swish(b, x), uneven(b, 8, 1, 1), uneven(b, 8, 1, 1))
    x = b.add("Reshape", b.add("Flatten", x, axis=2), b.constant([1, 8, -1], "int64"))
    x = b.add("Identity", gelu(b, layer_norm(b, x, uneven(b, 36), uneven(b, 36))))
    after = same_numbers(b.graph(x), normalize)
    assert kinds(after) == [
        "Conv",
        "HardSwish",
        "GroupNormalization",
        "Reshape",
        "LayerNormalization",
        "Gelu",
    ]


def test_every_pass_says_what_it_does() -> None:
    assert [run_pass.__name__ for run_pass in PASSES] == [
        "remove_no_ops",
        "merge_views",
        "remove_no_ops",
        "collapse_idioms",
        "move_scales",
        "fold_channel_affine",
        "fold_quantisation",
        "constants_last",
    ]
    assert all(run_pass.__doc__ for run_pass in PASSES)


FOLDED = {
    "light_densenet121": 668 - 301,
    "light_inception_v2": 371 - 207,
    "light_resnet50": 176 - 53,
    "light_shufflenet": 203 - 49,
    "light_squeezenet": 66 - 1,
    "light_vgg19": 46 - 2,
}


@pytest.mark.parametrize("model", FOLDED)
def test_old_networks_lose_their_batch_norms_and_dropouts(model: str) -> None:
    graph = load_onnx(LIGHT / f"{model}.onnx").graph
    after = normalize(graph)
    check_structure(graph, after)
    assert len(after.nodes) == FOLDED[model]


def test_an_old_network_keeps_its_numbers() -> None:
    same_numbers(load_onnx(LIGHT / "light_shufflenet.onnx").graph, normalize)


@pytest.mark.parametrize("model", ["bert", "vit_b_16", "sd15_unet", "efficientnet_b0"])
def test_real_models_stay_valid(model: str) -> None:
    graph = real_model(model)
    after = normalize(graph)
    verify(after)
    assert after.outputs == graph.outputs
    assert len(after.nodes) <= len(graph.nodes)
