"""An accelerator as the Machine that programs are for: cores, memories, links with their routes.

Sizes and rates count in the units of a tile graph (a byte, unless elements are narrower).
"""

from tilewright.machine.machine import Core, Energy, Engine, Limits, Link, Machine, Memory, Route
from tilewright.machine.parameters import TableParameters
from tilewright.manycore.fabric import OUTSIDE, Fabric

_CLOCK = 1e9  # the files have no clock: times are cycles, and are shown as nanoseconds


def machine_of(fabric: Fabric, unit: int = 8) -> Machine:
    """The machine of a fabric."""
    names = [place.name for place in fabric.places]
    memories = [
        Memory(
            place.name,
            None if place.core is None else core_name(fabric, place.core),
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
            core_name(fabric, position),
            tuple(m for m, p in zip(memories, fabric.places, strict=True) if p.core == position),
            (
                Engine(
                    f"{core_name(fabric, position)}.array",
                    core_name(fabric, position),
                    "matrix",
                    "table",
                    _CLOCK,
                    1.0,
                    TableParameters(()),
                ),
            ),
        )
        for position in range(len(fabric.cores))
    )
    links = tuple(
        Link(
            carrier.name,
            "bus" if carrier.bus else "link",
            tuple(
                Route(
                    names[way.source],
                    names[way.target],
                    0,
                    way.bits / unit,
                    (),
                    multicast=carrier.bus,
                )
                for way in fabric.ways
                if way.carrier == number
            ),
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
