"""Memories that pieces lie in."""

from dataclasses import replace

from support.manycore import core, level
from tilewright.manycore.fabric import fabric_of
from tilewright.manycore.hardware import Accelerator, Wire


def test_memories_of_the_units_are_one_where_there_is_none_above() -> None:
    """Results have registers only: 64 bits for each of 4 x 4 units, or for each row of them."""
    inputs = level("inputs", 4096, ("I1", "I2"))
    sums = replace(level("sums", 64, ("O",)), serves=frozenset[str]())
    rows = replace(sums, name="rows", serves=frozenset({"D2"}))
    cores = (core("a", (sums, inputs)), core("b", (rows, inputs)))
    outside = core("outside", (level("dram", 2**33, ("I1", "I2", "O")),))
    wires = tuple(Wire(f"link{k}", False, (k, 2), 32, 0.1) for k in range(2))
    fabric = fabric_of(Accelerator("two", tuple(enumerate(cores)), outside, 2, wires))
    sizes = {place.name: place.bits for place in fabric.places}
    assert sizes["core0.sums"] == 16 * 64 and sizes["core1.rows"] == 4 * 64
    assert sizes["core0.inputs"] == 4096
