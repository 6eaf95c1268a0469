"""ONNX models and run folders as they come out of broken exporters, disks and editors: sound ones
with a few fields, bytes or numbers changed."""

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KINDS = ("Conv", "Relu", "MatMul", "Add", "Reshape", "Softmax", "Concat", "Loop", "NoSuch", "")
EXTENTS = (0, 1, 2, 3, 7, 16, 1000, 10**6, 2**31, 2**62, -1)
NUMBERS = (0, 1, -1, 2, 3, 5, 64, 10**6, 2**31 - 1, -(2**31), 2**62)
NAMES = ("", "x", "conv1", "input", "a/b", "\u00e9", "w" * 300, "1", "-")


def mutated_model(data: bytes, random: Random) -> tuple[bytes, str]:
    """A model file with a few changes, and what these were."""
    if random.random() < 0.2:
        return _damaged(data, random)
    model = onnx.load_from_string(data)
    done: list[str] = []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        change = random.choice(_CHANGES)
        try:
            done.append(f"{change.__name__}: {change(model, random)}")
        except (IndexError, ValueError, TypeError) as error:  # nothing there to be changed
            done.append(f"{change.__name__}: nothing ({error})")
    return model.SerializeToString(), "; ".join(done)


def _damaged(data: bytes, random: Random) -> tuple[bytes, str]:
    place = random.randrange(len(data))
    if random.random() < 0.3:
        return data[:place], f"cut off at byte {place}"
    new = bytes([random.randrange(256)])
    return data[:place] + new + data[place + 1 :], f"byte {place} is {new!r}"


def _node(model: Any, random: Random) -> Any:
    return random.choice(list(model.graph.node))


def _kind(model: Any, random: Random) -> str:
    node = _node(model, random)
    node.op_type = random.choice(KINDS)
    return f"{node.name} is a {node.op_type}"


def _attribute(model: Any, random: Random) -> str:
    node = _node(model, random)
    attribute = random.choice(list(node.attribute))
    if attribute.ints:
        place = random.randrange(len(attribute.ints))
        attribute.ints[place] = random.choice(NUMBERS)
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = random.choice(NUMBERS)
    else:
        attribute.f = random.choice((0.0, -1.0, float("nan"), float("inf"), 1e30))
    return f"{node.name}.{attribute.name}"


def _attribute_gone(model: Any, random: Random) -> str:
    node = _node(model, random)
    attribute = random.choice(list(node.attribute))
    node.attribute.remove(attribute)
    return f"{node.name}.{attribute.name}"


def _attribute_longer(model: Any, random: Random) -> str:
    node = _node(model, random)
    attribute = random.choice([a for a in node.attribute if a.ints])
    attribute.ints.append(random.choice(NUMBERS))
    return f"{node.name}.{attribute.name}"


def _input_name(model: Any, random: Random) -> str:
    node = _node(model, random)
    place = random.randrange(len(node.input))
    others = [*NAMES, *(o for n in model.graph.node for o in n.output)]
    node.input[place] = random.choice(others)
    return f"{node.name} reads {node.input[place]!r}"


def _output_name(model: Any, random: Random) -> str:
    node = _node(model, random)
    node.output[0] = random.choice(NAMES)
    return f"{node.name} writes {node.output[0]!r}"


def _input_gone(model: Any, random: Random) -> str:
    node = _node(model, random)
    gone = node.input.pop()
    return f"{node.name} reads {gone} no more"


def _node_gone(model: Any, random: Random) -> str:
    node = _node(model, random)
    model.graph.node.remove(node)
    return node.name


def _node_twice(model: Any, random: Random) -> str:
    node = _node(model, random)
    model.graph.node.append(node)
    return node.name


def _extent(model: Any, random: Random) -> str:
    value = random.choice([*model.graph.input, *model.graph.output])
    dims = value.type.tensor_type.shape.dim
    place = random.randrange(len(dims))
    dims[place].dim_value = random.choice(EXTENTS)
    return f"{value.name}[{place}] = {dims[place].dim_value}"


