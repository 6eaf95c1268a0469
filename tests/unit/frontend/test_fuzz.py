"""Damaged files: the loader gives a Graph or one clear error, whatever the bytes.

`python tests/unit/frontend/test_fuzz.py COUNT [FIRST]` runs COUNT mutants in a process of its own
that is restarted after a crash or a hang, and prints the seeds that misbehaved.
"""

import multiprocessing
import random
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper as oh
import onnx.numpy_helper
import pytest

from tilewright.errors import TilewrightError
from tilewright.frontend import zoo
from tilewright.frontend.load import load_onnx
from tilewright.frontend.save import serialize
from tilewright.frontend.weights import seeded
from tilewright.graph.graph import Graph

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "models"
IN_SUITE = 400
SECONDS = 20  # for one mutant, on a loaded machine; a sound file takes milliseconds
MEMORY = 6 * 2**30

F = onnx.TensorProto.FLOAT
INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    4,
    7,
    16,
    255,
    65536,
    2**31 - 1,
    2**31,
    -(2**31),
    2**40,
    2**62,
    -(2**63),
)


def _model(opset: int, nodes: list[Any], **weights: np.ndarray) -> bytes:
    """A small model with one image as input and the last node's result as output."""
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = oh.make_graph(
        nodes,
        "small",
        [oh.make_tensor_value_info("x", F, (1, 4, 8, 8))],
        [onnx.ValueInfoProto(name=nodes[-1].output[0])],
        tensors,
    )
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", opset)]).SerializeToString()


def _layouts() -> bytes:
    """What exporters write around tensors: shapes computed, cut, joined and moved."""
    node = oh.make_node
    return _model(
        18,
        [
            node("Shape", ["x"], ["shape"]),
            node("Gather", ["shape", "zero"], ["batch"], axis=0),
            node("Unsqueeze", ["batch", "axis"], ["batch1"]),
            node("Concat", ["batch1", "rest"], ["target"], axis=0),
            node("Reshape", ["x", "target"], ["flat"]),
            node("Transpose", ["flat"], ["turned"], perm=[0, 2, 1]),
            node("Softmax", ["turned"], ["soft"], axis=-1),
            node("Split", ["soft", "sizes"], ["a", "b"], axis=2),
            node("Concat", ["b", "a"], ["joined"], axis=2),
            node("Slice", ["joined", "starts", "ends", "axes", "steps"], ["cut"]),
            node("Pad", ["cut", "pads"], ["padded"]),
            node("Expand", ["padded", "wide"], ["expanded"]),
            node("ReduceMean", ["expanded", "axes"], ["mean"]),
            node("Cast", ["mean"], ["cast"], to=onnx.TensorProto.FLOAT16),
            node("Constant", [], ["one"], value=onnx.numpy_helper.from_array(np.ones(3, np.int64))),
            node("ConstantOfShape", ["one"], ["zeros"]),
            node("CastLike", ["zeros", "cast"], ["zeros16"]),
            node("Tile", ["cast", "one"], ["tiled"]),
            node("Add", ["tiled", "zeros16"], ["y"]),
        ],
        zero=np.asarray(0),
        axis=np.asarray([0]),
        rest=np.asarray([4, -1]),
        sizes=np.asarray([1, 3]),
        starts=np.asarray([1]),
        ends=np.asarray([100]),
        axes=np.asarray([1]),
        steps=np.asarray([2]),
        pads=np.asarray([0, 1, 0, 0, 1, 0]),
        wide=np.asarray([2, 1, 1]),
    )


