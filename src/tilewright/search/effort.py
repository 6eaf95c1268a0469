"""How much a search looks at, as a user asks for it."""

from enum import StrEnum


class Effort(StrEnum):
    """Counted in plans that are simulated, never in seconds: equal efforts give equal plans."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
