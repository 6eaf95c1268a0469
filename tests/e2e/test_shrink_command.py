"""`tilewright shrink`: budgets of every kind, JSON as agreed, refusals, always the same result."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tilewright.units import parse_bytes

Command = Callable[..., Any]
FIELDS = {
    "original_peak_bytes",
    "predicted_peak_bytes",
    "measured_peak_bytes",
    "measured_original_peak_bytes",
    "cpu_ratio",
    "max_abs_error",
    "max_rel_error",
    "groups",
    "recompute_ratio",
}
TINY = "fsrcnn@64x96"
MB = 1000**2


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "small.onnx"


def check(result: dict[str, Any], output: Path, budget: float) -> None:
    """Under the budget, the same numbers, a plain model that the standard's checker accepts."""
    assert set(result) >= FIELDS
    assert result["predicted_peak_bytes"] <= budget
    assert result["max_rel_error"] <= 1e-5
    assert result["recompute_ratio"] >= 0
    model = onnx.load(output)
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} <= {"", "ai.onnx"}


@pytest.mark.parametrize("model, share", [("fsrcnn@64x96", 40), ("mobilenet_v2@96x96", 75)])
def test_share_of_todays_peak(succeeds: Command, output: Path, model: str, share: int) -> None:
    result = succeeds("shrink", model, "--memory", f"{share}%", "-o", output, "--json").json
    check(result, output, share / 100 * result["original_peak_bytes"])
    assert result["groups"]
    for group in result["groups"]:
        assert group["nodes"] and group["outputs"]
        assert group["tiles"] == np.prod(list(group["split"].values())) > 1
    for key in ("measured_peak_bytes", "measured_original_peak_bytes", "cpu_ratio"):
        assert result[key] is None, "nothing was measured"


def test_skips_of_a_unet(succeeds: Command, output: Path) -> None:
    result = succeeds("shrink", "unet@64x64", "--memory", "90%", "-o", output, "--json").json
    check(result, output, 0.9 * result["original_peak_bytes"])


@pytest.mark.parametrize("budget", ["2.2MB", "2.1 MiB", "2200000"])
def test_budget_in_bytes(succeeds: Command, output: Path, budget: str) -> None:
    result = succeeds("shrink", TINY, "--memory", budget, "-o", output, "--json").json
    assert result["original_peak_bytes"] > parse_bytes(budget)
    check(result, output, parse_bytes(budget))


@pytest.mark.quick
def test_nothing_to_do(succeeds: Command, output: Path) -> None:
    said = succeeds("shrink", TINY, "--memory", "100%", "-o", output)
    assert "nothing was cut" in said.out
    result = succeeds("shrink", TINY, "--memory", "1GB", "-o", output, "--json").json
    assert result["groups"] == []
    assert result["recompute_ratio"] == 0
    assert result["predicted_peak_bytes"] == result["original_peak_bytes"]
    assert result["max_abs_error"] == 0
    check(result, output, 1e9)


def test_text_for_people(succeeds: Command, output: Path, tmp_path: Path) -> None:
    plot = tmp_path / "memory.png"
    said = succeeds("shrink", TINY, "--memory", "60%", "-o", output, "--plot", plot)
    assert re.search(r"peak memory \(predicted\): [\d.]+ \w+ -> [\d.]+ \w+ \(\d+%\)", said.out)
    assert "same results" in said.out
    assert f"written: {output}" in said.out
    assert "seeded random" in said.err, "made-up weights have to be said"
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_infeasible_budget_names_the_smallest_and_what_stops_it(
    refused: Callable[..., str], output: Path
) -> None:
    line = refused("shrink", "four_convs@24x24", "--memory", "1%", "-o", output)
    assert "cannot be met" in line
    assert re.search(r"the smallest .*is [\d.]+ [kMG]?B", line)
    assert re.search(r"'conv\d", line), "the operator that stops it"
    assert not output.exists()


def test_the_named_smallest_budget_can_be_met(
    refused: Callable[..., str], succeeds: Command, output: Path
) -> None:
    line = refused("shrink", "four_convs@24x24", "--memory", "1kB", "-o", output)
    smallest = re.search(r"smallest[^.]*? is ([\d.]+ [kMG]?B)", line)
    assert smallest is not None, line
    result = succeeds(
        "shrink", "four_convs@24x24", "--memory", smallest[1], "-o", output, "--json"
    ).json
    check(result, output, parse_bytes(smallest[1]))


