"""The zoo: structures that match the real networks, sizes as a user writes them."""

import numpy as np
import onnx
import pytest

from tilewright.errors import ModelError
from tilewright.frontend import proto, zoo
from tilewright.frontend.builder import Builder
from tilewright.graph.graph import Graph
from tilewright.graph.ops import macs_of
from tilewright.graph.verify import verify


def macs(graph: Graph) -> int:
    return sum(macs_of(graph, node) for node in graph.nodes)


def weights(graph: Graph) -> int:
    """Elements of all weights; the running statistics of batch norms are none."""
    return sum(
        constant.type.size
        for name, constant in graph.constants.items()
        if constant.data is None and ".running_" not in name
    )


# Multiply-accumulates of the networks as exporters write them, and their parameters (torchvision's
# for the classifiers, BERT without its pooler).
KNOWN = {
    "resnet18": (3_628_146_688 // 2, 11_689_512),
    "resnet50": (4_089_184_256, 25_557_032),
    "mobilenet_v2": (601_548_544 // 2, 3_504_872),
    "vgg16": (15_470_264_320, 138_357_544),
    "fsrcnn": (6_461_337_600, 12_809),
    "unet": (12_073_304_064, 7_763_074),
    "vit_b16": (17_563_828_224, 86_567_656),
    "bert_base": (11_173_625_856, 108_891_648),
    "sd15_down_block": (54_775_480_320, 10_524_480),
    "four_convs": (56 * 56 * 8 * 27 + 3 * 56 * 56 * 8 * 72, 8 * 27 + 3 * 8 * 72),
    "rn50_stem": (112 * 112 * 64 * 147, 64 * 147 + 128),
}


@pytest.mark.parametrize("name", zoo.MODELS)
def test_macs_and_weights_are_those_of_the_real_network(name: str) -> None:
    graph = zoo.build(name)
    verify(graph)
    assert (macs(graph), weights(graph)) == KNOWN[name]


@pytest.mark.parametrize("name", zoo.MODELS)
def test_every_value_has_a_type_and_onnx_accepts_the_graph(name: str) -> None:
    graph = zoo.build(name)
    assert all(value in graph.types for node in graph.nodes for value in node.writes)
    model = proto.model_proto(graph, {}, with_weights=False)  # declared as inputs instead
    for value, constant in graph.constants.items():
        model.graph.input.append(
            onnx.helper.make_tensor_value_info(
                value,
                onnx.helper.np_dtype_to_tensor_dtype(np.dtype(constant.type.dtype)),
                constant.type.shape,
            )
        )
    onnx.checker.check_model(model)


def test_sizes_are_height_times_width_or_a_length() -> None:
    assert zoo.build("fsrcnn@1080x1920").types["input"].shape == (1, 1, 1080, 1920)
    assert zoo.build("resnet50@512x384").types["input"].shape == (1, 3, 512, 384)
    assert zoo.build("bert_base@384").types["ids"].shape == (1, 384)
    assert macs(zoo.build("fsrcnn@1080x1920")) == 4 * KNOWN["fsrcnn"][0]


@pytest.mark.parametrize("size", ["224x224", "448x448", "512x320", "300x260"])
def test_vgg16_keeps_its_classifier_at_every_size(size: str) -> None:
    graph = zoo.build(f"vgg16@{size}")
    assert graph.types["flatten"].shape == (1, 25088)
    assert ("avgpool" in graph.index) == (size != "224x224")


@pytest.mark.parametrize(
    "text",
    [
        "resnet51",
        "",
        "resnet50@",
        "resnet50@224",
        "resnet50@axb",
        "resnet50@-1x224",
        "resnet50@0x0",
        "resnet50@224x224x3",
        "resnet50@" + "9" * 5000 + "x224",
        "resnet50@999999999x999999999",
        "unet@250x256",
        "vit_b16@220x224",
        "vgg16@192x224",
        "bert_base@513",
        "bert_base@0",
        "bert_base@128x128",
    ],
)
def test_a_bad_name_or_size_is_one_clear_line(text: str) -> None:
    with pytest.raises(ModelError) as error:
        zoo.build(text)
    assert "\n" not in str(error.value)


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(ModelError, match="resnet18, resnet50, mobilenet_v2"):
        zoo.build("alexnet")


def test_zoo_names_are_told_from_files() -> None:
    assert zoo.is_zoo_name("resnet50") and zoo.is_zoo_name("fsrcnn@nonsense")
    assert not zoo.is_zoo_name("resnet50.onnx") and not zoo.is_zoo_name("./resnet50")


def test_the_stem_has_uneven_pads_and_a_readable_name() -> None:
    graph = zoo.build("rn50_stem")
    assert [node.name for node in graph.nodes] == ["conv1", "bn1", "relu1", "maxpool"]
    assert graph.nodes[0].attributes["pads"] == (2, 2, 3, 3)
    assert graph.types["conv1"].shape == (1, 64, 112, 112)


def test_norms_activations_and_adds_are_nodes_of_their_own() -> None:
    kinds = [node.kind for node in zoo.build("resnet50").nodes]
    assert (kinds.count("Conv"), kinds.count("BatchNormalization")) == (53, 53)
    assert (kinds.count("Relu"), kinds.count("Add")) == (49, 16)
    kinds = [node.kind for node in zoo.build("mobilenet_v2").nodes]
    assert (kinds.count("Conv"), kinds.count("Clip"), kinds.count("Add")) == (52, 35, 10)


def test_resnet50_strides_in_the_3x3() -> None:
    graph = zoo.build("resnet50")
    block = {name: graph.nodes[graph.index[f"layer2.0.{name}"]] for name in ("conv1", "conv2")}
    assert block["conv1"].attributes["strides"] == (1, 1)
    assert block["conv2"].attributes["strides"] == (2, 2)


def test_the_down_block_gives_what_the_way_up_reads() -> None:
    graph = zoo.build("sd15_down_block")
    shapes = [graph.types[name].shape for name in graph.outputs]
    assert shapes == [(1, 320, 32, 32), (1, 320, 64, 64), (1, 320, 64, 64)]


def test_names_count_up_inside_their_scope() -> None:
    b = Builder("small")
    x = b.input("x", (1, 4))
    with b.scope("a"):
        x = b.op("Relu", b.op("Relu", x))
    with b.scope("b"):
        x = b.op("Relu", x)
    assert [node.name for node in b.finish(x).nodes] == ["a.relu1", "a.relu2", "b.relu1"]


def test_constants_are_folded_and_only_those_in_use_are_kept() -> None:
    b = Builder("small")
    x = b.input("x", (2, 3))
    b.weight("unused", (5,))
    two = b.op("Neg", b.constant("minus_two", np.asarray(-2.0, np.float32)), name="two")
    graph = b.finish(b.op("Mul", x, two))
    assert list(graph.constants) == ["two"] and graph.constants["two"].data == 2.0
    assert "unused" not in graph.types


def test_a_mistake_in_a_network_names_its_node() -> None:
    b = Builder("wrong")
    x = b.input("x", (1, 4, 8, 8))
    with pytest.raises(ModelError, match="'product'"):
        b.op("MatMul", x, b.weight("w", (3, 3)), name="product")


def test_two_nodes_of_one_name_are_refused() -> None:
    b = Builder("wrong")
    x = b.input("x", (4,))
    with pytest.raises(ModelError, match="two nodes"):
        b.finish(b.op("Relu", b.op("Relu", x, name="same"), name="same"))
