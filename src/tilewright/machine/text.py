"""A machine as text, for people: what it has, in one clock, and where the figures come from."""

from collections.abc import Iterator

from tilewright.machine.machine import ROLES, Core, Link, Machine, Memory
from tilewright.units import format_bandwidth, format_bytes, format_frequency, some


def machine_text(machine: Machine, sources: bool = False) -> str:
    """The machine in a few lines, always in one order; `sources` adds where figures are from."""
    return "\n".join(_lines(machine, sources)) + "\n"


def _lines(machine: Machine, sources: bool) -> Iterator[str]:
    clock = format_frequency(machine.clock_hz)
    yield f"{machine.name}: {machine.title}"
    yield f"  cycles of {clock}, elements {machine.dtype}"
    for memory in machine.shared:
        yield f"  memory {_memory(memory, machine)}"
    for core in machine.cores:
        yield from _core(core, machine)
    for link in machine.links:
        yield from _link(link, machine)
    yield from _paths(machine)
    limits = machine.limits
    given = {key: getattr(limits, key) for key in limits.__slots__}
    yield "  limits " + ", ".join(f"{k} {v}" for k, v in given.items() if v is not None)
    energies = ", ".join(f"{dtype} {pj:g} pJ" for dtype, pj in machine.energy.mac_pj)
    if energies:
        estimate = " (estimate)" if machine.energy.estimate else ""
        yield f"  energy per multiply-accumulate {energies}{estimate}"
    elif not machine.counts_energy:
        yield "  energy not counted: the file has no figures for it (key energy)"
    if sources:
        yield "  sources"
        yield from (f"    {place}: {text}" for place, text in machine.sources)


def _memory(memory: Memory, machine: Machine) -> str:
    parts = [f"{memory.name} {format_bytes(memory.usable)} usable"]
    if memory.usable < memory.capacity:
        parts.append(f"of {format_bytes(memory.capacity)}")
    if memory.partitions > 1:
        parts.append(f"in {memory.partitions} partitions")
    if memory.bytes_per_cycle is not None:
        rate = format_bandwidth(memory.bytes_per_cycle * machine.clock_hz)
        parts.append(f"at {rate} ({memory.bytes_per_cycle:.1f} B/cycle)")
    if memory.roles != ROLES:
        parts.append(f"for {', '.join(memory.roles) or 'nothing that a plan places'}")
    return " ".join(parts)


def _core(core: Core, machine: Machine) -> Iterator[str]:
    yield f"  core {core.name}"
    for memory in core.memories:
        yield f"    memory {_memory(memory, machine)}"
    for engine in core.engines:
        clock = format_frequency(engine.clock_hz)
        does = ", ".join(engine.output_stage) or "does nothing"
        stage = f", output stage: {does}" if engine.kind == "matrix" else ""
        yield f"    {engine.kind} engine {engine.name}, {engine.model} model, {clock}{stage}"


def _paths(machine: Machine) -> Iterator[str]:
    """How data gets from the main memory to the cores where no link does it at once; cores that
    are reached alike are one line."""
    classes: dict[str, list[str]] = {}
    for core in machine.cores:
        hops = machine.path(machine.main_memory.name, core.memory.name)
        if len(hops) > 1:
            stops = " -> ".join(route.source for _, route in hops)
            classes.setdefault(stops, []).append(core.memory.name)
    for stops, ends in classes.items():
        yield f"  path {stops} -> {some(ends, 1)}"


def _link(link: Link, machine: Machine) -> Iterator[str]:
    """Routes of equal figures are one line."""
    yield f"  {link.kind} {link.name}"
    classes: dict[str, list[str]] = {}
    for route in link.routes:
        rate = machine.alone_bytes_per_cycle(route)
        shared = f", shares {', '.join(route.groups)}" if route.groups else ""
        figures = f"{route.latency} cycles + bytes / {rate:.1f}{shared}"
        classes.setdefault(figures, []).append(f"{route.source} -> {route.destination}")
    for figures, routes in classes.items():
        yield f"    {some(routes, 1)}: {figures}"
