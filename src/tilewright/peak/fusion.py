"""Fusions of optimisation level EXTENDED: values that never exist because two kernels are one."""

from collections.abc import Mapping
from math import isclose, sqrt

from tilewright.peak.kernels import CONV_ACTIVATIONS, GEMM_ACTIVATIONS, MICROSOFT, RuntimeKernel
from tilewright.peak.network import RuntimeNetwork


def fuse_layer_norm(network: RuntimeNetwork) -> None:
    """ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul, Add: one LayerNormalization."""
    for root in network.in_order("Sqrt"):
        found = None if root.gone else _layer_norm(network, root)
        if found is None:
            continue
        source, pieces = found
        network.remove(*pieces)
        network.add("LayerNormalization", "", [source], pieces[-1].outputs)


def _layer_norm(
    network: RuntimeNetwork, root: RuntimeKernel
) -> tuple[str, list[RuntimeKernel]] | None:
    """The source and the kernels of the layer norm around a square root, its last one last."""
    plus = network.producer.get(root.input(0))
    if plus is None:
        return None
    varying = next((name for name in plus.inputs if not network.is_constant(name)), "")
    variance = _maker(network, varying, "ReduceMean")
    power = _maker(network, variance.input(0), "Pow", "Mul") if variance else None
    centred = _maker(network, power.input(0), "Sub") if power else None
    mean = _maker(network, centred.input(1), "ReduceMean") if centred else None
    divide = _reader(network, root.output, "Div")
    gain = _reader(network, divide.output, "Mul") if divide else None
    bias = _reader(network, gain.output, "Add") if gain else None
    pieces = [mean, centred, power, variance, plus, root, divide, gain, bias]
    known = [piece for piece in pieces if piece is not None]
    if len(known) < len(pieces) or centred is None or not centred.input(0):
        return None
    return centred.inputs[0], known


def _maker(network: RuntimeNetwork, name: str, *kinds: str) -> RuntimeKernel | None:
    kernel = network.producer.get(name)
    return kernel if kernel is not None and kernel.kind in kinds else None


def _reader(network: RuntimeNetwork, name: str, kind: str) -> RuntimeKernel | None:
    kernel = network.sole_reader(name)
    return kernel if kernel is not None and kernel.kind == kind else None


def fuse_gelu(network: RuntimeNetwork) -> None:
    """0.5 x (1 + Erf(x / sqrt 2)), in either order of its products, becomes one Gelu; where x is
    multiplied by 1 / sqrt 2 instead, or the numbers are others, it stays as it is."""
    for root in network.in_order("Erf"):
        scale = network.producer.get(root.input(0))
        plus = _reader(network, root.output, "Add")
        if root.gone or scale is None or plus is None or network.uses(root.inputs[0]) != 1:
            continue
        if scale.kind != "Div" or not _by(network, scale, sqrt(2)) or not _by(network, plus, 1.0):
            continue
        source = scaled(network, scale)
        product = _reader(network, plus.output, "Mul")
        if source is None or product is None:
            continue
        other = next((name for name in product.inputs if name != plus.outputs[0]), "")
        half = network.producer.get(other)
        last = product
        if other == source:
            half = network.sole_reader(product.output)
            if half is None or scaled(network, half) != product.outputs[0]:
                continue
            last = half
        elif half is None or scaled(network, half) != source or network.uses(other) != 1:
            continue
        if not _by(network, half, 0.5):
            continue
        network.remove(scale, root, plus, product, half)
        network.add("Gelu", "", [source], last.outputs)


def fuse_gemm_activations(network: RuntimeNetwork) -> None:
    """Gemm, then an activation."""
    for kernel in network.in_order("Gemm"):
        tail = network.sole_reader(kernel.output)
        if tail is not None and tail.kind in GEMM_ACTIVATIONS and not tail.domain:
            network.absorb(kernel, tail)
            network.become(kernel, "FusedGemm", MICROSOFT)


def fuse_conv_activations(network: RuntimeNetwork) -> None:
    """Conv, then an activation with constant parameters."""
    for kernel in network.in_order("Conv"):
        tail = network.sole_reader(kernel.output)
        if kernel.domain or tail is None or not _conv_activation(network, tail):
            continue
        network.absorb(kernel, tail)
        kernel.activation = tail.kind
        network.become(kernel, "FusedConv", MICROSOFT)


def _conv_activation(network: RuntimeNetwork, kernel: RuntimeKernel) -> bool:
    if kernel.kind not in CONV_ACTIVATIONS or kernel.domain:
        return False
    return all(network.is_constant(name) for name in kernel.inputs[1:])


def fuse_silu(network: RuntimeNetwork) -> None:
    """x Sigmoid(x), or x Sigmoid(a x), becomes one QuickGelu."""
    for kernel in network.in_order("Sigmoid"):
        tail = _reader(network, kernel.output, "Mul")
        if kernel.gone or tail is None:
            continue
        other = next((name for name in tail.inputs if name != kernel.outputs[0]), "")
        source = kernel.input(0)
        if not source or not other:
            continue
        if source != other:
            above = network.producer.get(source)
            if above is None or scaled(network, above) != other or network.uses(source) != 1:
                continue
            network.remove(above)
        network.remove(kernel, tail)
        network.add("QuickGelu", MICROSOFT, [other], tail.outputs)


