"""One truth: a plan evaluates the same whatever was lowered before it, and what an evaluation says
is what is reported and executed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.moves import moved
from support.random_plans import (
    aligned,
    depthwise,
    halves,
    joined,
    legal_networks,
    plans,
    pointwise,
    squeeze,
)
from support.strategies import LAYOUT, concat, conv3, matmul, networks, pool, residual, softmax
from tilewright.errors import TilewrightError, VerificationError
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan
from tilewright.planning import prepared
from tilewright.program import build
from tilewright.program.linking import Linked
from tilewright.program.lower import lowered, stages
from tilewright.program.lowering import Lowering
from tilewright.program.materialise import program_of
from tilewright.program.metrics import Metrics, metrics_of, metrics_of_placed
from tilewright.program.place import DoesNotFitError, Placed
from tilewright.program.text import program_text
from tilewright.program.timed import Refused, Short, Timed
from tilewright.program.verify import verify_program
from tilewright.search.candidates.candidate import NoTileFitsError
from tilewright.search.fusion import Fusion

MACHINES = {name: load_machine(name) for name in ("npu-2.7", "npu-4.0", "three-core-bus")}
KIBIBYTES = (None, 8, 12, 16, 40)
OPERATORS = (conv3, depthwise, pointwise, residual, residual, squeeze, pool, concat)
MOVEMENT = (*LAYOUT, matmul, softmax, conv3, residual)
PARTS = (aligned, aligned, halves, joined, joined, residual)
IMAGES = ((1, 8, 24, 20), (1, 4, 32, 16), (1, 16, 16, 12))
PARTED = ((1, 32, 12, 10), (1, 16, 16, 12))
MOST_MOVES = 6
MANY = 10**6  # more tiles than any group has: each is built
INTERNED = ("layout", "copy")  # numbers of views and copies, in the order they were met


@st.composite
def planned(draw: st.DrawFn, *, parts: bool = False) -> tuple[Graph, Machine, Plan]:
    """A network of repeated shapes or of moved data on a machine, and a plan; or one of `parts`:
    tensors that are joined and taken apart, most of them resident."""
    kinds, shapes, memories = (OPERATORS, MOVEMENT), IMAGES, KIBIBYTES
    if parts:
        kinds, shapes, memories = (PARTS,), PARTED, (None, 24, 48)
    legal, machine = draw(legal_networks(kinds, shapes, MACHINES, memories))
    return legal, machine, draw(plans(legal, machine, on_cores=parts))


def evaluated(lowering: Lowering, plan: Plan) -> tuple[Linked, Timed | Short] | str:
    """The plan's columns and what came of them, or why there are none."""
    try:
        linked = lowering.linked(plan)
        return linked, lowering.timed_of(linked)
    except TilewrightError as error:
        return str(error)


