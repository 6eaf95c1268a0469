"""What planning gives: a plan, what became of it, and how its execution went."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.execute.compare import Difference, Failure
from tilewright.graph.graph import Array, Graph
from tilewright.legalise import LegalStep
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan
from tilewright.program.account import Account
from tilewright.program.place import Placed
from tilewright.search.bounds.bounds import Bounds
from tilewright.search.explanation.ablation import Ablation
from tilewright.search.fusion import Found
from tilewright.search.grouping.patterns import Pattern

Arrays = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Numbers:
    """What an execution took in and has to give. `zoo` names the network whose seeded weights are
    `weights`; it is None where they are the model's own, or seeded into a file's empty ones.
    `as_written`: onnxruntime made `expected` with its optimiser off. `steps`: `expected` is what an
    execution gave that was judged by steps, so far from what onnxruntime gave."""

    seed: int
    zoo: str | None
    seeded: bool
    inputs: Arrays
    weights: Arrays
    expected: Arrays
    as_written: bool = False
    steps: Difference | None = None


class Verified(NamedTuple):
    """An execution that gave the original's numbers."""

    difference: Difference
    tasks: int


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan for a (legalised) network, what became of it, what no plan can undercut, what a search
    compared it with, and (unless left out) the proof that it runs: `verified`, or the `failure` of
    an execution, or `unproven` where that was interrupted. `legalisation` is what was done to the
    network before; `notes` are remarks for the user, `warnings` what makes the figures less than
    they seem; `without` are passes left out."""

    plan: Plan
    machine: Machine
    graph: Graph
    placed: Placed
    account: Account
    bounds: Bounds
    found: Found | None
    numbers: Numbers | None = None
    verified: Verified | None = None
    legalisation: tuple[LegalStep, ...] = ()
    notes: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    patterns: tuple[Pattern, ...] = ()
    ablation: Ablation | None = None
    failure: Failure | None = None
    warnings: tuple[str, ...] = ()
    unproven: bool = False
