"""What legalisation did: one visible step per operator and limit."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from tilewright.graph.graph import Graph
from tilewright.units import format_bytes, format_count

CROPPED, UNCROPPED = FORMS = ("cropped", "uncropped")  # phases of a transposed convolution
SCALES = "scales"  # among rewrites: all that can be folded into weights
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
        macs, moved = f"{format_count(abs(self.macs))} MACs", format_bytes(abs(self.bytes))
        pairs = ((self.macs, macs), (self.bytes, moved))
        cost = ", ".join(f"{'-' if more < 0 else '+'}{text}" for more, text in pairs if more)
        text = f"{self.node} ({self.kind}), {self.limit}: {self.what}"
        return f"{text} ({cost})" if cost else text


def wished(rewrites: Collection[str] | None, name: str) -> tuple[bool | None, str]:
    """Whether an operator is among those to be rewritten (None: nobody said), and in which form
    (empty: as the costs say)."""
    if rewrites is None:
        return None, ""
    form = next((form for form in FORMS if f"{name}/{form}" in rewrites), "")
    return bool(form) or name in rewrites, form


def rewritten_name(entry: str) -> str:
    """The operator that an entry of `rewrites` is about."""
    name, _, form = entry.rpartition("/")
    return name if form in FORMS else entry


@dataclass(frozen=True, slots=True)
class Legalised:
    """A network whose operators the machine can run, and how it got there. `choices` are operators
    of the original (or its `SCALES`) that run as they are and rewritten, and whether they were;
    `forms` those that can be rewritten in several ways, and in which of them they were."""

    graph: Graph
    steps: tuple[LegalStep, ...]
    choices: tuple[tuple[str, bool], ...] = ()
    forms: tuple[tuple[str, str], ...] = ()

    @property
    def rewrites(self) -> tuple[str, ...] | None:
        """Operators that were rewritten though they need not be, or could be otherwise, with the
        form they have then; None where there was no choice."""
        forms = dict(self.forms)
        taken = dict.fromkeys(name for name, rewritten in self.choices if rewritten) | forms
        names = tuple(f"{name}/{forms[name]}" if name in forms else name for name in taken)
        return names if self.choices or forms else None
