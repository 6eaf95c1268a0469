"""Quantised networks: DequantizeLinear -> operator -> QuantizeLinear as one kernel on bytes."""

from tilewright.peak.kernels import MICROSOFT, Kernel
from tilewright.peak.network import Network

# Have a quantised kernel.
QUANTISED = frozenset(
    {
        *("Conv", "Add", "Mul", "MatMul", "Sigmoid", "LeakyRelu", "AveragePool"),
        *("GlobalAveragePool", "Concat", "Softmax", "Gemm"),
    }
)
# Run on bytes as they are.
ON_BYTES = frozenset(
    {
        *("MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Resize"),
        *("Slice", "Gather"),
    }
)
# Take what a channels-last convolution made, and leave it channels-last.
CHANNELS_LAST = frozenset(
    {
        *("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearConcat"),
        *("QLinearAveragePool", "QLinearGlobalAveragePool", "MaxPool"),
    }
)


def fuse_quantised(network: Network) -> None:
    """Operators between bytes become quantised kernels, of level EXTENDED."""
    if not network.has("QuantizeLinear"):
        return
    for kernel in network.in_order():
        if kernel.kind not in QUANTISED and kernel.kind not in ON_BYTES:
            continue
        if kernel.domain or kernel.gone or not kernel.single:
            continue
        reads = [name for name in dict.fromkeys(kernel.inputs) if not network.is_constant(name)]
        above = [
            maker
            for name in reads
            if (maker := network.producer.get(name)) is not None
            and maker.kind == "DequantizeLinear"
            and maker.input(0)
        ]
        tail = _quantizer(network, kernel)
        if not reads or len(above) < len(reads) or tail is None:
            continue
        network.absorb(kernel, tail)
        for name, maker in zip(reads, above, strict=True):
            network.rewire(kernel, name, maker.inputs[0])
            if not network.uses(name):
                network.remove(maker)
        _quantise(network, kernel)


def _quantizer(network: Network, kernel: Kernel) -> Kernel | None:
    """The QuantizeLinear behind the kernel; a Relu between them that costs nothing is taken in."""
    tail = network.sole_reader(kernel.output)
    if tail is not None and tail.kind == "Relu" and kernel.kind == "Conv":
        after = network.sole_reader(tail.output)
        if after is None or after.kind != "QuantizeLinear":
            return None
        # Bytes that start at zero cannot hold what the Relu would take away.
        if (network.scalar(after.input(2)) or 0) not in (0, -128):
            return None
        network.absorb(kernel, tail)
        return after
    return tail if tail is not None and tail.kind == "QuantizeLinear" else None


def _quantise(network: Network, kernel: Kernel) -> None:
    if kernel.kind == "Conv":
        x, weight = kernel.input(0), kernel.input(1)
        kernel.inputs = (x, "", "", weight, *kernel.inputs[2:])
        network.become(kernel, "QLinearConv", "")
    elif kernel.kind in QUANTISED:
        network.become(kernel, f"QLinear{kernel.kind}", MICROSOFT)
    else:
        network.become(kernel, kernel.kind, "")


def quantised_channels_last(network: Network) -> None:
    """Quantised convolutions and what lies between them run channels-last, of level ALL."""
    if not network.has("QLinearConv"):
        return
    last: dict[str, str] = {}
    plain: dict[str, None] = {}  # values that somebody wants as they were
    for kernel in network.in_order():
        reads = [n for n in kernel.inputs if n in network.types and n not in network.constants]
        if kernel.kind == "QLinearConv" and not kernel.domain and _spatial(network, kernel):
            source = kernel.inputs[0]
            if source not in last:
                last[source] = _moved(network, source)
                network.add("Transpose", "", [source], [last[source]], {"perm": (0, 2, 3, 1)})
            kernel.read(0, last[source])
            network.become(kernel, "QLinearConv", MICROSOFT)
        elif (
            kernel.kind in CHANNELS_LAST
            and reads
            and all(name in last for name in reads)
            and _spatial(network, kernel)
        ):
            kernel.inputs = tuple(last.get(name, name) for name in kernel.inputs)
        else:
            plain.update(dict.fromkeys(name for name in reads if name in last))
            continue
        name = kernel.outputs[0]
        last[name] = _moved(network, name)
        kernel.outputs = (last[name], *kernel.outputs[1:])
        if name in network.outputs:
            plain[name] = None
    network.relink()
    for name in plain:
        if name not in network.producer and name not in network.graph.inputs:
            network.add("Transpose", "", [last[name]], [name], {"perm": (0, 3, 1, 2)})


def _spatial(network: Network, kernel: Kernel) -> bool:
    """Whether input and output are known and have channels and two axes of space."""
    shapes = (network.shape(kernel.input(0)), network.shape(kernel.output))
    return all(shape is not None and len(shape) == 4 for shape in shapes)


def _moved(network: Network, name: str) -> str:
    batch, channels, *space = network.types[name].shape
    return network.invent(name, "nhwc", (batch, *space, channels))
