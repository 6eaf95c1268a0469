"""The fusion search: groups by dynamic programming on the additive model, then the simulator.

The additive model knows no overlap between groups; it only proposes. Every plan that is compared
is lowered, placed and simulated, and the simulator's cycles are the only ones reported.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf

from tilewright.errors import TilewrightError
from tilewright.garbage import seldom_collected
from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan, moved_to_cores
from tilewright.program.faults import LoweringError
from tilewright.program.lower import lowered
from tilewright.program.lowering import Lowering
from tilewright.program.metrics import Metrics, Objective, metrics_of, metrics_of_placed
from tilewright.program.place import DoesNotFitError
from tilewright.program.timed import Timed
from tilewright.search.bounds.bounds import busy_cycles
from tilewright.search.candidates.candidate import Candidates, NoPlanFitsError, NoTileFitsError
from tilewright.search.candidates.core_sets import kinds_of_cores, parts_of_cores
from tilewright.search.candidates.layers import with_room
from tilewright.search.candidates.network import Network
from tilewright.search.candidates.tiles import TILES
from tilewright.search.climbs import Climbs
from tilewright.search.effort import Effort
from tilewright.search.found import Found, Trial
from tilewright.search.grouping.patterns import Pattern, PatternSpace
from tilewright.search.improvement.boundaries import TIE, Joins
from tilewright.search.improvement.cuts import Cuts
from tilewright.search.improvement.improve import Improver, evaluations_of
from tilewright.search.improvement.moves import Moves
from tilewright.search.least_memory import LeastMemory
from tilewright.search.objectives import search_all
from tilewright.search.progress import Tell, silent
from tilewright.search.proposals import Proposals
from tilewright.search.sharing import sharing_one_more, sharing_plans
from tilewright.units import noun

SLOWER = 1.5  # times that a change of a group may be estimated to take longer, to be simulated
RIVALS = ("layer by layer", "greedy merge")
STAGES = ["greedy merging", "groupings by estimate", "improvements"]


class Fusion:
    """One search."""

    def __init__(
        self,
        graph: Graph,
        machine: Machine,
        dtype: str,
        model: str,
        objective: Objective = Objective.LATENCY,
        *,
        without: frozenset[str] = frozenset(),
        patterns: Sequence[Pattern] = (),
        progress: Tell = silent,
    ) -> None:
        self.graph, self.machine, self.model = graph, machine, model
        self.network = Network(graph, machine, dtype)
        self.lowering = Lowering(graph, machine, dtype, without)
        self.objective, self.without = objective, without
        self.candidates = self._made_candidates(self.network)
        self.space = PatternSpace(self.candidates, patterns)
        self.proposals = Proposals(self, self.candidates, self.space)
        self.patterns, self.progress = patterns, progress
        self.trials: list[Trial] = []
        self.starts: list[Trial] = []  # the best proposals of each kind
        self.outside: list[Trial] = []  # rivals that patterns of the user do not allow
        self.at_fault: frozenset[int] = frozenset()  # groups of the last plan that do not fit
        self.remedies = True  # for the first plan, where it does not fit without
        self.exact = False  # until searches for all objectives looked at all groups
        self.simulated = self.looked_at = self.tasks = 0  # plans, groups; to time a plan
        self.given, self.portion = tuple[Trial, ...](), 1.0  # plans found before, of a whole search
        self.reached: list[Effort] = []  # efforts that were made
        self.worst = inf  # score of what they found
        self.rivals: tuple[Trial, ...] = ()  # of the search for the fastest plan, if it ran
        self.elsewhere: list[Trial] = []  # layer by layer, of other forms of the network
        self.done: list[str] = []
        self.climbs: Climbs | None = None
        self.improving = (0, 0)  # plans simulated, of how many
        self.within: LeastMemory | None = None  # the search for little memory, if it began
        self.spent = 0  # plans of the next effort that searches of other forms have looked at
        self.ended = False  # by an interrupt before it ran
        self.ended_in = ""  # what searches for all objectives had not looked at when they ended

    def run(self, effort: Effort = Effort.NORMAL, *, fast: bool = False) -> Found:
        """Search, simulate, improve; a second time with a larger effort it goes on. An interrupt
        ends it with the best plan so far, if any. `fast` is low effort by an older name."""
        effort = Effort.LOW if fast else effort
        interrupted = False
        try:
            if self.ended:
                raise KeyboardInterrupt
            with seldom_collected():
                self._search(effort)
        except KeyboardInterrupt:
            if not self.trials:
                raise
            interrupted = True
        return Found(
            self.best(),
            tuple(self._compared()),
            self.exact or self.proposals.exact,
            self.looked_at,
            self.simulated,
            interrupted,
            self._left_out() if interrupted else "",
            self.objective,
        )

    def layer_by_layer(self) -> list[Trial]:
        """The plan to begin with, if there is one."""
        known = (*self.rivals, *self.outside, *self.trials)
        return [trial for trial in known if trial.name == RIVALS[0]][:1]

    def _compared(self) -> Iterator[Trial]:
        """What the best plan is compared with: layer by layer of the form of the network that is
        best so."""
        layers = [*self.layer_by_layer(), *self.elsewhere]
        yield from sorted(layers, key=lambda trial: trial.cycles)[:1]
        known = self.rivals or self.trials
        yield from (trial for trial in known if trial.name in RIVALS[1:])

    def improved(self, start: Trial, evaluations: int) -> Trial:
        """What moves make of a plan found elsewhere."""
        self.trials.append(start)
        self.improving = (0, evaluations)
        self._made_climbs().improve(evaluations, lambda: None)
        return self.best()

    def _left_out(self) -> str:
        """What an interrupt left out, in words."""
        if self.ended_in:
            return self.ended_in
        left = [what for what in STAGES if what not in self.done]
        if left == STAGES[-1:] and self.improving[1]:
            done, all_of_them = self.improving
            return f"{all_of_them - done:,} of {all_of_them:,} {STAGES[-1]}"
        return ", ".join(left)

    def begin(self) -> None:
        """Layer by layer: a plan to begin with, or what to compare with where patterns fuse."""
        if self.trials:
            return
        self.progress("layer by layer, as a start")
        self.space.check()
        plan = with_room(self.candidates, self.lowering, self.model, self.progress)
        rival = self._trial("layer by layer", plan, self.space.singles)
        known = self.outside if self.space.forced else self.trials
        known += [rival] if rival is not None else []
        if self.space.forced:
            self.proposals.attempt("patterns alone", self.space.singles)

    def _search(self, effort: Effort) -> None:
        """Propose once, then improve step by step."""
        self.begin()
        if self.objective is not Objective.LATENCY and not self.given:
            self._all_objectives(effort)
            return
        self.trials += [trial for trial in self.given if trial not in self.trials]
        if self.objective is Objective.MEMORY:
            self._search_within(effort)
            return
        self.propose()
        done = 0
        for step in effort.steps:
            plans = evaluations_of(step, self.tasks)
            if step not in self.reached:
                self.improving = (done, max(plans, evaluations_of(effort, self.tasks)))
                evaluations = int(max(0, plans - done - self.spent) * self.portion)
                self.spent = 0
                self.climbs = self.climbs or self._made_climbs()
                self.climbs.improve(evaluations, lambda: None if self.reached else self._on_fewer())
                self._share()
                self.worst = self.best().score(self.objective)
                self.reached.append(step)
            done = plans

    def _search_within(self, effort: Effort) -> None:
        """The fastest plan within the fewest bytes of every memory that layer by layer fits in."""
        if self.within is None:
            most = min(trial.metrics.peak_bytes for trial in self.trials)
            self.within = LeastMemory(self._limited, most, self.evaluate)
        before = self.within.search.simulated
        found = self.within.run(effort)
        self.simulated += self.within.search.simulated - before
        self.trials += [found.best] if found is not None else []
        if found is not None and found.interrupted:
            raise KeyboardInterrupt

    def _limited(self, limit: int) -> "Fusion":
        """The search for the fastest plan within a limit of memory, layer by layer tried."""
        self.progress("how little memory layer by layer fits in")
        machine = self.machine.within(limit)
        search = self.like(machine=machine, objective=Objective.LATENCY)
        search.remedies, search.candidates.most_tiles = False, TILES
        with suppress(NoTileFitsError):
            search.begin()
        self.simulated += search.simulated
        return search

    def propose(self) -> None:
        """What merging greedily makes, and the best groupings of the additive model; once with
        data movement in the main memory, and once with it on the cores, which is a second start of
        the improvement where it is better. The better of both also with less of the scratchpads."""
        if STAGES[1] in self.done:
            return
        self.begin()
        known = len(self.trials)
        self.proposals.merge("greedy merge")
        self.done.append(STAGES[0])
        self.proposals.group(known)
        self.starts, ahead = [self.best()], self.proposals
        known = len(self.trials)
        with suppress(TilewrightError):
            moving = self._propose_moving(known)
            if self.best() in self.trials[known:] and moving is not None:
                self.starts.append(self.best())
                ahead = moving
        ahead.shrink("fused, in a part of the scratchpads", self.best)
        self.starts[-1] = self.best()
        self.done.append(STAGES[1])
        self.tasks = self.best().metrics.run_tasks

    def _propose_moving(self, known: int) -> Proposals | None:
        """The same for data movement on the cores, unless what it makes is stored and loaded within
        a tie; patterns are of units without it."""
        network = self.network.moving_on_cores()
        most = 2 * network.moved_bytes / self.candidates.tiler.rate
        if self.patterns or most <= TIE * self.best().cycles:
            return None
        candidates = self._made_candidates(network)
        proposals = Proposals(self, candidates, PatternSpace(candidates))
        proposals.merge("fused, moved on the cores")
        proposals.group(known)
        return proposals

    def _on_fewer(self) -> Trial | None:
        """What the smallest effort finds for some cores alone, unless their engines are busy for
        longer than the best plan takes, or what is proposed for them would have to be improved by
        more than twice as many percent as this search's own: for those of the kind with the best
        proposal where cores differ, else for half of them. Searches for other objectives are given
        what the one for the fastest plan finds."""
        alone: list[Fusion] = []
        if self.patterns or self.objective is not Objective.LATENCY:
            return None
        for names in kinds_of_cores(self.network) or parts_of_cores(self.network)[:1]:
            machine = self.machine.part(names)
            if not self._may_be_faster(machine):
                continue
            other = self.like(machine=machine)
            other.progress = self._told(
                f"what {len(names)} {noun(len(names), 'core')} alone could do"
            )
            with suppress(TilewrightError):
                other.propose()
                alone.append(other)
            self.simulated += other.simulated
            self.looked_at += other.looked_at
        if not alone:
            return None
        chosen = min(alone, key=lambda other: other.best().score(self.objective))
        begun, best = (min(trial.metrics.cycles for trial in t) for t in (self.starts, self.trials))
        if chosen.best().cycles * best >= begun * begun:
            return None
        before = chosen.simulated
        found = chosen.run(Effort.LOW)
        self.simulated += found.simulated - before
        names, plan = tuple(core.name for core in chosen.machine.cores), found.best.plan
        anywhere = {name for group in plan.groups if not group.cores for name in group.nodes}
        plan = replace(moved_to_cores(plan, names, anywhere), machine=self.machine.name)
        trial = self.tried(f"fused, on {', '.join(names)}", plan, found.best.groups)
        if found.interrupted:
            raise KeyboardInterrupt
        return trial

    def _may_be_faster(self, machine: Machine) -> bool:
        """Whether the best plan takes longer than the engines of a machine have to work."""
        try:
            return busy_cycles(self.graph, machine, self.network.dtype) < self.best().cycles
        except TilewrightError:  # it cannot run it all
            return False

    def _told(self, what: str) -> Tell:
        """Tells of a search within this one: what it is for, not how far it is."""

        def tell(text: str, share: float | None = None, /) -> None:
            self.progress(what)

        return tell

    def like(
        self,
        *,
        graph: Graph | None = None,
        machine: Machine | None = None,
        objective: Objective | None = None,
    ) -> "Fusion":
        """The same search for another network, machine or objective."""
        other = Fusion(
            graph or self.graph,
            machine or self.machine,
            self.network.dtype,
            self.model,
            objective or self.objective,
            without=self.without,
            patterns=self.patterns,
            progress=self.progress,
        )
        if graph is None and machine is None:  # what plans become is the same for all objectives
            other.lowering = self.lowering
        return other

    def _all_objectives(self, effort: Effort) -> None:
        """What searches for all objectives find, this one's included."""
        pool = search_all(lambda objective: self.like(objective=objective), effort, self.objective)
        self.trials, self.rivals = [*self.trials, *pool.trials], pool.found[0].rivals
        self.exact = pool.found[-1].exact
        self.looked_at += sum(found.groups_looked_at for found in pool.found)
        self.simulated += sum(found.simulated for found in pool.found)
        if pool.interrupted:
            self.ended_in = pool.not_looked_at
            raise KeyboardInterrupt

    def _share(self) -> None:
        """Values that still go through the main memory in one that the cores share, as many of them
        as fit: the largest last, or not at all; then one more, as long as that is better."""
        network, may_stay = self.network, self.space.may_stay
        for memory in reversed(self.machine.on_chip):
            groups, name = self.best().groups, f"fused, through {memory.name}"
            for plan in sharing_plans(network, may_stay, self.best().plan, memory.name):
                if self.tried(name, plan, groups):
                    break
            for plan in sharing_one_more(network, may_stay, memory.name, lambda: self.best().plan):
                self.tried(name, plan, self.best().groups)

    def _made_candidates(self, network: Network) -> Candidates:
        """Ways to run groups of a network, with the passes that there are."""
        candidates = Candidates(network, self.objective)
        candidates.tiler.pipelines = "pipelining" not in self.without
        candidates.tiler.costs.reshapes = "implicit-reshape" not in self.without
        return candidates

    def _made_climbs(self) -> Climbs:
        """What improves the best plan."""
        joins = Joins(self.network, self.candidates.tiler)
        return Climbs(self, self._made_improver, joins, RIVALS)

    def _made_improver(self, seed: int) -> Improver:
        """What makes moves, and learns which of them pay."""
        space, objective = self.space, self.objective
        cuts = Cuts(self.network, self.candidates.tiler, self.lowering.context.signatures)
        slower = SLOWER if objective is Objective.LATENCY else inf
        joins = not (space.forced or space.apart)
        moves = Moves(cuts, space.may_stay, joins=joins, slower=slower)
        sections = self.candidates.sections
        return Improver(moves, sections, self.lowering, self.evaluate, objective, seed)

    def tried(self, name: str, plan: Plan, groups: tuple[int, ...]) -> Trial | None:
        """A trial that counts: it may become the best."""
        trial = self._trial(name, plan, groups)
        self.trials += [trial] if trial is not None else []
        return trial

    def _trial(self, name: str, plan: Plan, groups: tuple[int, ...]) -> Trial | None:
        metrics = self.evaluate(plan)
        return None if metrics is None else Trial(name, plan, groups, metrics)

    def evaluate(self, plan: Plan) -> Metrics | None:
        """What a plan costs, or None where it does not fit; only the first plan is made to."""
        first, self.at_fault = self.remedies and not self.trials, frozenset()
        self.simulated += 1
        try:
            found = self.lowering.timed(plan)
            if isinstance(found, Timed):
                return metrics_of(found)
            self.at_fault = found.groups
            if first:
                placed = lowered(self.graph, self.machine, plan, lowering=self.lowering)
                return metrics_of_placed(placed, self.machine.main_memory.name)
        except TilewrightError as error:
            if isinstance(error, DoesNotFitError | LoweringError):
                self.at_fault = error.groups
        return None

    def best(self, among: Sequence[Trial] = ()) -> Trial:
        """The best by the objective, of all or of some; of those within a tie, the one with the
        fewest bytes."""
        trials = among or self.trials
        if not trials:
            raise self._why_none()
        least = min(trial.score(self.objective) for trial in trials)
        tie = TIE if self.objective is Objective.LATENCY else 0.0
        most = max(least, min(least * (1 + tie), self.worst))
        close = [t for t in trials if t.score(self.objective) <= most]
        return min(close, key=lambda t: (t.dram_bytes, t.cycles))

    def _why_none(self) -> NoPlanFitsError:
        """Why not even the plainest plan can be lowered."""
        why = ""
        try:
            plan = self.space.plan(self.model, self.space.singles)
            lowered(self.graph, self.machine, plan, lowering=self.lowering)
        except TilewrightError as error:
            why = str(error)
        forced = " with its patterns fused" if self.space.forced else ""
        return NoPlanFitsError(f"no plan of {self.model}{forced}", self.machine.name, why)
