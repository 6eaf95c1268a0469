"""Names in plan files are text, whatever YAML takes them for."""

from pathlib import Path

from tilewright.plan.plan import plan_text
from tilewright.plan.read import read_plan

PLAN = """
model: net
machine: mcu
dtype: fp16
groups:
- nodes: [no, on, 007, 1_0, 2020-01-01, null]
  replicated: yes
- nodes: [1e3, 1:30]
  splits: [{axis: 2, parts: 4}, {axis: 3, parts: 2}]
  core_split: [0, 1]
  cores: [0, y]
resident: [no, 1.50]
reloaded: {yes: [on]}
shared:
images: 2
batched: [true]
"""


def test_names_that_yaml_has_other_meanings_for_are_text(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    plan = read_plan(path)
    first, second = plan.groups
    assert first.nodes == ("no", "on", "007", "1_0", "2020-01-01", "null") and first.replicated
    assert second.nodes == ("1e3", "1:30") and second.cores == ("0", "y")
    assert [split.parts for split in second.splits] == [4, 2] and second.core_split == 0
    assert plan.resident == ("no", "1.50") and plan.batched == ("true",) and plan.images == 2
    assert plan.reloaded == (("yes", ("on",)),) and plan.shared == ()
    path.write_text(plan_text(plan))
    assert read_plan(path) == plan
