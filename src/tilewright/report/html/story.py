"""What a search has to tell beside the plan it found. Everything is optional."""

from dataclasses import dataclass
from typing import NamedTuple


class Rival(NamedTuple):
    """Another way to run the same network, or the plan itself: 'layer by layer', 'fused'."""

    name: str
    latency_cycles: int
    dram_bytes: int


class Bound(NamedTuple):
    """Cycles that no plan can undercut, and what says so: 'matrix engines', 'traffic'."""

    name: str
    cycles: int


@dataclass(frozen=True, slots=True)
class BoundaryReason:
    """Why two groups are not one. `boundary` are the tensors between them, `before` and `after` are
    group labels; `kind` is 'memory', 'halo', 'not tileable', 'limit', 'no gain', ...; the cycles
    are those of the trial that joined them."""

    boundary: str
    before: str
    after: str
    text: str
    kind: str
    trial_cycles: int | None = None


class GroupNote(NamedTuple):
    """What the search knows of one group: the share of its work that is recomputed halo, and what
    binds it."""

    group: int
    text: str
    halo_share: float
    binding: str


@dataclass(frozen=True, slots=True)
class Story:
    """The first rival named like `baseline` is what speed-ups refer to."""

    rivals: tuple[Rival, ...] = ()
    bounds: tuple[Bound, ...] = ()
    reasons: tuple[BoundaryReason, ...] = ()
    tried: str = ""  # what was not tried for the reasons
    notes: tuple[GroupNote, ...] = ()
    ablation: tuple[Rival, ...] = ()
    baseline: str = "layer by layer"
