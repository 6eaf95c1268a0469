"""How long work says what it is doing."""

from typing import Protocol


class Tell(Protocol):
    """Hears what is being done, and where it is known the share that is done."""

    def __call__(self, text: str, share: float | None = None, /) -> None: ...


def silent(text: str, share: float | None = None, /) -> None:
    """Nobody listens."""
