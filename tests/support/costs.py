"""What copies cost by themselves: the figures that schedules begin with, checked one by one."""

from collections.abc import Sequence

from tilewright.cost.base import Copy, Cost, CostError, whole_cycles
from tilewright.cost.dma import moved_bytes, start_cycles
from tilewright.machine.machine import Hop, Link, Machine, Route


def alone_cost(machine: Machine, link: Link, route: Route, copy: Copy) -> Cost:
    """The copy's cost when nothing shares its bandwidth."""
    rate = machine.alone_bytes_per_cycle(route)
    cycles = start_cycles(copy, link, route) + whole_cycles(moved_bytes(copy, route) / rate)
    source, destination = machine.memory(route.source), machine.memory(route.destination)
    each = source.read_pj_per_byte + destination.write_pj_per_byte
    utilisation = min(1.0, copy.bytes / (rate * cycles))
    return Cost(cycles, copy.bytes * each, utilisation)


def path_cost(machine: Machine, hops: Sequence[Hop], copy: Copy) -> Cost:
    """The copy's cost over several hops, one after the other, when nothing shares a bandwidth:
    every stop holds all of it before it goes on."""
    costs = [alone_cost(machine, link, route, copy) for link, route in hops]
    cycles = sum(cost.cycles for cost in costs)
    slowest = max(costs, key=lambda cost: cost.cycles, default=None)
    share = 1.0 if slowest is None else slowest.utilisation * slowest.cycles / cycles
    return Cost(cycles, sum(cost.energy_pj for cost in costs), share)


def copy_cost(machine: Machine, source: str, destination: str, copy: Copy) -> Cost:
    """The cost of a copy over the cheapest link, or over several hops where no link does it at
    once, when nothing shares a bandwidth."""
    direct = [path_cost(machine, [hop], copy) for hop in machine.routes(source, destination)]
    if direct:
        return min(direct, key=lambda cost: cost.cycles)
    hops = machine.path(source, destination)
    if not hops:
        raise CostError(f"machine {machine.name} has no link within {source}")
    return path_cost(machine, hops, copy)
