"""Predicted against measured peaks of small networks, float and quantised by onnxruntime, as they
are and cut as small as `--memory smallest` goes.

    python bench/small_peaks.py [NETWORK ...]
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from tilewright import api
from tilewright.frontend.builder import Builder
from tilewright.frontend.save import save_onnx
from tilewright.frontend.weights import seeded, seeded_inputs
from tilewright.graph.graph import Graph

FORMS: dict[str, tuple[QuantFormat, bool, QuantType] | None] = {
    "float": None,
    "QDQ": (QuantFormat.QDQ, False, QuantType.QUInt8),
    "QDQ, signed": (QuantFormat.QDQ, True, QuantType.QInt8),
    "QOperator, per channel": (QuantFormat.QOperator, True, QuantType.QUInt8),
}


def chain(b: Builder) -> str:
    """Six convolutions at full size."""
    x = b.conv(b.input("x", (1, 3, 128, 128)), 32, 3, pads=1)
    for _ in range(4):
        x = b.op("Relu", b.conv(x, 32, 3, pads=1))
    return b.conv(x, 8, 3, pads=1)


def dense(b: Builder) -> str:
    """Layers that read all before them."""
    x = b.op("Relu", b.conv(b.input("x", (1, 3, 96, 96)), 16, 3, pads=1))
    for _ in range(5):
        x = b.op("Concat", x, b.op("Relu", b.conv(x, 8, 3, pads=1)), axis=1)
    return b.conv(x, 16, 1)


def mobile(b: Builder) -> str:
    """Inverted residuals."""
    x = b.relu6(b.conv(b.input("x", (1, 3, 128, 128)), 16, 3, stride=2, pads=1))
    for filters, stride in ((16, 1), (24, 2), (24, 1), (32, 2), (32, 1)):
        y = b.relu6(b.conv(x, 6 * b.shape(x)[1], 1))
        y = b.relu6(b.conv(y, b.shape(y)[1], 3, stride=stride, pads=1, groups=b.shape(y)[1]))
        y = b.conv(y, filters, 1)
        x = b.op("Add", x, y) if b.shape(x) == b.shape(y) else y
    return x


def inception(b: Builder) -> str:
    """Branches of different kernels side by side."""
    x = b.op("Relu", b.conv(b.input("x", (1, 3, 128, 128)), 32, 3, stride=2, pads=1))
    for _ in range(3):
        branches = [b.conv(x, 16, 1), b.conv(b.op("Relu", b.conv(x, 12, 1)), 16, 3, pads=1)]
        branches.append(b.conv(b.op("Relu", b.conv(x, 8, 1)), 8, 5, pads=2))
        branches.append(b.conv(b.pool("MaxPool", x, 3, 1, 1), 8, 1))
        x = b.op("Relu", b.op("Concat", *branches, axis=1))
    return x


def encoder(b: Builder) -> str:
    """Two transformer blocks on 96 tokens of 64 features."""
    x = b.input("x", (1, 96, 64))
    for block in range(2):
        with b.scope(f"block{block}"):
            y = b.layer_norm(x, 1e-5)
            query, key, value = (b.heads(b.linear(y, 64), 4) for _ in range(3))
            x = b.op("Add", x, b.linear(b.attention(query, key, value), 64))
            y = b.op("Gelu", b.linear(b.layer_norm(x, 1e-5), 256))
            x = b.op("Add", x, b.linear(y, 64))
    return x


NETWORKS: dict[str, tuple[Callable[[Builder], str], tuple[str, ...]]] = {
    "chain of convolutions": (chain, tuple(FORMS)),
    "DenseNet type": (dense, ("float",)),
    "MobileNet type": (mobile, tuple(FORMS)),
    "Inception type": (inception, tuple(FORMS)),
    "two transformer blocks": (encoder, tuple(FORMS)),
}


class Numbers(CalibrationDataReader):
    """Three inputs to find ranges from."""

    def __init__(self, graph: Graph) -> None:
        self.left = [dict(seeded_inputs(graph, seed)) for seed in range(3)]

    def get_next(self) -> Any:
        """The next input."""
        return self.left.pop() if self.left else None


def written(graph: Graph, form: str, folder: Path) -> Path:
    """A network as a file, quantised where its form says so."""
    path = folder / "float.onnx"
    save_onnx(graph, path)
    wanted = FORMS[form]
    if wanted is None:
        return path
    small = folder / "quantised.onnx"
    how, per_channel, activations = wanted
    quantize_static(
        path,
        small,
        Numbers(graph),
        quant_format=how,
        per_channel=per_channel,
        activation_type=activations,
        weight_type=QuantType.QInt8,
    )
    return small


def main() -> None:
    """Print a table."""
    print("| network | predicted | measured | cut: predicted | measured |\n|---|---|---|---|---|")
    for name, (build, forms) in NETWORKS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        b = Builder("net")
        graph = seeded(b.finish(build(b)))
        for form in forms:
            with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
                path = written(graph, form, Path(folder))
                found = api.shrink(path, "smallest", Path(folder) / "small.onnx", measure=True)
            facts = found.measured
            assert facts is not None
            figures = (
                found.original_peak_bytes,
                facts.original_peak_bytes,
                found.predicted_peak_bytes,
                facts.peak_bytes,
            )
            cells = " | ".join(f"{np.round(figure / 1e6, 2):.2f}" for figure in figures)
            print(f"| {name}{'' if form == 'float' else f', {form}'} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
