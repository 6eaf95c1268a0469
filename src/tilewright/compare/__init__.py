"""Plans beside each other: what differs, what it costs, the largest causes first."""

from collections.abc import Sequence

from tilewright.compare.differ import PlanDifference, difference
from tilewright.compare.side import CompareError, PlanSide


def compare_sides(sides: Sequence[PlanSide]) -> list[PlanDifference]:
    """Compare the first side with each of the others."""
    if len(sides) < 2:
        raise CompareError("give at least two runs or points to compare")
    return [difference(sides[0], other) for other in sides[1:]]


__all__ = ["CompareError", "PlanDifference", "compare_sides"]
