"""How well a plan did when it was executed, in a line."""

from tilewright.planning import Planned
from tilewright.units import noun

REFERENCES = {
    False: "onnxruntime",
    True: "onnxruntime, operators as written (its fusions round elsewhere)",
}


def verified_line(planned: Planned) -> str:
    """Whether the plan was executed, and how well it did."""
    verified = planned.verified
    if verified is None:
        return "not executed (--no-verify); validated only"
    return (
        f"verified: {verified.tasks} {noun(verified.tasks, 'task')} executed at "
        f"{noun(verified.tasks, 'its address', 'their addresses')}; largest difference "
        f"{verified.difference.max_rel_error:.1e} of the largest output, "
        f"compared with {REFERENCES[as_written(planned)]}"
    )


def as_written(planned: Planned) -> bool:
    """Whether onnxruntime ran the original with its optimiser off."""
    return planned.numbers is not None and planned.numbers.as_written
