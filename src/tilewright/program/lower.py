"""From a plan to a placed program: build, passes, addresses, times."""

import gc
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tilewright.errors import VerificationError
from tilewright.graph.graph import Graph
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan
from tilewright.program.build import Builder
from tilewright.program.lifetimes import MOST_AHEAD, Ahead
from tilewright.program.passes.prefetch import Prefetched, prefetched
from tilewright.program.passes.spill import spilled
from tilewright.program.pipeline import PASSES, run_passes
from tilewright.program.place import DoesNotFitError, Placed, Spill, place
from tilewright.program.program import Program
from tilewright.program.verify import verify_program
from tilewright.units import noun

# Passes that hold more at once, left out one after the other where the scratchpad is short.
HUNGRY = ("pipelining", "prefetch", "multicast", "duplicate-copies")
BUILD = "build"  # the name of the step before the first pass
SPILL = "spill"  # the name of the step behind the last, where one is needed
ROUNDS = 40  # of spilling, at most
LESS = ((0, 1), (0, 0), (2, 0), (8, 0))  # groups so near to one without room hold so much less

Watch = Callable[[str, Program], None]


def lowered(
    graph: Graph,
    machine: Machine,
    plan: Plan,
    without: frozenset[str] = frozenset(),
    watch: Watch | None = None,
    *,
    verify: bool = True,
    remedies: bool = True,
) -> Placed:
    """The plan's tasks after all passes except those switched off, placed and scheduled. Where the
    scratchpad is too small: with less overlap, or with spills, whichever is faster, unless there
    shall be no `remedies`. Every pass is verified, unless `verify` is False."""

    def after(step: str, program: Program) -> None:
        try:
            if verify:
                verify_program(program, machine)
        except VerificationError as error:  # blamed on the pass that made it
            raise VerificationError(f"after pass '{step}': {error}") from None
        if watch is not None:
            watch(step, program)

    with _collector_paused():
        built = Builder(graph, machine, plan).program()
        if watch is not None:
            watch(BUILD, built)
        split = next(i for i, step in enumerate(PASSES) if step.name == "prefetch")
        program = run_passes(built, machine, without, after, PASSES[:split])
        plain = program
        engines = "pipelining" not in without
        misfit: DoesNotFitError | None = None
        for ahead, early in _overlapped(plain, machine, without, engines):
            program = plain if early is None else early.program
            if early is not None:
                after("prefetch", program)
            program = run_passes(program, machine, without, after, PASSES[split + 1 :])
            addresses = None if early is None else early.addresses
            try:
                return place(
                    program, machine, addresses, tight=verify, ahead=ahead, engines=engines
                )
            except DoesNotFitError as error:
                error.groups |= frozenset() if early is None else early.short
                misfit = error
        assert misfit is not None
        if not remedies:
            raise misfit
        return _made_to_fit(built, program, machine, without, after, misfit)


def _overlapped(
    plain: Program, machine: Machine, without: frozenset[str], engines: bool
) -> Iterator[tuple[Ahead, Prefetched | None]]:
    """How much longer every group may hold what it uses, less where that is short of room, and the
    program with its loads ahead; then the same with nothing held longer."""
    if "prefetch" in without:
        yield {}, None
        return
    ahead = dict.fromkeys((task.group for task in plain.tasks), MOST_AHEAD)
    early = prefetched(plain, machine, ahead, engines=engines)
    for reach, most in LESS:
        near = {group + k for group in early.short for k in range(-reach, reach + 1)}
        less = {group: most for group, n in ahead.items() if n > most and group in near}
        if less:
            ahead |= less
            early = prefetched(plain, machine, ahead, engines=engines)
    yield ahead, early
    if any(ahead.values()):
        yield {}, prefetched(plain, machine, {}, engines=engines)


def _made_to_fit(
    built: Program,
    program: Program,
    machine: Machine,
    without: frozenset[str],
    after: Watch,
    misfit: DoesNotFitError,
) -> Placed:
    """The faster of two remedies: spills, and as many passes left out as it takes. Where neither
    does, both together; else the reason why."""
    leaner: Placed | None = None
    plainest, still = program, misfit
    for count in range(1, len(HUNGRY) + 1):
        if HUNGRY[count - 1] in without:
            continue
        plainest = run_passes(built, machine, {*without, *HUNGRY[:count]}, after)
        try:
            leaner = place(plainest, machine)
            break
        except DoesNotFitError as error:
            still = error
    try:
        with_spills = spilled_to_fit(program, machine, misfit, after)
    except DoesNotFitError:
        return leaner or spilled_to_fit(plainest, machine, still, after)
    if leaner is not None and leaner.schedule.makespan <= with_spills.schedule.makespan:
        return leaner
    return with_spills


def spilled_to_fit(
    program: Program, machine: Machine, misfit: DoesNotFitError, after: Watch | None = None
) -> Placed:
    """Spill what does not fit until all fits; raise where nothing more can be spilled."""
    spills: list[Spill] = []
    for _ in range(ROUNDS):
        changed = spilled(program, machine, misfit.memory, misfit.misfit)
        if changed is None:
            break
        program = changed[0]
        spills += changed[1]
        try:
            placed = place(program, machine)
        except DoesNotFitError as error:
            misfit = error
            continue
        if after is not None:
            after(SPILL, program)
        return replace(placed, spills=tuple(spills))
    tried = f" after {len(spills)} {noun(len(spills), 'spill')}" if spills else ""
    text = f"{misfit}; nothing more can be spilled{tried}"
    raise DoesNotFitError(text, misfit.memory, misfit.misfit)


@contextmanager
def _collector_paused() -> Generator[None]:
    """Many small values that hold no cycles: looking for those takes half of the time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
