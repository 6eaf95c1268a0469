"""More work never costs less, and no tiling undercuts the floor."""

from math import inf
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.cost.base import CostError, CostModel, WorkKind, Workload
from tilewright.cost.models import CostModels
from tilewright.geometry.interval import even_split
from tilewright.machine import Engine, load_machine

MACHINES = {
    name: CostModels(load_machine(name))
    for name in (
        "npu-2.7",
        "npu-4.0",
        "mcu",
        "trn1",
        "tpu-like",
        "three-core-bus",
        "eight-core-l2",
        "mixed-cores",
    )
}
EXAMPLES = Path(__file__).parents[2] / "examples" / "machines"
MACHINES["depthwise"] = CostModels(load_machine(EXAMPLES / "8-depthwise.yaml"))
EXTENTS = (
    "out_height",
    "out_width",
    "out_channels",
    "in_height",
    "in_width",
    "in_channels",
    "kernel_height",
    "kernel_width",
    "batch",
)
sizes = st.integers(1, 300) | st.integers(1, 9000)
kernels = st.integers(1, 11)


@st.composite
def engines(draw: st.DrawFn) -> tuple[CostModel, Engine]:
    """A matrix or vector engine of a shipped machine."""
    models = MACHINES[draw(st.sampled_from(sorted(MACHINES)))]
    core = draw(st.sampled_from(models.machine.cores[:3]))
    engine = draw(st.sampled_from(core.engines))
    return models.model(engine), engine


@st.composite
def works(draw: st.DrawFn) -> Workload:
    """Any work, aligned or not."""
    kind = draw(st.sampled_from(list(WorkKind)))
    return Workload(
        kind,
        draw(st.sampled_from(["fp16", "int8", "fp32", "bf16"])),
        out_channels=draw(sizes),
        in_channels=draw(sizes),
        out_height=draw(sizes),
        out_width=draw(sizes),
        in_height=draw(sizes),
        in_width=draw(sizes),
        kernel_height=draw(kernels),
        kernel_width=draw(kernels),
        batch=draw(st.integers(1, 3)),
        operator=draw(st.sampled_from(["add", "softmax", "norm", "exp", "gelu", "other"])),
    )


@settings(max_examples=600)
@given(engines(), works(), st.sampled_from(EXTENTS), st.integers(1, 40) | st.integers(1, 4000))
def test_cost_grows_with_every_extent(
    engine: tuple[CostModel, Engine], work: Workload, extent: str, more: int
) -> None:
    model, _ = engine
    if model.supports(work):
        larger = work._replace(**{extent: getattr(work, extent) + more})
        assert cycles(model, larger) >= cycles(model, work)


def cycles(model: CostModel, work: Workload) -> float:
    """What work costs; no number where that is more than can be counted."""
    try:
        return model.cost(work).cycles
    except CostError:
        return inf


@settings(max_examples=300)
@given(engines(), works(), st.integers(1, 6), st.integers(1, 6), st.integers(1, 4))
def test_no_tiling_undercuts_the_floor(
    engine: tuple[CostModel, Engine], work: Workload, rows: int, columns: int, filters: int
) -> None:
    model, _ = engine
    if not model.supports(work):
        return
    channelwise = work.kind is not WorkKind.CONV and work.kind is not WorkKind.FIRST_CONV
    if channelwise:
        work = work._replace(in_channels=work.out_channels)
    if work.kind in (WorkKind.ELTWISE, WorkKind.VECTOR):
        work = work._replace(
            in_height=work.out_height,
            in_width=work.out_width,
            kernel_height=1,
            kernel_width=1,
        )
    total = 0.0
    for height in even_split(work.out_height, min(rows, work.out_height)):
        for width in even_split(work.out_width, min(columns, work.out_width)):
            for part in even_split(work.out_channels, min(filters, work.out_channels)):
                tile = work._replace(
                    out_height=height.length,
                    out_width=width.length,
                    out_channels=part.length,
                    in_channels=part.length if channelwise else work.in_channels,
                )
                if work.kind in (WorkKind.ELTWISE, WorkKind.VECTOR):
                    tile = tile._replace(in_height=height.length, in_width=width.length)
                total += cycles(model, tile)
    assert total >= model.floor(work) * (1 - 1e-9)
    assert cycles(model, work) >= model.floor(work) * (1 - 1e-9)
