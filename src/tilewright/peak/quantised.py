"""Quantised networks: DequantizeLinear -> operator -> QuantizeLinear as one kernel on bytes."""

from collections import Counter
from dataclasses import replace

from tilewright.graph.graph import Graph
from tilewright.graph.rules import need, optional, require
from tilewright.peak.kernels import MICROSOFT, RuntimeKernel
from tilewright.peak.network import RuntimeNetwork, each

# Have a quantised kernel.
QUANTISED = frozenset(
    (
        "Conv Add Mul MatMul Sigmoid LeakyRelu AveragePool GlobalAveragePool Concat Softmax Gemm"
    ).split()
)
WEIGHTED = frozenset({"Conv", "MatMul", "Gemm"})
# Change places with the DequantizeLinear before them and with the QuantizeLinear behind them.
MOVING = frozenset({"MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice"})
# Run on bytes as they are.
ON_BYTES = MOVING | {"Flatten", "Resize", "Gather", "Split"}
# Take what a channels-last convolution made, and leave it channels-last.
CHANNELS_LAST = frozenset(
    (
        "QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu QLinearConcat "
        "QLinearAveragePool QLinearGlobalAveragePool MaxPool Slice Split Concat Resize"
    ).split()
)
# A transpose may change places with them, towards one that undoes it.
PASSED = frozenset(
    (
        "QuantizeLinear DequantizeLinear Add Mul Sub Div Relu Clip Sigmoid LeakyRelu MaxPool "
        "Slice Split Concat Pad Resize QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu "
        "QLinearConcat"
    ).split()
)
LAST, PLAIN = (0, 2, 3, 1), (0, 3, 1, 2)
# Are part of the kernel before them, if they stand before a QuantizeLinear.
CLAMPS = frozenset({"Relu", "Clip"})


def held_bytes(graph: Graph, name: str) -> float:
    """Bytes of an element of what stands in memory for a value: real numbers between a
    DequantizeLinear and a QuantizeLinear are bytes in a quantised kernel."""
    maker = graph.producer.get(name)
    if maker is not None and graph.nodes[maker].kind == "DequantizeLinear":
        return min(_stored(graph, name), _stored(graph, graph.nodes[maker].inputs[0]))
    least = _stored(graph, name)
    while len(readers := graph.consumers.get(name, ())) == 1:
        node = graph.nodes[readers[0]]
        name = node.outputs[0]
        if node.kind == "QuantizeLinear":
            return min(least, _stored(graph, name))
        if node.kind not in CLAMPS:
            break
    return least


def _stored(graph: Graph, name: str) -> float:
    kind = graph.types[name]
    return kind.bytes / max(1, kind.size)


def propagate(network: RuntimeNetwork) -> None:
    """Operators that only move numbers move bytes, of level BASIC: dequantised behind them instead
    of before, quantised before them instead of behind."""
    if network.has("DequantizeLinear", "QuantizeLinear"):
        _dequantise_late(network)
    _quantise_early(network)


