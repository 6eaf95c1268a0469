"""Other ways to cut the groups of a plan, those first that lose most on the simulator.

The additive model cuts every group for itself. What the cut does to its neighbours (what has to be
passed on, how early constants can be fetched) only the simulator sees: so groups are cut anew, one
kind after the other, and simulated. Groups that look alike and are cut alike change together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.program.timed import Timed
from tilewright.search.candidates.candidate import Candidates
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.tiles import USABLE_SHARE, Estimate, Tiler
from tilewright.search.improvement.cuts import MOST, by_axis
from tilewright.search.improvement.improve import added_cycles
from tilewright.tiling.group import TiledOp

RANKS = (slice(0, 3), slice(3, 12))  # of the ways to cut each kind: these first, then these
Key = tuple[object, ...]
"""Groups with the same key cost the same."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Groups that look alike and are cut alike, by number; cycles that they take beyond the least
    their operators need; and other ways to cut them."""

    groups: tuple[int, ...]
    loss: float
    estimates: tuple[Estimate, ...]

    def changed(self, plan: Plan, estimate: Estimate) -> Plan:
        """The plan with these groups cut in another way."""
        groups = list(plan.groups)
        for number in self.groups:
            groups[number] = estimate.plan(groups[number].nodes)
        return replace(plan, groups=tuple(groups))


def estimates_of(kinds: Sequence[Kind], rank: slice) -> Iterator[tuple[Kind, Estimate]]:
    """Each kind with some of its ways."""
    return ((kind, estimate) for kind in kinds for estimate in kind.estimates[rank])


class Refiner:
    """Finds changes of plans of one network."""

    def __init__(self, network: Network, candidates: Candidates) -> None:
        self.network, self.candidates = network, candidates
        self.tiler: Tiler = candidates.tiler
        self._known: dict[Key, tuple[Estimate, ...]] = {}

    def kinds(self, plan: Plan, timed: Timed) -> list[Kind]:
        """The groups of a plan by kind, those that lose most first."""
        memories = self.network.machine.memories
        main = memories.index(self.network.machine.main_memory)
        added = added_cycles(timed, len(plan.groups), main)
        rows: dict[Key, list[int]] = {}
        options: dict[Key, tuple[Estimate, ...]] = {}
        for number, group in enumerate(plan.groups):
            if group.place is not Place.CORES:
                continue
            signature, estimates = self._estimates(plan, group)
            kind = (signature, group.splits, group.core_split, group.replicated)
            rows.setdefault(kind, []).append(number)
            if kind not in options:
                near = self._near(group) if len(self._units(group)) > 1 else ()
                found = dict.fromkeys((*near, *estimates))
                options[kind] = tuple(
                    estimate for estimate in found if estimate.plan(group.nodes) != group
                )
        kinds = [
            Kind(tuple(row), sum(added[n] for n in row) - self._least(plan, row), options[kind])
            for kind, row in rows.items()
        ]
        return sorted(kinds, key=lambda kind: -kind.loss)

    def _least(self, plan: Plan, groups: Sequence[int]) -> float:
        """The fewest cycles in which the groups' operators can be computed."""
        return sum(
            self.candidates.sections.least(unit)[1]
            for number in groups
            for unit in self._units(plan.groups[number])
        )

    def _units(self, group: GroupPlan) -> list[int]:
        graph, home = self.network.graph, self.network.home
        return sorted({home[graph.index[name]] for name in group.nodes})

    def _near(self, group: GroupPlan) -> Iterator[Estimate]:
        """The same cut with a few parts more or less; whether it fits, the simulator says."""
        ops = self.network.joined_ops(self._units(group))
        exported = self.tiler.exported([self.network.graph.index[t.node.name] for t in ops])
        for number, split in enumerate(group.splits):
            step = self.tiler.cores if number == group.core_split else 1
            for parts in (split.parts - step, split.parts + step):
                if parts < max(2, step):
                    continue
                splits = list(group.splits)
                splits[number] = replace(split, parts=parts)
                estimate = self.tiler.estimate(ops, exported, tuple(splits), group.core_split)
                if estimate is not None:
                    yield estimate

    def _estimates(self, plan: Plan, group: GroupPlan) -> tuple[Key, tuple[Estimate, ...]]:
        """What a group looks like to a cost, and ways to cut it."""
        graph = self.network.graph
        units = self._units(group)
        ops = self.network.joined_ops(units)
        here = {tiled.node.name for tiled in ops}
        fetched = {name for name, readers in plan.reloaded if here & set(readers)}
        names = [n for tiled in ops for n in (*tiled.node.inputs, *tiled.node.outputs)]
        kept = frozenset(n for n in names if n in plan.resident and n not in fetched)
        signatures = tuple(self.candidates.sections.signature(unit) for unit in units)
        signature = (signatures, tuple(name in kept for name in names))
        if signature not in self._known:
            nodes = [graph.index[tiled.node.name] for tiled in ops]
            exported = self.tiler.exported(nodes)
            self._known[signature] = tuple(
                self._options(ops, exported, kept, single=len(units) == 1)
            )
        return signature, self._known[signature]

    def _options(
        self,
        ops: tuple[TiledOp, ...],
        exported: Mapping[str, bool],
        kept: frozenset[str],
        *,
        single: bool,
    ) -> Iterator[Estimate]:
        """The best cut along each axis first, then the second best, and so on."""
        limit = int(self.tiler.usable * USABLE_SHARE)
        if not single:
            yield from self.tiler.fused(ops, dict(exported), limit)[:MOST]
            return
        yield from by_axis(self.tiler.options(ops, dict(exported), kept), limit)
