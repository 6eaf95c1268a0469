"""Element types: which ones a machine has, what they run as, and how many bytes they take."""

from pathlib import Path

import pytest

from support.unlike import core, unlike_cores
from tilewright.cost.base import CostError, WorkKind, Workload, whole_cycles
from tilewright.cost.models import CostModels
from tilewright.errors import TilewrightError
from tilewright.graph.types import BITS
from tilewright.legalise.passes import legalise
from tilewright.machine import load_machine
from tilewright.machine.dtypes import element_bits, element_bytes, runs_as

pytestmark = pytest.mark.quick
CONV = Workload(WorkKind.CONV, "int8", 64, 64, 28, 28, 28, 28, 3, 3)


def test_bits_are_those_of_the_graph() -> None:
    known = {name: bits for name, bits in BITS.items() if not name.startswith(("complex", "str"))}
    assert {name: element_bits(name) for name in known} == known


def test_bytes_of_types_below_a_byte() -> None:
    assert element_bytes("int4") == 0.5 and element_bytes("uint2") == 0.25


def test_what_a_type_runs_as() -> None:
    assert runs_as("uint8", ("int8", "fp16")) == "int8"
    assert runs_as("int4", ("fp16", "int8")) == "int8"
    assert runs_as("bf16", ("fp16", "fp32")) == "fp32"  # as wide is not enough for a float
    assert runs_as("fp32", ("fp16", "int32")) is None
    assert runs_as("int16", ("int8",)) is None


def test_what_is_no_name_of_a_type_is_refused_as_one() -> None:
    with pytest.raises(TilewrightError, match="no machine computes with elements of type '3'"):
        load_machine("npu-2.7").elements(3)  # type: ignore[arg-type]


def test_a_type_that_a_machine_lacks_is_refused() -> None:
    machine = load_machine("npu-2.7")
    assert machine.elements("uint8") == "int8" and machine.elements("half") == "fp16"
    with pytest.raises(TilewrightError, match=r"npu-2\.7 has no elements of type fp64 \(it has"):
        machine.elements("float64")
    with pytest.raises(
        TilewrightError, match=r"mcu has no elements of type bf16 \(it has int8, fp"
    ):
        load_machine("mcu").elements("bfloat16")  # fp32 would hold it, but nobody asked for that
    with pytest.raises(TilewrightError, match="no machine computes with elements of type 'fp17'"):
        machine.elements("fp17")
    from support.builder import GraphBuilder

    b = GraphBuilder()
    b.add("Relu", b.input(1, 2, 4, 4))
    with pytest.raises(TilewrightError, match="no elements of type fp64"):
        legalise(b.graph(), machine, "fp64")


def test_a_file_has_the_type_it_plans_in(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: npu-2.7\ndtype: fp64\n")
    with pytest.raises(TilewrightError, match=r"mine\.yaml:2: dtype: machine mine has no elements"):
        load_machine(path)


def test_work_goes_to_engines_that_have_its_type() -> None:
    models = CostModels(load_machine("npu-2.7"))
    first = models.machine.cores[0]
    assert models.best(first, CONV)[0].kind == "matrix"
    wide = models.best(first, CONV._replace(dtype="fp32"))
    assert wide[0].kind == "vector"  # the array has fp16 and int8
    with pytest.raises(
        CostError, match="cluster0 cannot run conv: it has no elements of type fp64"
    ):
        models.best(first, CONV._replace(dtype="fp64"))


def test_an_array_without_the_elements_is_named() -> None:
    rates = {"rates": {"default": {"per_element": 0.25}}}  # no products
    simd = {"kind": "vector", "model": "vector", "parameters": rates}
    machine = unlike_cores(a={**core(8), "engines": {**core(8)["engines"], "simd": simd}})
    models = CostModels(machine)
    told = "cannot run conv: its array has no elements of type fp16 .it has int8"
    with pytest.raises(CostError, match=told):
        models.best(machine.cores[0], CONV._replace(dtype="fp16"))


def test_int4_moves_half_the_bytes() -> None:
    machine = load_machine("mcu")
    models = CostModels(machine)
    whole, half = (models.best(machine.cores[0], CONV._replace(dtype=d)) for d in ("int8", "int4"))
    array = models.model(whole[0])
    figures = machine.cores[0].memory
    per_byte = figures.read_pj_per_byte
    saved = (CONV.in_elements + CONV.weights + CONV.out_elements) * 0.5 * per_byte
    assert whole[1].energy_pj - half[1].energy_pj == pytest.approx(saved)
    assert half[1].cycles <= whole[1].cycles == array.cost(CONV).cycles


def test_cycles_that_cannot_be_counted_are_an_error() -> None:
    assert whole_cycles(1e15) == 10**15
    for cycles in (float("nan"), float("inf"), 1e16):
        with pytest.raises(CostError, match="more than can be counted"):
            whole_cycles(cycles)
