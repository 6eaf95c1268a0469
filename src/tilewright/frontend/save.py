"""A Graph becomes an ONNX file: whole or not at all."""

import os
from collections.abc import Mapping
from pathlib import Path

from tilewright.drafts import draft_in, writing
from tilewright.frontend import proto
from tilewright.graph.graph import Graph

LARGEST_FILE = 2**31 - 2**20  # protobuf's limit; larger models keep their weights in a second file


def serialize(graph: Graph, metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of an ONNX file; for models below protobuf's limit of 2 GB."""
    return proto.model_proto(graph, metadata or {}).SerializeToString()


def save_onnx(graph: Graph, path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write the model; weights beyond 2 GB go to `NAME.data` beside it."""
    with writing(path), draft_in(path.parent) as folder:
        draft, data = folder / path.name, path.name + ".data"
        model = proto.model_proto(graph, metadata or {})
        if graph.weight_bytes > LARGEST_FILE:
            proto.write_external(model, draft)
            os.replace(draft.with_name(data), path.with_name(data))
        else:
            draft.write_bytes(model.SerializeToString())
        os.replace(draft, path)