def fuse_skip_layer_norm(network: RuntimeNetwork) -> None:
    """An Add that only a layer norm reads becomes part of it."""
    for kernel in network.in_order("LayerNormalization"):
        above = network.producer.get(kernel.input(0))
        if above is None or above.kind != "Add" or len(above.inputs) != 2:
            continue
        left, right = (network.shape(name) for name in above.inputs)
        if network.sole_reader(kernel.inputs[0]) is not kernel or left is None:
            continue
        if left != right or len(left) != 3:
            continue
        network.remove(above, kernel)
        inputs = [*above.inputs, *kernel.inputs[1:]]
        network.add("SkipLayerNormalization", MICROSOFT, inputs, kernel.outputs[:1])


def fuse_matmul_neighbours(network: RuntimeNetwork) -> None:
    """Scaling by a number, and a Transpose of the last two axes, become parts of a MatMul."""
    for kernel in network.in_order("MatMul", "FusedMatMul"):
        changed = False
        for slot in (0, 1):
            above = network.producer.get(kernel.input(slot))
            if above is None or network.sole_reader(kernel.inputs[slot]) is not kernel:
                continue
            source = scaled(network, above)
            if source is None and _swaps_last_two(network, above):
                source = above.inputs[0]
            if source is not None:
                network.bypass(above, source)
                changed = True
        tail = network.sole_reader(kernel.output)
        if tail is not None and scaled(network, tail) == kernel.outputs[0]:
            network.absorb(kernel, tail)
            changed = True
        if changed:
            network.become(kernel, "FusedMatMul", MICROSOFT)


def _by(network: RuntimeNetwork, kernel: RuntimeKernel, number: float) -> bool:
    """Whether one operand of a kernel is a constant of a number, as far as it is known."""
    for name in kernel.inputs:
        if network.is_constant(name) and network.size(name) == 1:
            known = network.scalar(name)
            return known is None or isclose(known, number, rel_tol=1e-5)
    return False


def scaled(network: RuntimeNetwork, kernel: RuntimeKernel) -> str | None:
    """What the kernel multiplies or divides by one constant number, None if it does not."""
    if kernel.kind not in ("Mul", "Div") or len(kernel.inputs) != 2:
        return None
    left, right = kernel.inputs
    if right in network.constants and network.size(right) == 1:
        return left
    if kernel.kind == "Mul" and left in network.constants and network.size(left) == 1:
        return right
    return None


def _swaps_last_two(network: RuntimeNetwork, kernel: RuntimeKernel) -> bool:
    shape = network.shape(kernel.input(0))
    if kernel.kind != "Transpose" or shape is None or len(shape) < 2:
        return False
    rank = len(shape)
    permutation = kernel.ints_of("perm") or tuple(range(rank - 1, -1, -1))
    return permutation == (*range(rank - 2), rank - 1, rank - 2)


def fuse_conv_sums(network: RuntimeNetwork) -> None:
    """Conv + Add (+ activation) outside the blocked layout: it adds into the other operand.

    Of level ALL: it takes what the blocked layout left over.
    """
    convolutions = [kernel for kernel in network.in_order("Conv") if not kernel.domain]
    if not convolutions:
        return
    position = {kernel: number for number, kernel in enumerate(network.in_order())}
    for kernel in convolutions:
        tail = network.sole_reader(kernel.output)
        if tail is None or tail.kind not in ("Add", "Sum"):
            continue
        other = next((name for name in tail.inputs if name != kernel.outputs[0]), "")
        if len(tail.inputs) != 2 or not other or other in network.constants:
            continue
        shape = network.shape(other)
        if shape is None or shape != network.shape(kernel.outputs[0]):
            continue
        if _depends_on(network, other, kernel, position):
            continue
        network.absorb(kernel, tail)
        kernel.inputs += (*("",) * (3 - len(kernel.inputs)), other)
        network.readers.setdefault(other, []).append(kernel)
        activation = network.sole_reader(kernel.outputs[0])
        if activation is not None and _conv_activation(network, activation):
            network.absorb(kernel, activation)
            kernel.activation = activation.kind
        network.become(kernel, "FusedConv", MICROSOFT)


def _depends_on(
    network: RuntimeNetwork, name: str, kernel: RuntimeKernel, position: Mapping[RuntimeKernel, int]
) -> bool:
    """Whether a value needs the kernel: a sum with it would then be a circle."""
    todo, seen = [name], {name}
    while todo:
        above = network.producer.get(todo.pop())
        if above is kernel:
            return True
        if above is None or position[above] < position[kernel]:
            continue  # what runs before the kernel does not need it
        for read in above.inputs:
            if read and read not in seen:
                seen.add(read)
                todo.append(read)
    return False
