"""The judge of equality, and the runtime's settings and errors."""

import math
from pathlib import Path

import numpy as np
import pytest

from support.builder import GraphBuilder
from tilewright.errors import ModelError, VerificationError
from tilewright.execute.compare import TOLERANCE, compare
from tilewright.execute.memory_settings import high_water_mark, resident, return_freed_memory
from tilewright.execute.runtime import run, run_measured, session
from tilewright.frontend.save import save_onnx, serialize
from tilewright.graph.graph import Graph

pytestmark = pytest.mark.quick


def outputs(*values: float, dtype: str = "float32") -> dict[str, np.ndarray]:
    return {"y": np.asarray(values, dtype=dtype)}


def test_errors_are_relative_to_the_largest_output() -> None:
    found = compare(outputs(100, 1), outputs(100, 1 + 5e-4))
    assert found.max_abs_error == pytest.approx(5e-4, rel=1e-3)
    assert found.max_rel_error == pytest.approx(5e-6, rel=1e-3)


def test_the_worst_of_all_outputs_counts() -> None:
    expected = {"a": np.ones(2), "b": np.full(2, 10.0)}
    actual = {"a": np.ones(2), "b": np.asarray([10.0, 10.0 + 5e-5])}
    assert compare(expected, actual).max_abs_error == pytest.approx(5e-5, rel=1e-3)


@pytest.mark.parametrize(
    "expected, actual",
    [
        (outputs(1, 2), outputs(1, 2 * (1 + 3 * TOLERANCE))),
        (outputs(1, 2), outputs(1, math.nan)),
        (outputs(1, 2), outputs(1, math.inf)),
        (outputs(1, math.nan), outputs(1, 2)),
        (outputs(1, 2), {"y": np.ones((2, 1), np.float32)}),
        (outputs(1, 2, dtype="int64"), outputs(1, 3, dtype="int64")),
        (outputs(1, 0, dtype="bool"), outputs(1, 1, dtype="bool")),
        (outputs(0, 0), outputs(0, 1e-3)),
        (outputs(math.inf, 1), outputs(-math.inf, 1)),
        (outputs(math.inf, 1), outputs(math.nan, 1)),
        (outputs(1, 2), {}),
    ],
)
def test_what_is_not_the_same(
    expected: dict[str, np.ndarray], actual: dict[str, np.ndarray]
) -> None:
    with pytest.raises(VerificationError, match="'y'"):
        compare(expected, actual)


@pytest.mark.parametrize(
    "same",
    [
        outputs(),
        outputs(0, 0),
        outputs(math.nan, math.inf, -math.inf, 1),
        outputs(1, 2, dtype="float16"),
        outputs(1, 2, dtype="uint8"),
        {"y": np.asarray(["a", "b"], dtype=object)},
    ],
)
def test_what_is_the_same(same: dict[str, np.ndarray]) -> None:
    found = compare(same, {name: array.copy() for name, array in same.items()})
    assert (found.max_abs_error, found.max_rel_error) == (0, 0)


def doubler() -> Graph:
    b = GraphBuilder()
    x = b.input(2, 3, name="x")
    b.add("Add", x, x, name="y")
    return b.graph()


def test_run_names_every_output() -> None:
    x = np.ones((2, 3), np.float32)
    assert np.array_equal(run(serialize(doubler()), {"x": x})["y"], 2 * x)


def test_errors_of_the_runtime_are_one_line() -> None:
    with pytest.raises(ModelError, match="cannot load") as error:
        session(b"this is no model")
    assert "\n" not in str(error.value)
    for feeds in ({}, {"x": np.ones((9, 9), np.float32)}, {"x": np.ones((2, 3), np.int64)}):
        with pytest.raises(ModelError, match="cannot run") as error:
            run(serialize(doubler()), feeds)
        assert "\n" not in str(error.value)


def test_measured_run_gives_outputs_and_figures(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    save_onnx(doubler(), path)
    measured = run_measured(path, {"x": np.ones((2, 3), np.float32)})
    assert measured.outputs["y"].shape == (2, 3)
    assert measured.cpu_seconds >= 0
    assert measured.peak_bytes is None or measured.peak_bytes >= 0


def test_memory_figures_are_plausible() -> None:
    return_freed_memory()
    now, highest = resident(), high_water_mark()
    if now is None or highest is None:
        pytest.skip("this system reports no memory of a process")
    assert 2**20 < now <= highest


def test_half_precision_is_compared_in_its_last_places() -> None:
    """Two roundings of the same sum differ by a last place, which is more than a thousandth of a
    percent; a fault of the program is not as small."""
    numbers = np.linspace(-4, 4, 64, dtype=np.float16)
    near = np.nextafter(numbers, np.float16(10))
    assert compare({"y": numbers}, {"y": near}).max_rel_error > TOLERANCE
    with pytest.raises(VerificationError, match="more than 4e-03"):
        compare({"y": numbers}, {"y": (numbers * np.float16(1.01)).astype(np.float16)})
    single = numbers.astype(np.float32)
    with pytest.raises(VerificationError, match="more than 1e-05"):
        compare({"y": single}, {"y": single * np.float32(1.0001)})
