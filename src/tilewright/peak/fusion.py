"""Fusions of optimisation level EXTENDED: values that never exist because two kernels are one."""

from collections.abc import Mapping
from math import isclose, sqrt

from tilewright.graph.rules import need, optional, require
from tilewright.peak.kernels import CONV_ACTIVATIONS, GEMM_ACTIVATIONS, MICROSOFT, RuntimeKernel
from tilewright.peak.network import RuntimeNetwork, each


@each("Sqrt")
def fuse_layer_norm(network: RuntimeNetwork, root: RuntimeKernel) -> None:
    """ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul, Add: one LayerNormalization."""
    plus = need(network.producer.get(root.input(0)))
    varying = next((name for name in plus.inputs if not network.is_constant(name)), "")
    variance = _maker(network, varying, "ReduceMean")
    power = _maker(network, variance.input(0), "Pow", "Mul")
    centred = _maker(network, power.input(0), "Sub")
    mean = _maker(network, centred.input(1), "ReduceMean")
    divide = _reader(network, root.output, "Div")
    gain = _reader(network, divide.output, "Mul")
    bias = _reader(network, gain.output, "Add")
    require(bool(centred.input(0)))
    network.remove(mean, centred, power, variance, plus, root, divide, gain, bias)
    network.add("LayerNormalization", "", centred.inputs[:1], bias.outputs)


def _maker(network: RuntimeNetwork, name: str, *kinds: str) -> RuntimeKernel:
    kernel = need(network.producer.get(name))
    require(kernel.kind in kinds)
    return kernel


def _reader(network: RuntimeNetwork, name: str, *kinds: str) -> RuntimeKernel:
    kernel = need(network.sole_reader(name))
    require(kernel.kind in kinds)
    return kernel


def _other(kernel: RuntimeKernel, operand: str) -> str:
    """The operand beside a known one, empty where there is none."""
    return next((name for name in kernel.inputs if name != operand), "")


@each("Erf")
def fuse_gelu(network: RuntimeNetwork, root: RuntimeKernel) -> None:
    """0.5 x (1 + Erf(x / sqrt 2)), in either order of its products, becomes one Gelu; where x is
    multiplied by 1 / sqrt 2 instead, or the numbers are others, it stays as it is."""
    scale = _maker(network, root.input(0), "Div")
    plus = _reader(network, root.output, "Add")
    require(network.uses(root.inputs[0]) == 1)
    require(_by(network, scale, sqrt(2)) and _by(network, plus, 1.0))
    source = need(scaled(network, scale))
    product = _reader(network, plus.output, "Mul")
    other = _other(product, plus.outputs[0])
    half, last = network.producer.get(other), product
    if other == source:
        half = last = need(network.sole_reader(product.output))
        require(scaled(network, half) == product.outputs[0])
    else:
        require(scaled(network, need(half)) == source and network.uses(other) == 1)
    half = need(half)
    require(_by(network, half, 0.5))
    network.remove(scale, root, plus, product, half)
    network.add("Gelu", "", [source], last.outputs)


@each("Gemm")
def fuse_gemm_activations(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """Gemm, then an activation."""
    tail = _reader(network, kernel.output, *GEMM_ACTIVATIONS)
    require(not tail.domain)
    network.absorb(kernel, tail)
    network.become(kernel, "FusedGemm", MICROSOFT)


@each("Conv")
def fuse_conv_activations(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """Conv, then an activation with constant parameters."""
    tail = need(network.sole_reader(kernel.output))
    require(not kernel.domain and _conv_activation(network, tail))
    network.absorb(kernel, tail)
    kernel.activation = tail.kind
    network.become(kernel, "FusedConv", MICROSOFT)


def _conv_activation(network: RuntimeNetwork, kernel: RuntimeKernel) -> bool:
    if kernel.kind not in CONV_ACTIVATIONS or kernel.domain:
        return False
    return all(network.is_constant(name) for name in kernel.inputs[1:])


@each("Sigmoid")
def fuse_silu(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """x Sigmoid(x), or x Sigmoid(a x), becomes one QuickGelu."""
    tail = _reader(network, kernel.output, "Mul")
    other, source = _other(tail, kernel.outputs[0]), kernel.input(0)
    require(bool(source and other))
    if source != other:
        above = need(network.producer.get(source))
        require(scaled(network, above) == other and network.uses(source) == 1)
        network.remove(above)
    network.remove(kernel, tail)
    network.add("QuickGelu", MICROSOFT, [other], tail.outputs)


@each("LayerNormalization")
def fuse_skip_layer_norm(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """An Add that only a layer norm reads becomes part of it."""
    above = _maker(network, kernel.input(0), "Add")
    require(len(above.inputs) == 2 and network.sole_reader(kernel.inputs[0]) is kernel)
    left, right = (need(network.shape(name)) for name in above.inputs)
    require(left == right and len(left) == 3)
    network.remove(above, kernel)
    inputs = [*above.inputs, *kernel.inputs[1:]]
    network.add("SkipLayerNormalization", MICROSOFT, inputs, kernel.outputs[:1])


@each("MatMul", "FusedMatMul")
def fuse_matmul_neighbours(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """Scaling by a number, and a Transpose of the last two axes, become parts of a MatMul."""
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
        optional(_add_into)(network, kernel, position)


def _add_into(
    network: RuntimeNetwork, kernel: RuntimeKernel, position: Mapping[RuntimeKernel, int]
) -> None:
    tail = _reader(network, kernel.output, "Add", "Sum")
    other = _other(tail, kernel.outputs[0])
    require(len(tail.inputs) == 2 and other != "" and other not in network.constants)
    require(need(network.shape(other)) == network.shape(kernel.outputs[0]))
    require(not _depends_on(network, other, kernel, position))
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
