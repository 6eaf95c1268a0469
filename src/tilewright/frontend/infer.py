"""Shapes and constants in one walk: each node is folded if it can be, else its types inferred."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend import proto
from tilewright.graph.graph import Array, Constant, Node, constant_of
from tilewright.graph.kernels.call import Call
from tilewright.graph.kernels.geometry import LEADING, window_of
from tilewright.graph.kernels.pooling import pool_window
from tilewright.graph.ops import SPECS
from tilewright.graph.ops.quantised import PLANNED, RUNTIME, data_inputs
from tilewright.graph.ops.reduction import SOFTMAXES
from tilewright.graph.ops.spec import Engine
from tilewright.graph.rules import NoMatch, need, optional, require
from tilewright.graph.types import QUANTISED, TensorType

# A folded constant may be as large as what it is made from, or as this: what is computed costs more
# than loading it, but what is only repeated is cheaper to repeat where it is read.
COMPUTED_BYTES, MOVED_BYTES = 2**20, 2**16
UNFOLDED = frozenset(
    {"DequantizeLinear", "RandomNormal", "RandomUniform", "Bernoulli", "Multinomial"}
)
CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
POOLS = frozenset({"MaxPool", "AveragePool", "LpPool"})
# Results as large as the first input, for which onnx has no inference.
SHAPE_KEEPERS = frozenset({"GroupNormalization", "MeanVarianceNormalization"})
# What a Constant may hold, and the element types of plain numbers.
VALUES = {
    "value": None,
    **dict.fromkeys(("value_float", "value_floats"), np.float32),
    **dict.fromkeys(("value_int", "value_ints"), np.int64),
}


class Inference:
    """Types and constants known so far. `add` takes the next node and says whether it stays."""

    def __init__(self, opsets: Mapping[str, int], declared: Mapping[str, TensorType]) -> None:
        self.opsets = dict(opsets)
        self.declared = declared
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Constant] = {}

    def constant(self, name: str, value: Constant) -> None:
        """Make a constant known."""
        self.constants[name] = value
        self.types[name] = value.type

    def add(self, node: Node) -> bool:
        """Work out a node's results. False if they became constants and the node is not needed."""
        folded = self._fold(node)
        if folded is not None:
            for name, array in zip(node.outputs, folded, strict=False):
                if name:
                    self.constant(name, _folded(array))
            return False
        self._check_parameters(node)
        found = self._quantised(node) if node.domain else self._corrected(node)
        found = found or proto.infer_types(node, self.types, self.constants, self.opsets)
        found |= {} if node.domain else self._as_run(node) or {}
        for name in node.writes:
            kind = found.get(name) or self.declared.get(name)
            if kind is not None:
                if prod(kind.shape) > proto.LARGEST:
                    raise ModelError(f"node '{node.name}': result {kind} is too large")
                self.types[name] = kind
        fault = "" if node.domain else self._fault(node)
        if fault:
            raise _invalid(node, fault)
        return True

    def _fault(self, node: Node) -> str:
        """What onnx's own inference lets pass, and no runtime would."""
        kinds = [self.types.get(name) for name in (*node.inputs[:1], *node.outputs[:1])]
        data, result = kinds if len(kinds) == 2 else (None, None)
        groups = node.attributes.get("group", 1)
        channels = [kind.shape[1] for kind in kinds if kind and len(kind.shape) > 1]
        if not isinstance(groups, int) or groups < 1 or any(c % groups for c in channels):
            return f"{' and '.join(map(str, channels))} channels in {groups} groups"
        weights = self.types.get(node.inputs[1]) if len(node.inputs) > 1 else None
        filters = weights.shape[1] * groups if weights and len(weights.shape) > 1 else None
        if node.kind == "Conv" and filters and channels[:1] not in ([], [filters]):
            return f"{channels[0]} channels for filters of {filters}"
        window = node.attributes.get("kernel_shape")
        if node.kind in CONVOLUTIONS and weights and window and window != weights.shape[LEADING:]:
            return f"its kernel_shape {window} is not that of its weights {weights}"
        axis = node.attributes.get("axis")
        if node.kind in SOFTMAXES and isinstance(axis, int) and data:
            rank = len(data.shape)
            if not -rank <= axis < max(1, rank):
                return f"{data} has no axis {axis}"
        if node.kind == "Conv" and data and weights and result is None and data.size:
            call = Call(node.kind, node.attributes, (), self.opsets.get("", 1))
            extents, kernel = data.shape[LEADING:], weights.shape[LEADING:]
            if len(extents) == len(kernel) and min(window_of(call, extents, kernel).result) < 1:
                return f"its kernel is larger than all of {data} with its padding"
        if node.kind == "Reshape" and data and result and data.size != result.size:
            return f"{data} has not as many elements as {result}"
        parameters = [self.types.get(name) for name in node.inputs[1:] if name]
        if node.kind == "Slice" and any(kind and len(kind.shape) != 1 for kind in parameters):
            return "starts, ends, axes and steps are lists"
        return ""

    @optional
    def _quantised(self, node: Node) -> dict[str, TensorType]:
        """Results of quantised operators that only onnxruntime has: in the shape of the float one
        inside, in the type of the zero point that comes last."""
        require(node.domain in (RUNTIME, PLANNED))
        kind, data = need(data_inputs(node.kind, len(node.inputs)))
        inputs = tuple(node.inputs[k] for k in data if k < len(node.inputs))
        real = {n: TensorType("float32", need(self.types.get(n)).shape) for n in inputs}
        require(bool(inputs))
        found = dict.fromkeys(node.outputs, real[inputs[0]])  # planned ones: element by element
        if node.domain == RUNTIME:
            own = {k: v for k, v in node.attributes.items() if k not in ("opset", "channels_last")}
            plain = replace(node, kind=kind, inputs=inputs, domain="", attributes=own)
            found = proto.infer_types(plain, real, {}, self.opsets)
        zero = need(self.types.get(node.inputs[1] if data[0] else node.inputs[-1]))
        require(not node.attributes.get("channels_last", 0))
        dtype = zero.dtype if zero.dtype in QUANTISED else "float32"
        return {name: TensorType(dtype, kind.shape) for name, kind in found.items()}

    @optional
    def _corrected(self, node: Node) -> dict[str, TensorType]:
        """Results that onnx does not infer, or infers wrongly."""
        types = [self.types.get(name) for name in node.inputs]
        require(bool(types and node.outputs))
        data = need(types[0])
        if node.kind in SHAPE_KEEPERS:
            return {node.outputs[0]: data}
        if node.kind == "STFT":
            return self._short_fourier(node, data)
        # A transposed convolution of a given shape: onnx leaves off the axes from the first one
        # that is smaller than the input's.
        require(node.kind == "ConvTranspose" and len(types) > 1)
        extents, groups = need(node.ints_of("output_shape")), node.attributes.get("group", 1)
        if not isinstance(groups, int) or len(extents) != len(data.shape) - 2:
            raise NoMatch
        channels = prod(need(types[1]).shape[1:2]) * groups
        return {node.outputs[0]: data.with_shape((data.shape[0], channels, *extents))}

    def _short_fourier(self, node: Node, data: TensorType) -> dict[str, TensorType]:
        """Spectra of frames: one-sided unless told otherwise, where onnx infers both sides."""
        step, window, given = (*node.inputs, "", "", "")[1:4]
        taken, length = need(self._number(step)), self._number(given)
        if length is None:
            shape = need(self.types.get(window)).shape
            require(len(shape) == 1)
            length = shape[0]
        require(len(data.shape) > 1)
        if not 0 < length <= data.shape[1] or taken < 1:
            text = f"frames of {length} every {taken} of a signal of {data.shape[1]}"
            raise _invalid(node, text)
        bins = length // 2 + 1 if node.attributes.get("onesided", 1) else length
        frames = (data.shape[1] - length) // taken + 1
        return {node.outputs[0]: data.with_shape((data.shape[0], frames, bins, 2))}

    def _number(self, name: str) -> int | None:
        """A whole number that is known."""
        constant = self.constants.get(name)
        number = None if constant is None else constant.number
        return None if number is None else int(number)

    @optional
    def _as_run(self, node: Node) -> dict[str, TensorType]:
        """Results whose extents onnx infers otherwise than onnxruntime computes them; an error
        where a pool has none."""
        require(bool(node.inputs and node.outputs))
        data = need(self.types.get(node.inputs[0]))
        require(data.size > 0)
        if node.kind == "Resize":
            return self._resized(node, data)
        require(node.kind in POOLS and "kernel_shape" in node.attributes)
        call = Call(node.kind, node.attributes, (), self.opsets.get("", 1))
        kernel, pads = call.ints_of("kernel_shape") or (), call.ints_of("pads") or ()
        steps = (call.ints_of("strides") or (), call.ints_of("dilations") or ())
        if min((*kernel, *steps[0], *steps[1]), default=1) < 1:  # older onnx lets it pass
            raise _invalid(node, "kernel, strides and dilations are at least 1")
        mode = call.str_of("auto_pad", "NOTSET")
        if mode == "NOTSET" and any(p >= k for p, k in zip(pads, kernel * 2, strict=False)):
            raise _invalid(node, "its padding is not smaller than its kernel")
        extents = pool_window(call, data.shape).result
        if min(extents, default=1) < 1:
            raise _invalid(node, f"its kernel is larger than all of {data} with its padding")
        shape = (*data.shape[:LEADING], *extents)
        kinds = (data.with_shape(shape), TensorType("int64", shape))  # the second: places
        return {name: kind for name, kind in zip(node.outputs, kinds, strict=False) if name}

    def _resized(self, node: Node, data: TensorType) -> dict[str, TensorType]:
        """The result of a Resize by constant scales, multiplied in single precision."""
        given, sizes = (self.constants.get(name) for name in (*node.inputs, "", "", "")[2:4])
        scales = need(need(given).data)
        rank, axes = len(data.shape), node.ints_of("axes")
        named = list(range(rank)) if axes is None else [axis % rank for axis in axes]
        require(scales.size == len(named) and (sizes is None or not sizes.type.size))
        if not np.isfinite(scales).all():
            raise _invalid(node, "its scales are no numbers")
        shape = list(data.shape)
        for axis, scale in zip(named, scales.reshape(-1), strict=True):
            shape[axis] = int(np.float32(shape[axis]) * np.float32(scale))
        if min(shape) < 1:
            raise _invalid(node, f"nothing is left of {data}")
        return {node.outputs[0]: data.with_shape(tuple(shape))}

    def _fold(self, node: Node) -> list[Array] | None:
        if node.domain or node.captures or node.kind in UNFOLDED:
            return None
        if node.kind == "Shape" and node.inputs and node.inputs[0] in self.types:
            return [_shape(node, self.types[node.inputs[0]].shape)]
        if node.kind == "Constant":
            return _constant_value(node)
        inputs: list[Array] = []
        for name in node.inputs:
            if name and (name not in self.constants or self.constants[name].data is None):
                return None
            if name:
                data = self.constants[name].data
                assert data is not None
                inputs.append(data)
        if node.kind == "ConstantOfShape":
            # A view of one number: a network of filled weights takes no memory.
            fill = node.attributes.get("value", np.zeros(1, np.float32))
            extents = inputs[0] if inputs else np.zeros((), np.int64)
            shape = tuple(map(int, extents.ravel())) if extents.dtype == np.int64 else (-1,)
            if (
                not isinstance(fill, np.ndarray)
                or fill.size != 1
                or extents.ndim != 1
                or min(shape, default=0) < 0
                or prod(shape) > proto.LARGEST
            ):
                raise ModelError(f"node '{node.name}' (ConstantOfShape) is not valid")
            return [np.broadcast_to(fill.reshape(()), shape)]
        if not inputs:
            return None
        expected = proto.infer_types(node, self.types, self.constants, self.opsets)
        size = sum(expected[name].bytes for name in node.writes if name in expected)
        if any(name not in expected for name in node.writes):
            size = 0
        spec = SPECS.get(node.kind)
        computed = spec is not None and spec.engine is not Engine.MOVE
        most = COMPUTED_BYTES if computed else MOVED_BYTES
        if size > max(most, sum(array.nbytes for array in inputs)):
            return None
        return proto.evaluate(node, inputs, self.opsets)

    def _check_parameters(self, node: Node) -> None:
        """Numbers that decide shapes cannot be made up: say so where they are missing."""
        for name in node.inputs[1:]:
            constant = self.constants.get(name)
            if constant is None or constant.data is not None:
                continue
            if constant.type.dtype == "int64" and len(constant.type.shape) <= 1:
                raise ModelError(
                    f"the numbers of '{name}' are not in the file, and the shape of node "
                    f"'{node.name}' ({node.kind}) depends on them: put the external data beside it"
                )


def _invalid(node: Node, fault: str) -> ModelError:
    return ModelError(f"node '{node.name}' ({node.kind}) is not valid: {fault}")


def _folded(array: Array) -> Constant:
    """A constant that was worked out; numpy has no type of its own for text of any length."""
    if array.dtype.kind not in "OSU":
        return constant_of(array)
    return Constant(TensorType("string", array.shape), array.astype(object))


def _shape(node: Node, shape: tuple[int, ...]) -> Array:
    start, stop = node.attributes.get("start", 0), node.attributes.get("end", len(shape))
    if not isinstance(start, int) or not isinstance(stop, int):
        raise ModelError(f"node '{node.name}' (Shape) is not valid: start and end are numbers")
    return np.asarray(shape[start:stop], dtype=np.int64)


def _constant_value(node: Node) -> list[Array] | None:
    for key, dtype in VALUES.items():
        if key in node.attributes:
            return [np.asarray(node.attributes[key], dtype=dtype)]
    return None
