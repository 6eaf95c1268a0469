"""What a search gives back: plans as the simulator sees them."""

from dataclasses import dataclass

from tilewright.plan.plan import Plan
from tilewright.program.metrics import Metrics, Objective, score


@dataclass(frozen=True, slots=True)
class Trial:
    """A plan as the simulator sees it; `groups` are the units of each group as bitmasks."""

    name: str
    plan: Plan
    groups: tuple[int, ...]
    metrics: Metrics

    @property
    def cycles(self) -> int:
        """Latency."""
        return self.metrics.cycles

    @property
    def dram_bytes(self) -> int:
        """Bytes from and to the main memory."""
        return self.metrics.dram_bytes

    def score(self, objective: Objective) -> float:
        """What the search wants least of."""
        return score(self.metrics, objective)


@dataclass(frozen=True, slots=True)
class Found:
    """The best plan, and those it was compared with. `exact`: no grouping of the additive model is
    better than the one proposed; `not_looked_at` says what an interrupt left out."""

    best: Trial
    rivals: tuple[Trial, ...]
    exact: bool
    groups_looked_at: int
    simulated: int
    interrupted: bool = False
    not_looked_at: str = ""
    objective: Objective = Objective.LATENCY
