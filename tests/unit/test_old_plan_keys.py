"""Plan files whose keys had other names."""

from pathlib import Path

from tilewright.plan.plan import plan_text
from tilewright.plan.read import read_plan

OLD = """
model: net
machine: npu-2.7
dtype: fp16
groups:
- nodes: [a]
  splits: [{axis: 2, parts: 4}]
  spread: 0
- nodes: [b]
  everywhere: true
"""


def test_old_keys_of_groups_are_read_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(OLD)
    plan = read_plan(path)
    assert plan.groups[0].core_split == 0 and plan.groups[1].replicated
    assert [note.partition(": ")[2] for note in plan.notes] == [
        "'spread' of groups is called 'core_split' now",
        "'everywhere' of groups is called 'replicated' now",
    ]
    path.write_text(plan_text(plan))
    again = read_plan(path)
    assert again == plan and not again.notes
