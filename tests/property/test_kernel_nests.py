"""Any legal nest of any small problem computes the convolution and moves what its ledger says."""

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tilewright.kernel.assess import NestModel
from tilewright.kernel.execute import execute
from tilewright.kernel.nest import BIASES, ENGINES, KERNEL, LOOPS, STORES, Nest
from tilewright.kernel.problem import KernelProblem
from tilewright.kernel.search import search
from tilewright.kernel.target import target_of
from tilewright.kernel.timeline import simulated
from tilewright.machine.load import load_machine

TARGET = target_of(load_machine("trn2"))
MOST = 1500  # products and DMAs of a nest that is run
OFTEN = settings(max_examples=80, suppress_health_check=list(HealthCheck))


@st.composite
def problems(draw: st.DrawFn) -> KernelProblem:
    """Odd sizes, channels that fill no tile, all pools, paddings, strides."""
    kernel = draw(st.sampled_from([(1, 1), (3, 3), (2, 3), (3, 1), (1, 4)]))
    pool = draw(st.sampled_from([1, 2, 3]))
    pads = draw(st.sampled_from([(0, 0, 0, 0), (1, 1, 1, 1), (0, 2, 1, 0)]))
    strides = draw(st.sampled_from([(1, 1), (1, 1), (2, 2), (3, 2), (1, 3)]))
    height = draw(st.integers(kernel[0] + (pool - 1) * strides[0], 13))
    width = draw(st.integers(kernel[1] + (pool - 1) * strides[1], 23))
    return KernelProblem(
        draw(st.sampled_from([1, 3, 20, 130])),
        height,
        width,
        draw(st.sampled_from([1, 5, 129])),
        kernel,
        draw(st.sampled_from([1, 2])),
        pool,
        draw(st.sampled_from(["fp32", "fp16", "bf16"])),
        draw(st.booleans()),
        draw(st.booleans()),
        pads,
        strides=strides,
    )


@st.composite
def nests(draw: st.DrawFn, problem: KernelProblem) -> Nest:
    """Any loop order, any places, any tiles: legal or not."""
    order = draw(st.permutations(LOOPS))
    if order.index("row") < order.index("block"):
        i, j = order.index("row"), order.index("block")
        order[i], order[j] = order[j], order[i]
    places = [KERNEL, *order]

    def inside(place: str) -> str:
        return draw(st.sampled_from(places[places.index(place) :]))

    x_at, w_at = draw(st.sampled_from(places)), draw(st.sampled_from(places))
    copied = inside(x_at) if draw(st.booleans()) else None
    cast = inside(w_at) if draw(st.booleans()) else None
    rows = problem.pool * draw(st.integers(1, 4))
    compute = draw(st.sampled_from(["fp32", problem.dtype]))
    buffers = st.sampled_from([1, 2])
    return Nest(
        "any",
        tuple(order),
        draw(st.sampled_from([128, 64, 7])),
        draw(st.sampled_from([128, 50])),
        rows,
        problem.pool * draw(st.integers(1, 10)),
        rows * draw(st.integers(1, 3)),
        x_at,
        copied,
        w_at,
        cast,
        inside(cast or w_at),
        compute,
        draw(st.sampled_from(["fp32", compute])),
        draw(st.sampled_from([None, "in", "fh", "fw"])),
        draw(st.sampled_from(BIASES)),
        draw(st.booleans()),
        draw(st.sampled_from(STORES)),
        *(draw(buffers) for _ in range(4)),
        *(draw(st.sampled_from(ENGINES)) for _ in range(3)),
    )


@OFTEN
@given(st.data())
def test_legal_nests_compute_the_convolution(data: st.DataObject) -> None:
    problem = data.draw(problems())
    nest = data.draw(nests(problem))
    model = NestModel(problem, TARGET)
    assume(not model.violations(nest))
    assessment = model.assess(nest)
    assume(assessment.count("products") + assessment.dma_count <= MOST)
    execute(assessment)  # raises where numbers, DMAs, runs, bytes or instructions differ
    assert assessment.low <= assessment.seconds <= assessment.high
    assert assessment.low >= assessment.floor
    assert simulated(assessment).seconds > 0


@settings(OFTEN, max_examples=4)
@given(problems())
def test_what_a_search_finds_computes_the_convolution(problem: KernelProblem) -> None:
    found = search(problem, TARGET)
    execute(found.best)
    assert found.best.high <= found.start.high