def _windows() -> bytes:
    """Windows, norms, resampling and a quantised pair."""
    node, ones = oh.make_node, np.ones
    return _model(
        17,
        [
            node("Conv", ["x", "w", "bias"], ["c"], pads=[1, 1, 1, 1], strides=[1, 1], group=2),
            node("BatchNormalization", ["c", "bias", "bias", "bias", "bias"], ["n"]),
            node("Relu", ["n"], ["r"]),
            node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
            node("ConvTranspose", ["m", "t"], ["u"], strides=[2, 2], output_padding=[0, 0]),
            node("Resize", ["u", "", "scales"], ["z"], mode="linear"),
            node("AveragePool", ["z"], ["p"], kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
            node("DepthToSpace", ["p"], ["d"], blocksize=2),
            node("QuantizeLinear", ["d", "scale", "middle"], ["q"]),
            node("DequantizeLinear", ["q", "scale", "middle"], ["dq"]),
            node("InstanceNormalization", ["dq", "one", "one"], ["i"]),
            node("Clip", ["i", "", "scale"], ["k"]),
            node("GlobalAveragePool", ["k"], ["g"]),
            node("Flatten", ["g"], ["f"]),
            node("Gemm", ["f", "gemm"], ["y"], transB=1),
        ],
        w=ones((4, 2, 3, 3), np.float32),
        bias=ones(4, np.float32),
        t=ones((4, 4, 2, 2), np.float32),
        scales=np.asarray([1, 1, 2, 2], np.float32),
        scale=np.asarray(0.5, np.float32),
        middle=np.asarray(128, np.uint8),
        one=ones(1, np.float32),
        gemm=ones((5, 1), np.float32),
    )


def _branches() -> bytes:
    """A subgraph, a recurrent layer, an unknown operator."""
    node = oh.make_node
    inner = oh.make_graph(
        [node("Add", ["x", "x"], ["sum"])], "inner", [], [onnx.ValueInfoProto(name="sum")]
    )
    return _model(
        16,
        [
            node("If", ["yes"], ["chosen"], then_branch=inner, else_branch=inner),
            node("Mystery", ["chosen"], ["strange"], domain="nowhere", level=3),
            node("Squeeze", ["x", "axis"], ["rows"]),
            node("LSTM", ["rows", "w", "r"], ["", "h"], hidden_size=2),
            node("Einsum", ["rows", "rows"], ["e"], equation="abc,abd->acd"),
            node("TopK", ["e", "count"], ["top", "where"], axis=-1),
            node("Gather", ["rows", "axis"], ["picked"], axis=1),
            node("Identity", ["strange"], ["y"]),
        ],
        yes=np.asarray(True),
        axis=np.asarray([0]),
        count=np.asarray([2]),
        w=np.ones((1, 8, 8), np.float32),
        r=np.ones((1, 8, 2), np.float32),
    )


def _old() -> bytes:
    """Operator set 9, whose nodes are rewritten on the way in."""
    node = oh.make_node
    return _model(
        9,
        [
            node("Slice", ["x"], ["s"], starts=[0, 1], ends=[4, 8], axes=[1, 2]),
            node("Pad", ["s"], ["p"], pads=[0, 0, 1, 0, 0, 0, 0, 0], value=1.0),
            node("Clip", ["p"], ["c"], min=0.0, max=6.0),
            node("Upsample", ["c", "scales"], ["u"], mode="nearest"),
            node("Dropout", ["u"], ["d"], ratio=0.5),
            node("Split", ["d"], ["a", "b"], axis=1, split=[1, 3]),
            node("ReduceSum", ["b"], ["r"], axes=[1], keepdims=0),
            node("Unsqueeze", ["r"], ["q"], axes=[1]),
            node("Softmax", ["q"], ["m"], axis=1),
            node("Squeeze", ["m"], ["t"], axes=[1]),
        ],
        scales=np.asarray([1, 1, 2, 2], np.float32),
    )


@cache
def corpus() -> tuple[bytes, ...]:
    """Sound files: hand-made ones, the zoo's, and real exports where they are at hand."""
    made = [_layouts(), _windows(), _branches(), _old()]
    for name in ("four_convs@8x8", "fsrcnn@4x4"):
        made.append(serialize(seeded(zoo.build(name))))
    for name in ("fsrcnn", "unet", "resnet18"):
        path = SHARED / f"{name}.onnx"
        if path.is_file():
            made.append(path.read_bytes())
    return tuple(made)


# --- mutations of bytes --------------------------------------------------------------------------


def _flip(data: bytearray, pick: random.Random) -> None:
    for _ in range(pick.choice((1, 1, 2, 8, 64))):
        data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)


def _overwrite(data: bytearray, pick: random.Random) -> None:
    start = pick.randrange(len(data))
    for position in range(start, min(len(data), start + pick.choice((1, 2, 4, 16)))):
        data[position] = pick.choice((0, 1, 0x7F, 0x80, 0xFF, pick.randrange(256)))


def _block(data: bytearray, pick: random.Random) -> tuple[int, int]:
    start = pick.randrange(len(data))
    return start, min(len(data), start + pick.choice((1, 2, 8, 64, 512)))


def _truncate(data: bytearray, pick: random.Random) -> None:
    del data[pick.randrange(len(data)) :]


def _remove(data: bytearray, pick: random.Random) -> None:
    start, stop = _block(data, pick)
    del data[start:stop]


def _duplicate(data: bytearray, pick: random.Random) -> None:
    start, stop = _block(data, pick)
    where = pick.randrange(len(data))
    data[where:where] = data[start:stop]


def _swap(data: bytearray, pick: random.Random) -> None:
    (a, b), (c, d) = sorted((_block(data, pick), _block(data, pick)))
    if b <= c:
        data[:] = data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


BYTES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(_flip, _overwrite, _truncate, _remove, _duplicate, _swap),
)


# --- mutations of fields -------------------------------------------------------------------------


def _messages(message: Any, depth: int = 0) -> Iterator[Any]:
    """A message and all inside it."""
    yield message
    if depth > 12:
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if _repeated(message, field) else (value,):
                yield from _messages(item, depth + 1)


def _repeated(message: Any, field: Any) -> bool:
    return hasattr(getattr(message, field.name), "append") or hasattr(
        getattr(message, field.name), "add"
    )


@cache
def _words() -> tuple[str, ...]:
    return tuple(sorted({schema.name for schema in onnx.defs.get_all_schemas()}))


