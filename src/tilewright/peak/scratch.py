"""Bytes that a kernel allocates for itself while it runs."""

from collections.abc import Mapping
from math import prod

from tilewright.graph.types import TensorType
from tilewright.peak.few_bits import INTEGERS
from tilewright.peak.few_bits import KIND as PACKED
from tilewright.peak.kernels import MICROSOFT, NCHWC, RuntimeKernel, is_pointwise

CONV_SEGMENT = 64 * 1024  # the piece of the im2col matrix that one thread works on, or less
LRN_SHARE = 2.26  # of the output, measured
CUBIC_SHARE = 0.34
WIDE = 4  # bytes of a sum of quantised products, and of a quantised number made real
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}  # products of the whole sequence, each like the output


def scratch_blocks(kernel: RuntimeKernel, types: Mapping[str, TensorType]) -> tuple[int, ...]:
    """Bytes of each block of one launch; none where types are unknown."""
    x, out = types.get(kernel.input(0)), types.get(kernel.output)
    if x is None or out is None or not x.shape or kernel.domain == NCHWC:
        return ()
    if kernel.kind == "QLinearConv":
        blocks = _quantised_conv(kernel, x, types.get(kernel.input(3)), out)
    else:
        blocks = (_block(kernel, x, out, types),)
    return tuple(size for size in blocks if size)


def _block(
    kernel: RuntimeKernel, x: TensorType, out: TensorType, types: Mapping[str, TensorType]
) -> int:
    """Bytes of a kernel that has one block."""
    match kernel.kind:
        case "ConvTranspose":
            return _conv_transpose(x, types.get(kernel.input(1)))
        case "Conv" | "FusedConv":
            return _conv(kernel, x, types.get(kernel.input(1)), out)
        case "ConvInteger":
            return _columns(kernel, types.get(kernel.input(1)), out)
        case "QLinearMatMul" | "QGemm":
            return WIDE * out.size  # sums before they are scaled
        case _ if kernel.kind == PACKED:
            return _packed_product(kernel, x)
        case "QLinearAveragePool":
            return WIDE * x.size  # its input as real numbers
        case "Softmax" | "LogSoftmax":
            # Another axis than the last is moved to the end and back.
            axis = kernel.int_of("axis", -1) % len(x.shape)
            return 2 * out.bytes if prod(x.shape[axis + 1 :]) > 1 else 0
        case "LRN":
            return round(LRN_SHARE * out.bytes)
        case "Where" | "GroupNormalization" | "Mish" | "HardSwish":
            return out.bytes  # the last three run as several nodes
        case "Resize":
            return round(CUBIC_SHARE * out.bytes) if kernel.str_of("mode", "") == "cubic" else 0
        case _:
            return GATES.get(kernel.kind, 0) * out.bytes


def _packed_product(kernel: RuntimeKernel, x: TensorType) -> int:
    """Activations as bytes, with a scale and a sum of 4 bytes for each block of them; or, where
    they stay real, all weights as real numbers, unless these have four bits."""
    if kernel.int_of("accuracy_level", 0) != INTEGERS:
        real = WIDE * kernel.int_of("K", 0) * kernel.int_of("N", 0)
        return 0 if kernel.int_of("bits", 4) == 4 else real
    block = kernel.int_of("block_size", 1)
    return x.size // x.shape[-1] * -(-x.shape[-1] // block) * (block + 2 * WIDE)


def _conv_transpose(x: TensorType, weight: TensorType | None) -> int:
    """The column buffer of one group, before its columns are added up."""
    if weight is None:
        return 0
    return weight.with_shape((*weight.shape[1:], *x.shape[2:])).bytes


def _conv(kernel: RuntimeKernel, x: TensorType, weight: TensorType | None, out: TensorType) -> int:
    """Room for a segment of the im2col matrix, or for all of it where there are more filters than
    positions."""
    if weight is None or not weight.shape or is_pointwise(kernel, weight.shape[2:]):
        return 0
    group = max(1, kernel.int_of("group", 1))
    positions = prod(out.shape[2:])
    whole = x.with_shape((positions, *weight.shape[1:])).bytes
    return whole if weight.shape[0] // group > positions else CONV_SEGMENT


def _columns(kernel: RuntimeKernel, weight: TensorType | None, out: TensorType) -> int:
    """The im2col matrix of a convolution of integers: all of one group."""
    if weight is None or len(weight.shape) < 2 or is_pointwise(kernel, weight.shape[2:]):
        return 0
    return weight.with_shape((*weight.shape[1:], *out.shape[2:])).bytes


def _quantised_conv(
    kernel: RuntimeKernel, x: TensorType, weight: TensorType | None, out: TensorType
) -> tuple[int, ...]:
    """A pointer per tap and position, or an im2col matrix, and sums of 32 bits: of one image after
    the other, or of all at once where no sums are needed."""
    if weight is None or len(weight.shape) < 2 or not out.shape or not out.size:
        return ()
    filters, channels, *window = weight.shape
    group = kernel.int_of("group", 1)
    depthwise = channels == 1 and filters == group
    # Kernels for signed weights around zero; they need no sums.
    aligned = filters % 16 == 0 and (depthwise or channels % 4 == 0)
    alone = depthwise or group == 1
    symmetric = alone and aligned and (x.dtype, weight.dtype) == ("uint8", "int8")
    positions = out.size // max(1, filters)  # of all images, wherever the channels are
    if not symmetric:
        positions //= out.shape[0]
    sums = 0 if symmetric else WIDE * filters
    taps = 0
    if depthwise or (symmetric and not is_pointwise(kernel, weight.shape[2:])):
        taps = 8 * prod(window)
    elif not is_pointwise(kernel, weight.shape[2:]):
        taps = channels * prod(window)
    # Outside the channels-last layout the kernel transposes what it reads and writes.
    moved = () if kernel.domain == MICROSOFT else (x.bytes, out.bytes)
    return (*moved, sums * positions, taps * positions)
