"""From the machine file to the Machine: names expanded, everything in one clock."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from math import ceil

from tilewright.errors import TilewrightError
from tilewright.machine.dtypes import rate_class
from tilewright.machine.machine import Core, Energy, Engine, Limits, Link, Machine, Memory, Route
from tilewright.machine.parameters import ArrayParameters
from tilewright.machine.schema import (
    CoreFile,
    LinkFile,
    MachineFile,
    MemoryFile,
    Quantity,
    RouteFile,
    sources_of,
)


def build_machine(file: MachineFile) -> Machine:
    """The machine a checked file describes."""
    clock = file.clock
    shared = tuple(_memory(name, None, m, clock) for name, m in file.memories.items())
    cores = tuple(
        _core(core_name, core, clock)
        for name, core in file.cores.items()
        for core_name in _copies(name, core.count)
    )
    memories = (*shared, *(memory for core in cores for memory in core.memories))
    groups = {m.name: m.bytes_per_cycle for m in memories if m.bytes_per_cycle is not None}
    groups |= {name: _rate(g.bandwidth, clock, clock) for name, g in file.groups.items()}
    links = tuple(
        _link(link_name, f"links.{name}", link, memories, groups, clock)
        for name, link in file.links.items()
        for link_name in _copies(name, link.count)
    )
    limits = file.limits.model_dump(exclude={"source"})
    mac_pj = tuple((rate_class(dtype), pj) for dtype, pj in file.energy.mac_pj.items())
    return Machine(
        file.name,
        file.title,
        clock,
        rate_class(file.dtype),
        cores,
        shared,
        links,
        tuple(groups.items()),
        Limits(**limits),
        Energy(mac_pj, file.energy.vector_pj, file.energy.estimate),
        tuple(sources_of(file)),
    )


def _copies(name: str, count: int | None) -> tuple[str, ...]:
    return (name,) if count is None else tuple(f"{name}{index}" for index in range(count))


def _core(name: str, file: CoreFile, clock: float) -> Core:
    engines: list[Engine] = []
    for short, engine in file.engines.items():
        parameters = engine.parameters
        if isinstance(parameters, ArrayParameters):
            _check_array(f"cores.{name}.engines.{short}", parameters)
        own = engine.clock or clock
        full = f"{name}.{short}"
        engines.append(Engine(full, name, engine.kind, engine.model, own, clock / own, parameters))
    memories = tuple(_memory(f"{name}.{m}", name, file.memories[m], clock) for m in file.memories)
    return Core(name, memories, tuple(engines))


def _check_array(where: str, parameters: ArrayParameters) -> None:
    if not parameters.modes or not parameters.rates:
        raise TilewrightError(f"{where}.parameters: needs at least one mode and one rate")
    for dtype, rate in parameters.rates.items():
        rate_class(dtype)
        for form in (rate.depthwise, rate.pool, rate.eltwise):
            if form is not None and form.mode is not None and form.mode not in parameters.modes:
                raise TilewrightError(f"{where}.parameters.rates.{dtype}: no mode '{form.mode}'")


def _memory(name: str, core: str | None, file: MemoryFile, clock: float) -> Memory:
    usable = file.capacity if file.usable is None else file.usable
    rate = None if file.bandwidth is None else _rate(file.bandwidth, clock, clock)
    return Memory(
        name,
        core,
        file.capacity,
        usable,
        file.alignment,
        file.banks,
        file.partitions,
        rate,
        file.read_pj_per_byte,
        file.write_pj_per_byte,
    )


def _link(
    name: str,
    where: str,
    file: LinkFile,
    memories: tuple[Memory, ...],
    groups: dict[str, float],
    clock: float,
) -> Link:
    routes: list[Route] = []
    for key, route in file.routes.items():
        found = list(_routes(route, file.clock or clock, memories, groups, clock))
        if not found:
            raise TilewrightError(
                f"{where}.routes.{key}: '{route.origin}' to '{route.to}' names no pair of memories"
            )
        unknown = [group for group in route.groups if group not in groups]
        if unknown:
            raise TilewrightError(f"{where}.routes.{key}.groups: no bandwidth '{unknown[0]}'")
        routes += [r for r in found if all(_ends(r) != _ends(old) for old in routes)]
    return Link(name, file.kind, tuple(routes), file.stride_levels)


def _ends(route: Route) -> tuple[str, str]:
    return route.source, route.destination


def _routes(
    file: RouteFile,
    own: float,
    memories: tuple[Memory, ...],
    groups: dict[str, float],
    clock: float,
) -> Iterator[Route]:
    """Every pair of memories the patterns name; a memory with a bandwidth is a shared group."""
    ways = [(file.origin, file.to)]
    if file.both_ways:
        ways.append((file.to, file.origin))
    per_run = 0.0 if file.per_run is None else _cycles(file.per_run, own, clock)
    for origin, target in ways:
        for source in memories:
            for destination in memories:
                matches = fnmatchcase(source.name, origin) and fnmatchcase(destination.name, target)
                if not matches or (source is destination and source.core is None):
                    continue  # copies within a shared memory are told apart from routes
                ends = (name for name in (source.name, destination.name) if name in groups)
                yield Route(
                    source.name,
                    destination.name,
                    ceil(round(_cycles(file.latency, own, clock), 6)),
                    _rate(file.bandwidth, own, clock),
                    tuple(dict.fromkeys((*ends, *file.groups))),
                    file.burst,
                    per_run,
                    file.multicast,
                )


def _cycles(quantity: Quantity, own: float, clock: float) -> float:
    """A latency in cycles of the reference clock."""
    return quantity.value * clock / own if quantity.in_cycles else quantity.value * clock


def _rate(quantity: Quantity, own: float, clock: float) -> float:
    """A bandwidth in bytes per cycle of the reference clock."""
    return quantity.value * own / clock if quantity.in_cycles else quantity.value / clock
