"""The blocked layout NCHWc of optimisation level ALL.

Convolutions, pools and what lies between them compute on channels in blocks; a reorder stands at
every border between the layouts. Channels are rounded up to the block.
"""

from dataclasses import dataclass
from typing import ClassVar

from tilewright.graph.rules import need, optional, require
from tilewright.peak.kernels import BLOCKED_CONV_ACTIVATIONS, MICROSOFT, NCHWC, RuntimeKernel
from tilewright.peak.network import RuntimeNetwork, Shape

ACTIVATIONS = frozenset(
    {"Relu", "Sigmoid", "Tanh", "HardSigmoid", "Gelu", "QuickGelu", "HardSwish"}
)
LINEAR_TRANSFORMS = ("asymmetric", "align_corners", "half_pixel")


def conv_is_blocked(weight: Shape, group: int, block: int) -> bool:
    """Whether a float convolution with constant weights (OIHW) moves to the blocked layout."""
    if block <= 1 or len(weight) != 4 or group < 1:
        return False
    outputs, inputs = weight[:2]
    if group == 1:
        return inputs < block or inputs % 4 == 0
    if outputs % 4:
        return False
    if inputs == 1 and outputs == group:
        return True
    return inputs % block == 0 and outputs % group == 0 and (outputs // group) % block == 0


def reads_plain(weight: Shape, group: int, block: int) -> bool:
    """Whether a blocked convolution reads the plain tensor itself: it has few input channels."""
    return group == 1 and weight[1] < block


def block_layout(network: RuntimeNetwork) -> None:
    """Move the network to the blocked layout where onnxruntime does."""
    if network.has("Conv", "FusedConv", "MaxPool", "AveragePool"):
        _BlockedLayout(network).run()


@dataclass(slots=True)
class _Blocked:
    """A value that exists in the blocked layout, and how many readers still want it plain."""

    token: str
    producer: RuntimeKernel
    uses: int
    plain_uses: int
    channels: int


class _BlockedLayout:
    def __init__(self, network: RuntimeNetwork) -> None:
        self.network = network
        self.block = network.runtime.block
        self.blocked: dict[str, _Blocked] = {}
        self.reordered: dict[str, str] = {}  # plain value -> its blocked copy

    def run(self) -> None:
        network = self.network
        for kernel in network.in_order():
            if kernel.single:
                self._visit(kernel)
        for name, value in self.blocked.items():
            if value.plain_uses > 0:
                network.add("ReorderOutput", NCHWC, [value.token], [name])
        network.relink()

    def _visit(self, kernel: RuntimeKernel) -> None:
        rule = self.RULES.get(kernel.kind)
        begins = kernel.kind in ("Conv", "FusedConv", "MaxPool", "AveragePool")
        reached = begins or kernel.input(0) in self.blocked
        if rule is not None and reached and self.network.spatial(kernel.input(0), kernel.output):
            optional(rule)(self, kernel)

    # One rule per kind of kernel.

    def _conv(self, kernel: RuntimeKernel) -> None:
        network, group = self.network, kernel.int_of("group", 1)
        weight = need(network.types.get(kernel.input(1)))
        require(kernel.domain in ("", MICROSOFT) and kernel.inputs[1] in network.constants)
        require(weight.dtype == "float32" and network.is_constant(kernel.input(2)))
        require(conv_is_blocked(weight.shape, group, self.block))
        network.become(kernel, "Conv", NCHWC)
        if not reads_plain(weight.shape, group, self.block):
            self._take_input(kernel)
        self._make_output(kernel, weight.shape[0])

    def _pool(self, kernel: RuntimeKernel) -> None:
        value = self.network.types[kernel.inputs[0]]
        require(value.dtype == "float32" and not value.shape[1] % self.block)
        self.network.become(kernel, kernel.kind, NCHWC)
        self._take_input(kernel)
        self._make_output(kernel, value.shape[1])

    def _binary(self, kernel: RuntimeKernel) -> None:
        require(all(name in self.blocked for name in kernel.inputs))
        require(len({self.network.shape(name) for name in kernel.inputs}) == 1)
        operands = [self._read(kernel, slot) for slot in range(len(kernel.inputs))]
        if kernel.kind in ("Add", "Sum") and len(operands) == 2:
            for own, other in (operands, operands[::-1]):
                conv = own.producer
                if self._open(own) and len(conv.inputs) < 4:
                    conv.inputs += (*("",) * (3 - len(conv.inputs)), other.token)
                    self._fuse_output(kernel, own)
                    return
        self._make_output(kernel, operands[0].channels)

    def _concat(self, kernel: RuntimeKernel) -> None:
        require(kernel.int_of("axis", 0) == 1)
        require(all(name in self.blocked for name in kernel.inputs))
        require(all(not self.blocked[name].channels % self.block for name in kernel.inputs))
        operands = [self._read(kernel, slot) for slot in range(len(kernel.inputs))]
        self._make_output(kernel, sum(operand.channels for operand in operands))

    def _activation(self, kernel: RuntimeKernel) -> None:
        source = self._read(kernel, 0)
        if self._open(source) and kernel.kind in BLOCKED_CONV_ACTIVATIONS:
            source.producer.activation = kernel.kind
            self._fuse_output(kernel, source)
        else:
            self._make_output(kernel, source.channels)

    def _batch_norm(self, kernel: RuntimeKernel) -> None:
        source = self._read(kernel, 0)
        kernel.inputs, kernel.attributes = kernel.inputs[:3], {}
        self.network.become(kernel, "Conv", NCHWC)
        self._make_output(kernel, source.channels)

    def _resize(self, kernel: RuntimeKernel) -> None:
        small, large = (need(self.network.shape(n)) for n in (kernel.inputs[0], kernel.outputs[0]))
        require(len(small) == len(large) and small[:2] == large[:2])
        require(not any(b % a for a, b in zip(small, large, strict=True) if a))
        transform = kernel.str_of("coordinate_transformation_mode", "half_pixel")
        if kernel.str_of("mode", "nearest") == "nearest":
            rounding = kernel.str_of("nearest_mode", "round_prefer_floor")
            require((transform, rounding) == ("asymmetric", "floor"))
        else:
            require(kernel.str_of("mode", "") == "linear" and transform in LINEAR_TRANSFORMS)
        source = self._read(kernel, 0)
        kernel.inputs = (source.token,)
        self.network.become(kernel, "Upsample", NCHWC)
        self._make_output(kernel, source.channels)

    def _turned(self, kernel: RuntimeKernel) -> None:
        require(kernel.ints_of("perm") == (0, 2, 3, 1))
        kernel.inputs = (self._read(kernel, 0).token,)
        self.network.become(kernel, "ReorderOutput", NCHWC)

    # Borders.

    def _open(self, value: _Blocked) -> bool:
        """Whether the convolution that makes a value can still take in what follows it."""
        conv = value.producer
        is_conv = conv.kind == "Conv" and conv.domain == NCHWC
        return is_conv and value.uses == 1 and not conv.activation

    def _read(self, kernel: RuntimeKernel, slot: int) -> _Blocked:
        value = self.blocked[kernel.inputs[slot]]
        value.plain_uses -= 1
        kernel.read(slot, value.token)
        return value

    def _token(self, name: str, channels: int) -> str:
        batch, _, *space = self.network.types[name].shape
        rounded = -(-channels // self.block) * self.block
        return self.network.invent(name, "nchwc", (batch, rounded, *space))

    def _take_input(self, kernel: RuntimeKernel) -> None:
        name = kernel.inputs[0]
        if name in self.blocked:
            self._read(kernel, 0)
            return
        if name not in self.reordered:
            self.reordered[name] = self._token(name, self.network.types[name].shape[1])
            self.network.add("ReorderInput", NCHWC, [name], [self.reordered[name]])
        kernel.read(0, self.reordered[name])

    def _make_output(self, kernel: RuntimeKernel, channels: int) -> None:
        name = kernel.outputs[0]
        uses = self.network.uses(name)
        token = self._token(name, channels)
        kernel.outputs = (token, *kernel.outputs[1:])
        self.blocked[name] = _Blocked(token, kernel, uses, uses, channels)

    def _fuse_output(self, kernel: RuntimeKernel, into: _Blocked) -> None:
        """The kernel disappears: the convolution writes its output."""
        name = kernel.outputs[0]
        uses = self.network.uses(name)
        kernel.gone = True
        self.network.origin[into.token] = name
        self.blocked[name] = _Blocked(into.token, into.producer, uses, uses, into.channels)

    RULES: ClassVar = {
        **dict.fromkeys(("Conv", "FusedConv"), _conv),
        **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), _pool),
        **dict.fromkeys(("Add", "Sum", "Mul"), _binary),
        "Concat": _concat,
        **dict.fromkeys(ACTIVATIONS, _activation),
        "BatchNormalization": _batch_norm,
        **dict.fromkeys(("Resize", "Upsample"), _resize),
        "Transpose": _turned,
    }
