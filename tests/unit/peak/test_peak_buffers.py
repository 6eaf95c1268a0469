"""Lifetimes: what shares a buffer, and when a buffer goes. All values are 1 MiB."""

import pytest

from support.builder import GraphBuilder
from tilewright.peak import Live, Moment, Runtime, predict_peak

pytestmark = pytest.mark.quick

MIB = 1 << 20
PLAIN = Runtime(
    block=1, extended=False, bookkeeping=False
)  # no fusion stands between a node and its kernel


def value(b: GraphBuilder) -> str:
    return b.input(1, 16, 128, 128)


def peak(b: GraphBuilder, *outputs: str) -> int:
    return predict_peak(b.graph(*outputs), PLAIN).peak


@pytest.mark.parametrize(
    "kind", ["Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "HardSigmoid", "Softplus", "Clip"]
)
def test_activations_work_in_place(kind: str) -> None:
    b = GraphBuilder()
    b.add("Abs", b.add(kind, b.add("Abs", value(b))))
    assert peak(b) == 2 * MIB  # the output of the network has its own


@pytest.mark.parametrize("kind", ["Exp", "Sqrt", "Erf", "Abs", "Neg", "Floor", "HardSwish"])
def test_other_unary_operators_do_not(kind: str) -> None:
    b = GraphBuilder()
    middle = b.add(kind, b.add("Tanh", value(b)))
    b.add("Slice", middle, *(b.constant([v], "int64") for v in (0, 1, 1)))
    scratch = MIB if kind == "HardSwish" else 0
    assert peak(b) == 2 * MIB + scratch


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"])
def test_binary_operators_are_not_in_place(kind: str) -> None:
    b = GraphBuilder()
    x = value(b)
    left, right = b.add("Exp", x), b.add("Abs", x)
    b.add("Relu", b.add(kind, left, right))
    assert peak(b) == 3 * MIB


def test_not_in_place_while_another_reads_it() -> None:
    b = GraphBuilder()
    x = b.add("Abs", value(b))
    b.add("Sub", x, b.add("Relu", x))
    assert peak(b) == 3 * MIB


@pytest.mark.parametrize("extra", [False, True])
def test_a_view_shares_its_source_even_if_others_read_that(extra: bool) -> None:
    b = GraphBuilder()
    x = b.add("Abs", value(b))
    view = b.add("Reshape", x, b.constant([16, -1], "int64"))
    outputs = [b.add("ReduceMax", view, keepdims=0)]
    if extra:
        outputs.append(b.add("ReduceMin", x, keepdims=0))
    assert peak(b, *outputs) == MIB + 4 * len(outputs)


def test_a_view_of_an_input_of_the_network_costs_nothing() -> None:
    b = GraphBuilder()
    b.add("Exp", b.add("Flatten", value(b)))
    assert peak(b) == MIB


def test_outputs_of_the_network_have_buffers_of_their_own() -> None:
    b = GraphBuilder()
    b.add("Reshape", b.add("Abs", value(b)), b.constant([16, -1], "int64"))
    assert peak(b) == 2 * MIB


def test_inputs_and_constants_do_not_count() -> None:
    b = GraphBuilder()
    b.add("Add", value(b), b.weight(1, 16, 128, 128))
    assert peak(b) == MIB


def test_a_result_nobody_reads_goes_at_once() -> None:
    b = GraphBuilder()
    x = value(b)
    wanted = b.add("Neg", b.add("Abs", x))
    unread = b.add("Exp", x)  # the last leaf runs first
    levels = [moment.bytes for moment in predict_peak(b.graph(wanted), PLAIN).trace]
    assert levels == [MIB, MIB, 2 * MIB]
    levels = [moment.bytes for moment in predict_peak(b.graph(wanted, unread), PLAIN).trace]
    assert levels == [MIB, 2 * MIB, 3 * MIB]


def test_the_prediction_says_where_and_of_what() -> None:
    b = GraphBuilder()
    x = b.add("Abs", value(b), name="x")
    half = b.add("Slice", x, *(b.constant([v], "int64") for v in (0, 8, 1)), name="half")
    b.add("ReduceMax", b.add("Concat", x, half, axis=1, name="joined"), keepdims=0, name="most")
    found = predict_peak(b.graph(), PLAIN)
    assert found.at == "joined"
    assert found.peak == 3 * MIB
    assert found.live == (
        Live("joined", 3 * MIB // 2),
        Live("x", MIB),
        Live("half", MIB // 2),
    )
    assert found.trace == (
        Moment("x", MIB),
        Moment("half", 3 * MIB // 2),
        Moment("joined", 3 * MIB),
        Moment("most", 3 * MIB // 2 + 4),
    )


def test_blocks_are_whole_pages_and_small_ones_are_not_free() -> None:
    def counted(*shape: int) -> int:
        b = GraphBuilder()
        b.add("Exp", b.input(*shape, dtype="float32"))
        return predict_peak(b.graph()).peak

    assert counted(5000) // 4096 == 5
    assert counted(5120) // 4096 == 6, "it begins behind a header"
    assert counted(5088) // 4096 == 6, "and ends at a multiple of 64 bytes"
    assert 4 * 16 < counted(16) < 1024


def test_tiles_of_less_than_a_page_leave_holes() -> None:
    """Counted in onnxruntime: the heap grows to twice what lies on it."""
    tiles, size = 20, 3 * 1024
    b = GraphBuilder()
    parts = [b.add("Exp", b.input(1, size // 4)) for _ in range(tiles)]
    b.add("Concat", *parts, axis=1)
    found = predict_peak(b.graph(), Runtime(block=1, extended=False)).peak
    assert found > tiles * (2 * size + size)  # the tiles, and the concat's result


def test_a_run_has_a_place_for_every_constant() -> None:
    """Seen in onnxruntime: 24 bytes for each value that the network names, numbers or not."""

    def counted(tables: int) -> int:
        b = GraphBuilder()
        x = b.input(1, 4)
        for _ in range(tables):
            x = b.add("Add", x, b.weight(1, 4))
        return predict_peak(b.graph(), Runtime(block=1, extended=False)).peak

    assert counted(1000) - counted(500) == pytest.approx(500 * 2 * 24, abs=4096)


def test_scratch_takes_whole_pages_too() -> None:
    """A depthwise convolution of bytes has 8 bytes per tap and position: 10,368 here."""
    b = GraphBuilder()
    s, z = b.constant(0.1, "float32"), b.constant(0, "uint8")
    x, weight = b.input(1, 16, 12, 12, dtype="uint8"), b.weight(16, 1, 3, 3, dtype="int8")
    reads = (x, s, z, weight, s, b.constant(0, "int8"), s, z)
    b.add("QLinearConv", *reads, group=16, pads=[1] * 4)
    assert predict_peak(b.graph(), Runtime(block=8)).trace[1].bytes > 3 * 4096
