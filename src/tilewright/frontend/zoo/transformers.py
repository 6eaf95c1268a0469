"""Networks with attention: ViT, BERT, and a block of Stable Diffusion."""

import numpy as np

from tilewright.frontend.builder import Builder
from tilewright.graph.graph import Graph
from tilewright.graph.types import ONNX_NUMBERS

LOWEST = float(np.finfo(np.float32).min)


def vit_b16(height: int, width: int) -> Graph:
    """ViT-B/16: patches of 16x16, twelve encoder layers of 768 features and 12 heads."""
    b = Builder("vit_b16")
    x = b.input("input", (1, 3, height, width))
    x = b.conv(x, 768, 16, stride=16, bias=True, name="patches")
    x = b.reshape(x, (1, 768, -1))
    x = b.op("Transpose", x, perm=(0, 2, 1))
    x = b.op("Concat", b.weight("class_token", (1, 1, 768)), x, axis=1)
    x = b.op("Add", x, b.weight("position", b.shape(x)), name="embedded")
    for index in range(12):
        with b.scope(f"layer{index}"):
            y = b.layer_norm(x, 1e-6, "norm1")
            with b.scope("attention"):
                y = _packed_attention(b, y, 12)
            x = b.op("Add", y, x, name="add1")
            x = b.op("Add", x, _mlp(b, b.layer_norm(x, 1e-6, "norm2"), 3072), name="add2")
    x = b.layer_norm(x, 1e-6, "norm")
    first = b.constant("first", np.asarray(0, np.int64))
    x = b.op("Gather", x, first, axis=1, name="class")
    return b.finish(b.linear(x, 1000, name="head"))


def _packed_attention(b: Builder, x: str, heads: int) -> str:
    """Self-attention whose query, key and value come from one product."""
    batch, length, features = b.shape(x)
    packed = b.linear(x, 3 * features, name="in_proj")
    packed = b.reshape(packed, (batch, length, 3, heads, features // heads))
    packed = b.op("Transpose", packed, perm=(2, 0, 3, 1, 4))
    thirds = b.split_op("Split", packed, results=3, axis=0, num_outputs=3, name="qkv")
    axes = b.constant("first_axis", np.asarray([0], np.int64))
    query, key, value = (b.op("Squeeze", third, axes) for third in thirds)
    return b.linear(b.attention(query, key, value), features, name="out_proj")


def _mlp(b: Builder, x: str, wide: int) -> str:
    features = b.shape(x)[-1]
    return b.linear(b.op("Gelu", b.linear(x, wide, name="fc1")), features, name="fc2")


def bert_base(length: int) -> Graph:
    """BERT base: twelve layers of 768 features and 12 heads, from token ids and a mask."""
    b = Builder("bert_base")
    ids = b.input("ids", (1, length), "int64")
    mask = b.input("mask", (1, length), "int64")
    with b.scope("embeddings"):
        x = b.op("Gather", b.weight("words", (30522, 768)), ids)
        kinds = b.constant("token_type_ids", np.zeros((1, length), np.int64))
        x = b.op("Add", x, b.op("Gather", b.weight("token_types", (2, 768)), kinds))
        places = b.constant("position_ids", np.arange(length, dtype=np.int64).reshape(1, length))
        x = b.op("Add", x, b.op("Gather", b.weight("positions", (512, 768)), places))
        x = b.layer_norm(x, 1e-12, "norm")
    with b.scope("mask"):
        axes = b.constant("axes", np.asarray([1, 2], np.int64))
        seen = b.op("Cast", b.op("Unsqueeze", mask, axes), to=ONNX_NUMBERS["bool"])
        zero = b.constant("zero", np.asarray(0.0, np.float32))
        lowest = b.constant("lowest", np.asarray(LOWEST, np.float32))
        added = b.op("Where", seen, zero, lowest)
    for index in range(12):
        with b.scope(f"layer{index}"):
            with b.scope("attention"):
                y = _attention(b, x, x, 12, bias=True, mask=added)
            x = b.layer_norm(b.op("Add", y, x, name="add1"), 1e-12, "norm1")
            x = b.layer_norm(b.op("Add", _mlp(b, x, 3072), x, name="add2"), 1e-12, "norm2")
    return b.finish(x)


def _attention(b: Builder, x: str, context: str, heads: int, *, bias: bool, mask: str = "") -> str:
    """Attention of x to a context, with its four linear layers."""
    features = b.shape(x)[-1]
    query = b.heads(b.linear(x, features, bias=bias, name="query"), heads)
    key = b.heads(b.linear(context, features, bias=bias, name="key"), heads)
    value = b.heads(b.linear(context, features, bias=bias, name="value"), heads)
    return b.linear(b.attention(query, key, value, mask), features, name="out")


def sd15_down_block(height: int, width: int) -> Graph:
    """Stable Diffusion 1.5, first down block of the U-Net: residual, transformer, twice; halve.

    The results are the halved tensor and the two that the way up reads.
    """
    b = Builder("sd15_down_block")
    x = b.input("input", (1, 320, height, width))
    time = b.input("time", (1, 1280))
    context = b.input("context", (1, 77, 768))
    with b.scope("time"):
        time = b.silu(time)
    states: list[str] = []
    for index in range(2):
        with b.scope(f"resnet{index}"):
            x = _time_resnet(b, x, time)
        with b.scope(f"transformer{index}"):
            x = _spatial_transformer(b, x, context)
        states.append(x)
    x = b.conv(x, 320, 3, stride=2, pads=1, bias=True, name="downsample")
    return b.finish(x, *states)


def _time_resnet(b: Builder, x: str, time: str) -> str:
    channels = b.shape(x)[1]
    y = b.silu(b.group_norm(x, 32, 1e-5, "norm1"))
    y = b.conv(y, channels, 3, pads=1, bias=True, name="conv1")
    axes = b.constant("axes", np.asarray([2, 3], np.int64))
    shift = b.op("Unsqueeze", b.linear(time, channels, name="time_proj"), axes)
    y = b.op("Add", y, shift, name="add_time")
    y = b.silu(b.group_norm(y, 32, 1e-5, "norm2"))
    y = b.conv(y, channels, 3, pads=1, bias=True, name="conv2")
    return b.op("Add", x, y, name="add")


def _spatial_transformer(b: Builder, x: str, context: str) -> str:
    batch, channels, height, width = b.shape(x)
    y = b.group_norm(x, 32, 1e-6, "norm")
    y = b.conv(y, channels, 1, bias=True, name="proj_in")
    y = b.op("Transpose", y, perm=(0, 2, 3, 1))
    y = b.reshape(y, (batch, height * width, channels))
    for index, other in ((1, ""), (2, context)):
        normed = b.layer_norm(y, 1e-5, f"norm{index}")
        with b.scope(f"attention{index}"):
            mixed = _attention(b, normed, other or normed, 8, bias=False)
        y = b.op("Add", mixed, y, name=f"add{index}")
    wide = b.linear(b.layer_norm(y, 1e-5, "norm3"), 8 * channels, name="geglu")
    value, gate = b.split_op("Split", wide, results=2, axis=2, num_outputs=2)
    gated = b.op("Mul", value, b.op("Gelu", gate))
    y = b.op("Add", b.linear(gated, channels, name="fc"), y, name="add3")
    y = b.reshape(y, (batch, height, width, channels))
    y = b.op("Transpose", y, perm=(0, 3, 1, 2))
    y = b.conv(y, channels, 1, bias=True, name="proj_out")
    return b.op("Add", y, x, name="add")
