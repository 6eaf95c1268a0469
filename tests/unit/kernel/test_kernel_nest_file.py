"""Nests as YAML, and kernels of networks."""

from pathlib import Path
from typing import Any

import pytest

import tilewright
from support.builder import GraphBuilder
from support.refusals import assert_refused
from tilewright.kernel.from_graph import problem_of
from tilewright.kernel.ladder import RUNGS
from tilewright.kernel.nest_file import nest_text, read_nest
from tilewright.kernel.problem import KernelError, KernelProblem
from tilewright.kernel.target import target_of
from tilewright.machine.load import load_machine

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("rung", RUNGS)
def test_nests_are_read_as_they_were_written(rung: str, tmp_path: Path) -> None:
    nest = RUNGS[rung](KernelProblem(256, 224, 224, 256, pool=2), target_of(load_machine("trn2")))
    path = tmp_path / "nest.yaml"
    path.write_text(nest_text(nest))
    assert read_nest(path) == nest


def test_a_short_file_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("tiles: {rows: 2, cols: 222, block_rows: 4}\n")
    nest = read_nest(path)
    assert (nest.name, nest.tile_rows, nest.block_rows, nest.x_at) == ("mine", 2, 4, "in")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a list", "the nest has to be a mapping"),
        ("tile: {rows: 1}", "no key 'tile'"),
        ("tiles: {row: 1}", "tiles has no key 'row'"),
        ("tiles: {rows: two}", "tiles.rows has to be a whole number, is 'two'"),
        ("tiles: {rows: true}", "tiles.rows has to be a whole number"),
        ("result: {pool_first: 1}", "result.pool_first has to be true or false"),
        ("input: {copy: 3}", "input.copy has to name a loop, or be null"),
        ("loops: image", "'loops' has to be a list"),
        ("tiles: {rows: 1", "is not YAML: line"),
    ],
)
def test_wrong_files_are_named_with_their_key(text: str, says: str, tmp_path: Path) -> None:
    assert_refused(read_nest, KernelError, tmp_path / "nest.yaml", text, says)


def network(**attributes: Any) -> Any:
    b = GraphBuilder()
    x = b.input(2, 6, 20, 24, name="x")
    y = b.add("Conv", x, b.weight(8, 6, 3, 3), b.weight(8), name="conv", **attributes)
    y = b.add("Relu", y, name="relu")
    b.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2], name="pool")
    return b.graph()


def test_what_follows_a_convolution_goes_with_it() -> None:
    found = problem_of(network(pads=[1, 1, 1, 1]), "Conv_conv", "fp16")
    assert found == KernelProblem(
        6, 20, 24, 8, (3, 3), 2, pool=2, dtype="fp16", relu=True, pads=(1, 1, 1, 1)
    )


@pytest.mark.parametrize(
    ("attributes", "pads"),
    [
        ({"strides": [2, 3]}, (0, 0, 0, 0)),
        ({"strides": [2, 3], "pads": [1, 0, 1, 2]}, (1, 0, 1, 2)),
        ({"strides": [2, 3], "auto_pad": "SAME_UPPER"}, (0, 0, 1, 0)),
        ({"strides": [1, 3], "auto_pad": "SAME_LOWER"}, (1, 0, 1, 0)),
    ],
)
def test_strides_come_along(attributes: dict[str, Any], pads: tuple[int, ...]) -> None:
    graph = network(**attributes)
    found = problem_of(graph, "Conv_conv", "fp32")
    assert found.strides == tuple(attributes["strides"]) and found.pads == pads
    made = graph.types[graph.nodes[graph.index["Conv_conv"]].outputs[0]].shape
    assert made == (2, 8, found.out_height, found.out_width)
    plan = tilewright.kernel(model=graph, node="Conv_conv", dtype="fp32", searched=True)
    assert plan.proof is not None and plan.proof.rows == plan.proof.of_rows


def test_a_grouped_convolution_says_what_can_be_planned_of_it() -> None:
    b = GraphBuilder()
    x = b.input(1, 8, 9, 9, name="x")
    b.add("Conv", x, b.weight(12, 2, 3, 3), group=4, name="conv")
    with pytest.raises(KernelError, match="4 groups is a convolution of 2 to 3 channels"):
        problem_of(b.graph(), "Conv_conv", "fp16")


@pytest.mark.parametrize(
    ("attributes", "node", "says"),
    [
        ({"dilations": [2, 2]}, "Conv_conv", "kernels have no dilations"),
        ({}, "Relu_relu", "is a Relu"),
        ({}, "nothing", "no node 'nothing'; its convolutions are: Conv_conv"),
    ],
)
def test_what_kernels_cannot_do_is_said(attributes: dict[str, Any], node: str, says: str) -> None:
    with pytest.raises(KernelError, match=says):
        problem_of(network(**attributes), node, "fp16")


def test_the_package_is_the_function() -> None:
    plan = tilewright.kernel(image=(6, 20, 24), out_channels=8, pool=2, dtype="fp32")
    assert plan.proof is not None
    assert plan.assessment.legal
    graph = network()
    assert tilewright.kernel(model=graph, node="Conv_conv", searched=True).found is not None
