"""Products with quantised weights and real activations: one kernel that reads weights packed."""

from tilewright.graph.types import BITS
from tilewright.peak.kernels import MICROSOFT, RuntimeKernel
from tilewright.peak.network import RuntimeNetwork
from tilewright.peak.quantised import CLAMPS

KIND = "MatMulNBits"
WIDTHS = (2, 4, 8)
LEAST_BLOCK = 16
BLOCK = 32  # weights to a scale where the file has one for a column, or for all
INTEGERS = 4  # the accuracy level at which activations are quantised to bytes
SCALES = frozenset({"float32", "float16"})


def fuse_packed_weights(network: RuntimeNetwork) -> None:
    """MatMul or Gemm with a DequantizeLinear of its weights becomes one kernel, of level EXTENDED.
    Weights that several read stay real numbers."""
    if not network.has("DequantizeLinear"):
        return
    for kernel in network.in_order("MatMul", "Gemm"):
        real = network.producer.get(kernel.input(1))
        if real is None or kernel.domain or network.uses(kernel.inputs[1]) != 1:
            continue
        block = _block(network, real)
        if block is None or not _takes(network, kernel) or _bounded(network, kernel):
            continue
        shape = network.types[real.inputs[0]].shape
        bits = BITS[network.types[real.inputs[0]].dtype]
        network.remove(real)
        network.rewire(kernel, real.outputs[0], real.inputs[0])
        network.parameters.update(real.inputs[1:])
        kernel.attributes = {
            "K": shape[0],
            "N": shape[1],
            "bits": bits,
            "block_size": block,
            "accuracy_level": INTEGERS,
        }
        network.become(kernel, KIND, MICROSOFT)


def _block(network: RuntimeNetwork, real: RuntimeKernel) -> int | None:
    """Weights to a scale of a DequantizeLinear that the kernel takes, None where it does not."""
    if real.kind != "DequantizeLinear" or not all(map(network.is_constant, real.inputs)):
        return None
    weight, scale = network.types.get(real.input(0)), network.types.get(real.input(1))
    if weight is None or scale is None or len(weight.shape) != 2 or scale.dtype not in SCALES:
        return None
    if BITS[weight.dtype] not in WIDTHS or network.shared(real.inputs[0]):
        return None
    block, axis = real.int_of("block_size", 0), real.int_of("axis", 1)
    if block:
        power = not block & (block - 1)
        return block if axis == 0 and block >= LEAST_BLOCK and power else None
    columns = axis == 1 and scale.shape == weight.shape[1:]
    return BLOCK if columns or not scale.shape else None


def _takes(network: RuntimeNetwork, kernel: RuntimeKernel) -> bool:
    """Whether the product is a plain one of real activations."""
    above = network.producer.get(kernel.input(0))
    if above is not None and above.kind == "DequantizeLinear":
        return False
    if kernel.kind == "MatMul":
        return True
    plain = {kernel.float_of("alpha", 1.0), kernel.float_of("beta", 1.0)} == {1.0}
    turned = kernel.int_of("transA", 0) or kernel.int_of("transB", 0)
    bias = network.shape(kernel.input(2)) if kernel.input(2) else (0,)
    return plain and not turned and bias is not None and len(bias) == 1


def _bounded(network: RuntimeNetwork, kernel: RuntimeKernel) -> bool:
    """Whether the runtime takes what is behind for the end of a quantised operator: a
    QuantizeLinear, or a clamp that is on its way to a single reader."""
    readers = network.readers.get(kernel.output, ())
    if any(reader.kind == "QuantizeLinear" for reader in readers):
        return True
    tail = readers[0] if len(readers) == 1 else None
    if tail is None or tail.kind not in CLAMPS or network.leaves(tail.output):
        return False
    return network.uses(tail.output) == 1
