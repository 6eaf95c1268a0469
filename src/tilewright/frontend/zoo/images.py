"""Networks that make images from images, and two small pieces for tiling by hand."""

from tilewright.frontend.builder import Builder
from tilewright.graph.graph import Graph


def fsrcnn(height: int, width: int) -> Graph:
    """FSRCNN (d=56, s=12, m=4): twice the height and width of one channel."""
    b = Builder("fsrcnn")
    x = b.input("input", (1, 1, height, width))
    layers = (
        ("feature", 56, 5),
        ("shrink", 12, 1),
        *((f"map{i + 1}", 12, 3) for i in range(4)),
        ("expand", 56, 1),
    )
    for name, filters, kernel in layers:
        x = b.conv(x, filters, kernel, pads=kernel // 2, bias=True, name=name)
        x = b.prelu(x, f"{name}.prelu")
    return b.finish(b.conv_transpose(x, 1, 9, stride=2, pads=4, output_padding=1, name="upscale"))


def unet(height: int, width: int) -> Graph:
    """A U-Net of five levels, 32 to 512 channels, two classes per pixel."""
    b = Builder("unet")
    x = b.input("input", (1, 3, height, width))
    skips: list[str] = []
    for level in range(5):
        with b.scope(f"down{level}"):
            if level:
                x = b.pool("MaxPool", x, 2, 2, name="maxpool")
            x = _double_conv(b, x, 32 << level)
        skips.append(x)
    for level in reversed(range(4)):
        with b.scope(f"up{level}"):
            x = b.conv_transpose(x, 32 << level, 2, stride=2, name="upscale")
            x = b.op("Concat", x, skips[level], axis=1, name="concat")
            x = _double_conv(b, x, 32 << level)
    return b.finish(b.conv(x, 2, 1, bias=True, name="classes"))


def _double_conv(b: Builder, x: str, filters: int) -> str:
    for index in (1, 2):
        x = b.batch_norm(b.conv(x, filters, 3, pads=1, name=f"conv{index}"), f"bn{index}")
        x = b.op("Relu", x, name=f"relu{index}")
    return x


def four_convs(height: int, width: int) -> Graph:
    """Four 3x3 convolutions in a row, 3 -> 8 -> 8 -> 8 -> 8 channels."""
    b = Builder("four_convs")
    x = b.input("input", (1, 3, height, width))
    for index in range(4):
        x = b.conv(x, 8, 3, pads=1, name=f"conv{index + 1}")
    return b.finish(x)


def rn50_stem(height: int, width: int) -> Graph:
    """ResNet-50's first layers, with the uneven pads (2, 2, 3, 3) some exporters write."""
    b = Builder("rn50_stem")
    x = b.input("input", (1, 3, height, width))
    x = b.conv(x, 64, 7, stride=2, pads=(2, 2, 3, 3), name="conv1")
    x = b.op("Relu", b.batch_norm(x, "bn1"), name="relu1")
    return b.finish(b.pool("MaxPool", x, 3, 2, 1, name="maxpool"))
