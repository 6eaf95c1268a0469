"""From a network and a machine to a plan that has been executed.

`plan(graph, machine, options)` prepares, decides and lowers: a function of its arguments alone, it
reads and writes nothing. `prove` executes what came of it. `plan_model` does both for a model.
"""

from dataclasses import replace

from tilewright.graph.graph import Graph
from tilewright.machine.dtypes import rate_class
from tilewright.machine.machine import Machine
from tilewright.model import Model
from tilewright.planning.check import PlanFaultsError, check_plan
from tilewright.planning.decide import Options, decide, told
from tilewright.planning.prepare import prepared, warnings
from tilewright.planning.proof import UNPROVEN, check_runs, prove, validate
from tilewright.planning.result import Failure, Planned, Verified
from tilewright.planning.variants import best_variant
from tilewright.program.account import account_of
from tilewright.program.lower import Watch, lowered
from tilewright.program.place import Placed
from tilewright.search.bounds.bounds import Bounds, bounds_of
from tilewright.search.progress import Tell, silent

__all__ = [
    "UNPROVEN",
    "Failure",
    "Options",
    "Planned",
    "Verified",
    "check_plan",
    "plan",
    "plan_model",
    "prepared",
    "validate",
]


def plan(
    graph: Graph,
    machine: Machine,
    options: Options | None = None,
    *,
    watch: Watch | None = None,
    progress: Tell = silent,
) -> Planned:
    """Prepare a network, decide on a plan, lower, place, schedule and validate it.

    `watch` sees the program after every step, `progress` is told what is being done.
    """
    wishes = options or Options()
    wishes.check(machine)
    wishes = wishes if wishes.name else replace(wishes, name=graph.name)
    given = wishes.plan
    dtype = rate_class(wishes.dtype or (machine.dtype if given is None else given.dtype))
    progress("reading the network")
    legal, search = best_variant(graph, machine, dtype, wishes, progress)
    with told(legal.graph, machine, dtype, wishes):
        decision = decide(legal, machine, dtype, wishes, progress, search)

        def finished() -> tuple[Bounds, Placed]:
            progress("bounding what any plan takes")
            bounds = bounds_of(legal.graph, machine.within(wishes.memory_limit), dtype)
            progress("lowering, placing and scheduling")
            placed = lowered(decision.graph, machine, decision.plan, decision.without, watch)
            progress("validating")
            validate(placed, machine)
            return bounds, placed

        try:
            bounds, placed = finished()
        except KeyboardInterrupt:  # what a search took is not thrown away; a second one ends it
            if decision.found is None:
                raise
            progress("interrupted: finishing the plan that was found")
            bounds, placed = finished()
    return Planned(
        decision.plan,
        machine,
        decision.graph,
        placed,
        account_of(placed, machine),
        bounds,
        decision.found,
        legalisation=legal.steps,
        notes=decision.notes,
        without=decision.without,
        patterns=wishes.patterns,
        ablation=decision.ablation,
        warnings=warnings(legal.graph, machine, dtype),
    )


def plan_model(
    model: Model,
    machine: Machine,
    options: Options,
    *,
    verify: bool = True,
    seed: int = 0,
    watch: Watch | None = None,
    progress: Tell = silent,
) -> Planned:
    """Plan a model, and execute what came of it unless `verify` is off."""
    numbered = model.with_numbers(seed) if verify else model.graph
    if verify:
        check_runs(model, numbered)
    options = replace(options, name=model.name)
    try:
        planned = plan(numbered, machine, options, watch=watch, progress=progress)
    except PlanFaultsError as error:
        raise error.in_file(options.plan_file) if options.plan_file else error from None
    if not verify:
        return planned
    try:
        return prove(planned, model, numbered, seed, progress)
    except KeyboardInterrupt:
        if planned.found is None:
            raise
        return replace(planned, unproven=True, notes=(*planned.notes, UNPROVEN))