def _value(field: Any, old: Any, pick: random.Random, names: list[str]) -> Any:
    """Another value for a scalar field."""
    if field.enum_type is not None:
        return pick.choice(field.enum_type.values).number
    if isinstance(old, str):
        return pick.choice((*names[:64], "", "x", pick.choice(_words()), pick.choice(_words())))
    if isinstance(old, bytes):
        return pick.choice((b"", old[:-1], old * 2, b"\xff\xfe", b"SAME_UPPER", b"abc->a"))
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return pick.choice((*INTEGERS, old + 1, old - 1, -old))
    return pick.choice((0.0, -1.0, 1e-30, 1e30, float("nan"), float("inf"), old * 2))


def _edit(model: Any, pick: random.Random) -> None:
    """Change, drop, double or move one field somewhere in the model."""
    messages = [m for m in _messages(model) if m.ListFields()]
    message = pick.choice(messages)
    field, value = pick.choice(message.ListFields())
    names = [name for node in model.graph.node for name in (*node.input, *node.output)]
    if not _repeated(message, field):
        if field.message_type is not None or pick.random() < 0.15:
            message.ClearField(field.name)
        else:
            setattr(message, field.name, _fits(field, _value(field, value, pick, names)))
        return
    position = pick.randrange(len(value))
    match pick.randrange(4):
        case 0:
            del value[position]
        case 1 if field.message_type is not None:
            value.add().CopyFrom(value[position])
        case 1:
            value.append(value[position])
        case 2 if field.message_type is not None:
            other = pick.randrange(len(value))
            kept = type(value[position])()
            kept.CopyFrom(value[position])
            value[position].CopyFrom(value[other])
            value[other].CopyFrom(kept)
        case _ if field.message_type is None:
            value[position] = _fits(field, _value(field, value[position], pick, names))
        case _:
            _edit_attribute(model, pick)


def _fits(field: Any, value: Any) -> Any:
    if isinstance(value, int) and field.cpp_type == field.CPPTYPE_INT32:
        return max(-(2**31), min(2**31 - 1, value))
    if isinstance(value, int) and field.cpp_type == field.CPPTYPE_UINT64:
        return abs(value)
    return value


def _edit_attribute(model: Any, pick: random.Random) -> None:
    """An attribute of another type, or another operator under the same attributes."""
    if not model.graph.node:
        return
    node = pick.choice(model.graph.node)
    if not node.attribute or pick.random() < 0.4:
        node.op_type = pick.choice(_words())
        return
    attribute = pick.choice(node.attribute)
    attribute.type = pick.choice(onnx.AttributeProto.AttributeType.values())


def mutant(seed: int) -> bytes:
    """A damaged file; the same for the same seed."""
    pick = random.Random(seed)
    source = pick.choice(corpus())
    if pick.random() < 0.4:
        data = bytearray(source)
        for _ in range(pick.choice((1, 1, 2, 4))):
            if data:
                pick.choice(BYTES)(data, pick)
        return bytes(data)
    model = onnx.ModelProto.FromString(source)
    for _ in range(pick.choice((1, 1, 1, 2, 3))):
        (_edit if pick.random() < 0.75 else _edit_attribute)(model, pick)
    return model.SerializeToString()


# --- the checks ----------------------------------------------------------------------------------


def _too_long(signum: int, frame: FrameType | None) -> None:
    raise AssertionError("the loader hangs")


def load_mutant(seed: int, path: Path) -> None:
    """Load a damaged file: a Graph, or an error of one line that names what is wrong."""
    path.write_bytes(mutant(seed))
    try:
        loaded = load_onnx(path)
    except TilewrightError as error:
        assert str(error).strip(), "an error without words"
    else:
        assert isinstance(loaded.graph, Graph)


@pytest.mark.parametrize("block", range(8))
def test_damaged_files_load_or_give_an_error(block: int, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGALRM, _too_long)
    try:
        for seed in range(block * IN_SUITE // 8, (block + 1) * IN_SUITE // 8):
            signal.alarm(SECONDS)
            try:
                load_mutant(seed, tmp_path / "mutant.onnx")
            except Exception as error:
                raise AssertionError(f"mutant {seed}: {type(error).__name__}: {error}") from error
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.quick
def test_sound_files_load(tmp_path: Path) -> None:
    path = tmp_path / "sound.onnx"
    for data in corpus():
        path.write_bytes(data)
        assert load_onnx(path).graph.nodes


# --- by hand: many, in a process that may die ----------------------------------------------------


def _worker(pipe: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.onnx"
        while True:
            seed = pipe.recv()
            try:
                load_mutant(seed, path)
                pipe.send("")
            except BaseException as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                pipe.send(f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})")


def _start() -> tuple[multiprocessing.Process, Connection]:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_worker, args=(there,))
    process.start()
    there.close()
    return process, here


def main(count: int, first: int) -> None:
    """Run mutants first .. first + count and print what misbehaved."""
    corpus()
    process, pipe = _start()
    bad = 0
    for seed in range(first, first + count):
        pipe.send(seed)
        try:
            answer = pipe.recv() if pipe.poll(SECONDS) else "hang"
        except EOFError:
            answer = "crash"
        if answer:
            bad += 1
            print(f"{seed}: {answer}", flush=True)
        if answer in ("hang", "crash"):
            process.kill()
            process.join()
            process, pipe = _start()
    process.kill()
    print(f"{count} mutants, {bad} misbehaved")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