def _open_extent(model: Any, random: Random) -> str:
    value = random.choice(list(model.graph.input))
    random.choice(list(value.type.tensor_type.shape.dim)).dim_param = "batch"
    return value.name


def _element_type(model: Any, random: Random) -> str:
    value = random.choice([*model.graph.input, *model.graph.output])
    value.type.tensor_type.elem_type = random.choice(list(TensorProto.DataType.values()))
    return f"{value.name} has elements {value.type.tensor_type.elem_type}"


def _weight_shape(model: Any, random: Random) -> str:
    weight = random.choice(list(model.graph.initializer))
    place = random.randrange(len(weight.dims))
    weight.dims[place] = random.choice(EXTENTS)
    return f"{weight.name}[{place}] = {weight.dims[place]}"


def _weight_type(model: Any, random: Random) -> str:
    weight = random.choice(list(model.graph.initializer))
    weight.data_type = random.choice(list(TensorProto.DataType.values()))
    return f"{weight.name} has elements {weight.data_type}"


def _weight_numbers(model: Any, random: Random) -> str:
    weight = random.choice(list(model.graph.initializer))
    array = np.array(numpy_helper.to_array(weight))
    value = random.choice((np.nan, np.inf, -np.inf, 1e38, 0, -1e-30))
    array.flat[random.randrange(array.size)] = value
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    return f"{weight.name} has a {value}"


def _weight_gone(model: Any, random: Random) -> str:
    weight = random.choice(list(model.graph.initializer))
    model.graph.initializer.remove(weight)
    return weight.name


def _operator_set(model: Any, random: Random) -> str:
    model.opset_import[0].version = random.choice((0, 1, 7, 9, 11, 13, 17, 22, 30, 10**6))
    return str(model.opset_import[0].version)


def _network_output(model: Any, random: Random) -> str:
    if random.random() < 0.3:
        gone = model.graph.output.pop()
        return f"{gone.name} is gone"
    name = random.choice([*NAMES, *(o for n in model.graph.node for o in n.output)])
    model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    return f"{name!r} is an output"


_CHANGES = (
    _kind,
    _attribute,
    _attribute_gone,
    _attribute_longer,
    _input_name,
    _output_name,
    _input_gone,
    _node_gone,
    _node_twice,
    _extent,
    _open_extent,
    _element_type,
    _weight_shape,
    _weight_type,
    _weight_numbers,
    _weight_gone,
    _operator_set,
    _network_output,
)


def mutate_run(folder: Path, random: Random) -> str:
    """Change a file of a run, and say what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file = random.choice(files)
    where = file.relative_to(folder).as_posix()
    if random.random() < 0.1:
        file.unlink()
        return f"{where} is gone"
    if file.suffix == ".json" and random.random() < 0.7:
        return f"{where}: {_changed_json(file, random)}"
    changed, what = _damaged(file.read_bytes(), random)
    file.write_bytes(changed)
    return f"{where}: {what}"


def _changed_json(file: Path, random: Random) -> str:
    document: Any = json.loads(file.read_text())
    parent, keys = document, list[Any]()
    while True:
        if not isinstance(parent, dict | list) or not parent:
            return "nothing"
        keys.append(random.choice(list(parent) if isinstance(parent, dict) else range(len(parent))))
        below = parent[keys[-1]]
        if not isinstance(below, dict | list) or not below or random.random() < 0.05:
            break
        parent = below
    old = parent[keys[-1]]
    numbers = (0, -1, 10**20, 1.5, float("nan"), old + 1 if isinstance(old, int) else 1)
    new = random.choice((*numbers, None, "", "abc", [], {}, True, [[1]], {"a": 1}))
    parent[keys[-1]] = new
    file.write_text(json.dumps(document))
    return f"{'.'.join(map(str, keys))}: {str(old)[:30]} -> {new!r}"
