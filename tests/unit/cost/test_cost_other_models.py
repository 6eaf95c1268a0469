"""Vector engines, copies and tables."""

from pathlib import Path

import pytest

from support.costs import alone_cost, copy_cost
from tilewright.cost.base import Copy, CostError, WorkKind, Workload, matrix_product
from tilewright.cost.dma import descriptors, moved_bytes
from tilewright.cost.models import CostModels
from tilewright.errors import TilewrightError
from tilewright.machine import Machine, load_machine


def vector(operator: str, elements: int, dtype: str = "fp16") -> Workload:
    """Work of a vector engine."""
    return Workload(WorkKind.VECTOR, dtype, elements, elements, operator=operator)


def vector_cycles(machine: str, work: Workload) -> int:
    """Cycles on the first core's best engine."""
    loaded = load_machine(machine)
    return CostModels(loaded).best(loaded.cores[0], work)[1].cycles


def test_both_rate_sets() -> None:
    elements = 1 << 20
    assert vector_cycles("npu-2.7", vector("softmax", elements)) == elements * 0.75 / 2 + 1000
    legacy = "npu-2.7-legacy-kernels"
    # 2.4 cycles an element on two units, and 10,000 a call
    expected = round(elements * 2.4 / 2 + 10_000)
    assert abs(vector_cycles(legacy, vector("softmax", elements)) - expected) <= 1
    assert vector_cycles(legacy, vector("sigmoid", elements)) < vector_cycles(
        legacy, vector("exp", elements)
    )
    known = vector_cycles("npu-2.7", vector("add", elements))
    assert vector_cycles("npu-2.7", vector("never heard of", elements)) == known


def test_every_machine_runs_every_kind_of_work() -> None:
    image = Workload(WorkKind.CONV, "fp16", 64, 64, 28, 28, 28, 28, 3, 3)
    kinds = [image._replace(kind=kind, operator="add") for kind in WorkKind]
    for name in ("npu-2.7", "npu-4.0", "mcu", "trn1", "trn2", "tpu-like", "three-core-bus"):
        models = CostModels(load_machine(name))
        for dtype in ("fp16", "int8", "float32", "bfloat16"):
            for work in kinds:
                engine, cost = models.best(models.machine.cores[0], work._replace(dtype=dtype))
                assert cost.cycles > 0 and cost.energy_pj > 0 and 0 < cost.utilisation <= 1
                assert models.model(engine).floor(work) >= 0


def test_clock_domains_are_converted() -> None:
    machine = load_machine("trn1")
    elements = 128 * 10_000
    engine, cost = CostModels(machine).best(machine.cores[0], vector("norm", elements))
    assert engine.name == "core0.vector"
    assert cost.cycles == pytest.approx((elements * 5 / 128 + 60) * 2800 / 1120, abs=1)


def test_trainium_matrix_rate() -> None:
    machine = load_machine("trn1")
    product = matrix_product(512, 128, 128, "bf16")
    assert CostModels(machine).best(machine.cores[0], product)[1].cycles == 512 + 100
    single = product._replace(dtype="fp32")
    assert CostModels(machine).best(machine.cores[0], single)[1].cycles == 4 * 512 + 100
    short = product._replace(out_height=1, in_height=1)
    assert CostModels(machine).best(machine.cores[0], short)[1].cycles == 64 + 100


def test_copies_cost_latency_and_bytes() -> None:
    machine = load_machine("npu-2.7")
    plain = copy_cost(machine, "ddr", "cluster0.cmx", Copy(1 << 20))
    assert plain.cycles == pytest.approx(1243 + (1 << 20) / 20.77, abs=20)
    assert plain.energy_pj == pytest.approx((1 << 20) * (162.5 + 1.75))
    assert 0.9 < plain.utilisation <= 1
    local = copy_cost(machine, "cluster0.cmx", "cluster1.cmx", Copy(12_000))
    assert local.cycles == 22 + 1000
    with pytest.raises(TilewrightError, match="no memory 'moon'"):
        copy_cost(machine, "ddr", "moon", Copy(1))
    with pytest.raises(CostError, match="no link within ddr"):
        copy_cost(machine, "ddr", "ddr", Copy(1))


def test_strides_and_bursts() -> None:
    machine = load_machine("npu-2.7")
    link = machine.link("dma0")
    route = link.route("ddr", "cluster0.cmx")
    assert route is not None
    thin, whole = Copy(2, (1024,)), Copy(2048)
    assert (moved_bytes(thin, route), moved_bytes(whole, route)) == (65536, 2048)
    assert descriptors(Copy(64, (8, 16)), link) == 1
    assert descriptors(Copy(64, (4, 8, 16)), link) == 4
    assert descriptors(Copy(64, (4, 8, 1, 16)), link) == 4
    one = alone_cost(machine, link, route, Copy(64, (8, 16)))
    four = alone_cost(machine, link, route, Copy(64, (4, 8, 4)))
    assert four.cycles == one.cycles + 3 * route.latency
    assert (
        alone_cost(machine, link, route, thin).cycles
        > alone_cost(machine, link, route, whole).cycles
    )


def test_short_runs_on_trainium() -> None:
    machine = load_machine("trn1")
    gathered = copy_cost(machine, "hbm", "core0.sbuf", Copy(4, (128 * 128,)))
    assert machine.seconds(gathered.cycles) == pytest.approx(128 * 128 * 10e-9, rel=0.1)


TABLE = """
extends: three-core-bus
cores:
  core0:
    engines:
      array:
        model: table
        parameters:
          modes: null
          rates: null
          sharpness: null
          rows:
            - {kind: conv, out_channels: 8, out_width: 56, in_channels: 3, cycles: 500}
            - {kind: conv, out_channels: 8, kernel_height: 1, stride: 1, cycles: 7, energy_pj: 5}
"""


@pytest.fixture
def table_machine(tmp_path: Path) -> Machine:
    """A machine one of whose cores comes with measured costs."""
    path = tmp_path / "table.yaml"
    path.write_text(TABLE)
    return load_machine(path)


def test_table(table_machine: Machine) -> None:
    models = CostModels(table_machine)
    model = models.model(table_machine.cores[0].engines[0])
    known = Workload(WorkKind.CONV, "int8", 8, 3, 1, 56, 3, 56, 3, 3)
    assert model.cost(known).cycles == 500
    pointwise = model.cost(Workload(WorkKind.CONV, "int8", 8, 99))
    assert (pointwise.cycles, pointwise.energy_pj) == (7, 5)
    unknown = known._replace(out_channels=9)
    assert not model.supports(unknown)
    with pytest.raises(CostError, match="no row for conv 9x1x56 of 3 channels, kernel 3x3"):
        model.cost(unknown)
    assert model.floor(known) == 0


def test_no_engine_for_the_work(tmp_path: Path) -> None:
    path = tmp_path / "bare.yaml"
    path.write_text("extends: npu-2.7\ncores: {cluster: {engines: {shave: null}}}\n")
    machine = load_machine(path)
    with pytest.raises(CostError, match="no engine of bare's cluster0 runs softmax"):
        CostModels(machine).best(machine.cores[0], vector("softmax", 64))
