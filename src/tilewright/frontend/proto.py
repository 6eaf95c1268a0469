# pyright: basic
"""The one module that imports onnx: protobufs to plain values and back."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.defs
import onnx.helper
import onnx.inliner
import onnx.numpy_helper
import onnx.shape_inference
from google.protobuf.message import DecodeError

from tilewright.errors import ModelError
from tilewright.graph.graph import Array, Attribute, Constant, Graph, Node, Opaque
from tilewright.graph.types import TensorType

DTYPES: Mapping[int, str] = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.BFLOAT16: "bfloat16",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.UINT64: "uint64",
    onnx.TensorProto.UINT32: "uint32",
    onnx.TensorProto.UINT16: "uint16",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.BOOL: "bool",
    onnx.TensorProto.COMPLEX64: "complex64",
    onnx.TensorProto.COMPLEX128: "complex128",
    onnx.TensorProto.STRING: "string",
    onnx.TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    onnx.TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    onnx.TensorProto.FLOAT8E5M2: "float8_e5m2",
    onnx.TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    onnx.TensorProto.FLOAT8E8M0: "float8_e8m0fnu",
    onnx.TensorProto.FLOAT4E2M1: "float4_e2m1fn",
    onnx.TensorProto.INT4: "int4",
    onnx.TensorProto.UINT4: "uint4",
    onnx.TensorProto.INT2: "int2",
    onnx.TensorProto.UINT2: "uint2",
}
_CODES = {name: code for code, name in DTYPES.items()}

# What onnx and protobuf raise on bytes that are no model, or a damaged one.
DAMAGE = (
    DecodeError,
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    RuntimeError,
    OverflowError,
    AssertionError,
    NotImplementedError,
    MemoryError,
    RecursionError,
)
LARGEST_FILE = 2**31  # bytes; protobuf reads no more
LARGEST = 2**40  # elements; beyond it a shape is a mistake
NEWEST_OPSET: int = onnx.defs.onnx_opset_version()
PARAMETER_ELEMENTS = 4096  # constants up to this size may steer shape inference


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
        tuple(_node(n, path.parent) for n in graph.node),
        inputs,
        tuple(_text(o.name) for o in graph.output),
        constants,
        {name: kind for name, kind in declared.items() if kind is not None},
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
    stored = any(
        len(getattr(tensor, field))
        for field in (
            "raw_data",
            "float_data",
            "int32_data",
            "int64_data",
            "double_data",
            "uint64_data",
            "string_data",
        )
    )
    if not stored and kind.size:
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


def _node(node: Any, folder: Path) -> Node:
    attributes: dict[str, Attribute] = {}
    captures: dict[str, None] = {}
    for attribute in node.attribute:
        attributes[_text(attribute.name)] = _attribute(attribute, folder)
        for graph in (attribute.g, *attribute.graphs):
            captures.update(dict.fromkeys(_captures(graph)))
    return Node(
        _text(node.name),
        _text(node.op_type),
        tuple(map(_text, node.input)),
        tuple(map(_text, node.output)),
        attributes,
        _domain(node),
        tuple(map(_text, captures)),
    )


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
                node_proto(new, opsets) for old in graph.node for new in rewrite(_node(old, Path()))
            ]
            del graph.node[:]
            graph.node.extend(made)
            captures.update(dict.fromkeys(_captures(graph)))
        attributes[name] = Opaque(attribute.SerializeToString())
    return replace(node, attributes=attributes, captures=tuple(captures))


def _captures(graph: Any) -> list[str]:
    """Values that a subgraph reads from outside."""
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    found: list[str] = []
    for node in graph.node:
        nested = [n for a in node.attribute for g in (a.g, *a.graphs) for n in _captures(g)]
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
    schema = _schema(node.kind, opsets.get(node.domain, 1), node.domain)
    known = None if schema is None else schema.attributes
    proto = onnx.NodeProto(op_type=node.kind, name=node.name, domain=node.domain)
    proto.input.extend(node.inputs)
    proto.output.extend(node.outputs)
    proto.attribute.extend(
        _attribute_proto(k, v) for k, v in node.attributes.items() if known is None or k in known
    )
    return proto


@lru_cache(maxsize=4096)
def _schema(kind: str, version: int, domain: str) -> Any:
    try:
        return onnx.defs.get_schema(kind, version, domain)
    except onnx.defs.SchemaError:
        return None


def _type_proto(kind: TensorType) -> Any:
    return onnx.helper.make_tensor_type_proto(_CODES[kind.dtype], kind.shape)


def infer_types(
    node: Node,
    types: Mapping[str, TensorType],
    constants: Mapping[str, Constant],
    opsets: Mapping[str, int],
) -> dict[str, TensorType]:
    """Types of the node's results as onnx infers them; what it cannot tell is left out."""
    schema = _schema(node.kind, opsets.get(node.domain, 1), node.domain)
    if schema is None or any(name not in types for name in node.reads):
        return {}
    given = {name: _type_proto(types[name]) for name in dict.fromkeys(node.reads)}
    data: dict[str, Any] = {}
    for name in given:
        array = constants[name].data if name in constants else None
        if array is not None and array.size <= PARAMETER_ELEMENTS:
            data[name] = onnx.numpy_helper.from_array(np.asarray(array, order="C"), name)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema, node_proto(node, opsets), given, data, opset_imports=imports, ir_version=10
        )
    except DAMAGE as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"node '{node.name}' ({node.kind}) is not valid: {first[:160]}") from None
    results: dict[str, TensorType] = {}
    for name, proto in found.items():
        kind = _closed_type(proto)
        if kind is not None:
            results[name] = kind
    return results


def _closed_type(proto: Any) -> TensorType | None:
    if proto.WhichOneof("value") != "tensor_type" or not proto.tensor_type.HasField("shape"):
        return None
    tensor = proto.tensor_type
    dims = tensor.shape.dim
    if tensor.elem_type not in DTYPES or any(d.WhichOneof("value") != "dim_value" for d in dims):
        return None
    if any(d.dim_value < 0 for d in dims):
        return None
    return TensorType(DTYPES[tensor.elem_type], tuple(d.dim_value for d in dims))


def evaluate(node: Node, inputs: list[Array], opsets: Mapping[str, int]) -> list[Array] | None:
    """The node's results on constant inputs, or None where onnx's evaluator cannot do it."""
    from onnx.reference import ReferenceEvaluator  # heavy: only where there is something to fold

    try:
        evaluator = ReferenceEvaluator(node_proto(node, opsets), opsets=dict(opsets))
        feeds = dict(zip([name for name in node.inputs if name], inputs, strict=True))
        with np.errstate(all="ignore"):
            return [np.asarray(result) for result in evaluator.run(None, feeds)]
    except DAMAGE:
        return None


def model_proto(graph: Graph, metadata: Mapping[str, str], with_weights: bool = True) -> Any:
    """The graph as an ONNX model."""

    def info(name: str) -> Any:
        if name not in graph.types:
            return onnx.ValueInfoProto(name=name)
        return onnx.ValueInfoProto(name=name, type=_type_proto(graph.types[name]))

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
