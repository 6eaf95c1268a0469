"""Networks planned layer by layer, lowered, verified, executed: the numbers of onnxruntime."""

import pytest

from support.programs import lowered, relative_error
from tilewright.program.account import account_of
from tilewright.program.verify import verify_placed, verify_program
from tilewright.search.bounds.bounds import bounds_of

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
