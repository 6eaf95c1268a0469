"""From the machine file to the Machine: names expanded, everything in one clock.

What a single value cannot show is checked here: that names meet, that roles are taken once, that
data gets from the main memory to every core and back. All faults are found before any is raised.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from math import ceil

from tilewright.errors import TilewrightError
from tilewright.machine.effects import engine_faults
from tilewright.machine.ends import copies, meant, no_pair
from tilewright.machine.faults import KeyFaultsError, Keys
from tilewright.machine.machine import (
    FINISHES,
    ROLES,
    USUAL_FINISHES,
    Core,
    Energy,
    Engine,
    Limits,
    Link,
    Machine,
    Memory,
    Role,
    Route,
)
from tilewright.machine.ranges import (
    CLOCK_RATIO,
    LEAST_RATE,
    MOST_CORES,
    MOST_LATENCY,
    MOST_LINKS,
    MOST_RATE,
    MOST_ROUTES,
)
from tilewright.machine.schema import (
    CoreFile,
    LinkFile,
    MachineFile,
    MemoryFile,
    Quantity,
    RouteFile,
    sources_of,
)

Faults = list[tuple[Keys, str]]


def build_machine(file: MachineFile) -> Machine:
    """The machine a checked file describes; raises `KeyFaultsError` with all its faults."""
    builder = _Builder(file)
    machine = builder.machine()
    if not builder.faults:
        builder.faults += _unreachable(machine, file)
        try:
            machine.elements(file.dtype)
        except TilewrightError as error:
            builder.faults.append((("dtype",), str(error)))
    if builder.faults:
        raise KeyFaultsError(builder.faults)
    return machine


class _Builder:
    """One file on its way to a machine, and what was found wrong with it."""

    def __init__(self, file: MachineFile) -> None:
        self.file, self.clock = file, file.clock
        self.faults: Faults = []
        self._few(file.cores, MOST_CORES, "cores")
        self._few(file.links, MOST_LINKS, "links")
        if self.faults:
            raise KeyFaultsError(self.faults)

    def machine(self) -> Machine:
        """The machine, faults and all."""
        file = self.file
        shared = tuple(
            self._memory(name, None, m, m.roles or ROLES, ("memories", name))
            for name, m in file.memories.items()
        )
        if shared[0].roles != ROLES:
            self._fault(("memories", shared[0].name, "roles"), "the main memory holds everything")
        cores = tuple(
            self._core(core_name, core, ("cores", name))
            for name, core in file.cores.items()
            for core_name in copies(name, core.count)
        )
        self._told_apart(("cores",), (core.name for core in cores))
        memories = (*shared, *(memory for core in cores for memory in core.memories))
        groups = self._groups(memories)
        links = tuple(self._links(memories, groups))
        used = {group for link in links for route in link.routes for group in route.groups}
        for name in file.groups:
            if name not in used:
                text = f"has no effect: no route shares it (groups: [{name}])"
                self._fault(("groups", name), text)
        self._told_apart(("links",), (link.name for link in links))
        limits, energy = file.limits, file.energy
        return Machine(
            file.name,
            file.title,
            file.clock,
            file.dtype,
            cores,
            shared,
            links,
            tuple(groups.items()),
            Limits() if limits is None else Limits(**limits.model_dump(exclude={"source"})),
            Energy()
            if energy is None
            else Energy(tuple(energy.mac_pj.items()), energy.vector_pj, energy.estimate),
            tuple(sources_of(file)),
        )

    def _fault(self, keys: Keys, text: str) -> None:
        if (keys, text) not in self.faults:
            self.faults.append((keys, text))

    def _few(self, items: Mapping[str, CoreFile] | Mapping[str, LinkFile], most: int, key: str):
        count = sum(item.count or 1 for item in items.values())
        if count > most:
            self._fault((key,), f"at most {most} in all, not {count}")

    def _told_apart(self, keys: Keys, names: Iterable[str]) -> None:
        for name, times in Counter(names).items():
            if times > 1:
                self._fault(keys, f"{times} are called '{name}'")

    def _groups(self, memories: tuple[Memory, ...]) -> dict[str, float]:
        groups = {m.name: m.bytes_per_cycle for m in memories if m.bytes_per_cycle is not None}
        for name, group in self.file.groups.items():
            keys = ("groups", name)
            if name in groups:
                self._fault(keys, "is the bandwidth of a memory already")
            groups[name] = self._rate(group.bandwidth, self.clock, (*keys, "bandwidth"))
        return groups

    def _core(self, name: str, file: CoreFile, keys: Keys) -> Core:
        engines: list[Engine] = []
        partitioned = any(memory.partitions > 1 for memory in file.memories.values())
        for short, engine in file.engines.items():
            at = (*keys, "engines", short)
            parameters = engine.parameters
            for place, text in engine_faults(parameters, partitioned):
                self._fault((*at, "parameters", *place), text)
            if engine.kind == "matrix" and engine.model == "vector":
                text = "costs elements, not multiply-accumulates: a matrix engine takes array or"
                self._fault((*at, "model"), f"{text} table; or write kind: vector")
            if engine.kind == "vector" and engine.output_stage is not None:
                text = "only matrix engines have one: vector engines run what is left"
                self._fault((*at, "output_stage"), text)
            for finish, times in Counter(engine.output_stage or ()).items():
                if times > 1:
                    self._fault((*at, "output_stage"), f"names '{finish}' {times} times")
            own = self._clock(engine.clock, at)
            given = USUAL_FINISHES if engine.output_stage is None else engine.output_stage
            engines.append(
                Engine(
                    f"{name}.{short}",
                    name,
                    engine.kind,
                    engine.model,
                    own,
                    self.clock / own,
                    parameters,
                    # In one order whatever the file's is.
                    tuple(f for f in FINISHES if f in given and engine.kind == "matrix"),
                )
            )
        roles = self._roles(file.memories, (*keys, "memories"))
        memories = tuple(
            self._memory(f"{name}.{short}", name, memory, roles[short], (*keys, "memories", short))
            for short, memory in file.memories.items()
        )
        return Core(name, memories, tuple(engines))

    def _roles(
        self, memories: Mapping[str, MemoryFile], keys: Keys
    ) -> Mapping[str, tuple[Role, ...]]:
        """The roles of each memory of a core: those it names, each named once; the first that names
        none has all that are left."""
        owner: dict[Role, str] = {}
        for name, memory in memories.items():
            for role in memory.roles or ():
                if role in owner:
                    text = f"'{role}' is a role of {owner[role]} already"
                    self._fault((*keys, name, "roles"), text)
                owner.setdefault(role, name)
        left = next((name for name, memory in memories.items() if memory.roles is None), None)
        for role in ROLES:
            if role not in owner and left is None:
                self._fault(keys, f"none of them has the role '{role}'")
            owner.setdefault(role, left or next(iter(memories)))
        return {name: tuple(r for r in ROLES if owner[r] == name) for name in memories}

    def _clock(self, own: float | None, keys: Keys) -> float:
        if own is not None and not 1 / CLOCK_RATIO <= own / self.clock <= CLOCK_RATIO:
            text = f"has to be within a factor of {CLOCK_RATIO} of the reference clock"
            self._fault((*keys, "clock"), text)
        return own or self.clock

    def _memory(
        self, name: str, core: str | None, file: MemoryFile, roles: tuple[Role, ...], keys: Keys
    ) -> Memory:
        usable = file.capacity if file.usable is None else file.usable
        rate = None
        if file.bandwidth is not None:
            rate = self._rate(file.bandwidth, self.clock, (*keys, "bandwidth"))
        given = file.model_dump(exclude={"source", "usable", "bandwidth", "roles"})
        return Memory(name, core, usable=usable, bytes_per_cycle=rate, roles=roles, **given)

    def _links(self, memories: tuple[Memory, ...], groups: dict[str, float]) -> Iterator[Link]:
        total = 0
        for name, link in self.file.links.items():
            routes = self._all_routes(link, ("links", name), memories, groups)
            total += len(routes) * (link.count or 1)
            if total > MOST_ROUTES:
                text = f"their patterns give {total} routes, at most {MOST_ROUTES} are allowed"
                self._fault(("links", name, "routes"), text)
                return
            for link_name in copies(name, link.count):
                yield Link(link_name, link.kind, routes, link.stride_levels)

    def _all_routes(
        self, file: LinkFile, keys: Keys, memories: tuple[Memory, ...], groups: dict[str, float]
    ) -> tuple[Route, ...]:
        """The routes of a link; of two between the same memories the first counts."""
        routes: dict[tuple[str, str], Route] = {}
        own = self._clock(file.clock, keys)
        for key, route in file.routes.items():
            at = (*keys, "routes", key)
            made = list(self._routes(route, own, memories, groups, at))
            new = [one for one in made if (one.source, one.destination) not in routes]
            for one in new:
                routes.setdefault((one.source, one.destination), one)
            if made and not new:
                text = "has no effect: routes before it copy between the same memories"
                self._fault(at, text)
            if not made:
                names = [memory.name for memory in memories]
                counts = {name: core.count for name, core in self.file.cores.items()}
                hint = meant(route.origin, route.to, names, counts) or ""
                self._fault(at, f"{no_pair(route.origin, route.to)}{hint}")
            for group in route.groups:
                if group not in groups:
                    self._fault((*at, "groups"), f"no bandwidth '{group}'")
        return tuple(routes.values())

    def _routes(
        self,
        file: RouteFile,
        own: float,
        memories: tuple[Memory, ...],
        groups: dict[str, float],
        keys: Keys,
    ) -> Iterator[Route]:
        """Every pair of memories the patterns name; a memory with a bandwidth is a shared group."""
        latency = ceil(round(self._cycles(file.latency, own, (*keys, "latency")), 6))
        rate = self._rate(file.bandwidth, own, (*keys, "bandwidth"))
        per_run = 0.0
        if file.per_run is not None:
            per_run = self._cycles(file.per_run, own, (*keys, "per_run"))
        ends = [[m for m in memories if fnmatchcase(m.name, p)] for p in (file.origin, file.to)]
        for sources, targets in (ends, ends[::-1])[: 2 if file.both_ways else 1]:
            for source in sources:
                for target in targets:
                    if source is target and source.core is None:
                        continue  # copies within a shared memory are told apart from routes
                    shared = (name for name in (source.name, target.name) if name in groups)
                    yield Route(
                        source.name,
                        target.name,
                        latency,
                        rate,
                        tuple(dict.fromkeys((*shared, *file.groups))),
                        file.burst,
                        per_run,
                        file.multicast,
                    )

    def _cycles(self, quantity: Quantity, own: float, keys: Keys) -> float:
        """A latency in cycles of the reference clock."""
        cycles = quantity.value * self.clock / (own if quantity.in_cycles else 1)
        if cycles > MOST_LATENCY:
            self._fault(keys, f"has to be at most {MOST_LATENCY:g} cycles, is {cycles:g}")
        return min(cycles, MOST_LATENCY)

    def _rate(self, quantity: Quantity, own: float, keys: Keys) -> float:
        """A bandwidth in bytes per cycle of the reference clock."""
        rate = quantity.value * (own if quantity.in_cycles else 1) / self.clock
        if not LEAST_RATE <= rate <= MOST_RATE:
            text = f"has to be {LEAST_RATE:g} to {MOST_RATE:g} bytes per cycle of the reference"
            self._fault(keys, f"{text} clock, is {rate:g}")
        return rate


def _unreachable(machine: Machine, file: MachineFile) -> Iterator[tuple[Keys, str]]:
    """Cores that data cannot get to, or back from."""
    main = machine.main_memory.name
    keys = {name: key for key, core in file.cores.items() for name in copies(key, core.count)}
    for core in machine.cores:
        tiles, weights = core.memory.name, core.holding("weights").name
        for ends in dict.fromkeys(((main, tiles), (tiles, main), (main, weights))):
            if machine.find_path(*ends) is None:
                text = f"no links lead from '{ends[0]}' to '{ends[1]}': add a route under links"
                yield ("cores", keys[core.name]), text
