"""Work of operators that run whole: counted where it is known, named where it is not."""

import numpy as np
import pytest

from support.builder import GraphBuilder
from tilewright.graph.graph import Constant, Graph, Node
from tilewright.graph.ops import costed_by_bytes, macs_of, runs_whole
from tilewright.graph.types import TensorType
from tilewright.model import coverage


def recurrent(kind: str, gates: int, **attributes: object) -> Graph:
    """Length 7, batch 2, 5 inputs, 3 hidden, both directions."""
    b = GraphBuilder()
    x = b.input(*((2, 7, 5) if attributes.get("layout") else (7, 2, 5)))
    weights = b.weight(2, gates * 3, 5), b.weight(2, gates * 3, 3)
    direction = {"hidden_size": 3, "direction": "bidirectional"}
    return b.graph(b.add(kind, x, *weights, **direction, **attributes))


def attention(past: int = 0) -> Graph:
    b = GraphBuilder(opset=23)
    given = [b.input(2, 4, 6, 8), b.input(2, 4, 10, 8), b.input(2, 4, 10, 5)]
    if past:
        given += ["", b.input(2, 4, past, 8), b.input(2, 4, past, 5)]
        b.add("Attention", *given, outputs=3)
        return b.graph("v1")
    return b.graph(b.add("Attention", *given))


def flat_attention() -> Graph:
    b = GraphBuilder(opset=23)
    given = [b.input(2, 6, 32), b.input(2, 10, 16), b.input(2, 10, 10)]
    return b.graph(b.add("Attention", *given, q_num_heads=4, kv_num_heads=2))


def einsum(equation: str, *shapes: tuple[int, ...]) -> Graph:
    b = GraphBuilder()
    return b.graph(b.add("Einsum", *(b.input(*shape) for shape in shapes), equation=equation))


def fourier() -> Graph:
    b = GraphBuilder(opset=20)
    x, axis = b.input(3, 16, 1), b.constant(1, "int64")
    return b.graph(b.add("DFT", x, "", axis))


def frames(**attributes: object) -> Graph:
    b = GraphBuilder(opset=20)
    step, length = b.constant(8, "int64"), b.constant(16, "int64")
    x = b.input(2, 64, 1)
    return b.graph(b.add("STFT", x, step, b.weight(16), length, **attributes))


def deformed() -> Graph:
    b = GraphBuilder(opset=19)
    x, offsets = b.input(2, 4, 8, 8), b.input(2, 18, 6, 6)
    return b.graph(b.add("DeformConv", x, b.weight(6, 2, 3, 3), offsets, group=2))


RECURRENT = 2 * 7 * 2 * (5 + 3) * 3  # directions, length, batch, what is read, hidden
WORK = {
    "LSTM": (recurrent("LSTM", 4), RECURRENT * 4),
    "GRU": (recurrent("GRU", 3), RECURRENT * 3),
    "RNN": (recurrent("RNN", 1), RECURRENT),
    "LSTM-batch-first": (recurrent("LSTM", 4, layout=1), RECURRENT * 4),
    "Attention": (attention(), 2 * 4 * 6 * 10 * (8 + 5)),
    "Attention-past": (attention(3), 2 * 4 * 6 * 13 * (8 + 5)),
    "Attention-flat": (flat_attention(), 2 * 4 * 6 * 10 * (8 + 5)),
    "Einsum-product": (einsum("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), 2 * 3 * 4 * 5),
    "Einsum-heads": (einsum("bqhd,bkhd->bhqk", (2, 6, 4, 8), (2, 7, 4, 8)), 2 * 4 * 6 * 7 * 8),
    "Einsum-dots": (einsum("...ij,jk->...ik", (2, 3, 4), (4, 5)), 2 * 3 * 4 * 5),
    "Einsum-implicit": (einsum("ij,jk", (3, 4), (4, 5)), 3 * 4 * 5),
    "Einsum-three": (einsum("i,ij,j->", (3,), (3, 4), (4,)), 12),
    "DFT": (fourier(), 3 * 4 * 8 * 4),  # 3 signals, 4 stages of 8 complex products
    "STFT": (frames(), 2 * 7 * 4 * 8 * 4),
    "DeformConv": (deformed(), 2 * 6 * 6 * 6 * 2 * 9),
}


@pytest.mark.parametrize("name", WORK)
def test_multiply_accumulates_are_counted(name: str) -> None:
    graph, macs = WORK[name]
    (node,) = graph.nodes
    assert macs_of(graph, node) == macs
    assert runs_whole(graph, node)
    assert not costed_by_bytes(graph, node)


@pytest.mark.parametrize(
    ("onesided", "bins"), [({}, 9), ({"onesided": 1}, 9), ({"onesided": 0}, 16)]
)
def test_spectra_are_one_sided_unless_told_otherwise(onesided: dict[str, int], bins: int) -> None:
    graph = frames(**onesided)
    assert graph.types[graph.outputs[0]].shape == (2, 7, bins, 2)


def test_an_operator_of_which_only_bytes_are_known_can_be_asked_for() -> None:
    b = GraphBuilder()
    x = b.input(2, 3)
    values, _ = b.add("TopK", x, b.constant([2], "int64"), outputs=2), None
    turned = b.add("Det", b.input(2, 3, 3))
    moved = b.add("Reshape", b.add("Relu", x), b.constant([3, 2], "int64"))
    graph = b.graph(values, turned, moved)
    named = [node.kind for node in graph.nodes if costed_by_bytes(graph, node)]
    assert named == ["TopK", "Det"]
    assert coverage(graph).costed_by_bytes == ("TopK", "Det")


def test_nothing_to_multiply_is_nothing_of_nothing() -> None:
    b = GraphBuilder()
    covered = coverage(b.graph(b.add("Relu", b.input(2, 3))))
    assert (covered.macs, covered.tileable_share) == (0, None)


def test_work_that_cannot_be_cut_counts_too() -> None:
    b = GraphBuilder()
    x = b.input(3, 4)
    y = b.add("Einsum", b.add("MatMul", x, b.weight(4, 4)), b.weight(4, 5), equation="ij,jk->ik")
    covered = coverage(b.graph(y))
    assert covered.tileable_share == pytest.approx(48 / (48 + 60))


@pytest.mark.parametrize(
    ("dtype", "size", "expected"),
    [("int4", 7, 4), ("uint4", 8, 4), ("float4_e2m1fn", 3, 2), ("int2", 9, 3), ("uint2", 4, 1)],
)
def test_elements_below_a_byte_have_their_real_bytes(dtype: str, size: int, expected: int) -> None:
    assert TensorType(dtype, (size,)).bytes == expected
    assert TensorType(dtype, (1, size)).bytes == expected
    assert np.prod(TensorType(dtype, (size, 2)).shape) == 2 * size


def test_a_product_of_packed_weights_in_the_runtimes_own_domain_has_its_work() -> None:
    node = Node(
        "product",
        "MatMulNBits",
        ("x", "w", "s"),
        ("y",),
        {"K": 64, "N": 32, "bits": 4, "block_size": 32},
        "com.microsoft",
    )
    kinds = {
        "x": TensorType("float32", (2, 5, 64)),
        "w": TensorType("uint8", (32, 2, 16)),
        "s": TensorType("float32", (64,)),
        "y": TensorType("float32", (2, 5, 32)),
    }
    constants = {name: Constant(kinds[name], None) for name in ("w", "s")}
    graph = Graph("net", (node,), ("x",), ("y",), kinds, constants, {"": 21, "com.microsoft": 1})
    assert macs_of(graph, node) == 2 * 5 * 64 * 32
    assert not costed_by_bytes(graph, node)
