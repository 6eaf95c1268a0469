"""Plans beside each other: what differs, what it costs, the largest causes first.

from tilewright.compare import compare
compare("run-a", "run-b")[0].regions
"""

from tilewright.compare.differ import Difference, difference
from tilewright.compare.side import CompareError, load_side


def compare(first: str, *others: str) -> list[Difference]:
    """Compare the first with each of the others: folders of runs, or points of sweeps
    (`sweep-folder#17`)."""
    if not others:
        raise CompareError("give at least two runs or points to compare")
    base = load_side(first)
    return [difference(base, load_side(name)) for name in others]


__all__ = ["CompareError", "Difference", "compare"]
