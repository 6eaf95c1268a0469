"""How many bytes a cycle can cross a border between memories, as schedules share it."""

from collections.abc import Callable
from fractions import Fraction

from tilewright.machine.machine import Machine, Route


def schedule_rate(rate: float) -> Fraction:
    """A rate as the small fraction that is simulated."""
    return Fraction(rate).limit_denominator(64)


def main_bytes_per_cycle(machine: Machine) -> float:
    """The most bytes per cycle that can enter and leave the main memory."""
    return bytes_per_cycle(machine, machine.main_memory.name)


def bytes_per_cycle(machine: Machine, memory: str) -> float:
    """The most bytes per cycle that can enter and leave a memory."""
    return _together(machine, lambda way: memory in (way.source, way.destination))


def core_bytes_per_cycle(machine: Machine) -> float:
    """The most bytes per cycle that can come to all cores together from memories that they share;
    a copy with several destinations counts once."""
    owner = {memory.name: memory.core for memory in machine.memories}
    return _together(machine, lambda way: not owner[way.source] and bool(owner[way.destination]))


def _together(machine: Machine, counts: Callable[[Route], bool]) -> float:
    """Every link at its own rate, those of one shared bandwidth not above it."""
    rates: dict[str, Fraction] = {}  # by the name of what is shared; "": by no others
    for link in machine.links:
        ways = [route for route in link.routes if counts(route)]
        if ways:
            route = max(ways, key=lambda way: way.bytes_per_cycle)
            pool = min(route.groups, key=machine.group_bytes_per_cycle, default="")
            rates[pool] = rates.get(pool, Fraction(0)) + schedule_rate(route.bytes_per_cycle)
    alone = rates.pop("", Fraction(0))
    most = {name: schedule_rate(machine.group_bytes_per_cycle(name)) for name in rates}
    return float(sum((min(rate, most[name]) for name, rate in rates.items()), alone))
