"""Mistakes of the user: exit code 2, one line that says what to do, nothing half-written."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
import pytest

from tilewright.errors import ModelError
from tilewright.frontend import proto, zoo
from tilewright.frontend.save import serialize
from tilewright.frontend.weights import seeded

Refused = Callable[..., str]
F = onnx.TensorProto.FLOAT
BELOW_A_FILE = "/proc/version/x"  # where not even root can write


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """A small file without a fault."""
    path = tmp_path / "sound.onnx"
    path.write_bytes(serialize(seeded(zoo.build("four_convs@12x12"))))
    return path


def model(
    nodes: list[Any],
    shape: tuple[Any, ...] = (1, 2, 8, 8),
    opset: int = 17,
    tensors: tuple[Any, ...] = (),
    output: str = "y",
) -> Any:
    """A model with the input `x`."""
    graph = oh.make_graph(
        nodes,
        "bad",
        [oh.make_tensor_value_info("x", F, shape)],
        [onnx.ValueInfoProto(name=output)],
        tensors,
    )
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", opset)], ir_version=10)


def relu(source: str = "x", result: str = "y", name: str = "relu") -> Any:
    return oh.make_node("Relu", [source], [result], name=name)


def external(name: str, array: np.ndarray, location: str, **fields: object) -> Any:
    """A tensor whose numbers are in another file."""
    tensor = onnx.numpy_helper.from_array(array, name)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **fields}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


# --- the file ------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", ["show model", "tile --node a --split H=2", "run"])
@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "is empty"),
        (b"hello, I am not a model\n" * 20, "not an ONNX model"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "not an ONNX model"),
        (None, "No such file"),
    ],
)
def test_no_model(
    refused: Refused, tmp_path: Path, program: str, content: bytes | None, words: str
) -> None:
    path = tmp_path / "net.onnx"
    if content is not None:
        path.write_bytes(content)
    line = refused(*program.split(), path)
    assert words in line
    assert str(path) in line


@pytest.mark.quick
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_truncated(refused: Refused, sound: Path, share: float) -> None:
    data = sound.read_bytes()
    sound.write_bytes(data[: int(share * len(data))])
    assert "damaged" in refused("show", "model", sound)


def test_folder(refused: Refused, tmp_path: Path) -> None:
    assert "is a folder" in refused("show", "model", tmp_path)


@pytest.mark.parametrize("name", ["resnet19", "net.pb", "folder/net", "n" * 5000, "resnet18@", ""])
def test_no_such_network(refused: Refused, name: str) -> None:
    assert refused("show", "model", name)


@pytest.mark.parametrize("size", ["8", "7x7", "0x224", "-32x32", "axb", "32x32x32", "9999999999x1"])
def test_zoo_sizes(refused: Refused, size: str) -> None:
    assert "resnet18@224x224" in refused("show", "model", f"resnet18@{size}")


def test_shape_for_a_zoo_network(refused: Refused) -> None:
    assert "@" in refused("show", "model", "resnet18", "--shape", "x=1,3,64,64")


# --- what is in it -------------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize(
    "made, words",
    [
        (model([relu("z", "y", "a"), relu("y", "z", "b")]), "cycle"),
        (model([relu("nowhere")]), "'nowhere', which nothing makes"),
        (model([relu(), relu(name="again")]), "'y', which exists already"),
        (model([relu(result="x")], output="x"), "'x', which exists already"),
        (model([relu()], output="z"), "output 'z' is made by no node"),
        (model([relu()], shape=(1, 2, -8, 8)), "open"),
        (model([relu()], shape=(2**40, 2**40)), "too large"),
        (model([relu()], opset=8), "operator set 8"),
        (model([relu()], opset=2**40), "operator set 1099511627776"),
        (model([relu()], opset=proto.NEWEST_OPSET + 1), f"9 to {proto.NEWEST_OPSET}"),
        (model([oh.make_node("Conv", ["x"], ["y"], name="c")]), "'c' (Conv) is not valid"),
        (
            model(
                [oh.make_node("Expand", ["x", "s"], ["y"], name="grow")],
                tensors=(onnx.numpy_helper.from_array(np.asarray([2**40, 1, 1, 1, 1]), "s"),),
            ),
            "'grow': result",
        ),
    ],
)
def test_not_a_usable_network(refused: Refused, tmp_path: Path, made: Any, words: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    assert words in refused("show", "model", path)


def test_no_outputs_and_doubled_inputs(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    made = model([relu()])
    made.graph.input.append(made.graph.input[0])
    path.write_bytes(made.SerializeToString())
    assert "two inputs are called 'x'" in refused("show", "model", path)
    del made.graph.output[:]
    path.write_bytes(made.SerializeToString())
    assert "no outputs" in refused("show", "model", path)


def test_names_that_are_no_text(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    data = model([relu(name="AAAA")]).SerializeToString()
    path.write_bytes(data.replace(b"AAAA", b"\xff\xfe\xff\xfe"))
    assert "not text" in refused("show", "model", path)


@pytest.mark.quick
def test_open_dimensions_say_which_and_how(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(model([relu()], shape=("batch", 2, None, 8)).SerializeToString())
    line = refused("tile", path, "--node", "relu", "--split", "H=2")
    assert "'x' is [batch,2,?,8]" in line
    assert "--shape x=1,2,224,8" in line


@pytest.mark.parametrize(
    "given, words",
    [
        ("x=1,2", "2 dimensions"),
        ("q=1,2,8,8", "the inputs are: x"),
        ("x", "write the name of an input"),
        ("x=", "write the name of an input"),
        ("=1,2", "write the name of an input"),
        ("x=1,-2,8,8", "extents are whole numbers from 1 on"),
        ("x=1,2,0,8", "extents are whole numbers from 1 on"),
        ("n=0", "extents are whole numbers from 1 on"),
        ("x=1,2,8.5,8", "write the name of an input"),
        ("x=1,2,²,8", "write the name of an input"),
        ("x=1,2," + "9" * 5000 + ",8", "write the name of an input"),
        ("x=1,2,99999999999,99999999999", "too large"),
    ],
)
def test_shapes(refused: Refused, tmp_path: Path, given: str, words: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(model([relu()], shape=("n", 2, None, 8)).SerializeToString())
    assert words in refused("show", "model", path, "--shape", given)


def test_a_dimension_that_is_given_twice(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(model([relu()], shape=("n", 2, 4, 8)).SerializeToString())
    line = refused("show", "model", path, "--shape", "n=2", "--shape", "n=3")
    assert "gives 'n' twice: 2 and 3" in line


# --- external data -------------------------------------------------------------------------------


def conv_with(tensor: Any) -> bytes:
    return model(
        [oh.make_node("Conv", ["x", "w"], ["y"], name="conv")], tensors=(tensor,)
    ).SerializeToString()


WEIGHT = np.ones((4, 2, 3, 3), np.float32)


@pytest.mark.quick
def test_missing_weights_do_not_hinder_tiling(
    command: Any, refused: Refused, tmp_path: Path
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(conv_with(external("w", WEIGHT, "weights.bin")))
    assert command("tile", path, "--node", "conv", "--split", "H=2").code == 0
    line = refused("run", path)
    assert "weights are not there (weights.bin)" in line
    long = tmp_path / "long.onnx"
    long.write_bytes(conv_with(external("w", WEIGHT, "n" * 5000)))
    assert "weights are not there" in refused("run", long)


@pytest.mark.parametrize(
    "fields", [{}, {"offset": 4}, {"length": 10}, {"offset": 2**60}, {"offset": -4}, {"length": -1}]
)
def test_too_short_external_data(refused: Refused, tmp_path: Path, fields: dict[str, int]) -> None:
    path = tmp_path / "net.onnx"
    size = WEIGHT.nbytes if fields else WEIGHT.nbytes - 1
    (tmp_path / "weights.bin").write_bytes(bytes(size))
    path.write_bytes(conv_with(external("w", WEIGHT, "weights.bin", **fields)))
    line = refused("show", "model", path)
    assert "weights.bin" in line
    assert f"'w' needs {WEIGHT.nbytes} bytes" in line


def test_external_data_with_a_number_that_is_none(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    (tmp_path / "weights.bin").write_bytes(bytes(WEIGHT.nbytes))
    path.write_bytes(conv_with(external("w", WEIGHT, "weights.bin", offset="four")))
    assert "damaged" in refused("show", "model", path)


def test_missing_numbers_that_decide_a_shape(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    shape = external("s", np.asarray([1, -1]), "weights.bin")
    node = oh.make_node("Reshape", ["x", "s"], ["y"], name="flat")
    path.write_bytes(model([node], tensors=(shape,)).SerializeToString())
    line = refused("show", "model", path)
    assert "'s'" in line and "'flat'" in line and "external data" in line


# --- splits, halos, budgets ----------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize(
    "node, split, words",
    [
        ("conv9", "H=2", "there is no node 'conv9'"),
        ("Conv", "H=2", "did you mean conv1"),
        ("conv1", "H=57", "cannot be cut in 57"),
        ("conv1", "N=2", "cannot be cut in 2"),
        ("conv1", "H", "is no split"),
        ("conv1", "H=", "is no split"),
        ("conv1", "H=0", "is no split"),
        ("conv1", "H=-2", "is no split"),
        ("conv1", "H=2.5", "is no split"),
        ("conv1", "=2", "is no axis"),
        ("conv1", "Q=2", "is no axis"),
        ("conv1", "9=2", "is no axis"),
        ("conv1", "H=2,H=4", "cut already"),
        ("conv1", "H=2,2=4", "cut already"),
        ("conv1", ",", "no split given"),
    ],
)
def test_splits(refused: Refused, node: str, split: str, words: str) -> None:
    assert words in refused("tile", "four_convs", "--node", node, "--split", split)


@pytest.mark.parametrize("halo", ["keep", "H=keep", "=cache", "", "H", "Q=cache"])
def test_halos(refused: Refused, halo: str) -> None:
    line = refused("tile", "four_convs", "--node", "conv1", "--split", "H=2", "--halo", halo)
    assert "halo" in line or "axis" in line


def test_axis_that_cannot_be_cut(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    soft = oh.make_node("Softmax", ["x"], ["y"], name="soft", axis=2)
    path.write_bytes(model([soft]).SerializeToString())
    assert "Softmax needs it whole" in refused("tile", path, "--node", "soft", "--split", "H=2")


def test_operator_that_runs_whole(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    odd = oh.make_node("Mystery", ["x"], ["y"], name="odd", domain="nowhere")
    path.write_bytes(model([odd]).SerializeToString())
    assert "runs whole" in refused("tile", path, "--node", "odd", "--split", "H=2")


@pytest.mark.parametrize(
    "which",
    [
        (),
        ("--from", "conv1"),
        ("--to", "conv2"),
        ("--node", "conv1", "--from", "conv1", "--to", "conv2"),
        ("--from", "conv3", "--to", "conv1"),
    ],
)
def test_what_to_cut(refused: Refused, which: tuple[str, ...]) -> None:
    assert refused("tile", "four_convs", *which, "--split", "H=2")


@pytest.mark.parametrize(
    "budget",
    [
        "",
        "lots",
        "64 XB",
        "-5MB",
        "0",
        "0%",
        "-10%",
        "%",
        "nan%",
        "inf%",
        "1e3MB",
        "9" * 400,
        "5 5MB",
    ],
)
def test_budgets(refused: Refused, tmp_path: Path, budget: str) -> None:
    line = refused("shrink", "four_convs", f"--memory={budget}", "-o", tmp_path / "o.onnx")
    assert "memory" in line


@pytest.mark.parametrize(
    "budget, words",
    [("0.5", "write 50% for a share of today's"), ("1.5", "write 1.5MB for megabytes")],
)
def test_a_fraction_of_bytes_is_told_what_it_may_mean(
    refused: Refused, tmp_path: Path, budget: str, words: str
) -> None:
    assert words in refused("shrink", "four_convs", "--memory", budget, "-o", tmp_path / "o.onnx")


@pytest.mark.parametrize(
    "arguments",
    [
        ("tile",),
        ("tile", "four_convs"),
        ("tile", "four_convs", "--split"),
        ("tile", "four_convs", "extra", "--split", "H=2"),
        ("shrink", "four_convs"),
        ("shrink", "four_convs", "--memory", "5MB"),
        ("run", "x.onnx", "--threads", "0"),
        ("run", "x.onnx", "--threads", "many"),
        ("tile", "four_convs", "--nonsense"),
        ("nonsense",),
        ("show", "nonsense"),
    ],
)
def test_wrong_usage_points_to_help(refused: Refused, arguments: tuple[str, ...]) -> None:
    assert "--help" in refused(*arguments)


# --- outputs -------------------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize(
    "target", ["missing/o.onnx", BELOW_A_FILE, ".", "/proc/o.onnx", "/dev/null"]
)
def test_outputs_that_cannot_be_written(refused: Refused, tmp_path: Path, target: str) -> None:
    path = tmp_path / target
    line = refused("shrink", "four_convs@8x8", "--memory", "100%", "-o", path)
    assert line.startswith(f"cannot write '{path}'")


def test_output_with_a_name_that_is_too_long(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / f"{'n' * 300}.onnx"
    assert "cannot write" in refused("shrink", "four_convs@8x8", "--memory", "100%", "-o", path)


@pytest.mark.parametrize("plot", ["missing/p.png", ".", "p.txt", "p", BELOW_A_FILE + ".png"])
def test_pictures_that_cannot_be_written(refused: Refused, tmp_path: Path, plot: str) -> None:
    arguments = ("shrink", "four_convs@8x8", "--memory", "100%", "-o", tmp_path / "o.onnx")
    assert refused(*arguments, "--plot", tmp_path / plot).startswith("cannot")


def test_the_model_itself_is_not_overwritten(refused: Refused, sound: Path) -> None:
    assert "the model itself" in refused("shrink", sound, "--memory", "100%", "-o", sound)


@pytest.mark.parametrize("target", ["missing/o.npz", BELOW_A_FILE, ".", "/dev/null"])
def test_results_of_a_run_that_cannot_be_written(
    refused: Refused, sound: Path, tmp_path: Path, target: str
) -> None:
    assert "cannot write" in refused("run", sound, "-o", tmp_path / target)


def test_arrays_go_to_no_file_of_another_kind(
    refused: Refused, sound: Path, tmp_path: Path
) -> None:
    assert "give a name that ends in .npz" in refused("run", sound, "-o", tmp_path / "out.txt")


# --- inputs of a run -----------------------------------------------------------------------------


def damaged_archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("input.npy", b"\x93NUMPY nothing follows")


@pytest.mark.parametrize(
    "write, words",
    [
        (lambda path: None, "No such file"),
        (lambda path: path.mkdir(), "folder|directory"),
        (lambda path: path.write_bytes(b""), "as .npz"),
        (lambda path: path.write_bytes(b"no archive"), "what numpy.savez(FILE, NAME=array) writes"),
        (damaged_archive, "as .npz"),
        (lambda path: np.save(path.open("wb"), np.ones(3)), "one array without a name"),
        (lambda path: np.savez(path, other=np.ones(3)), "no array for input 'input'"),
        (lambda path: np.savez(path, input=np.ones((1, 3, 12, 12))), r"float32\[1x3x12x12\]"),
        (lambda path: np.savez(path, input=np.ones((3, 12, 12), np.float32)), r"\[3, 12, 12\]"),
        (lambda path: np.savez(path, input=np.asarray([{}], dtype=object)), "as .npz"),
    ],
)
def test_inputs_of_a_run(
    refused: Refused, sound: Path, tmp_path: Path, write: Callable[[Path], object], words: str
) -> None:
    path = tmp_path / "feeds.npz"
    write(path)
    line = refused("run", sound, "--inputs", path)
    assert any(word in line for word in words.replace("\\", "").split("|")), line


def test_run_of_a_zoo_network(refused: Refused) -> None:
    assert "shrink it first" in refused("run", "fsrcnn@64x64")


def test_run_of_an_operator_nobody_knows(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    odd = oh.make_node("Mystery", ["x"], ["y"], name="odd", domain="nowhere")
    made = model([odd])
    made.opset_import.add(domain="nowhere", version=1)
    path.write_bytes(made.SerializeToString())
    assert "onnxruntime cannot load" in refused("run", path)


def test_run_that_fails_on_the_way(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    node = oh.make_node("Gather", ["x", "i"], ["y"], axis=0)
    made = model([node])
    made.graph.input.append(oh.make_tensor_value_info("i", onnx.TensorProto.INT64, (1,)))
    path.write_bytes(made.SerializeToString())
    feeds = tmp_path / "feeds.npz"
    np.savez(feeds, x=np.ones((1, 2, 8, 8), np.float32), i=np.asarray([99]))
    assert "onnxruntime cannot run" in refused("run", path, "--inputs", feeds)


def test_reason_of_the_runtime_is_not_lost(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    made = model([relu()])
    made.ir_version = 99
    path.write_bytes(made.SerializeToString())
    assert "IR version" in refused("run", path)


def test_run_in_another_size_than_the_file_fixes(refused: Refused, sound: Path) -> None:
    assert "--shape" in refused("run", sound, "--shape", "input=1,3,20,20")


def test_errors_are_one_line_whatever_the_names(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(model([relu("a\nb[/red]:smile:")]).SerializeToString())
    assert "a b[/red]:smile:" in refused("show", "model", path)


def test_library_raises_the_same_errors(tmp_path: Path) -> None:
    from tilewright import api

    with pytest.raises(ModelError):
        api.load(str(tmp_path / "missing.onnx"))


def test_a_choice_that_there_is_not_is_told_with_those_there_are(refused) -> None:
    told = refused("plan", "four_convs@16x16", "--on", "mcu", "--effort", "hi")
    assert "--effort': 'hi' is not one of 'low', 'normal', 'high'" in told
