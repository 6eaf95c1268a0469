# pyright: basic
"""From plain values to protobufs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

from tilewright.frontend.proto.kinds import schema_of, type_proto
from tilewright.frontend.proto.read import captured, node_of
from tilewright.graph.graph import Attribute, Graph, Node, Opaque


def _attribute_proto(name: str, value: Attribute) -> Any:
    if isinstance(value, Opaque):
        return onnx.AttributeProto.FromString(value.data)
    if isinstance(value, np.ndarray):
        return onnx.helper.make_attribute(name, onnx.numpy_helper.from_array(value))
    if isinstance(value, str):
        return onnx.helper.make_attribute(name, value.encode("utf-8", "surrogateescape"))
    if isinstance(value, tuple):
        if value and isinstance(value[0], str):
            items = [str(v).encode("utf-8", "surrogateescape") for v in value]
            return onnx.helper.make_attribute(name, items)
        kind = onnx.AttributeProto.INTS if not value else None
        return onnx.helper.make_attribute(name, list(value), attr_type=kind)
    return onnx.helper.make_attribute(name, value)


def node_proto(node: Node, opsets: Mapping[str, int]) -> Any:
    """The node as onnx writes it, without attributes its operator does not have: other tools
    leave notes of their own there, which runtimes refuse."""
    schema = schema_of(node.kind, opsets.get(node.domain, 1), node.domain)
    known = None if schema is None else schema.attributes
    proto = onnx.NodeProto(op_type=node.kind, name=node.name, domain=node.domain)
    proto.input.extend(node.inputs)
    proto.output.extend(node.outputs)
    proto.attribute.extend(
        _attribute_proto(k, v) for k, v in node.attributes.items() if known is None or k in known
    )
    return proto


def with_bodies(
    node: Node, rewrite: Callable[[Node], Iterable[Node]], opsets: Mapping[str, int]
) -> Node:
    """The node with every operator in the subgraphs of its attributes rewritten."""
    attributes = dict(node.attributes)
    captures: dict[str, None] = {}
    for name, value in node.attributes.items():
        if not isinstance(value, Opaque):
            continue
        attribute = onnx.AttributeProto.FromString(value.data)
        single = [attribute.g] if attribute.HasField("g") else []
        for graph in (*single, *attribute.graphs):
            made = [
                node_proto(new, opsets)
                for old in graph.node
                for new in rewrite(node_of(old, Path()))
            ]
            del graph.node[:]
            graph.node.extend(made)
            captures.update(dict.fromkeys(captured(graph)))
        attributes[name] = Opaque(attribute.SerializeToString())
    return replace(node, attributes=attributes, captures=tuple(captures))


def model_proto(graph: Graph, metadata: Mapping[str, str], with_weights: bool = True) -> Any:
    """The graph as an ONNX model."""

    def info(name: str) -> Any:
        if name not in graph.types:
            return onnx.ValueInfoProto(name=name)
        return onnx.ValueInfoProto(name=name, type=type_proto(graph.types[name]))

    tensors = [
        onnx.numpy_helper.from_array(np.asarray(constant.data, order="C"), name)
        for name, constant in graph.constants.items()
        if with_weights and constant.data is not None
    ]
    body = onnx.helper.make_graph(
        [node_proto(node, graph.opsets) for node in graph.nodes],
        graph.name,
        [info(name) for name in graph.inputs],
        [info(name) for name in graph.outputs],
        tensors,
        value_info=[
            info(name)
            for node in graph.nodes
            for name in node.writes
            if name in graph.types and name not in graph.outputs
        ],
    )
    imports = [
        onnx.helper.make_opsetid(domain, version) for domain, version in graph.opsets.items()
    ]
    model = onnx.helper.make_model(body, opset_imports=imports, producer_name="tilewright")
    model.ir_version = max(8, onnx.helper.find_min_ir_version_for(imports, ignore_unknown=True))
    for key, value in metadata.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    return model


def write_external(model: Any, path: Path) -> None:
    """Write a model too large for one protobuf: its weights go to `NAME.data`."""
    onnx.save_model(
        model, path, save_as_external_data=True, location=path.name + ".data", size_threshold=1024
    )
