"""From files to a plan that ran: the steps of `tilewright plan --mapping`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import numpy as np

from tilewright.errors import TilewrightError, VerificationError
from tilewright.execute.compare import Comparison, compared
from tilewright.execute.runtime import run
from tilewright.execute.vm import VirtualMachine
from tilewright.frontend.save import serialize
from tilewright.frontend.weights import seeded_inputs
from tilewright.graph.graph import Graph
from tilewright.manycore.bounds import Allowed
from tilewright.manycore.costs import IMPOSSIBLE, given_costs, own_costs
from tilewright.manycore.decide import LayerCuts, choices_of
from tilewright.manycore.evaluate import Evaluator, ShapeCosts, TimedAllocation, Unfit
from tilewright.manycore.fabric import Fabric, fabric_of
from tilewright.manycore.files import InputFileError
from tilewright.manycore.lower import Lowered, NoAddressesError, lower
from tilewright.manycore.mapping import read_mapping
from tilewright.manycore.read_hardware import read_accelerator
from tilewright.manycore.search import CLIMB, WORK, AllocationSearch, FoundAllocation
from tilewright.manycore.tiles import TileGraph, build_tiles
from tilewright.manycore.workload import LayerGraph, workload_of
from tilewright.planning.proof import TOLERANCE, UNPROVEN, executing, validate
from tilewright.planning.result import Failure, Verified
from tilewright.search.progress import Tell, silent

SHARES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
"""Of every memory, until addresses are found for all that is held at once."""
ROOMS = (1.0, 0.8, 0.6, 0.4)
"""Of every memory, that a tile may fill: less where addresses are not found even so."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another way to cut the layers that was looked at, and what it takes."""

    name: str
    latency: int | None


@dataclass(frozen=True, slots=True)
class CorePlan:
    """A plan on many cores: decisions, times, program and proof. `lowered` is the program with its
    final writes, whatever `evaluator` leaves out. `outcome` is what an execution gave; where the
    search was `interrupted`, it is the best plan so far; where the execution was, `unproven`."""

    model: str
    workload: LayerGraph
    fabric: Fabric
    choice: LayerCuts
    evaluator: Evaluator
    found: FoundAllocation
    lowered: Lowered
    fused: bool
    costs_from: Path | None
    objective: str
    outcome: Comparison | None
    notes: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    interrupted: bool = False
    unproven: bool = False

    @property
    def best(self) -> TimedAllocation:
        """The allocation that was chosen, timed."""
        return self.found.best

    @property
    def verified(self) -> Verified | None:
        """The proof that it runs, if it was executed and gave the original's numbers."""
        if self.outcome is None or not self.outcome.same:
            return None
        return Verified(self.outcome.difference, len(self.lowered.placed.program.tasks))

    @property
    def failure(self) -> Failure | None:
        """What was wrong with the numbers of its execution, if anything."""
        return self.outcome.failure if self.outcome is not None else None

    @property
    def tiles(self) -> TileGraph:
        """The tiles of the chosen cut."""
        return self.evaluator.graph


