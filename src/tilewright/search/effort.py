"""How much a search looks at, as a user asks for it."""

from enum import StrEnum

from tilewright.errors import TilewrightError


class Effort(StrEnum):
    """Counted in plans that are simulated, never in seconds: equal efforts give equal plans."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"

    @property
    def steps(self) -> tuple["Effort", ...]:
        """It and all that are smaller, the smallest first: each goes on where the one before it
        ended, so none finds less than a smaller one."""
        efforts = tuple(Effort)
        return efforts[: efforts.index(self) + 1]


def effort_of(effort: Effort | None, fast: bool) -> Effort:
    """What is asked for by `effort`, or by `fast`, its older name for low."""
    if fast and effort not in (None, Effort.LOW):
        raise TilewrightError(f"fast is effort low: give either it or effort {effort}, not both")
    return Effort.LOW if fast else effort or Effort.NORMAL
