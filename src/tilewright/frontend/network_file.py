"""A network without its weights as JSON, and back exactly: what a saved run was planned for.

Not ONNX: reading that folds and renames, and a plan names nodes as they were.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from tilewright.errors import ModelError
from tilewright.graph.graph import Array, Attribute, Constant, Graph, Node, Opaque
from tilewright.graph.types import TensorType

VERSION = 1
SMALL = 64  # elements; larger constants are weights
PARAMETERS = 4096  # whole numbers that may steer shapes
_DAMAGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)


def save_network(graph: Graph, path: Path) -> None:
    """Write a network; its weights are left out, numbers that operators go by are not."""
    path.write_text(network_text(graph), encoding="utf-8")


def network_text(graph: Graph) -> str:
    """A network without its weights as one line of JSON."""
    document: dict[str, Any] = {
        "version": VERSION,
        "name": graph.name,
        "opsets": dict(graph.opsets),
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "types": {name: _type(kind) for name, kind in graph.types.items()},
        "constants": {name: _constant(c) for name, c in graph.constants.items()},
        "nodes": [
            [
                node.name,
                node.kind,
                list(node.inputs),
                list(node.outputs),
                {key: _encoded(value) for key, value in node.attributes.items()},
                node.domain,
                list(node.captures),
            ]
            for node in graph.nodes
        ],
    }
    return json.dumps(document, separators=(",", ":")) + "\n"


def load_network(path: Path) -> Graph:
    """Read what `save_network` wrote."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        if document["version"] != VERSION:
            raise ModelError(f"'{path}' is of version {document['version']}, not {VERSION}")
        return Graph(
            document["name"],
            tuple(_node(row) for row in document["nodes"]),
            tuple(document["inputs"]),
            tuple(document["outputs"]),
            {name: _read_type(kind) for name, kind in document["types"].items()},
            {
                name: Constant(_read_type(kind), None if data is None else _read_array(data))
                for name, (kind, data) in document["constants"].items()
            },
            document["opsets"],
        )
    except OSError as error:
        raise ModelError(f"cannot read '{path}': {error.strerror or error}") from None
    except _DAMAGE as error:
        raise ModelError(f"'{path}' is damaged: {error}") from None


def _type(kind: TensorType) -> list[Any]:
    return [kind.dtype, list(kind.shape)]


def _read_type(row: list[Any]) -> TensorType:
    return TensorType(str(row[0]), tuple(row[1]))


def _constant(constant: Constant) -> list[Any]:
    data, kind = constant.data, constant.type
    whole = "int" in kind.dtype and kind.size <= PARAMETERS
    kept = data is not None and (whole or kind.size <= SMALL)
    return [_type(kind), _array(data) if kept and data is not None else None]


def _array(array: Array) -> list[Any]:
    return [str(array.dtype), list(array.shape), array.ravel().tolist()]


def _read_array(row: list[Any]) -> Array:
    dtype, shape, numbers = row
    return np.array(numbers, dtype=dtype).reshape(shape)


def _encoded(value: Attribute) -> Any:
    if isinstance(value, Opaque):
        return {"opaque": value.data.hex()}
    if isinstance(value, np.ndarray):
        return {"array": _array(value)}
    return list(value) if isinstance(value, tuple) else value


def _decoded(value: Any) -> Attribute:
    if isinstance(value, list):
        return tuple(cast(list[int], value))
    if isinstance(value, Mapping):
        ((kind, content),) = cast(Mapping[str, Any], value).items()
        return Opaque(bytes.fromhex(content)) if kind == "opaque" else _read_array(content)
    return value


def _node(row: list[Any]) -> Node:
    name, kind, inputs, outputs, attributes, domain, captures = row
    return Node(
        name,
        kind,
        tuple(inputs),
        tuple(outputs),
        {key: _decoded(value) for key, value in attributes.items()},
        domain,
        tuple(captures),
    )
