"""The one package that imports onnx: protobufs to plain values (`read`) and back (`write`), and
what onnx itself knows of operators (`ask`)."""

from tilewright.frontend.proto.ask import evaluate, infer_types
from tilewright.frontend.proto.kinds import NEWEST_OPSET
from tilewright.frontend.proto.read import (
    LARGEST,
    Body,
    OpenType,
    RawModel,
    body_of,
    model_of,
    read_model,
)
from tilewright.frontend.proto.write import model_proto, with_bodies, write_external

__all__ = [
    "LARGEST",
    "NEWEST_OPSET",
    "Body",
    "OpenType",
    "RawModel",
    "body_of",
    "evaluate",
    "infer_types",
    "model_of",
    "model_proto",
    "read_model",
    "with_bodies",
    "write_external",
]
