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
    shared: dict[str, Fraction] = {}
    alone = Fraction(0)
    for link in machine.links:
        ways = [route for route in link.routes if counts(route)]
        if not ways:
            continue
        route = max(ways, key=lambda way: way.bytes_per_cycle)
        rate = schedule_rate(route.bytes_per_cycle)
        if route.groups:
            pool = min(route.groups, key=machine.group_bytes_per_cycle)
            shared[pool] = shared.get(pool, Fraction(0)) + rate
        else:
            alone += rate
    pooled = (
        min(rate, schedule_rate(machine.group_bytes_per_cycle(name)))
        for name, rate in shared.items()
    )
    return float(sum(pooled, alone))
