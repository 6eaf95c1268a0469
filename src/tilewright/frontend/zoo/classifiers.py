"""Image classifiers, as torchvision defines them."""

from tilewright.errors import ModelError
from tilewright.frontend.builder import Builder
from tilewright.graph.graph import Graph

CLASSES = 1000


def resnet18(height: int, width: int) -> Graph:
    """ResNet-18: two basic blocks in each of four stages."""
    return _resnet("resnet18", height, width, (2, 2, 2, 2), bottleneck=False)


def resnet50(height: int, width: int) -> Graph:
    """ResNet-50 (v1.5: the stride sits in the 3x3 convolution)."""
    return _resnet("resnet50", height, width, (3, 4, 6, 3), bottleneck=True)


def _resnet(
    name: str, height: int, width: int, depths: tuple[int, ...], *, bottleneck: bool
) -> Graph:
    b = Builder(name)
    x = b.input("input", (1, 3, height, width))
    x = b.conv(x, 64, 7, stride=2, pads=3, name="conv1")
    x = b.op("Relu", b.batch_norm(x, "bn1"), name="relu1")
    x = b.pool("MaxPool", x, 3, 2, 1, name="maxpool")
    block = _bottleneck if bottleneck else _basic
    for stage, depth in enumerate(depths):
        for index in range(depth):
            with b.scope(f"layer{stage + 1}.{index}"):
                x = block(b, x, 64 << stage, 2 if stage and not index else 1)
    return _classify(b, x, "fc")


def _basic(b: Builder, x: str, width: int, stride: int) -> str:
    y = b.conv(x, width, 3, stride=stride, pads=1, name="conv1")
    y = b.op("Relu", b.batch_norm(y, "bn1"), name="relu1")
    y = b.conv(y, width, 3, pads=1, name="conv2")
    y = b.batch_norm(y, "bn2")
    return b.op("Relu", b.op("Add", y, _shortcut(b, x, width, stride), name="add"), name="relu2")


def _bottleneck(b: Builder, x: str, width: int, stride: int) -> str:
    y = b.conv(x, width, 1, name="conv1")
    y = b.op("Relu", b.batch_norm(y, "bn1"), name="relu1")
    y = b.conv(y, width, 3, stride=stride, pads=1, name="conv2")
    y = b.op("Relu", b.batch_norm(y, "bn2"), name="relu2")
    y = b.conv(y, 4 * width, 1, name="conv3")
    y = b.batch_norm(y, "bn3")
    return b.op(
        "Relu", b.op("Add", y, _shortcut(b, x, 4 * width, stride), name="add"), name="relu3"
    )


def _shortcut(b: Builder, x: str, filters: int, stride: int) -> str:
    if stride == 1 and b.shape(x)[1] == filters:
        return x
    return b.batch_norm(b.conv(x, filters, 1, stride=stride, name="downsample.0"), "downsample.1")


def _classify(b: Builder, x: str, name: str) -> Graph:
    x = b.op("GlobalAveragePool", x, name="avgpool")
    x = b.op("Flatten", x, axis=1, name="flatten")
    return b.finish(b.linear(x, CLASSES, name=name))


def mobilenet_v2(height: int, width: int) -> Graph:
    """MobileNet-V2, width 1: inverted residual blocks with ReLU6."""
    b = Builder("mobilenet_v2")
    x = b.input("input", (1, 3, height, width))
    with b.scope("features.0"):
        x = _conv_bn_relu6(b, x, 32, 3, "", stride=2)
    # expansion, channels, blocks, stride of the first block
    stages = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    index = 1
    for expansion, channels, blocks, stride in stages:
        for block in range(blocks):
            with b.scope(f"features.{index}"):
                x = _inverted_residual(b, x, expansion, channels, 1 if block else stride)
            index += 1
    with b.scope(f"features.{index}"):
        x = _conv_bn_relu6(b, x, 1280, 1, "")
    return _classify(b, x, "classifier")


def _conv_bn_relu6(
    b: Builder, x: str, filters: int, kernel: int, part: str, *, stride: int = 1, groups: int = 1
) -> str:
    x = b.conv(
        x, filters, kernel, stride=stride, pads=kernel // 2, groups=groups, name=f"{part}conv"
    )
    return b.relu6(b.batch_norm(x, f"{part}bn"), f"{part}relu6")


def _inverted_residual(b: Builder, x: str, expansion: int, filters: int, stride: int) -> str:
    channels = b.shape(x)[1]
    wide = channels * expansion
    y = x if expansion == 1 else _conv_bn_relu6(b, x, wide, 1, "expand.")
    y = _conv_bn_relu6(b, y, wide, 3, "depthwise.", stride=stride, groups=wide)
    y = b.batch_norm(b.conv(y, filters, 1, name="project.conv"), "project.bn")
    return b.op("Add", x, y, name="add") if stride == 1 and channels == filters else y


def vgg16(height: int, width: int) -> Graph:
    """VGG-16: thirteen 3x3 convolutions and three large linear layers."""
    b = Builder("vgg16")
    x = b.input("input", (1, 3, height, width))
    for stage, depth in enumerate((2, 2, 3, 3, 3)):
        with b.scope(f"block{stage + 1}"):
            for index in range(depth):
                filters = min(64 << stage, 512)
                x = b.conv(x, filters, 3, pads=1, bias=True, name=f"conv{index + 1}")
                x = b.op("Relu", x, name=f"relu{index + 1}")
            x = b.pool("MaxPool", x, 2, 2, name="maxpool")
    rows, columns = b.shape(x)[2:]
    if min(rows, columns) < 7:
        raise ModelError(f"vgg16@{height}x{width}: the classifier needs at least 224x224")
    if (rows, columns) != (7, 7):
        # The adaptive pool to 7x7: exact where 7 divides, else windows that overlap a little.
        steps = (rows // 7, columns // 7)
        kernel = (rows - 6 * steps[0], columns - 6 * steps[1])
        x = b.op("AveragePool", x, name="avgpool", kernel_shape=kernel, strides=steps)
    x = b.op("Flatten", x, axis=1, name="flatten")
    for index in range(2):
        x = b.linear(x, 4096, name=f"classifier.{index}")
        x = b.op("Relu", x, name=f"classifier.relu{index + 1}")
    return b.finish(b.linear(x, CLASSES, name="classifier.2"))
