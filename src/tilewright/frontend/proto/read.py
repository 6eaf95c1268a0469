# pyright: basic
"""From protobufs to plain values."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import onnx
import onnx.inliner
import onnx.numpy_helper
from google.protobuf.message import DecodeError

from tilewright.errors import ModelError
from tilewright.frontend.proto.kinds import DAMAGE, DTYPES
from tilewright.graph.graph import Array, Attribute, Constant, Node, Opaque
from tilewright.graph.types import TensorType

LARGEST_FILE = 2**31  # bytes; protobuf reads no more
FIELDS = ("raw", "float", "int32", "int64", "double", "uint64", "string")  # with numbers
LARGEST = 2**40  # elements; beyond it a shape is a mistake


@dataclass(frozen=True, slots=True)
class OpenType:
    """A declared input or value type whose dimensions may be open (None or a name)."""

    dtype: str
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True)
class RawModel:
    """A model file as plain values, before shapes are known."""

    name: str
    nodes: tuple[Node, ...]
    inputs: Mapping[str, OpenType]
    outputs: tuple[str, ...]
    constants: Mapping[str, Constant]
    declared: Mapping[str, OpenType]
    opsets: Mapping[str, int]
    missing_files: tuple[str, ...]


def read_model(path: Path) -> RawModel:
    """Read an ONNX file; numbers stored in files that are not there are left out."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE)
    except OSError as error:
        raise ModelError(f"cannot read '{path}': {error.strerror or error}") from None
    if not data:
        raise ModelError(f"'{path}' is empty: it is not an ONNX model")
    if len(data) == LARGEST_FILE:
        raise ModelError(f"'{path}' is larger than 2 GB, the limit of an ONNX file")
    return model_of(data, f"'{path}'", path)


def model_of(data: bytes, label: str, path: Path) -> RawModel:
    """The model in the bytes of a file; what it refers to lies beside `path`."""
    try:
        model = onnx.ModelProto.FromString(data)
        if not model.graph.node and not model.graph.initializer and not model.graph.output:
            raise ModelError(f"{label} is not an ONNX model (it holds no graph)")
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        return _raw(model, label, path)
    except ModelError:
        raise
    except DecodeError:
        raise ModelError(f"{label} is not an ONNX model, or is damaged") from None
    except DAMAGE as error:
        what = str(error).strip().splitlines()
        detail = what[0][:160] if what else type(error).__name__
        raise ModelError(f"{label} is not an ONNX model, or is damaged: {detail}") from None


def _raw(model: Any, label: str, path: Path) -> RawModel:
    graph = model.graph
    if graph.sparse_initializer:
        raise ModelError(f"{label} has sparse initializers, which are not supported")
    if not graph.output:
        raise ModelError(f"{label} is not a usable network: it has no outputs")
    missing: dict[str, None] = {}
    constants = {_text(t.name): _constant(t, path.parent, missing) for t in graph.initializer}
    opsets = {_domain(o): o.version for o in model.opset_import}
    inputs = {_text(i.name): _open_type(i) for i in graph.input if i.name not in constants}
    for name, count in Counter(i.name for i in graph.input).items():
        if count > 1:
            raise ModelError(f"{label} is not a usable network: two inputs are called '{name}'")
    if not opsets.get(""):
        opsets[""] = 9 if not opsets else 13
    declared = {_text(v.name): _open_type(v) for v in (*graph.value_info, *graph.output)}
    return RawModel(
        _text(graph.name) or path.stem,
        tuple(node_of(n, path.parent) for n in graph.node),
        inputs,
        tuple(_text(o.name) for o in graph.output),
        constants,
        declared,
        opsets,
        tuple(missing),
    )


def _text(value: str | bytes) -> str:
    """A name; protobuf hands out plain bytes where it is no text."""
    if isinstance(value, bytes):
        raise ModelError(f"the file is damaged: the name {value[:40]!r} is not text")
    return value


def _domain(item: Any) -> str:
    """The domain of a node or an operator set; the standard one has two names."""
    domain = _text(item.domain)
    return "" if domain == "ai.onnx" else domain


def _open_type(value: Any) -> OpenType:
    if value.type.WhichOneof("value") != "tensor_type":
        return OpenType("", None)
    tensor = value.type.tensor_type
    dtype = DTYPES.get(tensor.elem_type, "")
    if not tensor.HasField("shape"):
        return OpenType(dtype, None)
    shape = tuple(
        d.dim_value
        if d.WhichOneof("value") == "dim_value" and d.dim_value >= 0
        else (_text(d.dim_param) or None)
        for d in tensor.shape.dim
    )
    return OpenType(dtype, shape)


