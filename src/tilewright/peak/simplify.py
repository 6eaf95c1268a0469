"""What optimisation level BASIC does to a network, as far as memory notices."""

from tilewright.peak.kernels import RANDOM, RuntimeKernel
from tilewright.peak.network import RuntimeNetwork

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
    if not network.has("Identity", "Dropout"):
        return
    for kernel in list(network.kernels):
        if kernel.kind not in ("Identity", "Dropout") or kernel.gone or not kernel.single:
            continue
        if kernel.output not in network.outputs and kernel.input(0):
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
        key = (kernel.kind, kernel.domain, reads, len(kernel.outputs))
        first = seen.setdefault((*key, _attributes(kernel)), kernel)
        if first is kernel:
            continue
        network.remove(kernel)
        for old, new in zip(kernel.outputs, first.outputs, strict=True):
            if old and new:
                network.redirect(old, new)


def _attributes(kernel: RuntimeKernel) -> str:
    return repr(sorted(kernel.attributes.items(), key=lambda item: item[0]))


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


def _single_cut(network: RuntimeNetwork, kernel: RuntimeKernel) -> tuple[int, int, int] | None:
    """Axis, start and stop of a Slice along one axis with step one and known bounds."""
    shape = network.shape(kernel.input(0))
    bounds = [network.scalar(name) for name in kernel.inputs[1:5]]
    if shape is None or len(bounds) < 3 or not kernel.single or kernel.domain:
        return None
    start, stop, axis = bounds[:3]
    if start is None or stop is None or axis is None or bounds[3:] not in ([], [1.0]):
        return None
    if not -len(shape) <= axis < len(shape):
        return None
    extent = shape[int(axis)]
    first, end = (min(max(b + extent if b < 0 else b, 0), extent) for b in (start, stop))
    return int(axis) % len(shape), int(first), int(end)


def cancel_transposes(network: RuntimeNetwork) -> None:
    """A Transpose undone by the next one disappears with it."""
    for kernel in network.in_order("Transpose"):
        above = network.producer.get(kernel.input(0))
        if above is None or above.kind != "Transpose" or kernel.output in network.outputs:
            continue
        there, back = above.ints_of("perm") or (), kernel.ints_of("perm") or ()
        if not there or sorted(there) != sorted(back) or not above.input(0):
            continue
        if sorted(back) != list(range(len(back))) or [there[i] for i in back] != sorted(back):
            continue
        network.bypass(kernel, above.inputs[0])
        if not network.uses(above.outputs[0]):
            network.remove(above)


def fuse_pads(network: RuntimeNetwork) -> None:
    """A Pad with zeros in front of convolutions becomes their padding."""
    for kernel in network.in_order("Pad"):
        readers = network.readers.get(kernel.output, [])
        if kernel.output in network.outputs or not readers or not kernel.input(0):
            continue
        if any(reader.kind != "Conv" for reader in readers):
            continue
        if kernel.str_of("mode", "constant") == "constant" and _pads_space_only(network, kernel):
            network.bypass(kernel, kernel.inputs[0])


def _pads_space_only(network: RuntimeNetwork, kernel: RuntimeKernel) -> bool:
    """Whether batch and channels keep their extents and nothing is cut off."""
    inner, outer = network.shape(kernel.input(0)), network.shape(kernel.output)
    if inner is None or outer is None or len(inner) != len(outer) or inner[:2] != outer[:2]:
        return False
    fill = network.scalar(kernel.input(2)) if kernel.input(2) else 0.0
    return fill == 0.0 and all(a <= b for a, b in zip(inner, outer, strict=True))


def fuse_conv_constants(network: RuntimeNetwork) -> None:
    """Convolution, then BatchNormalization or one constant per channel: into the weights."""
    for kernel in network.in_order("Conv", "ConvTranspose"):
        if kernel.input(1) not in network.constants or not kernel.output:
            continue
        tail = network.sole_reader(kernel.outputs[0])
        while tail is not None and _into_weights(network, kernel, tail):
            network.absorb(kernel, tail)
            tail = network.sole_reader(kernel.outputs[0])


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


def fuse_matmul_add(network: RuntimeNetwork) -> None:
    """MatMul with a matrix, then a constant row: one Gemm."""
    for kernel in network.in_order("MatMul"):
        matrix = network.shape(kernel.input(1))
        if matrix is None or len(matrix) != 2:
            continue
        tail = network.sole_reader(kernel.output)
        if tail is None or tail.kind != "Add":
            continue
        bias = [name for name in tail.inputs if name != kernel.outputs[0]]
        if len(bias) != 1 or bias[0] not in network.constants:
            continue
        if len(network.shape(bias[0]) or ()) == 1:
            network.absorb(kernel, tail)
            network.become(kernel, "Gemm", "")
