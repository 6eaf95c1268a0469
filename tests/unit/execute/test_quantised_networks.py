"""Quantised networks are judged by steps, operator by operator."""

from dataclasses import replace

import numpy as np
import pytest

from support.builder import GraphBuilder
from support.compare import run_kernels
from tilewright.execute.compare import Comparison, compared
from tilewright.execute.quantised import judged
from tilewright.execute.runtime import run
from tilewright.frontend.normalize import normalize
from tilewright.frontend.save import serialize
from tilewright.graph.graph import Array, Graph

TOLERANCE = 1e-4


def network() -> Graph:
    """Two quantised convolutions and a pool, as a quantiser writes them."""
    b = GraphBuilder()

    def steps(scale: float, zero: int, dtype: str = "uint8") -> tuple[str, str]:
        return b.constant(scale, "float32"), b.constant(zero, dtype)

    def conv(x: str, channels: int) -> str:
        data = b.constant(b.random.integers(-90, 90, (channels, b.shape(x)[1], 3, 3)), "int8")
        weight = b.add("DequantizeLinear", data, *steps(0.01, 0, "int8"))
        return b.add("Conv", x, weight, pads=(1, 1, 1, 1))

    def through(x: str, scale: float, zero: int) -> str:
        pair = steps(scale, zero)
        return b.add("DequantizeLinear", b.add("QuantizeLinear", x, *pair), *pair)

    y = through(b.input(1, 3, 8, 8), 0.05, 128)
    y = through(conv(y, 8), 0.1, 120)
    y = through(conv(y, 6), 0.3, 120)
    y = b.add("AveragePool", y, kernel_shape=(2, 2), strides=(2, 2))
    return b.graph(through(y, 0.3, 120))


GRAPH = network()
PLANNED = normalize(GRAPH)
FEEDS = {"x0": np.random.default_rng(4).uniform(-5, 5, (1, 3, 8, 8)).astype(np.float32)}
WEIGHTS = {name: c.data for name, c in PLANNED.constants.items() if c.data is not None}


def reference(names: tuple[str, ...]) -> dict[str, Array]:
    """The original's values, those that it has."""
    made = {name for node in GRAPH.nodes for name in node.writes}
    wanted = (*GRAPH.outputs, *(n for n in names if n in made and n not in GRAPH.outputs))
    return run(serialize(replace(GRAPH, outputs=wanted)), FEEDS, precise=True)


def judge(planned: Graph, actual: dict[str, Array]) -> Comparison:
    expected = {name: reference(())[name] for name in GRAPH.outputs}
    weights = {name: c.data for name, c in planned.constants.items() if c.data is not None}
    return judged(
        planned,
        expected,
        actual,
        TOLERANCE,
        inputs=FEEDS,
        weights=weights,
        reference=reference,
    )


def test_one_step_where_rounding_ties_is_the_same_and_said() -> None:
    actual = run_kernels(PLANNED, FEEDS)
    expected = {name: reference(())[name] for name in GRAPH.outputs}
    assert not compared(expected, actual, TOLERANCE).same  # means of four lie between two steps
    found = judge(PLANNED, actual)
    assert found.same
    assert 0 < found.rounded < found.elements
    assert "quantised numbers are one step apart" in found.told()


def test_a_program_that_computes_something_else_is_found() -> None:
    actual = run_kernels(PLANNED, FEEDS)
    (name,) = GRAPH.outputs
    wrong = actual[name].copy()
    wrong[0, 2, 1, 3] += 0.3
    found = judge(PLANNED, {name: wrong})
    failure = found.failure
    assert failure is not None
    assert (failure.tensor, failure.place) == (name, (0, 2, 1, 3))
    assert failure.cause == "the program does not compute the network that was planned"


@pytest.mark.parametrize("kind", ["QLinearConv", "QLinearAveragePool"])
def test_an_operator_that_is_steps_off_is_named(kind: str) -> None:
    node = next(node for node in PLANNED.nodes if node.kind == kind)
    scale = node.inputs[1]
    data = PLANNED.constants[scale].data
    assert data is not None
    doubled = replace(PLANNED.constants[scale], data=data * 2)
    # The fault is the operator's alone: others may share its scale.
    faulty = replace(
        PLANNED,
        nodes=tuple(
            replace(n, inputs=(n.inputs[0], "doubled", *n.inputs[2:])) if n is node else n
            for n in PLANNED.nodes
        ),
        constants={**PLANNED.constants, "doubled": doubled},
        types={**PLANNED.types, "doubled": doubled.type},
    )
    found = judge(faulty, run_kernels(faulty, FEEDS))
    assert found.failure is not None
    assert found.failure.tensor == node.outputs[0]
    assert node.name in found.failure.cause
    assert "quantisation steps from the original's" in found.told()


def test_floats_say_where_and_how_far() -> None:
    want = {"y": np.asarray([[1.0, 2.0], [4.0, 3.0]])}
    got = {"y": np.asarray([[1.0, 2.0], [4.0, 3.5]])}
    found = compared(want, got).failure
    assert found is not None
    assert (found.tensor, found.place, found.expected, found.actual) == ("y", (1, 1), 3.0, 3.5)
    assert "1 of 4 elements" in found.cause
    lost = compared(want, {"y": np.asarray([[1.0, np.nan], [4.0, 3.0]])}).failure
    assert lost is not None
    assert lost.place == (0, 1)
    assert "nothing had written" in lost.cause