def plan_cores(
    name: str,
    graph: Graph,
    hardware: Path,
    mapping: Path,
    *,
    numbered: Graph | None = None,
    fused: bool = True,
    core_costs: Path | None = None,
    final_write: bool = True,
    open_tiles: bool = False,
    objective: str = "latency",
    fast: bool = False,
    seed: int = 0,
    tell: Tell = silent,
) -> CorePlan:
    """Read, cut, cost, search, lower, validate, execute and compare. `numbered` is the network
    with all its weights, for the execution; without it the program is validated, not run."""
    tell("reading files")
    accelerator = read_accelerator(hardware)
    fabric = fabric_of(accelerator)
    given = read_mapping(mapping, accelerator.ids)
    workload = workload_of(graph)

    plans = CLIMB // 5 if fast else CLIMB
    trials = _Trials(workload, fabric, core_costs, final_write, objective, plans, seed, tell)
    for room in ROOMS:
        choices = choices_of(given, workload, fabric, fused=fused, open_tiles=open_tiles, room=room)
        results = trials.of(choices)
        fitting = [(c, e, f) for c, e, f in results if f is not None]
        if not fitting:
            choice, evaluator, _ = results[0]
            fault = _unfit(evaluator, choice.parts)
            raise TilewrightError(f"{mapping}: no allocation can run: {fault}")
        tell("lowering and validating")
        try:
            made = _first_lowered(fitting, numbered or graph)
        except VerificationError as error:  # a memory outside that does not hold the network
            raise VerificationError(f"{hardware}: {error}") from None
        if made is not None:
            break
    else:
        raise TilewrightError(
            f"{mapping}: no addresses were found for the best allocations, even in less of the "
            "memories: they are too small for their tiles"
        )
    chosen, evaluator, best, lowered, shared = made
    outcome, unproven = None, False
    if numbered is not None:
        try:
            outcome = _executed(numbered, lowered, seed, tell)
        except KeyboardInterrupt:  # what the search took is not thrown away
            unproven = True
    notes = [*accelerator.notes, *given.notes, *chosen.notes]
    if unproven:
        notes.append(UNPROVEN)
    if shared < 1.0:
        notes.append(f"{shared:.0%} of every memory is used at once, so that addresses are found")
    return CorePlan(
        name,
        workload,
        fabric,
        chosen,
        evaluator,
        best,
        lowered,
        fused,
        core_costs,
        objective,
        outcome,
        tuple(notes),
        tuple(Alternative(c.name, f.best.latency if f else None) for c, _, f in results),
        any(f is not None and f.interrupted for _, _, f in results),
        unproven,
    )


@dataclass(frozen=True, slots=True)
class _Trials:
    """What is tried of a network on an accelerator: ways to cut its layers, the best allocation of
    each."""

    workload: LayerGraph
    fabric: Fabric
    core_costs: Path | None
    final_write: bool
    objective: str
    climb: int
    seed: int
    tell: Tell

    def of(
        self, choices: Sequence[LayerCuts]
    ) -> list[tuple[LayerCuts, Evaluator, FoundAllocation | None]]:
        """The best allocation of every way to cut the layers (None where there is none), finer
        ones only as long as that helps. One that is interrupted is the last."""
        results: list[tuple[LayerCuts, Evaluator, FoundAllocation | None]] = []
        worths: list[tuple[float, float]] = []  # of ways that are each finer than the one before
        for choice in choices:
            if choice.finer == 1:
                worths = []
            elif len(worths) > 1 and worths[-1] >= worths[-2] < (inf, inf):
                continue
            self.tell(f"costing tiles on cores ({choice.name})")
            tiles = build_tiles(self.workload, choice.cuts)
            costs = _costs(tiles, self.fabric, self.core_costs, needed=not results)
            if costs is None:
                continue
            evaluator = Evaluator(tiles, self.fabric, costs, write_final=self.final_write)
            if evaluator.too_large(choice.parts) is not None:
                results.append((choice, evaluator, None))
                worths.append((inf, inf))
                continue
            found = AllocationSearch(
                evaluator,
                choice.parts,
                objective=self.objective,
                seed=self.seed,
                work=WORK // len(choices),
                tell=_within(self.tell, f"searching ({choice.name})"),
            ).run(climb=self.climb)
            possible = found is not None and found.best.latency < IMPOSSIBLE
            results.append((choice, evaluator, found if possible else None))
            worths.append(found.worth if found and possible else (inf, inf))
            if found is not None and found.interrupted:
                if not any(each for _, _, each in results):
                    raise KeyboardInterrupt
                break
        return results


def _within(tell: Tell, what: str) -> Tell:
    """Says before everything what is being done."""

    def telling(text: str, share: float | None = None, /) -> None:
        tell(f"{what}: {text}", share)

    return telling