@each(*MOVING)
def _dequantise_late(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """DequantizeLinear moves behind an operator, unless that runs on bytes as it is."""
    real, name = need(network.producer.get(kernel.input(0))), kernel.output
    require(real.kind == "DequantizeLinear" and _per_tensor(network, real))
    require(not kernel.domain and kernel.single and name not in network.outputs)
    readers = network.readers.get(name, ())
    require(any(reader.kind != "QuantizeLinear" for reader in readers))
    moved = _as_bytes(network, name, real.inputs[0])
    network.rewire(kernel, real.outputs[0], real.inputs[0])
    kernel.outputs = (moved, *kernel.outputs[1:])
    network.producer[moved] = kernel
    network.add("DequantizeLinear", "", [moved, *real.inputs[1:]], [name])
    if not network.uses(real.outputs[0]):
        network.remove(real)


def _quantise_early(network: RuntimeNetwork) -> None:
    """QuantizeLinear moves before the operators that feed it; where several meet, they are one."""
    early: dict[tuple[str, ...], str] = {}
    todo = network.in_order("QuantizeLinear")
    movers = {kernel: _mover(network, kernel) for kernel in todo}
    met = Counter(
        (mover.input(0), *kernel.inputs[1:])
        for kernel, mover in movers.items()
        if mover is not None
    )
    while todo:
        kernel = todo.pop()
        mover = _mover(network, kernel)
        if mover is None:
            continue
        source = mover.input(0)
        key = (source, *kernel.inputs[1:])
        if key not in early:
            early[key] = _as_bytes(network, source, kernel.output)
            new = network.add("QuantizeLinear", "", [source, *kernel.inputs[1:]], [early[key]])
            todo.append(new)
        signed = network.types[early[key]].dtype == "int8" and not network.runtime.signed_kernels
        if signed and met[key] > 1:
            # The bytes behind become unsigned, those before, which several read, do not: numbers
            # are moved, not bytes.
            real = network.invent(source, "real", network.types[source].shape)
            network.add("DequantizeLinear", "", [early[key], *kernel.inputs[1:]], [real])
            network.rewire(mover, source, real)
            continue
        network.rewire(mover, source, early[key])
        network.absorb(mover, kernel)


@optional
def _mover(network: RuntimeNetwork, kernel: RuntimeKernel) -> RuntimeKernel:
    """The operator that a QuantizeLinear moves before, unless that runs on bytes as it is."""
    mover = need(network.producer.get(kernel.input(0)))
    require(mover.kind in MOVING and not mover.domain)
    require(_per_tensor(network, kernel) and network.sole_reader(mover.output) is kernel)
    source = mover.input(0)
    require(not network.is_constant(source) and source in network.types)
    above = network.producer.get(source)
    require(above is None or above.kind != "DequantizeLinear")
    return mover


def _per_tensor(network: RuntimeNetwork, kernel: RuntimeKernel) -> bool:
    """Whether one constant scale serves the whole tensor."""
    return network.is_constant(kernel.input(1)) and network.size(kernel.input(1)) == 1


def _as_bytes(network: RuntimeNetwork, name: str, like: str) -> str:
    """A value that holds another one in the type of a third."""
    token = network.invent(name, "bytes", network.types[name].shape)
    network.types[token] = network.types[like].with_shape(network.types[name].shape)
    return token


@each("DequantizeLinear")
def one_for_each(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """Every reader of bytes as real numbers has a DequantizeLinear of its own, of level BASIC."""
    name = kernel.output
    require(name not in network.outputs and name in network.types)
    for reader in list(dict.fromkeys(network.readers.get(name, ())))[1:]:
        own = network.invent(name, "again", network.types[name].shape)
        network.add("DequantizeLinear", "", kernel.inputs, [own])
        network.rewire(reader, name, own)


@each("DequantizeLinear")
def make_unsigned(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """Signed bytes between a QuantizeLinear and the only operator that reads them become unsigned,
    for which the kernels are, of level EXTENDED."""
    name = kernel.input(0)
    require(not network.runtime.signed_kernels and network.sole_reader(name) is kernel)
    maker, kind = need(network.producer.get(name)), need(network.types.get(name))
    require(maker.kind == "QuantizeLinear" and kind.dtype == "int8")
    network.types[name] = replace(kind, dtype="uint8")
    network.made_constants += 1  # its zero point


def fuse_quantised(network: RuntimeNetwork) -> None:
    """Operators between bytes of one type become quantised kernels, of level EXTENDED."""
    if not network.has("QuantizeLinear"):
        return
    _split_bytes(network)
    _fuse(network)


@each(*QUANTISED, *ON_BYTES)
def _fuse(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    require(kernel.single and not kernel.domain)
    reads = [name for name in dict.fromkeys(kernel.inputs) if not network.is_constant(name)]
    makers = [network.producer.get(name) for name in reads]
    tail = need(_quantizer(network, kernel))
    above = [need(maker) for maker in makers]
    require(all(maker.kind == "DequantizeLinear" and maker.input(0) != "" for maker in above))
    require(bool(reads) and _have_kernel(network, kernel, above, tail))
    network.absorb(kernel, tail)
    network.parameters.update(tail.inputs[1:])
    for name, maker in zip(reads, above, strict=True):
        network.parameters.update(maker.inputs[1:])
        network.rewire(kernel, name, maker.inputs[0])
        if not network.uses(name):
            network.remove(maker)
    _quantise(network, kernel)


def _have_kernel(
    network: RuntimeNetwork, kernel: RuntimeKernel, above: list[RuntimeKernel], tail: RuntimeKernel
) -> bool:
    """Whether there is a kernel for the types that an operator reads and writes as bytes. Weights
    may have another type than what they are multiplied with; what is added up may not."""
    data = [maker.inputs[0] for maker in above]
    if kernel.kind in WEIGHTED:
        data = [name for name in data if not network.is_constant(name)]
    kinds = {network.types[n].dtype for n in (*data, tail.output) if n in network.types}
    if len(kinds) > 1:
        return False
    either = kernel.kind not in ("Conv", "MatMul") or network.runtime.signed_kernels
    return either or "int8" not in kinds


@each("Split")
def _split_bytes(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """A Split between one DequantizeLinear and a QuantizeLinear for each part."""
    real = need(network.producer.get(kernel.input(0)))
    behind = [need(network.sole_reader(name)) for name in kernel.outputs]
    require(not kernel.domain and real.kind == "DequantizeLinear")
    require(all(tail.kind == "QuantizeLinear" for tail in behind))
    network.rewire(kernel, real.outputs[0], real.inputs[0])
    network.remove(*behind)
    kernel.outputs = tuple(tail.outputs[0] for tail in behind)
    for name in kernel.outputs:
        network.producer[name] = kernel
    if not network.uses(real.outputs[0]):
        network.remove(real)


def _quantizer(network: RuntimeNetwork, kernel: RuntimeKernel) -> RuntimeKernel | None:
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


def _quantise(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    if kernel.kind == "Conv":
        x, weight = kernel.input(0), kernel.input(1)
        kernel.inputs = (x, "", "", weight, *kernel.inputs[2:])
        network.become(kernel, "QLinearConv", "")
    elif kernel.kind == "MatMul":
        network.become(kernel, "QLinearMatMul", "")
    elif kernel.kind in QUANTISED:
        name = "QGemm" if kernel.kind == "Gemm" else f"QLinear{kernel.kind}"
        network.become(kernel, name, MICROSOFT)
    else:
        network.become(kernel, kernel.kind, "")


def quantised_channels_last(network: RuntimeNetwork) -> None:
    """Quantised convolutions and what lies between them run channels-last, of level ALL."""
    if not network.has("QLinearConv"):
        return
    last: dict[str, str] = {}
    plain: dict[str, None] = {}  # values that somebody wants as they were
    for kernel in network.in_order():
        reads = [n for n in kernel.inputs if n in network.types and n not in network.constants]
        spatial = network.spatial(*reads, *filter(None, kernel.outputs))
        source = kernel.input(0)
        if kernel.kind == "QLinearConv" and not kernel.domain and spatial and source in reads:
            if source not in last:
                last[source] = _moved(network, source)
                network.add("Transpose", "", [source], [last[source]], {"perm": LAST})
            kernel.read(0, last[source])
            network.become(kernel, "QLinearConv", MICROSOFT)
        elif spatial and kernel.kind in CHANNELS_LAST and last.keys() >= set(reads) != set():
            kernel.inputs = tuple(last.get(name, name) for name in kernel.inputs)
            network.made_constants += kernel.kind == "Slice"  # its axes, in another order
        else:
            plain.update(dict.fromkeys(name for name in reads if name in last))
            continue
        last.update({name: _moved(network, name) for name in kernel.outputs if name})
        plain.update(dict.fromkeys(name for name in kernel.outputs if name in network.outputs))
        kernel.outputs = tuple(last.get(name, name) for name in kernel.outputs)
    network.relink()
    leading = _leading(network)
    for name in plain:
        if name in network.producer or name in network.graph.inputs:
            continue
        readers = list(dict.fromkeys(network.readers.get(name, ())))
        beyond = [r for r in readers if r.kind == "DequantizeLinear" and r.output in leading]
        for reader in beyond:
            _transpose_behind(network, reader, last[name])
        if len(beyond) < len(readers) or name in network.outputs:
            network.add("Transpose", "", [last[name]], [name], {"perm": PLAIN})


def _leading(network: RuntimeNetwork) -> set[str]:
    """Values from which operators that a transpose may pass lead to a quantised convolution."""
    found: set[str] = set()
    for kernel in reversed(network.in_order()):
        if kernel.kind == "Transpose" or (
            kernel.kind in PASSED and not found.isdisjoint(kernel.outputs)
        ):
            found.update(kernel.inputs)
    return found


def _transpose_behind(network: RuntimeNetwork, kernel: RuntimeKernel, source: str) -> None:
    """A DequantizeLinear reads bytes channels-last and real numbers are transposed, towards a
    transpose further on; where none of them meets it, they are quantised once more."""
    name, scale = kernel.output, kernel.inputs[1:]
    shape = network.types[name].shape
    real = _moved(network, name)
    network.rewire(kernel, kernel.input(0), source)
    kernel.outputs = (real, *kernel.outputs[1:])
    network.producer[real] = kernel
    turned = network.invent(name, "real", shape)
    network.add("Transpose", "", [real], [turned], {"perm": PLAIN})
    quantised = _as_bytes(network, turned, source)
    network.add("QuantizeLinear", "", [turned, *scale], [quantised])
    network.add("DequantizeLinear", "", [quantised, *scale], [name])


def _moved(network: RuntimeNetwork, name: str) -> str:
    batch, channels, *space = network.types[name].shape
    return network.invent(name, "nhwc", (batch, *space, channels))
