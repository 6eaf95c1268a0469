"""An accelerator as the Machine that programs are for: cores, memories, links with their routes.

Sizes and rates count in the units of a tile graph (a byte, unless elements are narrower).
"""

from tilewright.machine.machine import Core, Energy, Engine, Limits, Link, Machine, Memory, Route
from tilewright.machine.parameters import TableParameters
from tilewright.manycore.fabric import OUTSIDE, CarrierWay, Fabric

_CLOCK = 1e9  # the files have no clock: times are cycles, and are shown as nanoseconds


def machine_of(fabric: Fabric, unit: int = 8) -> Machine:
    """The machine of a fabric."""

    def route(way: CarrierWay) -> Route:
        source, target = (fabric.places[place].name for place in (way.source, way.target))
        bus = fabric.carriers[way.carrier].bus
        return Route(source, target, 0, way.bits / unit, (), multicast=bus)

    names = [core_name(fabric, position) for position in range(len(fabric.cores))]
    memories = [
        Memory(
            place.name,
            None if place.core is None else names[place.core],
            place.bits // unit,
            place.bits // unit,
            1,
            bytes_per_cycle=None,
            read_pj_per_byte=place.read_pj * unit,
            write_pj_per_byte=place.write_pj * unit,
        )
        for place in fabric.places
    ]
    cores = tuple(
        Core(
            name,
            tuple(memory for memory in memories if memory.core == name),
            (Engine(f"{name}.array", name, "matrix", "table", _CLOCK, 1.0, TableParameters(())),),
        )
        for name in names
    )
    links = tuple(
        Link(
            carrier.name,
            "bus" if carrier.bus else "link",
            tuple(route(way) for way in fabric.ways if way.carrier == number),
        )
        for number, carrier in enumerate(fabric.carriers)
    )
    accelerator = fabric.accelerator
    title = f"{len(cores)} cores: " + ", ".join(core.name for _, core in accelerator.cores)
    return Machine(
        accelerator.name,
        title,
        _CLOCK,
        "float32",
        cores,
        (memories[OUTSIDE],),
        links,
        (),
        Limits(),
        Energy((), 0.0, estimate=False),
    )


def core_name(fabric: Fabric, position: int) -> str:
    """How a core is called: by its number in the file."""
    return f"core{fabric.cores[position][0]}"
