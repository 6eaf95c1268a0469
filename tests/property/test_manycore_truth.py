"""Allocations on random machines: the evaluator says what the simulator says, to the cycle; what it
says can be placed, validated and executed; and the search finds what enumeration finds."""

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.builder import feeds_of
from support.manycore import random_evaluator
from support.soak import SOAK
from tilewright.errors import VerificationError
from tilewright.execute.compare import compare
from tilewright.execute.runtime import run
from tilewright.execute.vm import VirtualMachine
from tilewright.frontend.save import serialize
from tilewright.manycore.bounds import bounds_of
from tilewright.manycore.copies import PieceCopies, peaks_of
from tilewright.manycore.evaluate import Evaluator, TimedAllocation
from tilewright.manycore.lower import NoAddressesError, lower
from tilewright.manycore.search import AllocationSearch
from tilewright.program.verify import verify_placed, verify_program


def _drawn(evaluator: Evaluator, seed: int) -> tuple[int, ...]:
    random = Random(seed)
    return tuple(
        random.randrange(len(evaluator.fabric.cores)) for _ in range(evaluator.graph.parts)
    )


def _peaks(evaluator: Evaluator, copies: PieceCopies) -> list[int]:
    """The most that each memory holds, added up at every moment at which a copy begins."""
    size = evaluator.graph.piece_size.tolist()
    found = [0] * len(evaluator.fabric.places)
    for place in range(1, len(found)):
        held = [copy for copy in copies.all if copy.place == place]
        for now in {copy.birth for copy in held}:
            there = sum(size[copy.piece] for copy in held if copy.birth <= now < copy.death)
            found[place] = max(found[place], there)
    return found


@given(st.integers(0, 10_000), st.integers(0, 10_000))
@settings(max_examples=400 if SOAK else 40)
def test_evaluator_and_program_agree_and_run(seed: int, drawn: int) -> None:
    evaluator = random_evaluator(seed)
    rules = evaluator.rules
    timed = evaluator.timed(_drawn(evaluator, drawn), rule=rules[drawn % len(rules)])
    assume(isinstance(timed, TimedAllocation))
    assert isinstance(timed, TimedAllocation)
    graph = evaluator.graph.workload.graph
    try:
        lowered = lower(evaluator, timed)  # raises unless the simulator gives the same times
    except NoAddressesError:
        assume(False)
        return
    assert lowered.placed.schedule.makespan == timed.latency
    assert _peaks(evaluator, lowered.copies) == peaks_of(evaluator, timed).tolist()
    verify_program(lowered.placed.program, lowered.machine)
    verify_placed(lowered.placed, lowered.machine)
    feeds = feeds_of(graph)
    weights = {name: c.data for name, c in graph.constants.items() if c.data is not None}
    done = VirtualMachine(lowered.placed, lowered.machine, graph.opset).run(feeds, weights)
    compare(run(serialize(graph), feeds), done.outputs)


@given(st.integers(0, 10_000), st.integers(0, 10_000))
@settings(max_examples=600 if SOAK else 60)
def test_nothing_is_faster_than_the_bound(seed: int, drawn: int) -> None:
    evaluator = random_evaluator(seed)
    cores = tuple(range(len(evaluator.fabric.cores)))
    allowed = (cores,) * evaluator.graph.parts
    core_of = _drawn(evaluator, drawn)
    timed = evaluator.timed(core_of)
    assume(isinstance(timed, TimedAllocation))
    assert isinstance(timed, TimedAllocation)
    bounds = bounds_of(evaluator, allowed)
    assert bounds.cycles <= timed.latency
    assert bounds.of_loads(core_of) <= timed.latency


@pytest.mark.parametrize("seed", range(70 if SOAK else 21))
def test_search_equals_enumeration(seed: int) -> None:
    evaluator = random_evaluator(seed, layers=3 + seed % 4, cores=2 + seed % 7)
    parts, cores = evaluator.graph.parts, len(evaluator.fabric.cores)
    random, space = Random(seed), 1
    allowed: list[tuple[int, ...]] = []
    for _ in range(parts):  # a few hundred allocations, over all cores
        most = max(1, min(cores, 300 // space))
        allowed.append(tuple(sorted(random.sample(range(cores), random.randint(1, most)))))
        space *= len(allowed[-1])
    found = AllocationSearch(evaluator, tuple(allowed)).run()
    best: int | None = None
    for core_of in product(*allowed):
        for rule in evaluator.rules:
            timed = evaluator.timed(core_of, rule=rule)
            if isinstance(timed, TimedAllocation):
                best = timed.latency if best is None else min(best, timed.latency)
    assert (None if found is None else found.best.latency) == best
    assert found is None or (found.exact and found.best.latency >= found.bounds.cycles)
    climbed = AllocationSearch(evaluator, tuple(allowed)).run(counted=0)
    assert (None if climbed is None else climbed.best.latency) == best
    assert climbed is None or not climbed.exact


def test_enumeration_gives_way_where_it_is_too_much_work() -> None:
    evaluator = random_evaluator(17, layers=5, cores=4)
    allowed = (tuple(range(4)),) * evaluator.graph.parts
    work = 400 * evaluator.graph.reads.size
    found = AllocationSearch(evaluator, allowed, work=work).run()
    assert found is not None and not found.exact
    assert evaluator.evaluations < 500


def test_a_wrong_time_is_found() -> None:
    evaluator = random_evaluator(1)
    core_of = next(
        c
        for c in (_drawn(evaluator, k) for k in range(50))
        if isinstance(evaluator.timed(c), TimedAllocation)
    )
    timed = evaluator.timed(core_of)
    assert isinstance(timed, TimedAllocation)
    late = timed.start.argmax()
    timed.start[late] += 1
    timed.end[late] += 1
    with pytest.raises(VerificationError, match="the simulator starts"):
        lower(evaluator, timed)


def test_equal_seeds_give_equal_results() -> None:
    def climbed() -> tuple[tuple[int, ...], int]:
        evaluator = random_evaluator(17, layers=6, cores=4)
        allowed = (tuple(range(4)),) * evaluator.graph.parts
        found = AllocationSearch(evaluator, allowed, seed=5).run(counted=0, climb=120)
        assert found is not None
        return found.best.core_of, found.best.latency

    first, second = climbed(), climbed()
    assert first == second and np.isfinite(first[1])
