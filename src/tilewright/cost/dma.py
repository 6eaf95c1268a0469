"""Copies: latency, then bytes over bandwidth; short runs and many strides cost more."""

from math import prod
from typing import NamedTuple

from tilewright.cost.base import Copy, whole_cycles
from tilewright.machine.machine import Link, Machine, Route

SMALL = 2  # a copy is small if its bytes take less than so many times its latency


def moved_bytes(copy: Copy, route: Route) -> int:
    """Bytes the bus carries: each run takes whole bursts."""
    return -(-copy.run_bytes // route.burst) * route.burst * copy.runs


def descriptors(copy: Copy, link: Link) -> int:
    """How many descriptors hold the copy: levels of stride that do not fit are written out."""
    levels = [count for count in copy.repeats if count > 1]
    if link.stride_levels is None or len(levels) <= link.stride_levels:
        return 1
    return prod(levels[: len(levels) - link.stride_levels])


def start_cycles(copy: Copy, link: Link, route: Route) -> int:
    """Cycles before and between bytes, which no bandwidth removes: latency per descriptor, and
    what each run costs by itself."""
    runs = copy.runs if len(copy.repeats) else 1
    return descriptors(copy, link) * route.latency + whole_cycles(runs * route.cycles_per_run) - 1


class Way(NamedTuple):
    """A copy on one link that can carry it: cycles before its bytes move, bytes moved, the time it
    takes when nothing else moves, and the cycles of its bytes where they share no bandwidth with
    others (None where they do)."""

    link: Link
    cycles: int
    moved: int
    alone: float
    unshared: int | None


class CopyCost(NamedTuple):
    """All ways of a copy in the machine's order, which of them it takes at first (loads and stores
    take different ports where there are several), its energy, and whether it is hardly more than
    its latency."""

    ways: tuple[Way, ...]
    first: int
    energy_pj: float
    small: bool


def cost_of_copy(machine: Machine, source: str, destination: str, copy: Copy) -> CopyCost | None:
    """What a copy from one memory to another costs on every link that can carry it; None where no
    link leads there."""
    ways: list[Way] = []
    small = False
    for link, route in machine.routes(source, destination):
        cycles, moved = start_cycles(copy, link, route), moved_bytes(copy, route)
        took = moved / machine.alone_bytes_per_cycle(route)
        small = small if ways else took < SMALL * route.latency
        unshared = None if route.groups else whole_cycles(moved / route.bytes_per_cycle)
        ways.append(Way(link, cycles, moved, cycles + took, unshared))
    if not ways:
        return None
    each = machine.memory(source).read_pj_per_byte + machine.memory(destination).write_pj_per_byte
    first = 0 if source == machine.main_memory.name else len(ways) - 1
    return CopyCost(tuple(ways), first, copy.bytes * each, small)
