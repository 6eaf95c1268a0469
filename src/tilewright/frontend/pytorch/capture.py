# pyright: basic
"""Capturing a torch module: a recorder of ATen calls, and module graphs as FX traces them (ATen
graphs: `exported.py`).

Shapes come from fake tensors; nothing is computed. Every ATen call is written down with all of its
arguments by name.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tilewright.errors import ModelError
from tilewright.frontend.pytorch.calls import AtenCall, Captured, Ref
from tilewright.frontend.pytorch.reasons import why_not
from tilewright.graph.edit import Names
from tilewright.graph.graph import Constant
from tilewright.graph.types import BITS, TensorType

PRODUCTS = frozenset(
    "convolution conv1d conv2d conv3d linear addmm mm bmm baddbmm matmul einsum "
    "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu".split()
)
_ALIASES = frozenset({"detach", "alias", "lift_fresh", "lift_fresh_copy"})
# In-place operators that write a part of what they are called on, where that is a view.
WRITES_PARTS = frozenset("copy fill zero index_put masked_fill add sub mul div".split())


def type_of(tensor: torch.Tensor) -> TensorType:
    """Element type and shape of a tensor whose extents are numbers."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in BITS:
        raise ModelError(f"element type {dtype} is not known")
    if any(not isinstance(extent, int) for extent in tensor.shape):
        raise ModelError(f"its size {list(tensor.shape)} depends on the data")
    return TensorType(dtype, tuple(int(extent) for extent in tensor.shape))


def constant_of(tensor: torch.Tensor) -> Constant:
    """A parameter; its numbers stay where torch has them."""
    kind = type_of(tensor)
    if isinstance(tensor, FakeTensor) or tensor.is_meta or tensor.dtype is torch.bfloat16:
        return Constant(kind, None)
    with unset_fake_temporarily():
        array: np.ndarray = tensor.detach().cpu().numpy()
    return Constant(kind, array)