def assert_same(
    warm: tuple[Linked, Timed | Short] | str,
    fresh: tuple[Linked, Timed | Short] | str,
    lowerings: tuple[Lowering, Lowering],
) -> None:
    """Equal to the cycle and the byte, and as text."""
    if isinstance(warm, str) or isinstance(fresh, str):
        assert warm == fresh
        return
    (linked, found), (linked_fresh, expected) = warm, fresh
    assert type(found) is type(expected)
    for name, one, other in zip(
        linked.columns._fields, linked.columns, linked_fresh.columns, strict=True
    ):
        if name not in INTERNED:
            np.testing.assert_array_equal(one, other, err_msg=name)
    np.testing.assert_array_equal(found.order, expected.order)
    for one, other in zip(found.needs, expected.needs, strict=True):
        np.testing.assert_array_equal(one, other)
    issued = None, None
    if isinstance(found, Timed) and isinstance(expected, Timed):
        for name in ("address", "start", "end", "highest", "most_live"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
        rows = (*found.waits, *found.issued), (*expected.waits, *expected.issued)
        for one, other in zip(*rows, strict=True):
            np.testing.assert_array_equal(one, other)
        issued = found.issued, expected.issued
        assert metrics_of(found) == metrics_of(expected)
    elif isinstance(found, Short) and isinstance(expected, Short):
        assert (found.memory, found.misfit, found.groups) == (
            expected.memory,
            expected.misfit,
            expected.groups,
        )
    texts = [
        program_text(program_of(lowering, columns, timed.needs, timed.order, dealt))
        for lowering, columns, timed, dealt in (
            (lowerings[0], linked, found, issued[0]),
            (lowerings[1], linked_fresh, expected, issued[1]),
        )
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("parts", [False, True])
@settings(max_examples=30)
@given(data=st.data())
def test_a_changed_plan_evaluates_the_same_from_the_cache_and_from_scratch(
    data: st.DataObject, parts: bool
) -> None:
    graph, machine, plan = data.draw(planned(parts=parts), "plan")
    warm = Lowering(graph, machine, machine.dtype)
    known = evaluated(warm, plan)
    for _ in range(data.draw(st.integers(2, MOST_MOVES), "moves")):
        plan = data.draw(moved(graph, machine, plan), "moved")
        known = evaluated(warm, plan)
        fresh = Lowering(graph, machine, machine.dtype)
        assert_same(known, evaluated(fresh, plan), (warm, fresh))
    assert_same(evaluated(warm, plan), known, (warm, warm))  # and once more, all of it known


@pytest.mark.parametrize("parts", [False, True])
@settings(max_examples=60)
@given(data=st.data())
def test_tiles_that_repeat_one_like_them_are_as_if_built(data: st.DataObject, parts: bool) -> None:
    graph, machine, plan = data.draw(planned(parts=parts), "plan")
    lowerings = [Lowering(graph, machine, machine.dtype) for _ in range(2)]
    found: list[tuple[Linked, Timed | Short] | str] = []
    for lowering, few in zip(lowerings, (0, MANY), strict=True):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(build, "FEW", few)
            found.append(evaluated(lowering, plan))
    assert_same(found[0], found[1], (lowerings[0], lowerings[1]))


@pytest.mark.parametrize("parts", [False, True])
@settings(max_examples=60)
@given(data=st.data())
def test_a_plan_is_refused_early_only_where_it_does_not_fit(
    data: st.DataObject, parts: bool
) -> None:
    """What a search hears, with proofs before groups are built, is what the whole way says."""
    graph, machine, plan = data.draw(planned(parts=parts), "plan")
    asked = Lowering(graph, machine, machine.dtype)
    for _ in range(data.draw(st.integers(1, MOST_MOVES), "moves")):
        whole = evaluated(Lowering(graph, machine, machine.dtype), plan)
        try:
            heard: Timed | Refused | None = asked.timed(plan)
        except TilewrightError:
            heard = None
        if not isinstance(whole, str) and isinstance(whole[1], Timed):
            assert isinstance(heard, Timed)
            assert heard.makespan == whole[1].makespan
            np.testing.assert_array_equal(heard.address, whole[1].address)
        else:
            assert not isinstance(heard, Timed)
            if isinstance(heard, Refused):
                assert heard.groups <= set(range(len(plan.groups)))
        plan = data.draw(moved(graph, machine, plan), "moved")


def rounded(metrics: Metrics) -> Metrics:
    """Energy is summed in another order over columns."""
    return replace(metrics, energy_pj=float(f"{metrics.energy_pj:.9e}"))


@settings(max_examples=25)
@given(data=st.data())
def test_what_is_evaluated_is_what_is_placed(data: st.DataObject) -> None:
    """Plans that fit: times, addresses, order and figures are those of the placed program, which
    is sound behind every pass."""
    graph, machine, plan = data.draw(planned(), "plan")
    lowering = Lowering(graph, machine, machine.dtype)
    plan = data.draw(moved(graph, machine, plan), "moved")
    found = evaluated(lowering, plan)
    try:
        placed: Placed | None = lowered(graph, machine, plan, remedies=False)
        why = ""
    except TilewrightError as error:
        placed, why = None, str(error)
        short = isinstance(error, DoesNotFitError)
        assert short == (not isinstance(found, str))
    if placed is None:
        assert found == why or (not isinstance(found, str) and isinstance(found[1], Short))
        return
    assert not isinstance(found, str)
    timed = found[1]
    assert isinstance(timed, Timed)
    np.testing.assert_array_equal(timed.start, placed.schedule.start)
    np.testing.assert_array_equal(timed.end, placed.schedule.end)
    held = timed.address[timed.address >= 0]  # a result in place has no buffer of its own
    assert tuple(held.tolist()) == placed.address
    assert timed.makespan == placed.schedule.makespan
    on_columns = metrics_of(timed)
    on_tasks = metrics_of_placed(placed, machine.main_memory.name)
    assert rounded(on_columns) == rounded(on_tasks)
    for step, program in stages(lowering, plan):
        try:
            verify_program(program, lowering.machine)
        except VerificationError as error:
            raise VerificationError(f"after pass '{step}': {error}") from None


@settings(max_examples=8)
@given(data=st.data())
def test_what_a_search_found_is_what_is_reported(data: st.DataObject) -> None:
    """Its best plan and its rivals, lowered by themselves, take the cycles, bytes and energy that
    the search compared."""
    operators = data.draw(st.sampled_from((OPERATORS, MOVEMENT)))
    graph = data.draw(networks(operators, nodes=5, shapes=IMAGES))
    machine = MACHINES[data.draw(st.sampled_from(("npu-4.0", "three-core-bus")))]
    machine = machine.with_memory(data.draw(st.sampled_from((24, 64))) * 1024)
    try:
        legal = prepared(graph, machine, machine.dtype).graph
        found = Fusion(legal, machine, machine.dtype, "random").run(fast=True)
    except NoTileFitsError:
        assume(False)
    for trial in (found.best, *found.rivals):
        placed = lowered(legal, machine, trial.plan)
        reported = metrics_of_placed(placed, machine.main_memory.name)
        assert (trial.cycles, trial.dram_bytes) == (reported.cycles, reported.dram_bytes)
