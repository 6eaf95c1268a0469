"""Two splits that the cores share, in plan files."""

from pathlib import Path

import pytest

from tilewright.errors import TilewrightError
from tilewright.plan.plan import plan_text
from tilewright.plan.read import read_plan
from tilewright.tiling.grid import Split, core_grid

pytestmark = pytest.mark.quick

PLAN = """
model: net
machine: npu-4.0
dtype: fp16
groups:
- nodes: [a]
  splits: [{axis: 2, parts: 4}, {axis: 3, parts: 3}]
  core_split: HERE
"""


def written(core_split: str, folder: Path) -> Path:
    """A plan file whose group is divided among the cores so."""
    path = folder / "plan.yaml"
    path.write_text(PLAN.replace("HERE", core_split))
    return path


def test_two_splits_may_be_shared_by_the_cores(tmp_path: Path) -> None:
    path = written("[0, 1]", tmp_path)
    plan = read_plan(path)
    assert plan.groups[0].core_splits == (0, 1)
    path.write_text(plan_text(plan))
    assert "core_split: [0, 1]" in path.read_text()
    assert read_plan(path) == plan


@pytest.mark.parametrize("core_split", ["[0, 0]", "[]", "[0, 2]", "[0, true]", "[0, 1, 0]"])
def test_two_splits_are_two_numbers(core_split: str, tmp_path: Path) -> None:
    with pytest.raises(TilewrightError, match="a list of two such numbers"):
        read_plan(written(core_split, tmp_path))


@pytest.mark.parametrize(
    ("parts", "cores", "expected"),
    [
        ((4, 3), 6, {0: 2, 1: 3}),
        ((3, 8), 6, {0: 3, 1: 2}),
        ((12, 2), 6, {0: 6}),  # all of them fit along the first
        ((5, 3), 6, {0: 1, 1: 6}),
        ((2, 2), 1, {0: 1}),
    ],
)
def test_cores_are_dealt_out_evenly(
    parts: tuple[int, int], cores: int, expected: dict[int, int]
) -> None:
    splits = (Split(2, parts[0]), Split(3, parts[1], crossed=True))
    assert core_grid(splits, 0, cores) == expected