def _costs(
    tiles: TileGraph, fabric: Fabric, file: Path | None, *, needed: bool
) -> ShapeCosts | None:
    """Costs of our model, or of a file; None where it has none for a cut that is not `needed`."""
    if file is None:
        return own_costs(tiles, fabric)
    try:
        return given_costs(tiles, fabric, file)
    except InputFileError:
        if needed:
            raise
        return None


def _unfit(evaluator: Evaluator, allowed: Allowed) -> str:
    """What cannot run: a layer on all its cores, or a tile in the first allocation allowed."""
    graph, fabric = evaluator.graph, evaluator.fabric
    cycles = evaluator.costs.cycles[graph.tile_shape]
    for part, cores in enumerate(allowed):
        tiles = [number for number, tile in enumerate(graph.tiles) if tile.part == part]
        if (cycles[tiles][:, list(cores)] >= IMPOSSIBLE).any(axis=0).all():
            names = ", ".join(str(fabric.cores[core][0]) for core in cores)
            return f"no core of {graph.part_name(part)} ({names}) has costs or memories for it"
    first = tuple(cores[0] for cores in allowed)
    timed = evaluator.too_large(allowed) or evaluator.timed(first)
    if not isinstance(timed, Unfit) or timed.tile < 0:
        return "no allocation has a core for every layer"
    tile, place = timed.tile, fabric.places[timed.place]
    needed = 0
    for columns, start in ((graph.reads, graph.read_start), (graph.writes, graph.write_start)):
        needed += int(graph.piece_size[columns[start[tile] : start[tile + 1]]].sum())
    return (
        f"tile {graph.tile_name(tile)} works on {needed * graph.unit // 8:,} bytes, and "
        f"{place.name} has {place.bits // 8:,}"
    )


def _first_lowered(
    fitting: Sequence[tuple[LayerCuts, Evaluator, FoundAllocation]], graph: Graph
) -> tuple[LayerCuts, Evaluator, FoundAllocation, Lowered, float] | None:
    """The best of some ways to cut the layers for which addresses are found."""
    bounds = min((f.bounds for _, _, f in fitting), key=lambda bounds: bounds.cycles)  # of all
    for choice, evaluator, found in sorted(fitting, key=lambda r: r[2].worth):
        made = _lowered(evaluator, replace(found, bounds=bounds), graph)
        if made is not None:
            return choice, *made
    return None


def _lowered(
    evaluator: Evaluator, found: FoundAllocation, graph: Graph
) -> tuple[Evaluator, FoundAllocation, Lowered, float] | None:
    """The program, validated; with a smaller share of the memories where addresses are not
    found; None where they are with none."""
    core_of, rule = found.best.core_of, found.best.rule
    for share in SHARES:
        again = evaluator if share == 1.0 else evaluator.varied(share=share)
        timed = again.timed(core_of, rule=rule)
        writing = again if again.write_final else again.varied(share=share, writing=True)
        program = timed if writing is again else writing.timed(core_of, rule=rule)
        if not isinstance(timed, TimedAllocation) or not isinstance(program, TimedAllocation):
            break
        try:
            made = lower(writing, program, graph)
        except NoAddressesError:
            continue
        validate(made.placed, made.machine)
        return again, replace(found, best=timed), made, share
    return None


def _executed(numbered: Graph, lowered: Lowered, seed: int, tell: Tell) -> Comparison:
    """Run the program and compare with onnxruntime on the untouched model."""
    inputs, model = seeded_inputs(numbered, seed), serialize(numbered)
    weights = {name: c.data for name, c in numbered.constants.items() if c.data is not None}
    machine = VirtualMachine(lowered.placed, lowered.machine, numbered.opset)
    numbers = {name: np.asarray(data) for name, data in weights.items()}
    done = machine.run(inputs, numbers, executing(lowered.placed, tell))
    found = compared(run(model, inputs, precise=True), done.outputs, TOLERANCE)
    if not found.same:
        # Other orders of summation can be magnified: the operators as they are written decide.
        return compared(run(model, inputs, optimise=False), done.outputs, TOLERANCE)
    return found
