"""Plan: which operators run together, how they are cut, and on which cores; and as YAML."""

from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from html import escape
from typing import Any

import yaml

from tilewright.errors import TilewrightError
from tilewright.tiling.grid import Shares, Split
from tilewright.units import several

Shared = tuple[tuple[str, tuple[str, ...]], ...]
"""Memories that cores share, and the values in them."""


class PlanError(TilewrightError):
    """A plan that cannot be used; the text says whose, and where."""


class Place(StrEnum):
    """Where a group runs: on the cores; in the main memory, by copies alone; or nowhere, because
    its result is a view of what is there already."""

    CORES = "cores"
    MAIN = "main"
    VIEW = "view"


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Operators that run tile by tile. The first dimension of the grid is the outermost loop;
    `core_split` is the dimension whose tiles go to the cores in turn (None: all to the first); a
    split that is crossed with it is shared among them too.
    Where `replicated`, every core computes all tiles, so that each has all of the result. `cores`
    are the names of those that it runs on (none: all of them); groups on different ones run side by
    side where nothing else orders them. They have as many of the parts along `core_split` as their
    `shares` say, in the order of the cores (none: all as many)."""

    nodes: tuple[str, ...]
    splits: tuple[Split, ...]
    core_split: int | None = None
    place: Place = Place.CORES
    replicated: bool = False
    cores: tuple[str, ...] = ()
    shares: Shares = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:  # of what differs most often: searches ask for it all the time
        object.__setattr__(self, "_hash", hash((self.nodes, self.splits, self.core_split)))
        if self.shares and (self.core_split is None or len(set(self.shares)) == 1):
            object.__setattr__(self, "shares", ())  # nothing is divided, or evenly

    def __hash__(self) -> int:
        return self._hash

    @property
    def core_splits(self) -> tuple[int, ...]:
        """The dimension that is divided among the cores, and the one that is crossed with it."""
        if self.core_split is None:
            return ()
        crossed = [k for k, s in enumerate(self.splits) if s.crossed and k != self.core_split]
        return (self.core_split, *crossed[:1])


def group_label(number: int, group: GroupPlan) -> str:
    """A group as messages about a plan file call it: `groups[3] ('conv1' ...)`."""
    first, *others = group.nodes
    return f"groups[{number}] ('{first}'{' ...' if others else ''})"


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """Decisions only: what follows from them is the Program's. `resident` tensors stay in the
    scratchpads from the group that makes them to those that read them, except for the nodes that
    `reloaded` names for a tensor: these read it from the main memory. `shared` names memories that
    all cores reach, and the tensors that pass through them instead of the main memory. It is one of
    a network whose nodes are repeated for so many `images`, but for those that stay `batched`. It
    takes no more than `memory_limit` bytes of each on-chip memory (None: all there are).
    `rewrites` are operators that its network has rewritten though the machine runs them as they are
    (None: which ones, the machine decides).
    `notes` are remarks of who read it from a file."""

    model: str
    machine: str
    dtype: str
    groups: tuple[GroupPlan, ...]
    resident: tuple[str, ...] = ()
    reloaded: tuple[tuple[str, tuple[str, ...]], ...] = ()
    shared: Shared = ()
    images: int = 1
    batched: tuple[str, ...] = ()
    memory_limit: int | None = None
    rewrites: tuple[str, ...] | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        groups, kept = len(self.groups), several(len(self.resident), "resident tensor")
        where = f"{self.model!r} on {self.machine!r}, {self.dtype}"
        return f"Plan({where}: {several(groups, 'group')}, {kept})"

    def __str__(self) -> str:
        return plan_text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(plan_text(self))}</pre>"


def moved_to_cores(plan: Plan, cores: tuple[str, ...], nodes: Set[str] | None = None) -> Plan:
    """A plan whose groups, or those with some of the nodes, run on given cores, in the shares that
    they have where these are as many."""
    groups = (
        replace(group, cores=cores, shares=group.shares if len(group.shares) == len(cores) else ())
        if group.place is Place.CORES and (nodes is None or not nodes.isdisjoint(group.nodes))
        else group
        for group in plan.groups
    )
    return replace(plan, groups=tuple(groups))


def by_memory(rows: Iterable[tuple[str, Iterable[str]]]) -> Shared:
    """Values in memories that cores share: each memory once, those without any left out."""
    found: dict[str, list[str]] = {}
    for memory, names in rows:
        found.setdefault(memory, []).extend(names)
    return tuple((memory, tuple(names)) for memory, names in found.items() if names)


def plan_text(plan: Plan) -> str:
    """The plan as YAML, stable and readable."""
    document = {
        "model": plan.model,
        "machine": plan.machine,
        "dtype": plan.dtype,
        "images": plan.images if plan.images > 1 else None,
        "batched": list(plan.batched) or None,
        "memory_limit": plan.memory_limit,
        "rewrites": None if plan.rewrites is None else list(plan.rewrites),
        "groups": [_given(_group_entry(group)) for group in plan.groups],
        "resident": list(plan.resident) or None,
        "reloaded": {name: list(nodes) for name, nodes in plan.reloaded} or None,
        "shared": {memory: list(names) for memory, names in plan.shared} or None,
    }
    return yaml.safe_dump(_given(document), sort_keys=False, default_flow_style=None, width=100)


def _group_entry(group: GroupPlan) -> dict[str, Any]:
    splits = [
        {"axis": s.axis, "parts": s.parts, "halo": s.halo.value}
        | ({"grain": s.grain} if s.grain > 1 else {})
        for s in group.splits
    ]
    both = list(group.core_splits)
    return {
        "nodes": list(group.nodes),
        "splits": splits or None,
        "core_split": both if len(both) > 1 else group.core_split,
        "replicated": group.replicated or None,
        "cores": list(group.cores) or None,
        "shares": list(group.shares) or None,
        "place": None if group.place is Place.CORES else group.place.value,
    }


def _given(entry: dict[str, Any]) -> dict[str, Any]:
    """What says something: nothing stands in a file for what is left out."""
    return {key: value for key, value in entry.items() if value is not None}
