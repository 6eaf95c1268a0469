"""A Graph becomes an ONNX file: whole or not at all."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tilewright.errors import OutputError
from tilewright.frontend import proto
from tilewright.graph.graph import Graph

LARGEST_FILE = 2**31 - 2**20  # protobuf's limit; larger models keep their weights in a second file


def serialize(graph: Graph, metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of an ONNX file; for models below protobuf's limit of 2 GB."""
    return proto.model_proto(graph, metadata or {}).SerializeToString()


def save_onnx(graph: Graph, path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write the model; weights beyond 2 GB go to `NAME.data` beside it."""
    try:
        with tempfile.TemporaryDirectory(prefix=".tilewright-", dir=path.parent) as folder:
            draft = Path(folder) / path.name
            model = proto.model_proto(graph, metadata or {})
            if graph.weight_bytes > LARGEST_FILE:
                proto.write_external(model, draft)
                os.replace(
                    draft.with_name(path.name + ".data"), path.with_name(path.name + ".data")
                )
            else:
                draft.write_bytes(model.SerializeToString())
            os.replace(draft, path)
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror or error}") from None
