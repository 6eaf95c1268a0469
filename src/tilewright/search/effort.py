"""How much a search looks at, as a user asks for it."""

from enum import StrEnum


class Effort(StrEnum):
    """Counted in plans that are simulated, never in seconds: equal efforts give equal plans."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"

    @property
    def smaller(self) -> "Effort | None":
        """The next smaller one: what it finds, a search of this one begins with."""
        efforts = list(Effort)
        number = efforts.index(self)
        return efforts[number - 1] if number else None
