"""Plans beside each other: what differs, what it costs, the largest causes first.

from tilewright.compare import compare
compare("run-a", "run-b")[0].regions
"""

from collections.abc import Sequence

from tilewright.compare.differ import PlanDifference, difference
from tilewright.compare.side import CompareError, PlanSide, load_side


def compare(first: str, *others: str) -> list[PlanDifference]:
    """Compare the first with each of the others: folders of runs, or points of sweeps
    (`sweep-folder#17`)."""
    return compare_sides([load_side(name) for name in (first, *others)])


def compare_sides(sides: Sequence[PlanSide]) -> list[PlanDifference]:
    """Compare the first side with each of the others."""
    if len(sides) < 2:
        raise CompareError("give at least two runs or points to compare")
    return [difference(sides[0], other) for other in sides[1:]]


__all__ = ["CompareError", "PlanDifference", "compare", "compare_sides"]
