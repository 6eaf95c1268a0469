"""Models that are not part of the project: beside the checkout, or in the onnx package."""

from pathlib import Path

import onnx
import pytest

from tilewright.frontend.load import load_onnx
from tilewright.graph.graph import Graph

MODELS = Path(__file__).resolve().parents[3] / "shared" / "data" / "models"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def real_model(name: str) -> Graph:
    """A network as somebody exported it; the test is skipped where it is not there."""
    path = MODELS / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return load_onnx(path).graph
