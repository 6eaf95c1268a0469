"""How well a plan did when it was executed, in a line."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from tilewright.planning import Failure, Planned, Verified
from tilewright.units import noun, several

UNVERIFIED = "UNVERIFIED"  # how outputs mark a run that gave other numbers than the original
REFERENCES = {
    False: "onnxruntime",
    True: "onnxruntime, operators as written (its fusions round elsewhere)",
}


def verified_line(planned: Planned) -> str:
    """Whether the plan was executed, and how well it did."""
    if planned.unproven:
        return "not executed: interrupted; validated only"
    return proof_line(planned.verified, planned.failure, REFERENCES[as_written(planned)])


def proof_line(verified: Verified | None, failure: Failure | None, reference: str) -> str:
    """The same of any execution, compared with what `reference` gave."""
    if failure is not None:
        return f"{UNVERIFIED}: {failure.told()}"
    if verified is None:
        return "not executed, as asked; validated only"
    return (
        f"verified: {several(verified.tasks, 'task')} executed at "
        f"{noun(verified.tasks, 'its address', 'their addresses')}; largest difference "
        f"{verified.difference.max_rel_error:.1e} of the largest output, "
        f"compared with {reference}"
    )


def mark(failure: Failure | None) -> str:
    """What stands beside the name of a run: nothing, or that its numbers are wrong."""
    return "" if failure is None else f" ({UNVERIFIED})"


def titled(planned: Planned) -> str:
    """What a plan is called: its network, its machine, and whether its numbers are wrong."""
    return f"{planned.plan.model} on {planned.machine.name}{mark(planned.failure)}"


def failure_json(failure: Failure | None) -> dict[str, Any] | None:
    """What is wrong with the numbers of an execution, for a program; None where nothing is."""
    if failure is None:
        return None
    return {
        "fault": failure.fault,
        "tensor": failure.tensor or None,
        "place": list(failure.place),
        "expected": _number(failure.expected),
        "actual": _number(failure.actual),
        "likely_cause": failure.cause or None,
    }


def failure_of(row: Mapping[str, Any] | None) -> Failure | None:
    """Read what `failure_json` gave."""
    if row is None:
        return None
    expected, actual = (None if row[k] is None else float(row[k]) for k in ("expected", "actual"))
    place = tuple(int(i) for i in row["place"])
    tensor, cause = row["tensor"] or "", row["likely_cause"] or ""
    return Failure(str(row["fault"]), tensor, place, expected, actual, cause)


def _number(value: float | None) -> float | str | None:
    """JSON has no infinities."""
    return value if value is None or isfinite(value) else str(value)


def as_written(planned: Planned) -> bool:
    """Whether onnxruntime ran the original with its optimiser off."""
    return planned.numbers is not None and planned.numbers.as_written
