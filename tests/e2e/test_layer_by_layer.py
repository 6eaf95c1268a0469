"""Networks planned layer by layer, lowered, verified, executed: the numbers of onnxruntime."""

from math import prod
from typing import Any

import pytest

from support.builder import GraphBuilder
from support.programs import lowered, relative_error
from tilewright import api
from tilewright.errors import TilewrightError
from tilewright.machine.load import machine_tree
from tilewright.planning import Options, plan
from tilewright.program.account import account_of
from tilewright.program.verify import verify_placed, verify_program
from tilewright.search.bounds.bounds import bounds_of
from tilewright.search.candidates import layers

NETWORKS = (
    "four_convs@56x56",
    "rn50_stem@64x64",
    "fsrcnn@32x48",
    "unet@32x32",
    "mobilenet_v2@96x96",
    "resnet18@64x64",
    "transformer_block",
)
MACHINES = ("npu-2.7", "npu-4.0-2", "mcu")
TOLERANCE = 1e-4


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("network", NETWORKS)
def test_network_gives_the_same_numbers(network: str, machine: str) -> None:
    case = lowered(network, machine)
    verify_program(case.program, case.machine)
    verify_placed(case.placed, case.machine)
    executed = case.execute()
    assert executed.tasks == len(case.program.tasks)
    assert relative_error(executed.outputs, case.reference()) <= TOLERANCE
    account = account_of(case.placed, case.machine)
    main = case.machine.main_memory.name
    counted = executed.read_bytes[main], executed.write_bytes[main]
    assert counted == (account.dram_read_bytes, account.dram_write_bytes)
    bounds = bounds_of(case.graph, case.machine, case.machine.dtype)
    assert sum(counted) >= bounds.compulsory_bytes


def test_how_many_tiles_there_are_is_told_before_they_are_placed() -> None:
    """In a scratchpad that is small for the network there are very many, and it takes long."""
    told: list[str] = []
    planned = api.plan(
        "four_convs@16x16",
        {"extends": "mcu", "cores": {"core": {"memories": {"sram": {"usable": "1 KiB"}}}}},
        layer_by_layer=True,
        verify=False,
        progress=lambda text, share=None: told.append(text),
    )
    parts = [[split.parts for split in group.splits] for group in planned.plan.groups]
    tiles = sum(prod(each) for each in parts)
    assert tiles > 100 and f"layer by layer: {tiles:,} tiles" in told


def test_a_scratchpad_that_is_far_too_small_is_refused_before_tiles_are_built() -> None:
    b = GraphBuilder()
    y = b.input(1, 16, 256, 256)
    for _ in range(2):
        y = b.add("Conv", y, b.weight(16, 16, 3, 3), pads=[1, 1, 1, 1])
    machine = {"extends": "mcu", "cores": {"core": {"memories": {"sram": {"usable": "512 B"}}}}}
    for options in ({"layer_by_layer": True}, {"fast": True}):
        with pytest.raises(TilewrightError, match=r"takes [\d,]+ tiles on machine, more than the"):
            api.plan(b.graph(), machine, verify=False, **options)
    limit = r"a memory limit of 512 B is too small: .* takes [\d,]+ tiles on mcu, more than the"
    with pytest.raises(TilewrightError, match=limit):
        api.plan(b.graph(), "mcu", memory_limit=512, layer_by_layer=True, verify=False)


def test_a_main_memory_without_room_is_not_met_by_smaller_tiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tiles became smaller and smaller, until there were too many of them to go on."""
    tried: list[object] = []
    timed = layers._timed

    def counted(*arguments: Any) -> Any:
        tried.append(arguments)
        return timed(*arguments)

    monkeypatch.setattr(layers, "_timed", counted)
    b = GraphBuilder()
    value = b.input(1, 4, 1024, 1024)
    for number in range(3):
        value = b.add("Conv", value, b.weight(32, b.shape(value)[1], 1, 1), name=f"y{number}")
    b.add("Conv", value, b.weight(4, 32, 1, 1), name="last")
    small = dict(machine_tree("mcu"))
    memory = small["memories"]["external"]
    small["memories"] = {"external": {**memory, "capacity": "40 MB"}}
    with pytest.raises(TilewrightError, match=r"memory external: .* most of it 'y"):
        plan(b.graph(), api.machine(small), Options(layer_by_layer=True))
    assert len(tried) == 1
