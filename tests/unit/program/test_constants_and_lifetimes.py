"""Packed constants, numbers in instructions, and how long overlapping engines hold buffers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tilewright.cost.base import WorkKind, Workload, matrix_product
from tilewright.cost.models import CostModels
from tilewright.frontend.builder import Builder
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.program.constants import immediate, pack_of, packs_of
from tilewright.program.from_program import columns_of
from tilewright.program.kernels.prefetch import held_until
from tilewright.program.layout import Layouts
from tilewright.program.program import Buffer, Compute, Program, Task, Transfer, View
from tilewright.program.tables import Tables


@pytest.mark.quick
def test_a_part_of_the_channels_is_one_piece_of_weights_and_bias() -> None:
    pack = pack_of("w", "b", 0, (6, 4, 3, 3), 2)
    data = np.zeros(6 * pack.row, np.float32)

    def array(name: str, shape: tuple[int, ...]) -> np.ndarray:
        offset, strides = pack.place(name)
        steps = tuple(stride // 2 * 4 for stride in strides)
        return np.ndarray(shape, np.float32, data.data, offset // 2 * 4, steps)

    array("w", (6, 4, 3, 3))[...] = np.arange(6 * 36).reshape(6, 4, 3, 3)
    array("b", (6,))[...] = -np.arange(6)
    taken = data[2 * pack.row : 5 * pack.row].reshape(3, pack.row)
    assert pack.bytes(3) == taken.size * 2
    assert np.array_equal(taken[:, :-1], np.arange(72, 180).reshape(3, 36))
    assert taken[:, -1].tolist() == [-2, -3, -4]


def test_only_biases_of_the_same_channels_are_packed() -> None:
    b = Builder("net")
    x = b.input("x", (1, 8, 12, 12))
    x = b.conv(x, 16, 3, pads=1, bias=True, name="with")
    x = b.conv(x, 16, 3, pads=1, bias=False, name="without")
    graph = b.finish(x)
    machine = load_machine("npu-2.7")
    packed = packs_of(graph, Layouts.of(graph, machine, "fp16"))
    assert {pack.weights.split(".")[0].split("/")[0] for pack in packed.values()} == {"with"}
    assert all(immediate(graph, name) is None for name in packed)


@pytest.mark.quick
@pytest.mark.parametrize("rows", [1, 3, 49, 197, 200])
def test_positions_that_fill_no_row_are_a_row_of_their_own(rows: int) -> None:
    machine = load_machine("npu-2.7")
    model = CostModels(machine).model(machine.engines[0])
    work = matrix_product(rows, 768, 768, "fp16")
    for width in (1, 2, 4, 8):
        if width > rows:
            continue
        view = work.as_view(rows // width, width)
        assert (view.positions, view.macs) == (rows, work.macs)
        assert model.cost(view).cycles == sum(model.cost(p).cycles for p in view.pieces)
        assert model.floor(work) <= model.cost(view).cycles + 1
    if rows == 197:
        assert model.cost(work.as_view(49, 4)).cycles < 0.5 * model.cost(work).cycles


def ends(
    tasks: Sequence[Task], machine: Machine, ahead: Mapping[int, int], *, engines: bool = True
) -> dict[int, int]:
    """Tasks that hold what they use longer than the order says, and until which task."""
    tables = Tables(machine)
    memories = [machine.main_memory.name, machine.cores[0].memory.name]
    buffers = tuple(Buffer(f"b{k}", name, 64, 64) for k, name in enumerate(memories))
    columns = columns_of(Program(machine.name, tuple(tasks), buffers, (), (), ()), tables)
    hold = np.array([ahead.get(task.group, 0) for task in tasks], np.int32)
    order = np.arange(len(tasks), dtype=np.int32)
    held = held_until(columns, tables.hardware, order, hold, engines).tolist()
    return {place: until for place, until in enumerate(held) if until != place}


def test_what_an_engine_reads_is_held_until_it_goes_on() -> None:
    machine = load_machine("npu-2.7")
    work = Compute((), Workload(WorkKind.VECTOR, "fp16", 8))
    dpu, shave = (engine.name for engine in machine.cores[0].engines)
    row = [Task(f"t{i}", e, work, (), (), 1) for i, e in enumerate((dpu, shave, dpu, shave, dpu))]
    assert dict(ends(row, machine, {0: 1})) == {0: 1, 1: 2, 2: 3}
    assert not ends(row, machine, {0: 1}, engines=False)
    assert not ends(row, machine, {0: 0})
    assert not ends([replace(task, engine=dpu) for task in row], machine, {0: 1})
    apart = [replace(task, group=number) for number, task in enumerate(row)]
    assert not ends(apart, machine, dict.fromkeys(range(5), 1))


def test_what_is_stored_is_held_while_its_core_computes_on() -> None:
    machine = load_machine("npu-2.7")
    work = Compute((), Workload(WorkKind.CONV, "fp16", 8))
    one, two = machine.cores
    compute = Task("c", one.engines[0].name, work, (), (), 1)
    other = replace(compute, engine=two.engines[0].name)
    there, here = (View(b, 0, (8,), (2,), "float16", 2) for b in (0, 1))
    store = Task("s", "dma0", Transfer((one.memory.name, "ddr")), (here,), (there,), 1)
    row = [compute, store, other, compute, compute, compute, store]
    assert dict(ends(row, machine, {0: 1})) == {1: 3}
    assert dict(ends(row, machine, {0: 2})) == {1: 4}
    assert not ends(row, machine, {})
