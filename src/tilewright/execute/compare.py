"""Does a rewritten model give the original's numbers?"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.errors import VerificationError
from tilewright.graph.graph import Array

TOLERANCE = 1e-5  # of the largest magnitude of an output


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest difference over all outputs, absolute and relative to the output's largest."""

    max_abs_error: float
    max_rel_error: float


def compare(
    expected: Mapping[str, Array], actual: Mapping[str, Array], tolerance: float = TOLERANCE
) -> Difference:
    """Compare outputs: integers must be equal, floats within the tolerance. Raises if not."""
    worst_abs = worst_rel = 0.0
    for name, reference in expected.items():
        result = actual.get(name)
        if result is None:
            raise VerificationError(f"output '{name}' of the original is not there")
        if result.shape != reference.shape:
            raise VerificationError(
                f"output '{name}' has shape {result.shape}, the original's is {reference.shape}"
            )
        if reference.size == 0:
            continue
        if not np.issubdtype(reference.dtype, np.floating):
            if not np.array_equal(reference, result):
                raise VerificationError(f"output '{name}' differs from the original's")
            continue
        a, b = result.astype(np.float64), reference.astype(np.float64)
        finite = np.isfinite(b)
        if not np.array_equal(np.isfinite(a), finite):
            raise VerificationError(f"output '{name}' is not finite where the original's is")
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            raise VerificationError(f"output '{name}' has other infinities than the original's")
        absolute = float(np.max(np.abs(a[finite] - b[finite]), initial=0.0))
        largest = float(np.max(np.abs(b), where=finite, initial=0.0))
        relative = absolute / largest if largest else absolute
        if relative > tolerance:
            raise VerificationError(
                f"output '{name}' differs by {relative:.1e} of its largest value, "
                f"more than {tolerance:.0e}"
            )
        worst_abs, worst_rel = max(worst_abs, absolute), max(worst_rel, relative)
    return Difference(worst_abs, worst_rel)