class Recorder:
    """Writes calls down; tensors are known by their identity, and kept alive for it."""

    def __init__(self, name: str, source: str) -> None:
        self.captured = Captured(name, source)
        self._names: dict[int, str] = {}
        self._alive: list[torch.Tensor] = []
        self._used = Names()
        self.made: set[int] = set()  # tensors that were made of numbers alone

    def is_made(self, tensor: torch.Tensor) -> bool:
        """Whether the network makes the tensor itself, the same in every run."""
        return id(tensor) in self.made

    def unique(self, wanted: str) -> str:
        """A name that is not taken yet."""
        return self._used.take(wanted)

    def input(self, name: str, tensor: torch.Tensor) -> None:
        """An input of the network."""
        unique = self.unique(name)
        self.captured.inputs[unique] = type_of(tensor)
        self._bind(tensor, unique)

    def parameter(self, name: str, tensor: torch.Tensor) -> None:
        """A parameter, a buffer or a constant."""
        if id(tensor) in self._names:
            return
        unique = self.unique(name)
        self.captured.constants[unique] = constant_of(tensor)
        self._bind(tensor, unique)

    def _bind(self, tensor: torch.Tensor, name: str) -> None:
        self._names[id(tensor)] = name
        self._alive.append(tensor)

    def name_of(self, tensor: torch.Tensor) -> str:
        """The name of a tensor; one that nobody made is a constant of the network."""
        if id(tensor) not in self._names:
            self.parameter("constant", tensor)
        return self._names[id(tensor)]

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor has a name already."""
        return id(tensor) in self._names

    def call(self, op: Any, args: Any, kwargs: Any, result: Any, operator: str) -> None:
        """One call of an ATen operator and what it gave."""
        name = base_name(op)
        arguments = bound(op, args, kwargs)
        if writes_part(op, args):
            raise ModelError(f"'{operator}' writes into a part of a tensor ({name}_)")
        plain = {key: self._plain(value) for key, value in arguments.items()}
        given = list(result) if isinstance(result, list | tuple) else [result]
        self._call(name, plain, given, operator)

    def _call(self, name: str, plain: dict, given: list, operator: str) -> None:
        names: list[str | None] = []
        for tensor in given:
            if not isinstance(tensor, torch.Tensor):
                names.append(None)
                continue
            made = self.unique(operator)
            try:
                self.captured.types[made] = type_of(tensor)
            except ModelError as error:
                raise ModelError(f"a result of '{operator}' ({name}): {error}") from None
            self._bind(tensor, made)
            names.append(made)
        self.captured.calls.append(AtenCall(name, plain, tuple(names), operator))

    def identity(self, tensor: torch.Tensor, operator: str) -> None:
        """An operator that gives its input back: dropout in inference."""
        plain = {"self": Ref(self.name_of(tensor))}
        self._call("dropout", plain, [tensor], operator)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return Ref(self.name_of(value))
        if isinstance(value, list | tuple):
            return [self._plain(item) for item in value]
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            raise ModelError("a size depends on the data: only fixed sizes can be counted")
        if isinstance(value, torch.dtype):
            return str(value).removeprefix("torch.")
        return value


def base_name(op: Any) -> str:
    """`aten.relu_.default` as `relu`."""
    name = op._schema.name.rpartition("::")[2]
    plain = name.removesuffix("_") if not name.startswith("__") else f"bitwise_{name.strip('_')}"
    namespace = op.namespace
    return plain if namespace == "aten" else f"{namespace}.{name}"


def writes_part(op: Any, args: Any) -> bool:
    """Whether a call changes a tensor that others see in part."""
    if not op._schema.is_mutable or base_name(op) not in WRITES_PARTS or not args:
        return False
    return isinstance(args[0], torch.Tensor) and args[0]._is_view()


def bound(op: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """All arguments by name, defaults included."""
    found: dict[str, Any] = {}
    for position, argument in enumerate(op._schema.arguments):
        if position < len(args):
            found[argument.name] = args[position]
        elif argument.name in kwargs:
            found[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            found[argument.name] = argument.default_value
    return found


def by_trace(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], name: str) -> Captured:
    """The network as FX traces it: a graph of modules and functions."""
    try:
        traced = torch.fx.symbolic_trace(module)
    except Exception as error:  # whatever the module does with values it does not have
        raise ModelError(why_not("torch.fx", error)) from None
    return of_traced(traced, args, kwargs, name)


def of_traced(
    traced: torch.fx.GraphModule, args: tuple, kwargs: dict[str, Any], name: str
) -> Captured:
    """The calls that the modules and functions of a traced network make."""
    recorder = Recorder(name, "module graph")
    for key, tensor in (*traced.named_parameters(), *traced.named_buffers()):
        recorder.parameter(key, tensor)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    names = [n.name for n in traced.graph.nodes if n.op == "placeholder"]
    given = [*args, *(kwargs[n] for n in names[len(args) :] if n in kwargs)]
    fakes: list[Any] = []
    for key, value in zip(names, given, strict=False):
        if not isinstance(value, torch.Tensor):
            fakes.append(value)
            continue
        fake = mode.from_tensor(value)
        recorder.input(key, fake)
        fakes.append(fake)
    walker = _Walker(traced, recorder)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with mode, torch.no_grad():
            result = walker.run(*fakes, enable_io_processing=False)
    except ModelError as error:
        raise ModelError(str(error).splitlines()[0]) from None  # FX adds its own lines
    except Exception as error:  # shapes that do not fit, from any depth of torch
        raise ModelError(why_not("torch", error, walker.at)) from None
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    for value in tree_leaves(result):
        if isinstance(value, torch.Tensor):
            recorder.captured.outputs.append(recorder.name_of(value))
    return recorder.captured


class _Walker(torch.fx.Interpreter):
    """Runs a traced network on fake tensors, node by node; each node is an operator, except that
    a module of several products counts as the functions it calls."""

    def __init__(self, traced: torch.fx.GraphModule, recorder: Recorder) -> None:
        super().__init__(traced)
        self.recorder = recorder
        self.at = ""

    def run_node(self, n: torch.fx.Node) -> Any:
        """One node of the module graph."""
        if n.op not in ("call_function", "call_module", "call_method"):
            return super().run_node(n)
        self.at = str(n.target) if n.op == "call_module" else n.name
        spy = _Spy()
        with spy:
            result = super().run_node(n)
        if n.target is torch.einsum:
            self._einsum(n, result)
        else:
            self._record(n, spy.calls, result)
        return result

    def _einsum(self, n: torch.fx.Node, result: Any) -> None:
        """An einsum as the one product it is, not the views and products torch makes of it."""
        (equation, *operands), _ = self.fetch_args_kwargs_from_env(n)
        tensors = list(operands[0]) if isinstance(operands[0], list | tuple) else operands
        op = torch.ops.aten.einsum.default
        self.recorder.call(op, (equation, tensors), {}, result, self._operator(n))

    def _record(self, n: torch.fx.Node, calls: list[tuple], result: Any) -> None:
        whole = self._operator(n)
        counted = [c for c in calls if base_name(c[0]) not in _ALIASES]
        several = sum(base_name(op) in PRODUCTS for op, *_ in counted) > 1
        parts, names = _linears(calls), dict[int, str]()
        for part, (op, args, kwargs, made) in zip(parts, calls, strict=True):
            if base_name(op) == "as_strided" and made.numel() == args[0].numel():
                op, args = torch.ops.aten.reshape.default, (args[0], list(made.shape))
            if several and part not in names:
                names[part] = self.recorder.unique(f"{whole}.{base_name(calls[part][0])}")
            self.recorder.call(op, args, kwargs, made, names[part] if several else whole)
        if counted or not isinstance(result, torch.Tensor):
            return
        # Nothing was called: the input came back, or one of several results was picked.
        if getattr(n.target, "__name__", "") not in ("getitem", "getattr"):
            self.recorder.identity(result, whole)

    def _operator(self, n: torch.fx.Node) -> str:
        wanted = str(n.target) if n.op == "call_module" else n.name
        return self.recorder.unique(wanted)


def _linears(calls: list[tuple]) -> list[int]:
    """Per call the one it belongs to: a linear layer is called as views around a product."""
    made = {id(result): i for i, (*_, result) in enumerate(calls)}
    parts = list(range(len(calls)))
    for i, (op, args, _, result) in enumerate(calls):
        if base_name(op) not in ("addmm", "mm"):
            continue
        for operand in args[-2:]:
            source = made.get(id(operand))
            if source is not None and base_name(calls[source][0]) in ("view", "_unsafe_view", "t"):
                parts[source] = i
        following = calls[i + 1] if i + 1 < len(calls) else None
        shaped = following is not None and base_name(following[0]) in ("view", "_unsafe_view")
        if following is not None and shaped and following[1][0] is result:
            parts[i + 1] = i
    return parts


class _Spy(TorchDispatchMode):
    """Sees every ATen call that is made while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple] = []

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result
