"""Seeded faults: a good program with one thing wrong. Each is caught by the verifier of programs,
that of addresses and times, or the numbers of the virtual machine; the table says by which."""

import pytest

from support import faults_in_tasks, faults_in_time_and_space
from support.faults import FAULTS, NUMBERS, PLACED, PROGRAM
from support.programs import Lowered, quartered, relative_error
from tilewright.errors import VerificationError
from tilewright.program.place import Placed
from tilewright.program.verify import verify_placed, verify_program

KINDS = (faults_in_tasks, faults_in_time_and_space)  # they fill the table
PROGRAMS = [(n, m) for n in ("four_convs@16x16", "residual") for m in ("npu-2.7", "mcu")]
INSTANCES = 6


def catcher(case: Lowered, placed: Placed) -> str | None:
    """Who catches it first."""
    try:
        verify_program(placed.program, case.machine)
    except VerificationError:
        return PROGRAM
    try:
        verify_placed(placed, case.machine)
    except VerificationError:
        return PLACED
    try:
        outputs = case.execute(placed).outputs
    except VerificationError:
        return NUMBERS
    return NUMBERS if relative_error(outputs, case.execute().outputs) > 1e-4 else None


CASES = [
    pytest.param(kind, *program, id=f"{kind}-{'-'.join(program)}")
    for kind, (_, _, needs) in FAULTS.items()
    for program in PROGRAMS
    if all(any(need in part for part in program) for need in needs)
]


@pytest.mark.parametrize(("kind", "network", "machine"), CASES)
def test_fault_is_caught(kind: str, network: str, machine: str) -> None:
    case = quartered(network, machine)
    caught_by, change, _ = FAULTS[kind]
    variants = list(change(case))
    assert variants, "the program offers no place for this fault"
    for variant in variants[:: max(1, len(variants) // INSTANCES)]:
        assert catcher(case, variant) == caught_by


@pytest.mark.parametrize(("network", "machine"), PROGRAMS)
def test_program_without_faults_passes(network: str, machine: str) -> None:
    case = quartered(network, machine)
    assert catcher(case, case.placed) is None


def test_there_are_more_than_twenty_kinds() -> None:
    assert len(FAULTS) > 40
