"""An emitter of nodes: translations of ATen calls write into it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.pytorch.calls import AtenCall, Captured, Ref
from tilewright.graph.edit import Names
from tilewright.graph.graph import Array, Attribute, Constant, Graph, Node, constant_of
from tilewright.graph.types import FLOATS, ONNX_NUMBERS, TensorType

OPSET = 20
_WIDTH = {"bool": 0, "uint8": 1, "int8": 1, "int16": 2, "int32": 3, "int64": 4}
_FLOAT_WIDTH = {"bfloat16": 5, "float16": 5, "float32": 6, "float64": 7}
# numpy knows no bfloat16: numbers of such constants are left to whoever needs them.
_NUMPY = frozenset({"float64", "float32", "float16", "int64", "int32", "int16", "int8", "bool"})


class Emitter:
    """Nodes, types and constants so far. Every method takes and gives names of values."""

    def __init__(self, captured: Captured) -> None:
        self.types: dict[str, TensorType] = {**captured.inputs, **captured.types}
        self.constants: dict[str, Constant] = dict(captured.constants)
        self.types.update({name: c.type for name, c in self.constants.items()})
        self.alias: dict[str, str] = {}
        self.nodes: list[Node] = []
        self.owner: list[str] = []  # per node the operator it belongs to
        self._names = Names()
        self._names.used.update(self.types)
        self._operator = ""

    def begin(self, operator: str) -> None:
        """Nodes from here on belong to this operator."""
        self._operator = operator

    def name(self, value: str) -> str:
        """A value by the name it has in the graph."""
        while value in self.alias:
            value = self.alias[value]
        return value

    def type(self, value: str) -> TensorType:
        """Type of a value."""
        return self.types[self.name(value)]

    def fresh(self, wanted: str) -> str:
        """A name that no value has yet."""
        return self._names.take(wanted)

    def same(self, result: str | None, source: str) -> None:
        """The result is another name for a value."""
        if result is not None:
            self.alias[result] = source

    def op(
        self,
        kind: str,
        inputs: Sequence[str],
        shape: Sequence[int],
        dtype: str,
        *,
        result: str | None = None,
        domain: str = "",
        **attributes: Attribute,
    ) -> str:
        """A node with one result; without a name for it the result is one of the operator's own."""
        made = result if result is not None else self.fresh(f"{self._operator}/{kind.lower()}")
        self.several(kind, inputs, [(made, TensorType(dtype, tuple(shape)))], domain, **attributes)
        return made

    def result(self, call: AtenCall) -> TensorType:
        """Type of the first result of a call."""
        return self.type(call.results[0] or "")

    def made(
        self, call: AtenCall, kind: str, inputs: Sequence[str], **attributes: Attribute
    ) -> None:
        """A node that makes the first result of a call."""
        results = [(call.results[0] or "", self.result(call))]
        self.several(kind, inputs, results, "", **attributes)

    def several(
        self,
        kind: str,
        inputs: Sequence[str],
        results: Sequence[tuple[str, TensorType]],
        domain: str = "",
        **attributes: Attribute,
    ) -> None:
        """A node with several results."""
        for name, type_ in results:
            self.types[name] = type_
            self._names.used.add(name)
        first = next((name for name, _ in results if name), kind)
        given = tuple(self.name(name) if name else "" for name in inputs)
        outputs = tuple(name for name, _ in results)
        self.nodes.append(Node(first, kind, given, outputs, attributes, domain))
        self.owner.append(self._operator)

    def constant(self, array: Array, wanted: str) -> str:
        """A constant with its numbers."""
        name = self.fresh(wanted)
        self.constants[name] = constant_of(array)
        self.types[name] = self.constants[name].type
        return name

    def ints(self, values: Sequence[int]) -> str:
        """A list of integers, as shapes and axes are given."""
        return self.constant(np.asarray(values, np.int64), f"{self._operator}/list")

    def number(self, value: float, dtype: str) -> str:
        """A single number of a type."""
        kept = dtype if dtype in _NUMPY else "float32"
        made = self.constant(np.asarray(value).astype(kept), f"{self._operator}/number")
        return made if kept == dtype else self.cast(made, dtype)

    def filled(self, value: float, shape: tuple[int, ...], dtype: str) -> str:
        """A constant of one number everywhere, which takes no memory."""
        array = np.broadcast_to(np.asarray(value).astype(dtype), shape)
        return self.constant(array, f"{self._operator}/filled")

    def transposed(self, weight: str) -> str:
        """A matrix with its axes exchanged; of a parameter a new parameter."""
        weight = self.name(weight)
        kind = self.types[weight]
        shape = kind.shape[::-1]
        known = self.constants.get(weight)
        if known is None:
            return self.op("Transpose", (weight,), shape, kind.dtype, perm=(1, 0))
        name = f"{weight}/transposed"
        if name not in self.constants:
            data = None if known.data is None else known.data.T
            self.constants[name] = Constant(TensorType(kind.dtype, shape), data)
            self.types[name] = self.constants[name].type
            self._names.used.add(name)
        return name

    def cast(self, value: str, dtype: str, result: str | None = None) -> str:
        """The value in another element type; a node only where that is another one."""
        kind = self.type(value)
        if kind.dtype == dtype and result is None:
            return value
        code = ONNX_NUMBERS[dtype]
        return self.op("Cast", (value,), kind.shape, dtype, result=result, to=code)

    def reshape(self, value: str, shape: Sequence[int], result: str | None = None) -> str:
        """The same elements in another shape."""
        kind = self.type(value)
        return self.op(
            "Reshape", (value, self.ints(shape)), shape, kind.dtype, result=result, allowzero=1
        )

    def transpose(self, value: str, order: Sequence[int], result: str | None = None) -> str:
        """The axes in another order."""
        kind = self.type(value)
        shape = tuple(kind.shape[axis] for axis in order)
        return self.op("Transpose", (value,), shape, kind.dtype, result=result, perm=tuple(order))

    def operand(self, value: Any, dtype: str) -> str:
        """An argument that is a tensor or a number, in the element type wanted."""
        if isinstance(value, Ref):
            return self.cast(value.name, dtype)
        return self.number(value, dtype)

    def whole(self, call: AtenCall) -> None:
        """A call that has no translation: a node of its own, in torch's domain."""
        refs = [name for value in call.arguments.values() for name in refs_of(value)]
        results = [(name or "", self.type(name)) for name in call.results if name is not None]
        self.several(call.target, refs, results, "aten")

    def graph(self, captured: Captured) -> Graph:
        """The finished network, without what nothing reads."""
        outputs = [self.name(name) for name in captured.outputs]
        copies = [n for i, n in enumerate(outputs) if n not in self._made() or n in outputs[:i]]
        if copies:
            outputs = self._copied_out(outputs)
        read, alive = set(outputs), list[bool]()
        for node in reversed(self.nodes):
            alive.append(any(name in read for name in node.writes))
            if alive[-1]:
                read.update(node.reads)
        alive.reverse()
        self.owner = [o for o, keep in zip(self.owner, alive, strict=True) if keep]
        self.nodes = [n for n, keep in zip(self.nodes, alive, strict=True) if keep]
        constants = {name: c for name, c in self.constants.items() if name in read}
        made = self._made() | set(captured.inputs) | set(constants)
        types = {name: kind for name, kind in self.types.items() if name in made}
        return Graph(
            captured.name,
            tuple(self.nodes),
            tuple(captured.inputs),
            tuple(outputs),
            types,
            constants,
            {"": OPSET, "aten": 1} if any(n.domain for n in self.nodes) else {"": OPSET},
        )

    def _made(self) -> set[str]:
        return {name for node in self.nodes for name in node.writes}

    def _copied_out(self, outputs: list[str]) -> list[str]:
        """An output that is an input, a constant or another output gets a node that copies it."""
        found: list[str] = []
        made = self._made()
        for name in outputs:
            if name in made and name not in found:
                found.append(name)
                continue
            self.begin("output")
            kind = self.types[name]
            found.append(self.op("Identity", (name,), kind.shape, kind.dtype))
        return found


def refs_of(value: Any) -> list[str]:
    """Names of the tensors in an argument."""
    if isinstance(value, Ref):
        return [value.name]
    if isinstance(value, list | tuple):
        return [name for item in value for name in refs_of(item)]  # pyright: ignore[reportUnknownVariableType]
    return []


def promoted(*dtypes: str) -> str:
    """The element type that torch computes tensors of these types in."""
    floats = [d for d in dtypes if d in FLOATS]
    if floats:
        widest = max(floats, key=lambda d: _FLOAT_WIDTH[d])
        return "float32" if {"bfloat16", "float16"} <= set(floats) else widest
    known = [d for d in dtypes if d in _WIDTH]
    if not known:
        raise ModelError(f"element types {', '.join(dtypes)} cannot be combined")
    return max(known, key=lambda d: _WIDTH[d])
