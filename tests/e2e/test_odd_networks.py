"""Networks that are unusual and yet legal: nothing to compute, branches that nobody reads,
operators of which little is known."""

from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright
from support.builder import GraphBuilder
from tilewright import planning
from tilewright.graph.graph import Node


def value(name: str, shape: list[int]):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model(nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "odd", inputs, outputs, list(constants))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("layers", [True, False])
def test_a_model_that_hands_its_input_through_has_a_bound_of_nothing(layers: bool) -> None:
    x = value("x", [1, 4, 8, 8])
    run = tilewright.plan(model([], [x], [x]), "npu-2.7", layer_by_layer=layers)
    assert run.verified
    assert run.lower_bound_cycles == run.latency_cycles == run.traffic_bytes == 0


def test_an_input_that_is_also_an_output_is_not_counted_as_written() -> None:
    x, y = value("x", [1, 4, 8, 8]), value("y", [1, 4, 8, 8])
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="relu")]
    alone = tilewright.plan(model(nodes, [x], [y]), "npu-2.7", fast=True)
    both = tilewright.plan(model(nodes, [x], [y, x]), "npu-2.7", fast=True)
    assert both.verified and both.lower_bound_cycles <= both.latency_cycles
    assert both.planned.bounds.compulsory_bytes == alone.planned.bounds.compulsory_bytes


def test_a_branch_that_nobody_reads_is_left_out() -> None:
    graph = tilewright.load("four_convs@16x16").graph
    dead = Node("dead", "Relu", ("conv2",), ("unread",))
    types = {**graph.types, "unread": graph.types["conv2"]}
    longer = replace(graph, nodes=(*graph.nodes, dead), types=types)
    run = tilewright.plan(longer, "npu-2.7", fast=True)
    assert run.verified
    assert "dead" not in run.layers.column("node")


def test_operators_costed_by_their_bytes_are_warned_of_and_marked(succeeds, tmp_path: Path) -> None:
    x, y = value("x", [4, 8, 8]), value("y", [4])
    path = tmp_path / "determinants.onnx"
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Det", ["r"], ["y"], name="determinant"),
    ]
    path.write_bytes(model(nodes, [x], [y]).SerializeToString())
    folder, csv = tmp_path / "run", tmp_path / "layers.csv"
    outcome = succeeds("plan", path, "--on", "npu-2.7", "--out", folder, "--csv", csv)
    assert "warning: costed by their bytes alone" in outcome.err
    assert "'determinant' (Det)" in outcome.err
    assert csv.read_text().splitlines()[2].endswith(",bytes alone")
    assert "bytes alone" in (tmp_path / "layers.groups.csv").read_text()
    assert "costed by their bytes alone" in (folder / "report.html").read_text()
    assert "bytes alone" in succeeds("show", "model", path).out
    run = tilewright.plan(path, "npu-2.7", layer_by_layer=True, verify=False)
    assert run.layers.column("costed_by") == ["", "bytes alone"]
    assert run.summary["warnings"]


def test_a_recurrent_operator_is_costed_by_its_bytes_and_its_share_of_the_work_is_told() -> None:
    x, y = value("x", [6, 1, 8]), value("y", [6, 1, 1, 16])
    shapes = {"w": (1, 48, 8), "r": (1, 48, 16)}
    weights = [numpy_helper.from_array(np.zeros(s, np.float32), n) for n, s in shapes.items()]
    gru = helper.make_node("GRU", ["x", "w", "r"], ["y"], name="gru", hidden_size=16)
    run = tilewright.plan(model([gru], [x], [y], weights), "npu-2.7", fast=True)
    assert "'gru' (GRU) (100% of the network's" in run.summary["warnings"][0]
    assert run.layers.column("costed_by") == ["bytes alone"]


def narrow_weights(kind: int, extents: list[int]):
    """A product with weights of few bits."""
    numbers = np.arange(prod(extents)) % 4
    constants = [
        helper.make_tensor("w", kind, extents, numbers),
        helper.make_tensor("s", TensorProto.FLOAT, [], [0.1]),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["wide"], name="dq"),
        helper.make_node("MatMul", ["x", "wide"], ["y"], name="mm"),
    ]
    x, y = value("x", [8, extents[0]]), value("y", [8, extents[1]])
    return model(nodes, [x], [y], constants)


@pytest.mark.parametrize("machine", ["npu-2.7", "mcu"])
def test_four_bit_weights_move_as_many_bytes_as_they_have(machine: str) -> None:
    extents = [33, 63]  # an odd number of elements: the last byte has half of its own
    bytewise = tilewright.plan(narrow_weights(TensorProto.UINT8, extents), machine, fast=True)
    packed = tilewright.plan(narrow_weights(TensorProto.UINT4, extents), machine, fast=True)
    assert packed.verified and packed.lower_bound_cycles <= packed.latency_cycles
    assert packed.latency_cycles < bytewise.latency_cycles
    assert bytewise.traffic_bytes - packed.traffic_bytes == prod(extents) // 2
    bounds = [run.planned.bounds.compulsory_bytes for run in (bytewise, packed)]
    assert bounds[0] - bounds[1] == prod(extents) // 2
    assert any("'w' is uint4" in text for text in packed.planned.warnings)
    assert not bytewise.planned.warnings


def test_weights_that_onnxruntime_cannot_read_are_refused_before_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = narrow_weights(TensorProto.FLOAT4E2M1, [16, 16])
    net.opset_import[0].version, net.ir_version = 23, 11

    def searched(*_: object, **__: object) -> None:
        pytest.fail("a plan was looked for")

    monkeypatch.setattr(planning, "plan", searched)
    with pytest.raises(tilewright.TilewrightError, match="DequantizeLinear"):
        tilewright.plan(net, "npu-2.7")


