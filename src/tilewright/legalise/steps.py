"""What legalisation did: one visible step per operator and limit."""

from dataclasses import dataclass
from typing import Literal

from tilewright.graph.graph import Graph
from tilewright.units import format_bytes, format_count

# rewritten: other nodes do the work. layout: memory pads it. tiling: tiles have to be cut smaller.
# vector: the vector engine runs it, which the array's limits do not bind. illegal: nothing helps.
Outcome = Literal["rewritten", "layout", "tiling", "vector", "illegal"]


@dataclass(frozen=True, slots=True)
class LegalStep:
    """A limit that a node of the original network breaks, and what was done about it.

    `macs` and `bytes` are what comes on top: multiply-accumulates, and bytes that operators read
    and write, each on its own. `made` are the nodes that took its place.
    """

    node: str
    kind: str
    limit: str
    outcome: Outcome
    what: str
    macs: int = 0
    bytes: int = 0
    made: tuple[str, ...] = ()

    def __str__(self) -> str:
        extra = [
            f"{_sign(self.macs)}{format_count(abs(self.macs))} MACs" if self.macs else "",
            f"{_sign(self.bytes)}{format_bytes(abs(self.bytes))}" if self.bytes else "",
        ]
        cost = ", ".join(text for text in extra if text)
        return f"{self.node} ({self.kind}), {self.limit}: {self.what}" + (
            f" ({cost})" if cost else ""
        )


@dataclass(frozen=True, slots=True)
class Legalised:
    """A network whose operators the machine can run, and how it got there. `choices` are operators
    of the original that run as they are and rewritten, and whether they were."""

    graph: Graph
    steps: tuple[LegalStep, ...]
    choices: tuple[tuple[str, bool], ...] = ()

    @property
    def rewrites(self) -> tuple[str, ...] | None:
        """Operators that were rewritten though they need not be; None where there was no choice."""
        taken = tuple(name for name, rewritten in self.choices if rewritten)
        return taken if self.choices else None


def _sign(number: int) -> str:
    return "-" if number < 0 else "+"
