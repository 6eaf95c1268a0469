"""Kernel: what onnxruntime launches, and what it knows about each kind of kernel."""

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.graph.graph import Attribute, Attributes
from tilewright.graph.ops import SPECS

NCHWC = "com.microsoft.nchwc"
MICROSOFT = "com.microsoft"

# The output is the input's buffer, seen in another shape.
ALIAS = frozenset(spec.kind for spec in SPECS.values() if spec.keeps_order)
# The output may overwrite input 0 at its last use: what its own kernels are registered for, fewer
# than could (`OpSpec.in_place`).
IN_PLACE = frozenset(
    (
        "Relu Sigmoid Tanh LeakyRelu Elu HardSigmoid Softplus Softsign Selu Celu "
        "ThresholdedRelu Clip Softmax LogSoftmax"
    ).split()
)
# Computed inside the kernel before them.
CONV_ACTIVATIONS = frozenset({"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid"})
BLOCKED_CONV_ACTIVATIONS = CONV_ACTIVATIONS | {"HardSwish"}
GEMM_ACTIVATIONS = frozenset(
    "Relu Sigmoid Tanh LeakyRelu HardSigmoid Softplus Softsign Elu Selu ThresholdedRelu".split()
)
RANDOM = frozenset(
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli".split()
)


@dataclass(slots=True, eq=False)
class RuntimeKernel(Attributes):
    """A node while onnxruntime's rewrites are applied to it.

    `index` decides the order of execution: the position in the file, or a later one for a node
    that a rewrite made. Values captured by a subgraph stand behind the inputs.
    """

    index: int
    kind: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    activation: str = ""
    gone: bool = False

    def input(self, slot: int) -> str:
        """Name of an input, empty where it is absent."""
        return self.inputs[slot] if slot < len(self.inputs) else ""

    def read(self, slot: int, name: str) -> None:
        """Put another value in the place of an input."""
        self.inputs = (*self.inputs[:slot], name, *self.inputs[slot + 1 :])

    @property
    def output(self) -> str:
        """Name of the first output, empty where it is absent."""
        return self.outputs[0] if self.outputs else ""

    @property
    def single(self) -> bool:
        """Whether it makes nothing beside its first output."""
        return bool(self.outputs and self.outputs[0]) and not any(self.outputs[1:])


def takes_over(kernel: RuntimeKernel) -> int | None:
    """The input whose buffer the first output may become, None if it always needs its own."""
    if not kernel.domain:
        return 0 if kernel.kind in ALIAS or kernel.kind in IN_PLACE else None
    if kernel.kind in ("Conv", "FusedConv") and len(kernel.inputs) > 3 and kernel.inputs[3]:
        return 3  # the sum that the convolution adds to
    return None


def is_alias(kernel: RuntimeKernel) -> bool:
    """Whether the output is the input's buffer whatever else reads it."""
    return kernel.kind in ALIAS and not kernel.domain


def is_pointwise(kernel: RuntimeKernel, window: tuple[int, ...]) -> bool:
    """Whether a convolution reads each input position once, where it writes."""
    return (
        all(extent == 1 for extent in window)
        and all(stride == 1 for stride in kernel.ints_of("strides") or ())
        and not any(kernel.ints_of("pads") or ())
    )
