"""Products with quantised weights and real activations: one kernel that reads weights packed."""

from tilewright.graph.rules import need, require
from tilewright.graph.types import BITS
from tilewright.peak.kernels import MICROSOFT, RuntimeKernel
from tilewright.peak.network import RuntimeNetwork, each
from tilewright.peak.quantised import CLAMPS

KIND = "MatMulNBits"
WIDTHS = (2, 4, 8)
LEAST_BLOCK = 16
BLOCK = 32  # weights to a scale where the file has one for a column, or for all
INTEGERS = 4  # the accuracy level at which activations are quantised to bytes
SCALES = frozenset({"float32", "float16"})


@each("MatMul", "Gemm")
def fuse_packed_weights(network: RuntimeNetwork, kernel: RuntimeKernel) -> None:
    """MatMul or Gemm with a DequantizeLinear of its weights becomes one kernel, of level EXTENDED.
    Weights that several read stay real numbers."""
    real = need(network.producer.get(kernel.input(1)))
    require(not kernel.domain and network.uses(kernel.inputs[1]) == 1)
    block = _block(network, real)
    require(_takes(network, kernel) and not _bounded(network, kernel))
    weight = network.types[real.inputs[0]]
    network.remove(real)
    network.rewire(kernel, real.outputs[0], real.inputs[0])
    network.parameters.update(real.inputs[1:])
    kernel.attributes = {
        "K": weight.shape[0],
        "N": weight.shape[1],
        "bits": BITS[weight.dtype],
        "block_size": block,
        "accuracy_level": INTEGERS,
    }
    network.become(kernel, KIND, MICROSOFT)


def _block(network: RuntimeNetwork, real: RuntimeKernel) -> int:
    """Weights to a scale of a DequantizeLinear that the kernel takes."""
    require(real.kind == "DequantizeLinear" and all(map(network.is_constant, real.inputs)))
    weight, scale = need(network.types.get(real.input(0))), need(network.types.get(real.input(1)))
    require(len(weight.shape) == 2 and scale.dtype in SCALES and BITS[weight.dtype] in WIDTHS)
    require(not network.shared(real.inputs[0]))
    block, axis = real.int_of("block_size", 0), real.int_of("axis", 1)
    if block:
        require(axis == 0 and block >= LEAST_BLOCK and not block & (block - 1))
        return block
    require((axis == 1 and scale.shape == weight.shape[1:]) or not scale.shape)
    return BLOCK


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
