# pyright: basic
"""ATen graphs: a torch module as torch.export gives it."""

from typing import Any

import torch
import torch.fx
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from tilewright.errors import ModelError
from tilewright.frontend.pytorch.calls import Captured
from tilewright.frontend.pytorch.capture import WRITES_PARTS, Recorder, base_name, bound
from tilewright.frontend.pytorch.reasons import why_not
from tilewright.graph.edit import Names

# Operators that take nothing but the size of a tensor.
_LIKE = frozenset("zeros_like ones_like full_like new_zeros new_ones new_full".split())
# Regions that change nothing but how torch runs what stands in them.
_SETTINGS = frozenset({"wrap_with_autocast", "wrap_with_set_grad_enabled"})
LARGEST_EVALUATED = 1 << 24  # elements of a tensor that a network makes of nothing


def by_export(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], name: str) -> Captured:
    """The network as torch.export gives it: an ATen graph."""
    try:
        program = torch.export.export(module, args, kwargs, strict=False)
    except Exception as error:  # torch raises its own, and whatever the module does
        raise ModelError(why_not("torch.export", error)) from None
    return of_program(program, name)


def of_program(program: Any, name: str) -> Captured:
    """The calls of an exported program; where it changes parts of tensors in place, of its form
    without that."""
    if any(_changes_view(node) for node in program.graph.nodes):
        program = program.run_decompositions({})
    recorder = Recorder(name, "ATen graph")
    signature = program.graph_signature
    held = {
        **dict(signature.inputs_to_parameters),
        **dict(signature.inputs_to_buffers),
        **dict(signature.inputs_to_lifted_tensor_constants),
    }
    tensors = {**program.state_dict, **program.constants}
    values: dict[torch.fx.Node, Any] = {}
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        value = node.meta.get("val")
        if node.name in held:
            value = tensors[held[node.name]]
            recorder.parameter(held[node.name], value)
        elif isinstance(value, torch.Tensor):
            recorder.input(node.name, value)
        values[node] = value
    result = _walk(recorder, program.graph_module, values, _OperatorNames())
    wanted = set(signature.user_outputs)
    for item in tree_leaves(result):
        if isinstance(item, torch.fx.Node) and item.name in wanted:
            value = values.get(item)
            if isinstance(value, torch.Tensor):
                recorder.captured.outputs.append(recorder.name_of(value))
    return recorder.captured


def _walk(
    recorder: Recorder, owner: torch.fx.GraphModule, values: dict, operators: "_OperatorNames"
) -> Any:
    """Write down what a graph calls, whose inputs have their values already; the nodes that it
    gives on."""
    for node in owner.graph.nodes:
        if node.op == "call_function":
            _exported_call(recorder, node, values, operators)
        elif node.op == "get_attr":
            found = getattr(owner, str(node.target), None)
            if isinstance(found, torch.Tensor):
                recorder.parameter(str(node.target), found)
            values[node] = found
        elif node.op == "output":
            return node.args[0]
    return ()


def _region(
    recorder: Recorder, node: Any, args: Any, values: dict, operators: "_OperatorNames"
) -> None:
    """A part of the network that runs under another setting of torch (autocast, no gradients) and
    is a graph of its own: its calls, as if they stood where it is called."""
    inner = next((a for a in args if isinstance(a, torch.fx.GraphModule)), None)
    if inner is None or str(node.target) not in _SETTINGS:
        raise ModelError(
            f"'{node.target}' is control flow (torch.cond or a loop): its branches cannot be "
            "counted"
        )
    operands = args[args.index(inner) + 1 :]
    inputs = [n for n in inner.graph.nodes if n.op == "placeholder"]
    values.update(zip(inputs, operands, strict=True))
    result = _walk(recorder, inner, values, operators)
    values[node] = map_arg(result, lambda n: values[n])


def _changes_view(node: Any) -> bool:
    """Whether a node writes into what another one has cut out of a tensor."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return False
    if not target._schema.is_mutable or base_name(target) not in WRITES_PARTS or not node.args:
        return False
    source = node.args[0]
    made = getattr(source, "target", None)
    return isinstance(made, torch._ops.OpOverload) and any(
        argument.alias_info is not None for argument in made._schema.arguments
    )


def _exported_call(
    recorder: Recorder, node: Any, values: dict, operators: "_OperatorNames"
) -> None:
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: values[n])
    target = node.target
    if getattr(target, "__name__", "") == "getitem":
        values[node] = args[0][args[1]]
        return
    if not isinstance(target, torch._ops.OpOverload):
        if isinstance(target, torch._ops.HigherOrderOperator):
            _region(recorder, node, args, values, operators)
            return
        values[node] = target(*args, **kwargs)  # arithmetic on sizes
        return
    result = node.meta.get("val")
    read = [v for v in tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)]
    if all(map(recorder.is_made, read)) or base_name(target) in _LIKE:
        made = _evaluated(target, args, kwargs, result)
        if made is not None:
            values[node] = made
            recorder.parameter(node.name, made)
            recorder.made.add(id(made))
            return
    if isinstance(result, torch.Tensor) and recorder.knows(result):
        result = result.view(result.shape)  # a value of its own
    values[node] = result
    operator = operators.of(node)
    recorder.call(target, args, kwargs, result, operator)


def _evaluated(target: Any, args: Any, kwargs: Any, result: Any) -> torch.Tensor | None:
    """A tensor that the network makes of numbers alone, if it is the same in every run."""
    if not isinstance(result, torch.Tensor) or result.numel() > LARGEST_EVALUATED:
        return None
    if torch.Tag.nondeterministic_seeded in target.tags:
        return None
    arguments = bound(target, args, kwargs)
    if base_name(target) in _LIKE:
        value = arguments.get("fill_value", 1 if "ones" in base_name(target) else 0)
        return torch.full(tuple(result.shape), value, dtype=result.dtype)
    plain = {**kwargs, "device": "cpu"} if "device" in kwargs else kwargs
    made = target(*args, **plain)
    return made if isinstance(made, torch.Tensor) else None


class _OperatorNames:
    """Operators are called after the module they stand in, where a module is one operator."""

    def __init__(self) -> None:
        self.used = Names()

    def of(self, node: Any) -> str:
        stack = node.meta.get("nn_module_stack") or {}
        path = ""
        for entry in stack.values():
            path = str(entry[0])
        path = path.removeprefix("L['self'].").removeprefix("L['self']")
        function = base_name(node.target)
        leaf = stack and _is_torch_module(list(stack.values())[-1][1])
        wanted = path if path and leaf else f"{path}.{function}".lstrip(".")
        return self.used.take(wanted)


def _is_torch_module(kind: Any) -> bool:
    text = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    return text.startswith("torch.nn.modules") and "Sequential" not in text
