"""Small networks with something to fuse."""

import numpy as np

from support.builder import GraphBuilder
from tilewright.frontend.builder import Builder
from tilewright.frontend.normalize import normalize
from tilewright.graph.graph import Graph


def attention(rows: int = 64, heads: int = 4) -> Graph:
    """Scaled-dot-product attention, and an activation behind it."""
    b = Builder("attention")
    q = b.input("q", (1, heads, rows, 32))
    k = b.input("k", (1, heads, 32, rows))
    v = b.input("v", (1, heads, rows, 32))
    scores = b.op("Softmax", b.op("MatMul", q, k, name="qk"), axis=-1, name="softmax")
    return b.finish(b.op("Relu", b.op("MatMul", scores, v, name="av"), name="relu"))


def residual(channels: int = 16, size: int = 16) -> Graph:
    """A residual block behind a convolution."""
    b = Builder("residual")
    x = b.input("input", (1, 3, size, size))
    x = b.conv(x, channels, 3, pads=1, name="stem")
    y = b.op("Relu", b.conv(x, channels, 3, pads=1, name="conv1"), name="relu1")
    y = b.conv(y, channels, 3, pads=1, name="conv2")
    return b.finish(b.op("Relu", b.op("Add", y, x, name="add"), name="relu2"))


def pair(kernel: int, channels: int, size: int, groups: int = 1) -> Graph:
    """Two convolutions, as they are planned."""
    b = Builder("pair")
    x = b.input("x", (1, channels, size, size))
    for name in ("first", "second"):
        x = b.conv(x, channels, kernel, pads=kernel // 2, groups=groups, name=name)
    return normalize(b.finish(x))


def view_between(size: int = 16) -> Graph:
    """A convolution, flattened for a matrix product."""
    b = Builder("view_between")
    x = b.input("x", (1, 8, size, size))
    x = b.conv(x, 8, 3, pads=1, name="conv")
    x = b.reshape(x, (8, size * size), name="flat")
    return b.finish(b.linear(x, 16, bias=False, name="linear"))


def u_shape(channels: int = 8, size: int = 16) -> Graph:
    """Down and up again: a pooled branch is resized and joined with what it came from."""
    b = Builder("u_shape")
    x = b.input("input", (1, 4, size, size))
    x = b.silu(b.conv(x, channels, 3, pads=1, name="wide"))
    y = b.pool("MaxPool", x, 2, 2, 0, name="pool")
    y = b.op("Relu", b.conv(y, 2 * channels, 3, pads=1, name="deep"), name="relu")
    scales = b.constant("scales", np.array([1, 1, 2, 2], np.float32))
    y = b.op("Resize", y, "", scales, mode="nearest", name="up")
    y = b.op("Concat", y, x, axis=1, name="join")
    return b.finish(b.conv(y, channels, 3, pads=1, name="last"))


def pan(size: int = 128, width: int = 16) -> Graph:
    """A detector of the YOLO type: a backbone with SiLU, a neck that goes up (two times Resize and
    Concat) and down again, three heads."""
    b = Builder("pan")
    scales = b.constant("scales", np.array([1, 1, 2, 2], np.float32))

    def conv(x: str, channels: int, name: str, kernel: int = 3, stride: int = 1) -> str:
        return b.silu(b.conv(x, channels, kernel, stride=stride, pads=kernel // 2, name=name))

    def joined(small: str, skip: str, channels: int, name: str) -> str:
        up = b.op(
            "Resize",
            small,
            "",
            scales,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
            name=f"{name}.up",
        )
        return conv(b.op("Concat", up, skip, axis=1, name=f"{name}.join"), channels, name, 1)

    def lowered(large: str, skip: str, channels: int, name: str) -> str:
        down = conv(large, channels, f"{name}.down", 3, 2)
        return conv(b.op("Concat", down, skip, axis=1, name=f"{name}.join"), channels, name, 1)

    x = b.input("image", (1, 3, size, size))
    levels: list[str] = []
    for level in range(1, 6):
        x = conv(x, min(8, 2 ** (level - 1)) * width, f"down{level}", 3, 2)
        x = conv(x, min(8, 2 ** (level - 1)) * width, f"block{level}")
        levels.append(x)
    p3, p4, p5 = levels[2:]
    n4 = joined(p5, p4, 4 * width, "up4")
    n3 = conv(joined(n4, p3, 4 * width, "up3"), 4 * width, "out3")
    n4 = lowered(n3, n4, 4 * width, "low4")
    n5 = lowered(n4, p5, 8 * width, "low5")
    return b.finish(*(b.conv(n, 14, 1, name=f"head{i}") for i, n in enumerate((n3, n4, n5))))


def one_conv(
    data: tuple[int, ...],
    filters: int,
    kernel: tuple[int, ...],
    group: int = 1,
    bias: bool = True,
    *,
    transposed: bool = False,
    **attributes: object,
) -> Graph:
    """A convolution of any rank, or a transposed one, whose result is `y`."""
    b = GraphBuilder()
    shape = (data[1], filters // group) if transposed else (filters, data[1] // group)
    weight = b.weight(*shape, *kernel)
    rest = [b.weight(filters)] if bias else []
    kind = "ConvTranspose" if transposed else "Conv"
    b.add(kind, b.input(*data), weight, *rest, name="y", group=group, **attributes)
    return b.graph()


def inner_and_outer(height: int, width: int) -> Graph:
    """Two convolutions, of which the first is used outside too."""
    b = GraphBuilder()
    inner = b.input(1, 2, height, width)
    inner = b.add("Conv", inner, b.weight(2, 2, 3, 3), pads=[1] * 4, name="inner")
    b.add("Conv", inner, b.weight(2, 2, 3, 3), pads=[1] * 4, name="outer")
    return b.graph("outer", "inner")