def _constant(tensor: Any, folder: Path, missing: dict[str, None]) -> Constant:
    if tensor.data_type not in DTYPES:
        raise ModelError(f"constant '{tensor.name}' has an unknown element type")
    shape = tuple(tensor.dims)
    if any(extent < 0 for extent in shape):
        raise ModelError(f"constant '{tensor.name}' has a negative dimension")
    if prod(shape) > LARGEST:
        raise ModelError(f"constant '{tensor.name}' is too large: {'x'.join(map(str, shape))}")
    kind = TensorType(DTYPES[tensor.data_type], shape)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return Constant(kind, _external(tensor, kind, folder, missing))
    if kind.size and not any(len(getattr(tensor, f"{field}_data")) for field in FIELDS):
        return Constant(kind, None)  # weights cleared to keep the file small
    try:
        return Constant(kind, onnx.numpy_helper.to_array(tensor))
    except DAMAGE:
        raise ModelError(
            f"constant '{tensor.name}' ({kind}) does not hold {kind.bytes} bytes of data"
        ) from None


def _external(
    tensor: Any, kind: TensorType, folder: Path, missing: dict[str, None]
) -> Array | None:
    fields = {entry.key: entry.value for entry in tensor.external_data}
    location = _text(fields.get("location", ""))
    path = folder / location
    if not location or not _is_file(path):
        missing[location] = None
        return None
    offset, length = int(fields.get("offset", 0)), int(fields.get("length", kind.bytes))
    try:
        with path.open("rb") as file:
            inside = 0 <= offset <= path.stat().st_size
            file.seek(offset if inside else 0)
            data = file.read(min(length, kind.bytes)) if inside and length > 0 else b""
    except OSError as error:
        raise ModelError(f"cannot read '{path}': {error.strerror or error}") from None
    if len(data) != kind.bytes:
        raise ModelError(
            f"external data '{path}' is too short: constant '{tensor.name}' needs {kind.bytes}"
            f" bytes at {offset}, {len(data)} are there"
        )
    plain = onnx.TensorProto(dims=tensor.dims, data_type=tensor.data_type, raw_data=data)
    return onnx.numpy_helper.to_array(plain)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a folder that may not be read
        return False


def node_of(node: Any, folder: Path) -> Node:
    """A node as plain values; tensors outside the file lie in `folder`."""
    attributes: dict[str, Attribute] = {}
    captures: dict[str, None] = {}
    for attribute in node.attribute:
        attributes[_text(attribute.name)] = _attribute(attribute, folder)
        for graph in (attribute.g, *attribute.graphs):
            captures.update(dict.fromkeys(captured(graph)))
    return Node(
        _text(node.name),
        _text(node.op_type),
        tuple(map(_text, node.input)),
        tuple(map(_text, node.output)),
        attributes,
        _domain(node),
        tuple(map(_text, captures)),
    )


@dataclass(frozen=True, slots=True)
class Body:
    """A subgraph without inputs, as plain values."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, Constant]
    outputs: tuple[str, ...]


def body_of(attribute: Opaque) -> Body | None:
    """The subgraph in an attribute; None where it is none, or refers to other files."""
    graph = onnx.AttributeProto.FromString(attribute.data).g
    missing: dict[str, None] = {}
    constants = {_text(t.name): _constant(t, Path(), missing) for t in graph.initializer}
    if missing or graph.input or graph.sparse_initializer or not graph.output:
        return None
    nodes = tuple(node_of(node, Path()) for node in graph.node)
    return Body(nodes, constants, tuple(_text(o.name) for o in graph.output))


def captured(graph: Any) -> list[str]:
    """Values that a subgraph reads from outside."""
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    found: list[str] = []
    for node in graph.node:
        nested = [n for a in node.attribute for g in (a.g, *a.graphs) for n in captured(g)]
        found += [name for name in (*node.input, *nested) if name and name not in own]
        own.update(node.output)
    found += [o.name for o in graph.output if o.name and o.name not in own]
    return found


def _attribute(attribute: Any, folder: Path) -> Attribute:
    kinds = onnx.AttributeProto
    match attribute.type:
        case kinds.INT:
            return int(attribute.i)
        case kinds.FLOAT:
            return float(attribute.f)
        case kinds.STRING:
            return attribute.s.decode("utf-8", "surrogateescape")
        case kinds.INTS:
            return tuple(attribute.ints)
        case kinds.FLOATS:
            return tuple(attribute.floats)
        case kinds.STRINGS:
            return tuple(s.decode("utf-8", "surrogateescape") for s in attribute.strings)
        case kinds.TENSOR:
            constant = _constant(attribute.t, folder, {})
            if constant.data is None:
                raise ModelError(f"the tensor in attribute '{attribute.name}' holds no data")
            return constant.data
        case _:
            return Opaque(attribute.SerializeToString())