def test_same_result_every_time(succeeds: Command, tmp_path: Path) -> None:
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    arguments = ("shrink", TINY, "--memory", "50%", "--json", "-o")
    outcome = succeeds(*arguments, first)
    code = "from tilewright.cli import main; main()"
    other = subprocess.run(
        [sys.executable, "-c", code, *arguments, str(second)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert other.returncode == 0, other.stderr
    assert json.loads(other.stdout) == outcome.json
    assert first.read_bytes() == second.read_bytes()


def test_measured_figures(succeeds: Command, output: Path) -> None:
    result = succeeds(
        "shrink", "fsrcnn@96x128", "--memory", "40%", "-o", output, "--measure", "--json"
    ).json
    assert result["measured_peak_bytes"] < result["measured_original_peak_bytes"]
    assert result["cpu_ratio"] > 0
    check(result, output, 0.4 * result["original_peak_bytes"])


def test_shrunk_model_runs_like_the_original(succeeds: Command, tmp_path: Path) -> None:
    """From the file, with its own weights, on given inputs: the numbers are the original's."""
    whole, small = tmp_path / "whole.onnx", tmp_path / "small.onnx"
    succeeds("shrink", "unet@32x32", "--memory", "1GB", "-o", whole)
    said = succeeds("shrink", whole, "--memory", "90%", "-o", small)
    assert "seeded" not in said.err
    feeds, results = tmp_path / "feeds.npz", {}
    (name,) = (i.name for i in onnx.load(whole).graph.input)
    numbers = np.random.default_rng(7).standard_normal((1, 3, 32, 32), np.float32)
    np.savez(feeds, **{name: numbers})
    for path in (whole, small):
        stored = path.with_suffix(".npz")
        succeeds("run", path, "--inputs", feeds, "-o", stored)
        with np.load(stored) as arrays:
            results[path] = {key: arrays[key] for key in arrays.files}
    assert results[whole].keys() == results[small].keys()
    for key, expected in results[whole].items():
        error = np.abs(results[small][key] - expected).max() / np.abs(expected).max()
        assert error <= 1e-5


def test_another_size_than_the_file_fixes(succeeds: Command, tmp_path: Path) -> None:
    whole, small = tmp_path / "whole.onnx", tmp_path / "small.onnx"
    succeeds("shrink", "fsrcnn@16x16", "--memory", "1GB", "-o", whole)
    (name,) = (i.name for i in onnx.load(whole).graph.input)
    result = succeeds(
        *("shrink", whole, "--shape", f"{name}=1,1,64,96", "--memory", "60%"),
        *("-o", small, "--json"),
    ).json
    check(result, small, 0.6 * result["original_peak_bytes"])
    dims = onnx.load(small).graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [1, 1, 64, 96]


def test_metadata_says_where_the_model_comes_from(succeeds: Command, output: Path) -> None:
    succeeds("shrink", TINY, "--memory", "60%", "-o", output)
    facts = {entry.key: entry.value for entry in onnx.load(output).metadata_props}
    assert "seeded" in facts["tilewright.weights"]
    assert int(facts["tilewright.groups"]) > 0


def test_as_small_as_it_goes_and_what_stands_in_the_way(
    succeeds: Any, refused: Any, tmp_path: Path
) -> None:
    """The budget that a refusal names is the one that `smallest` gives, in the user's names."""
    small = tmp_path / "small.onnx"
    found = succeeds("shrink", "fsrcnn@64x64", "--memory", "smallest", "-o", small, "--json").json
    assert found["predicted_peak_bytes"] < found["original_peak_bytes"]
    text = refused("shrink", "fsrcnn@64x64", "--memory", "1%", "-o", tmp_path / "no.onnx")
    assert "`smallest`" in text and "@" not in text
    share = 100 * found["predicted_peak_bytes"] / found["original_peak_bytes"]
    assert f"{ceil(share)} % of today's" in text  # rounded up: it can be asked for


def test_a_measured_miss_is_cut_again_tighter_and_told(
    command: Any, succeeds: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prediction that is too low is noticed where it is measured; a budget that stays missed ends
    with an exit code of its own."""
    from tilewright import shrinking
    from tilewright.shrink.measure import Measured

    rounds: list[Path] = []

    def measured(original: Path, small: Path, inputs: Path, runs: int) -> Measured:
        rounds.append(small)
        return Measured(900 * MB if len(rounds) < 3 else 590 * MB, 1000 * MB, 1.0, 1.0)

    monkeypatch.setattr(shrinking, "measure_models", measured)
    arguments = ("shrink", "fsrcnn@64x64", "--memory", "60%", "--measure", "--json", "-o")
    found = succeeds(*arguments, tmp_path / "small.onnx").json
    assert len(rounds) == 3 and found["measured_over_budget"] is None
    first = succeeds(
        "shrink", "fsrcnn@64x64", "--memory", "60%", "-o", tmp_path / "x.onnx", "--json"
    )
    assert found["predicted_peak_bytes"] < first.json["predicted_peak_bytes"]
    monkeypatch.setattr(
        shrinking, "measure_models", lambda *_: Measured(700 * MB, 1000 * MB, 1.0, 1.0)
    )
    missed = command(*arguments, tmp_path / "missed.onnx")
    assert missed.code == 4 and (tmp_path / "missed.onnx").exists()
    assert missed.json["measured_over_budget"] == pytest.approx(700 / 600)
    assert "budget of 600.0 MB is missed: the measured peak of 700.0 MB" in missed.told[-1]


def test_where_no_tighter_budget_can_be_met_the_smallest_cut_is_measured(
    succeeds: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright import shrinking
    from tilewright.shrink.measure import Measured

    least = succeeds(
        "shrink", "fsrcnn@64x64", "--memory", "smallest", "-o", tmp_path / "x.onnx", "--json"
    ).json["predicted_peak_bytes"]
    rounds: list[Path] = []

    def measured(original: Path, small: Path, inputs: Path, runs: int) -> Measured:
        rounds.append(small)
        return Measured(1000 * MB if len(rounds) < 2 else 1, 1000 * MB, 1.0, 1.0)

    monkeypatch.setattr(shrinking, "measure_models", measured)
    budget = f"{round(least * 1.2)}"
    arguments = ("shrink", "fsrcnn@64x64", "--memory", budget, "--measure", "--json", "-o")
    found = succeeds(*arguments, tmp_path / "small.onnx").json
    assert len(rounds) == 2 and found["predicted_peak_bytes"] == least


@pytest.mark.parametrize(
    ("peaks", "verdict", "told"),
    [
        ((150, 160, 170), "met", "the budget of 180.0 kB is met"),
        ((150, 190, 260), "too close to tell", "whether the budget of 180.0 kB is met cannot be"),
        ((700, 720, 740), "missed", "the budget of 180.0 kB is missed: the measured peak of 720.0"),
    ],
)
def test_a_measurement_is_told_with_its_noise_and_a_verdict(
    command: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    peaks: tuple[int, ...],
    verdict: str,
    told: str,
) -> None:
    from tilewright import shrinking
    from tilewright.shrink.measure import Measured

    several, before = tuple(1000 * peak for peak in peaks), (300_000, 300_000, 310_000)
    measured = Measured(several[1], 300_000, 1.0, 1.0, several, before)
    monkeypatch.setattr(shrinking, "measure_models", lambda *_: measured)
    arguments = ("shrink", "fsrcnn@64x64", "--memory", "60%", "--measure", "-o")
    shown = command(*arguments, tmp_path / "small.onnx").out
    assert told in shown
    low, high = several[0] / 310_000, several[2] / 300_000
    assert f"{low:.0%} to {high:.0%} in 3 runs" in shown
    found = command(*arguments, tmp_path / "again.onnx", "--json").json
    assert found["budget"] == verdict and found["measured_peaks"] == list(several)


@pytest.mark.parametrize(("after", "told"), [(120_000, False), (280_000, True), (400_000, True)])
def test_a_smallest_cut_that_measuring_cannot_tell_from_the_original_says_so(
    succeeds: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, told: bool
) -> None:
    from tilewright import shrinking
    from tilewright.shrink.measure import Measured

    measured = Measured(after, 300_000, 1.0, 1.0)
    monkeypatch.setattr(shrinking, "measure_models", lambda *_: measured)
    path = tmp_path / "small.onnx"
    shown = succeeds("shrink", "fsrcnn@32x32", "--memory", "smallest", "--measure", "-o", path).out
    assert ("whether it needs less than before cannot be told by measuring" in shown) == told


@pytest.mark.parametrize(
    ("factors", "told"),
    [((1.0, 1.1), ""), ((2.0, 1.0), "50% too low before"), ((2.0, 0.5), "100% too high after")],
)
def test_a_prediction_that_does_not_hold_is_told(
    monkeypatch: pytest.MonkeyPatch, factors: tuple[float, float], told: str
) -> None:
    import tilewright
    from tilewright import shrinking
    from tilewright.shrink.measure import Measured

    found = tilewright.shrink("fsrcnn@64x64", "smallest")
    before, after = found.original_peak_bytes * factors[0], found.predicted_peak_bytes * factors[1]
    measured = Measured(round(after), round(before), 1.0, 1.0)
    monkeypatch.setattr(shrinking, "measure_models", lambda *_: measured)
    said = "\n".join(tilewright.shrink("fsrcnn@64x64", "smallest", measure=True).headline())
    assert ("the prediction does not hold" in said) == bool(told) and told in said
