"""What can be wrong with a plan on its way to a program."""

from tilewright.errors import TilewrightError
from tilewright.graph.graph import Node


class LoweringError(TilewrightError):
    """The plan cannot be lowered for this machine; `groups` of it are at fault, a `resident`
    tensor or a `node`, where known."""

    groups: frozenset[int] = frozenset()
    resident: str = ""
    node: str = ""


def at_node(node: Node, text: str) -> LoweringError:
    """What is wrong with where the plan puts a node."""
    error = LoweringError(text)
    error.node = node.name
    return error


class TooLargeError(LoweringError):
    """A buffer is larger than its memory."""


class NoRoomError(LoweringError):
    """A group surely needs more bytes than there are where it runs."""
