"""Does a rewritten model give the original's numbers?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilewright.errors import VerificationError
from tilewright.graph.graph import Array

TOLERANCE = 1e-5  # of the largest magnitude of an output
SMALL = 1e-2  # of it: what another order of sums can explain
LAST_PLACES = 4  # of a float type that is coarser than the tolerance: what rounding may differ by


class Difference(NamedTuple):
    """The largest difference over all outputs, absolute and relative to the output's largest."""

    max_abs_error: float
    max_rel_error: float


NOTHING = Difference(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Failure:
    """An execution that did not give the original's numbers: what is wrong, in which tensor and
    where in it, what stands there and what should, and what the reason may be."""

    fault: str
    tensor: str = ""
    place: tuple[int, ...] = ()
    expected: float | None = None
    actual: float | None = None
    cause: str = ""

    def told(self) -> str:
        """The failure in a line."""
        where = f" at {list(self.place)}" if self.place else ""
        numbers = ""
        if self.expected is not None and self.actual is not None:
            numbers = f" ({self.actual:.6g} instead of {self.expected:.6g}{where})"
        cause = f"; likely cause: {self.cause}" if self.cause else ""
        return f"{self.fault}{numbers}{cause}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came out of comparing two sets of numbers. For quantised networks, `rounded` of
    `elements` integers are one step apart, which is the same."""

    difference: Difference = NOTHING
    failure: Failure | None = None
    rounded: int = 0
    elements: int = 0

    @property
    def same(self) -> bool:
        return self.failure is None

    def told(self) -> str:
        """The outcome in a line."""
        if self.failure is not None:
            return self.failure.told()
        error = f"largest difference {self.difference.max_rel_error:.1e} of the largest output"
        if not self.rounded:
            return error
        return (
            f"{self.rounded} of {self.elements} quantised numbers are one step apart, where a "
            f"result lies between two; {error}"
        )


def compared(
    expected: Mapping[str, Array], actual: Mapping[str, Array], tolerance: float = TOLERANCE
) -> Comparison:
    """Compare outputs: integers must be equal, floats within the tolerance, or within a few of the
    last places of their type where that is coarser (half precision)."""
    worst = NOTHING
    for name, reference in expected.items():
        found = _compared(name, reference, actual.get(name), tolerance)
        if not found.same:
            return found
        if found.difference.max_rel_error >= worst.max_rel_error:
            absolute = max(found.difference.max_abs_error, worst.max_abs_error)
            worst = Difference(absolute, found.difference.max_rel_error)
    return Comparison(worst)


def compare(
    expected: Mapping[str, Array], actual: Mapping[str, Array], tolerance: float = TOLERANCE
) -> Difference:
    """Compare outputs: integers must be equal, floats within the tolerance. Raises if not."""
    found = compared(expected, actual, tolerance)
    if found.failure is not None:
        raise VerificationError(found.failure.told())
    return found.difference


def _compared(name: str, reference: Array, result: Array | None, tolerance: float) -> Comparison:
    if result is None:
        return Comparison(failure=Failure(f"output '{name}' of the original is not there", name))
    if result.shape != reference.shape:
        fault = f"output '{name}' has shape {result.shape}, the original's is {reference.shape}"
        return Comparison(failure=Failure(fault, name))
    if reference.size == 0:
        return Comparison()
    if not np.issubdtype(reference.dtype, np.floating):
        wrong = np.asarray(reference != result)
        if not wrong.any():
            return Comparison()
        return faulty(
            name, reference, result, wrong, f"output '{name}' differs from the original's"
        )
    tolerance = max(tolerance, LAST_PLACES * float(np.finfo(reference.dtype).eps))
    a, b = result.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(b)
    wrong = np.isfinite(a) != finite
    if wrong.any():
        fault = f"output '{name}' is not finite where the original's is"
        cause = "a task read bytes that nothing had written, or numbers beyond float32"
        return faulty(name, b, a, wrong, fault, cause)
    other = ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if other.any():
        fault = f"output '{name}' has other infinities than the original's"
        return faulty(name, b, a, other, fault)
    distance = np.abs(np.where(finite, a, 0.0) - np.where(finite, b, 0.0))
    absolute = float(distance.max(initial=0.0))
    largest = float(np.max(np.abs(b), where=finite, initial=0.0))
    relative = absolute / largest if largest else absolute
    difference = Difference(absolute, relative)
    if relative <= tolerance:
        return Comparison(difference)
    share = f"{int(np.count_nonzero(distance > tolerance * largest))} of {distance.size} elements"
    cause = f"a fault of the program: {share} differ"
    if relative <= SMALL:
        cause = f"sums in another order, magnified on the way ({share} differ)"
    fault = (
        f"output '{name}' differs by {relative:.1e} of its largest value, more than {tolerance:.0e}"
    )
    return faulty(name, b, a, distance, fault, cause, difference)


def faulty(
    name: str,
    expected: Array,
    actual: Array,
    wrong: Array,
    fault: str,
    cause: str = "",
    difference: Difference = NOTHING,
) -> Comparison:
    """A comparison that failed at the first place that is the most wrong."""
    place = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
    pair = float(expected[place]), float(actual[place])
    return Comparison(difference, Failure(fault, name, place, *pair, cause))
