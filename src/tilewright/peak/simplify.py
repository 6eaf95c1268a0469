"""What optimisation level BASIC does to a network, as far as memory notices."""

from tilewright.graph.rules import need, optional, require
from tilewright.peak.kernels import RANDOM, RuntimeKernel
from tilewright.peak.network import RuntimeNetwork, each

APART = RANDOM | {"DequantizeLinear"}  # neither run once for all nor made one


def fold_constants(network: RuntimeNetwork) -> None:
    """Kernels that read only constants run once, when the session is made."""
    for kernel in list(network.kernels):
        if kernel.kind in APART:
            continue
        if kernel.kind == "Constant" or (
            kernel.inputs and all(network.is_constant(name) for name in kernel.inputs)
        ):
            network.constants.update(kernel.outputs)
            kernel.gone = True
    network.constants.discard("")
    network.relink()


def drop_no_ops(network: RuntimeNetwork) -> None:
    """Copies that are not outputs of the network."""
    copies = [kernel for kernel in network.kernels if kernel.kind in ("Identity", "Dropout")]
    for kernel in copies:
        copied = kernel.single and kernel.output not in network.outputs
        if copied and kernel.input(0) and not kernel.gone:
            network.bypass(kernel, kernel.inputs[0])


def merge_duplicates(network: RuntimeNetwork) -> None:
    """Kernels of one kind that read the same values with the same attributes become one; bytes
    are made real for each reader alone."""
    seen: dict[tuple[object, ...], RuntimeKernel] = {}
    readers, nobody = network.readers, ()
    for kernel in network.in_order():
        # Duplicates share all their inputs: one that nobody else reads settles it.
        if any(len(readers.get(name, nobody)) == 1 for name in kernel.inputs):
            continue
        if kernel.kind in APART or any(name in network.outputs for name in kernel.outputs):
            continue
        reads = tuple(
            (network.scalar(name), name if network.scalar(name) is None else "")
            if name in network.constants
            else name
            for name in kernel.inputs
        )
        attributes = repr(sorted(kernel.attributes.items(), key=lambda item: item[0]))
        key = (kernel.kind, kernel.domain, reads, len(kernel.outputs), attributes)
        first = seen.setdefault(key, kernel)
        if first is kernel:
            continue
        network.remove(kernel)
        for old, new in zip(kernel.outputs, first.outputs, strict=True):
            if old and new:
                network.redirect(old, new)


def slices_to_split(network: RuntimeNetwork) -> None:
    """Slices along one axis that cover a value exactly once become one Split: all at once."""
    groups: dict[tuple[str, int], list[tuple[int, int, RuntimeKernel]]] = {}
    for kernel in network.in_order("Slice"):
        cut = _single_cut(network, kernel)
        if cut is not None:
            axis, start, stop = cut
            groups.setdefault((kernel.inputs[0], axis), []).append((start, stop, kernel))
    for (source, axis), cuts in groups.items():
        cuts.sort(key=lambda cut: cut[0])
        edges = [0, *(stop for _, stop, _ in cuts)]
        if len(cuts) < 2 or [start for start, _, _ in cuts] != edges[:-1]:
            continue
        if edges[-1] != network.types[source].shape[axis]:
            continue
        network.remove(*(kernel for _, _, kernel in cuts))
        network.add("Split", "", [source], [k.outputs[0] for _, _, k in cuts], {"axis": axis})


@optional
def _single_cut(network: RuntimeNetwork, kernel: RuntimeKernel) -> tuple[int, int, int]:
    """Axis, start and stop of a Slice along one axis with step one and known bounds."""
    shape = need(network.shape(kernel.input(0)))
    bounds = [network.scalar(name) for name in kernel.inputs[1:5]]
    require(len(bounds) > 2 and kernel.single and not kernel.domain)
    start, stop, axis = map(need, bounds[:3])
    require(bounds[3:] in ([], [1.0]) and -len(shape) <= axis < len(shape))
    extent = shape[int(axis)]
    first, end = (min(max(b + extent if b < 0 else b, 0), extent) for b in (start, stop))
    return int(axis) % len(shape), int(first), int(end)


@each("Transpose")
def cancel_transposes(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """A Transpose undone by the next one disappears with it."""
    above = need(network.producer.get(kernel.input(0)))
    require(above.kind == "Transpose" and kernel.output not in network.outputs)
    there, back = above.ints_of("perm") or (), kernel.ints_of("perm") or ()
    order = list(range(len(back)))
    require(bool(there and above.input(0)) and sorted(there) == sorted(back) == order)
    require([there[i] for i in back] == order)
    network.bypass(kernel, above.inputs[0])
    if not network.uses(above.outputs[0]):
        network.remove(above)


@each("Pad")
def fuse_pads(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """A Pad with zeros in front of convolutions becomes their padding: batch and channels keep
    their extents, and nothing is cut off."""
    readers = network.readers.get(kernel.output, [])
    require(kernel.output not in network.outputs and bool(readers and kernel.input(0)))
    require(all(reader.kind == "Conv" for reader in readers))
    inner, outer = need(network.shape(kernel.input(0))), need(network.shape(kernel.output))
    require(len(inner) == len(outer) and inner[:2] == outer[:2])
    require(all(a <= b for a, b in zip(inner, outer, strict=True)))
    fill = network.scalar(kernel.input(2)) if kernel.input(2) else 0.0
    require(fill == 0.0 and kernel.str_of("mode", "constant") == "constant")
    network.bypass(kernel, kernel.inputs[0])


@each("Conv", "ConvTranspose")
def fuse_conv_constants(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """Convolution, then BatchNormalization or one constant per channel: into the weights."""
    require(kernel.input(1) in network.constants and bool(kernel.output))
    while _into_weights(network, kernel, tail := need(network.sole_reader(kernel.outputs[0]))):
        network.absorb(kernel, tail)


def _into_weights(network: RuntimeNetwork, conv: RuntimeKernel, tail: RuntimeKernel) -> bool:
    others = [name for name in tail.inputs if name != conv.outputs[0]]
    shape = network.shape(conv.outputs[0])
    if not others or shape is None or len(shape) < 2 or not tail.single:
        return False
    if not all(name in network.constants for name in others):
        return False
    if tail.kind == "BatchNormalization":
        return True
    constant = network.shape(others[0])
    if conv.kind != "Conv" or tail.kind not in ("Mul", "Add") or constant is None:
        return False
    size = network.size(others[0])
    return (tail.kind == "Mul" and size == 1) or (size == shape[1] and len(constant) in (3, 4))


@each("MatMul")
def fuse_matmul_add(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """MatMul with a matrix, then a constant row: one Gemm."""
    require(len(need(network.shape(kernel.input(1)))) == 2)
    tail = need(network.sole_reader(kernel.output))
    bias = [name for name in tail.inputs if name != kernel.outputs[0]]
    require(tail.kind == "Add" and len(bias) == 1 and bias[0] in network.constants)
    require(len(network.shape(bias[0]) or ()) == 1)
    network.absorb(kernel, tail)
    network.become(kernel, "Gemm", "")
