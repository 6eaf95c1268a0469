"""What can be wrong with a plan on its way to a program."""

from tilewright.errors import TilewrightError


class LoweringError(TilewrightError):
    """The plan cannot be lowered for this machine; `groups` of it are at fault, or a `resident`
    tensor, where known."""

    groups: frozenset[int] = frozenset()
    resident: str = ""


class TooLargeError(LoweringError):
    """A buffer is larger than its memory."""


class NoRoomError(LoweringError):
    """A group surely needs more bytes than there are where it runs."""
