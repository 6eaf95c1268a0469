"""The operator classes that vector engines are costed by: what stands under `rates`."""

from collections.abc import Mapping

OPERATOR_CLASSES: Mapping[str, str] = {
    "softmax": "Softmax, LogSoftmax, Hardmax",
    "norm": "layer, group, instance and batch normalisation, LRN",
    "exp": "Exp, Log, Sqrt, Pow and activations made of them",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "erf": "Erf",
    "gelu": "Gelu",
    "swish": "Swish (SiLU), HardSwish, Mish",
    "add": "element-wise arithmetic and comparison",
    "reduce": "sums, means, largest and smallest along axes",
    "pool": "pooling, an element per window position",
    "copy": "layout and resampling: elements that only move",
    "depthwise": "depthwise convolutions, a multiply-accumulate; as `mac` where left out",
    "mac": "convolutions and matrix products, a multiply-accumulate",
    "default": "whatever has no rate of its own",
}
