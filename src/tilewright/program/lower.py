"""From a plan to a placed program, and what is tried where a scratchpad is too small for it."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan
from tilewright.program.kernels.link import link
from tilewright.program.linking import Linked
from tilewright.program.lowering import Lowering
from tilewright.program.materialise import in_use, program_of
from tilewright.program.passes.spill import spilled
from tilewright.program.pipeline import (
    IN_PLACE,
    LESS_AT_ONCE,
    PASSES,
    PREFETCH,
    QUEUES,
    SPILLING,
)
from tilewright.program.place import DoesNotFitError, Placed, Spill, does_not_fit, place, placed_of
from tilewright.program.program import Program
from tilewright.program.timed import Short, Timed
from tilewright.units import several

BUILD = "build"  # the name of the step before the first pass

Watch = Callable[[str, Program], None]


def lowered(
    graph: Graph,
    machine: Machine,
    plan: Plan,
    without: frozenset[str] = frozenset(),
    watch: Watch | None = None,
    *,
    remedies: bool = True,
    lowering: Lowering | None = None,
) -> Placed:
    """The plan's tasks after all passes except those switched off, placed and scheduled. Where the
    scratchpad is too small: with less at once, or with spills, whichever is faster, unless there
    shall be no `remedies`. `watch` sees the program after every step; `lowering` has lowered plans
    of the same network before."""
    lowering = (lowering or Lowering(graph, machine, plan.dtype, without)).of(plan)
    if watch is not None:
        for step, program in stages(lowering, plan):
            watch(step, program)
    linked = lowering.linked(plan)
    found = lowering.timed_of(linked)
    if isinstance(found, Timed):
        return _placed(lowering, linked, found)
    if not remedies:
        program = program_of(lowering, linked, found.needs, found.order)
        raise does_not_fit(program, lowering.machine, found)
    return _made_to_fit(lowering, plan, linked, found, watch)


def stages(lowering: Lowering, plan: Plan) -> list[tuple[str, Program]]:
    """The program as it is built, and behind every pass that is not left out."""
    lowering = lowering.of(plan)
    names = [step.name for step in PASSES]
    on = [name for name in names if name not in lowering.without]
    found: list[tuple[str, Program]] = []
    for last in range(len(on) + 1):
        later = frozenset(names) - frozenset(on[:last])
        partial = lowering.leaving_out(later)
        linked = partial.linked(plan)
        step = on[last - 1] if last else BUILD
        late = (PREFETCH.name, QUEUES.name, IN_PLACE.name)
        timed = partial.timed_of(linked) if step in late else None
        if timed is None:
            needs = link(linked.columns, partial.context.tables.views)
            found.append((step, program_of(partial, linked, needs)))
            continue
        issued = None
        if isinstance(timed, Timed):
            linked = linked._replace(columns=timed.columns)
            issued = timed.issued if step != PREFETCH.name else None
        found.append((step, program_of(partial, linked, timed.needs, timed.order, issued)))
    return found


def _placed(lowering: Lowering, linked: Linked, timed: Timed) -> Placed:
    linked = linked._replace(columns=timed.columns)
    program = program_of(lowering, linked, timed.needs, timed.order, timed.issued)
    used = replace(timed, address=timed.address[in_use(linked)])
    return placed_of(program, used, lowering.context.tables)


def _made_to_fit(
    lowering: Lowering, plan: Plan, linked: Linked, short: Short, watch: Watch | None
) -> Placed:
    """The faster of two remedies: spills, and as many passes left out as it takes. Where neither
    does, both together; else the reason why."""
    leaner: Placed | None = None
    plainest, still = (lowering, linked), short
    for names in accumulate((name,) for name in LESS_AT_ONCE):
        lean = lowering.leaving_out(frozenset(names))
        linked_lean = lean.linked(plan)
        found = lean.timed_of(linked_lean)
        if isinstance(found, Timed):
            leaner = _placed(lean, linked_lean, found)
            break
        plainest, still = (lean, linked_lean), found
    try:
        with_spills = _spilled_to_fit(lowering, linked, short, watch)
    except DoesNotFitError:
        return leaner or _spilled_to_fit(*plainest, still, watch)
    if leaner is not None and leaner.schedule.makespan <= with_spills.schedule.makespan:
        return leaner
    return with_spills


def _spilled_to_fit(
    lowering: Lowering, linked: Linked, short: Short, watch: Watch | None
) -> Placed:
    """Spill what does not fit until all fits; raise where nothing more can be spilled."""
    machine = lowering.machine
    program = program_of(lowering, linked, short.needs, short.order)
    misfit = does_not_fit(program, machine, short)
    spills: list[Spill] = []
    for _ in range(SPILLING.rounds):
        changed = spilled(program, machine, misfit.memory, misfit.misfit)
        if changed is None:
            break
        program = changed[0]
        spills += changed[1]
        try:
            placed = place(program, machine, deal=QUEUES.name not in lowering.without)
        except DoesNotFitError as error:
            misfit = error
            continue
        if watch is not None:
            watch(SPILLING.name, placed.program)
        return replace(placed, spills=tuple(spills))
    tried = f" after {several(len(spills), 'spill')}" if spills else ""
    text = f"{misfit}; nothing more can be spilled{tried}"
    raise DoesNotFitError(text, misfit.memory, misfit.misfit, misfit.groups)
