"""Plans, compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from tilewright.compare.differ import PlanDifference
from tilewright.compare.page import page as comparison_page
from tilewright.compare.told import difference_json
from tilewright.files import path_of, write_text
from tilewright.tables import Shown, Table


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Shown, Sequence[PlanDifference]):
    """The first of several plans against each of the others."""

    differences: tuple[PlanDifference, ...]

    @overload
    def __getitem__(self, index: int) -> PlanDifference: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[PlanDifference]: ...

    def __getitem__(self, index: int | slice) -> PlanDifference | Sequence[PlanDifference]:
        return self.differences[index]

    def __len__(self) -> int:
        return len(self.differences)

    @property
    def json(self) -> dict[str, Any]:
        """Everything, as `tilewright compare --json` prints it."""
        return {"compared": [difference_json(each) for each in self.differences]}

    def save(self, path: str | Path) -> Path:
        """Write the page that shows the plans side by side."""
        target = path_of(path)
        write_text(target, comparison_page(self.differences, target.parent))
        return target

    def headline(self) -> Sequence[str]:
        """A line for every comparison, and what was asked for differently."""
        return [line for each in self.differences for line in each.headline()]

    def as_table(self) -> Table:
        """One row per part of the network that differs, by the plan it is of."""
        tables = [(each.after.name, each.as_table()) for each in self.differences]
        rows = tuple((name, *row) for name, table in tables for row in table.rows)
        return Table("causes", ("plan", *tables[0][1].columns), rows)