def blocked_weights(kind: int, axis: int):
    """A product with weights of few bits and a scale and zero point for each block of 16, as
    exporters of language models write them."""
    extents, block = [96, 64], 16
    blocks = [count // block if k == axis else count for k, count in enumerate(extents)]
    random = np.random.default_rng(0)
    constants = [
        helper.make_tensor("w", kind, extents, np.arange(prod(extents)) % 4),
        numpy_helper.from_array(random.uniform(0.1, 0.2, blocks).astype(np.float32), "s"),
        helper.make_tensor("z", kind, blocks, np.arange(prod(blocks)) % 3),
    ]
    read = {"axis": axis, "block_size": block, "name": "dq"}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wide"], **read),
        helper.make_node("MatMul", ["x", "wide"], ["y"], name="mm"),
    ]
    return model(nodes, [value("x", [32, 96])], [value("y", [32, 64])], constants)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", [TensorProto.UINT4, TensorProto.UINT8])
def test_weights_with_a_scale_for_each_block_are_cut_and_moved_packed(kind: int, axis: int) -> None:
    bits = {TensorProto.UINT4: 4, TensorProto.UINT8: 8}[kind]
    run = tilewright.plan(blocked_weights(kind, axis), "mcu", fast=True)
    assert run.verified and run.layers.column("engine") == ["core.cpu", "core.array"]
    scales = 96 * 64 // 16
    assert run.traffic_bytes == 32 * 96 + 32 * 64 + scales + (96 * 64 + scales) * bits // 8
    tiles = tilewright.tile(blocked_weights(kind, axis), {str(axis): 5}, node="dq")
    wanted = (
        ["0-32 x 0-64", "32-64 x 0-64", "64-96 x 0-64"],
        [f"0-96 x {k}-{k + 16}" for k in range(0, 64, 16)],
    )
    assert tiles.as_table().column("output") == wanted[axis], "blocks stay whole"


@pytest.mark.parametrize("kind", [TensorProto.UINT4, TensorProto.INT4])
def test_runs_with_weights_of_few_bits_are_read_again(kind: int, tmp_path: Path) -> None:
    tilewright.plan(blocked_weights(kind, 0), "mcu", layer_by_layer=True).save(tmp_path / "run")
    assert tilewright.verify(tmp_path / "run").verified


def test_an_element_type_that_only_vector_engines_have_is_warned_of(succeeds) -> None:
    asked = ("plan", "four_convs@16x16", "--on", "mcu", "--layer-by-layer", "--no-verify")
    warned = succeeds(*asked, "--dtype", "fp16").err
    assert "warning: the arrays of mcu have no elements of type fp16" in warned
    assert "vector engines run 'conv1' (Conv), 'conv2' (Conv), 'conv3' (Conv) and 1 more" in warned
    assert "warning" not in succeeds(*asked).err


def test_a_stride_that_leaves_one_position_is_as_long_as_the_input() -> None:
    """However far a convolution would step, it does not step: once it asked for 200 GB."""
    b = GraphBuilder()
    x = b.add("Relu", b.input(1, 8, 12, 12))
    b.add("Conv", x, b.weight(8, 8, 3, 3), pads=[1] * 4, strides=[1, 2**31 - 1])
    graph = b.graph()
    for machine in ("mcu", "npu-2.7"):
        run = tilewright.plan(graph, machine, layer_by_layer=True)
        assert run.verified
        assert all(kind.bytes < 10_000 for kind in run.planned.graph.types.values())


def test_inputs_without_elements_are_no_bytes() -> None:
    """Exporters give Resize an empty region of interest, and concatenate with nothing."""
    nodes = [
        helper.make_node("Resize", ["x", "empty", "scales"], ["r"], name="resize", mode="nearest"),
        helper.make_node("Concat", ["r", "none"], ["y"], name="concat", axis=1),
    ]
    constants = [
        helper.make_tensor("empty", TensorProto.FLOAT, [0], []),
        helper.make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, 2, 2]),
        helper.make_tensor("none", TensorProto.FLOAT, [1, 0, 16, 16], []),
    ]
    network = model(nodes, [value("x", [1, 4, 8, 8])], [value("y", [1, 4, 16, 16])], constants)
    for machine in ("mcu", "three-core-bus"):
        assert tilewright.plan(network, machine, layer_by_layer=True).verified
        assert tilewright.plan(network, machine, effort="low").verified


def test_shapes_that_follow_from_an_operator_of_onnxruntime_are_known() -> None:
    nodes = [
        helper.make_node("BiasGelu", ["x", "b"], ["g"], name="gelu", domain="com.microsoft"),
        helper.make_node("Shape", ["g"], ["s"], name="shape"),
        helper.make_node("Concat", ["one", "s"], ["t"], name="target", axis=0),
        helper.make_node("Reshape", ["g", "t"], ["r"], name="reshape"),
        helper.make_node("Relu", ["r"], ["y"], name="relu"),
    ]
    constants = [
        helper.make_tensor("b", TensorProto.FLOAT, [8], [0.5] * 8),
        helper.make_tensor("one", TensorProto.INT64, [1], [1]),
    ]
    network = model(nodes, [value("x", [2, 8])], [value("y", [1, 2, 8])], constants)
    run = tilewright.plan(network, "mcu", effort="low")
    assert run.verified
    assert "shape" not in run.layers.column("node")
