"""Machine: cores with engines and local memories, shared memories, and links between memories.

Frozen facts in one clock: every latency is in cycles of the reference clock and every bandwidth in
bytes per such cycle, whatever clock domain the file wrote them in.

Memories form a hierarchy by their routes alone: the main memory holds the network, other shared
memories lie on the chip, each core has its own. `path` is the way between any two of them.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Literal, TypeVar, get_args

from tilewright.errors import TilewrightError
from tilewright.machine.dtypes import rate_class
from tilewright.machine.parameters import EngineParameters, lacking_elements, packed_channels
from tilewright.machine.paths import shortest_path
from tilewright.units import (
    format_bandwidth,
    format_binary,
    number_of,
    parse_bandwidth,
    parse_bytes,
    several,
)

LinkKind = Literal["dma", "link", "bus", "broadcast"]
EngineKind = Literal["matrix", "vector"]
Role = Literal["activations", "weights", "accumulators"]
ROLES: tuple[Role, ...] = get_args(Role)
Finish = Literal["bias", "clamp", "activation", "scale", "add"]
FINISHES: tuple[Finish, ...] = get_args(Finish)
USUAL_FINISHES: tuple[Finish, ...] = ("bias", "clamp")
# A path is chosen for a copy of so many bytes: a tile, neither a descriptor nor a network.
PATH_BYTES = 16 * 1024
_T = TypeVar("_T", "Memory", "Core", "Link")


@dataclass(frozen=True, slots=True)
class Memory:
    """A place for tensors. `usable` is what a planner may give away; `core` is None for a memory
    that all cores share. `bytes_per_cycle` bounds all links together, where known; `roles` are
    what it holds (none: nothing that a planner places)."""

    name: str
    core: str | None
    capacity: int
    usable: int
    alignment: int
    banks: int = 1
    partitions: int = 1
    bytes_per_cycle: float | None = None
    read_pj_per_byte: float = 0.0
    write_pj_per_byte: float = 0.0
    roles: tuple[Role, ...] = ROLES

    @property
    def partition_bytes(self) -> int:
        """Usable bytes of one partition."""
        return self.usable // self.partitions


@dataclass(frozen=True, slots=True)
class Engine:
    """Something that computes. `reference_cycles` is how many cycles of the reference clock one of
    its own takes; `model` names the cost model that reads `parameters`. `output_stage` is what a
    matrix engine does to its results on their way out, at no further cycles."""

    name: str
    core: str
    kind: EngineKind
    model: str
    clock_hz: float
    reference_cycles: float
    parameters: EngineParameters
    output_stage: tuple[Finish, ...] = ()


@dataclass(frozen=True, slots=True)
class Core:
    """Engines around local memories. Each role is one memory's; all of them the first one's where
    the file names none."""

    name: str
    memories: tuple[Memory, ...]
    engines: tuple[Engine, ...]

    @property
    def memory(self) -> Memory:
        """The memory that tiles live in."""
        return self.holding("activations")

    def holding(self, role: Role) -> Memory:
        """The memory that has a role."""
        return next(memory for memory in self.memories if role in memory.roles)

    def engine(self, kind: EngineKind) -> Engine | None:
        """Its first engine of a kind."""
        return next((engine for engine in self.engines if engine.kind == kind), None)


@dataclass(frozen=True, slots=True)
class Route:
    """A direction a link can copy in. `groups` name the bandwidths it shares with others; a copy on
    a `multicast` route may have several destinations at the price of one."""

    source: str
    destination: str
    latency: int
    bytes_per_cycle: float
    groups: tuple[str, ...]
    burst: int = 1
    cycles_per_run: float = 0.0
    multicast: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """An engine whose tasks are copies, one at a time. One descriptor holds `stride_levels` levels
    of stride (None: any number); a copy with more becomes several."""

    name: str
    kind: LinkKind
    routes: tuple[Route, ...]
    stride_levels: int | None = None

    def route(self, source: str, destination: str) -> Route | None:
        """The way from one memory to another, if the link has it."""
        ends = source, destination
        return next((r for r in self.routes if (r.source, r.destination) == ends), None)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one operator may be; None is no limit. A pad may not exceed half of what the kernel
    spans where `pad_half_kernel`; `weight_table` is extra bytes per output channel beside the
    weights."""

    kernel: int | None = None
    stride: int | None = None
    dilation: int | None = None
    dimension: int | None = None
    channel_alignment: int = 1
    pad_half_kernel: bool = False
    weight_table: int = 0


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of one multiply-accumulate and one vector element operation by element type, in pJ."""

    mac_pj: tuple[tuple[str, float], ...] = ()
    vector_pj: float = 0.0
    estimate: bool = True


Hop = tuple[Link, Route]


@dataclass(frozen=True)  # no slots: what is asked for often is worked out once, and kept
class Machine:
    """Everything a plan has to know about the hardware. `groups` are shared bandwidths in bytes per
    cycle; `sources` says, per place in the file, where its parameters come from, `keys` what stands
    there. The first shared memory is the main one; cores may differ in everything."""

    name: str
    title: str
    clock_hz: float
    dtype: str
    cores: tuple[Core, ...]
    shared: tuple[Memory, ...]
    links: tuple[Link, ...]
    groups: tuple[tuple[str, float], ...]
    limits: Limits
    energy: Energy
    sources: tuple[tuple[str, str], ...] = ()
    keys: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        return f"Machine({self.name!r}: {self.title}, {several(len(self.cores), 'core')})"

    def __str__(self) -> str:
        from tilewright.machine.text import machine_text  # which needs this class

        return machine_text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    @cached_property
    def memories(self) -> tuple[Memory, ...]:
        """All memories, the shared ones first."""
        return (*self.shared, *(memory for core in self.cores for memory in core.memories))

    @property
    def packed_channels(self) -> int:
        """The most channels of a network's input that every array reads packed; 0: none does."""
        arrays = [engine for engine in self.engines if engine.kind == "matrix"]
        return min((packed_channels(engine.parameters) for engine in arrays), default=0)

    @property
    def main_memory(self) -> Memory:
        """The shared memory that holds the network's inputs, outputs and weights."""
        return self.shared[0]

    @property
    def on_chip(self) -> tuple[Memory, ...]:
        """The shared memories beside the main one: between it and the cores."""
        return self.shared[1:]

    @cached_property
    def engines(self) -> tuple[Engine, ...]:
        """All compute engines, core by core."""
        return tuple(engine for core in self.cores for engine in core.engines)

    @cached_property
    def finishes(self) -> frozenset[str]:
        """What the output stage of any engine does."""
        return frozenset(finish for engine in self.engines for finish in engine.output_stage)

    @property
    def counts_energy(self) -> bool:
        """Whether the machine has any figures for energy."""
        moved = any(m.read_pj_per_byte or m.write_pj_per_byte for m in self.memories)
        return bool(self.energy.mac_pj or self.energy.vector_pj or moved)

    def elements(self, dtype: str) -> str:
        """The class of an element type (`uint8` is `int8`); an error where no engine has it."""
        wanted = rate_class(dtype)
        lacking = lacking_elements([e.parameters for e in self.engines], wanted, held=False)
        if lacking:
            raise TilewrightError(f"machine {self.name} {lacking}")
        return wanted

    def memory(self, name: str) -> Memory:
        """A memory by name: `ddr`, `cluster0.cmx`."""
        return _named(self.memories, name, f"machine {self.name} has no memory")

    def core(self, name: str) -> Core:
        """A core by name."""
        return _named(self.cores, name, f"machine {self.name} has no core")

    def link(self, name: str) -> Link:
        """A link by name."""
        return _named(self.links, name, f"machine {self.name} has no link")

    def group_bytes_per_cycle(self, name: str) -> float:
        """What a shared bandwidth can carry."""
        return self._rates[name]

    def routes(self, source: str, destination: str) -> Iterator[Hop]:
        """Every link that can copy from one memory to another at once, in the file's order."""
        yield from self._hops.get((source, destination), ())

    def path(self, source: str, target: str) -> tuple[Hop, ...]:
        """The hops that bring `PATH_BYTES` from one memory to another in the fewest cycles; of
        equal ones the fewest hops, then the file's order. Other cores' memories are passed through
        only where there is no other way. A memory is no hop away from itself; none at all is an
        error."""
        found = self.find_path(source, target)
        if found is None:
            raise TilewrightError(f"machine {self.name} has no path from {source} to {target}")
        return found

    def find_path(self, source: str, target: str) -> tuple[Hop, ...] | None:
        """As `path`; None where no links lead there."""
        if (source, target) not in self._paths:
            ends = {self.memory(source).core, self.memory(target).core, None}
            own = frozenset(memory.name for memory in self.memories if memory.core in ends)
            found = shortest_path(self._cheapest, source, target, own)
            if found is None:
                found = shortest_path(self._cheapest, source, target, None)
            self._paths[source, target] = found
        return self._paths[source, target]

    def levels(self, core: Core) -> tuple[Memory, ...]:
        """The memories of a core's data, nearest first: its own, the shared ones it can exchange
        data with, the main memory last."""
        own, main = core.memory.name, self.main_memory
        near: list[tuple[float, int, Memory]] = []
        for index, memory in enumerate(self.on_chip):
            there, back = self.find_path(own, memory.name), self.find_path(memory.name, own)
            if there is None or back is None or any(r.source == main.name for _, r in back):
                continue
            near.append((sum(self.hop_cycles(r) for _, r in back), index, memory))
        return (core.memory, *(memory for *_, memory in sorted(near, key=lambda n: n[:2])), main)

    def hop_cycles(self, route: Route) -> float:
        """Cycles of `PATH_BYTES` in one run over one route, nothing else moving."""
        return route.latency + PATH_BYTES / self.alone_bytes_per_cycle(route)

    @cached_property
    def _hops(self) -> Mapping[tuple[str, str], tuple[Hop, ...]]:
        found: dict[tuple[str, str], list[Hop]] = {}
        for link in self.links:
            for route in link.routes:
                found.setdefault((route.source, route.destination), []).append((link, route))
        return {ends: tuple(hops) for ends, hops in found.items()}

    @cached_property
    def _paths(self) -> dict[tuple[str, str], tuple[Hop, ...] | None]:
        return {}

    @cached_property
    def _rates(self) -> Mapping[str, float]:
        return dict(self.groups)

    @cached_property
    def _cheapest(self) -> Mapping[str, Mapping[str, tuple[float, Hop]]]:
        """Of each pair of memories the link that is through first, by source and destination."""
        found: dict[str, dict[str, tuple[float, Hop]]] = {}
        for (source, destination), hops in self._hops.items():
            cycles = [self.hop_cycles(route) for _, route in hops]
            best = min(range(len(hops)), key=cycles.__getitem__)
            found.setdefault(source, {})[destination] = cycles[best], hops[best]
        return found

    def alone_bytes_per_cycle(self, route: Route) -> float:
        """What a copy reaches when nothing else moves: its own rate, or a shared bandwidth."""
        return min([route.bytes_per_cycle, *map(self._rates.__getitem__, route.groups)])

    def joint_bytes_per_cycle(self, route: Route) -> float:
        """What copies between the ends of a route reach together, on all links there are."""
        ways = [way for _, way in self.routes(route.source, route.destination)]
        shared = map(self._rates.__getitem__, route.groups)
        return min([sum(way.bytes_per_cycle for way in ways), *shared])

    def seconds(self, cycles: float) -> float:
        """Cycles of the reference clock as time."""
        return cycles / self.clock_hz

    def with_memory(self, usable: int | str, memory: str | None = None) -> "Machine":
        """The same machine with other memories: `usable` bytes ("512 KiB" too) in the one named (a
        shared one, or `cmx` in every core that has it), or where each core's tiles live. Reserved
        parts stay."""
        usable = parse_bytes(usable) if isinstance(usable, str) else usable
        _check_positive(self.name, "memory", usable, "bytes", whole=True)
        hit = False

        def resized(old: Memory, tiles: bool) -> Memory:
            nonlocal hit
            last = old.name.rpartition(".")[2]
            if not (tiles if memory is None else memory in (old.name, last)):
                return old
            hit = True
            return replace(old, capacity=usable + old.capacity - old.usable, usable=usable)

        cores = tuple(
            replace(core, memories=tuple(resized(m, m is core.memory) for m in core.memories))
            for core in self.cores
        )
        shared = tuple(resized(m, False) for m in self.shared)
        if not hit:
            cores_have = (m.name for core in self.cores for m in core.memories)
            known = ", ".join(dict.fromkeys([*(m.name for m in self.shared), *cores_have]))
            raise TilewrightError(f"machine {self.name}: no memory '{memory}' (it has {known})")
        what = f"{memory} of {format_binary(usable)}" if memory else format_binary(usable)
        return replace(self, cores=cores, shared=shared)._changed(what)

    def _changed(self, what: str) -> "Machine":
        """The same machine by a name that tells what became of it."""
        return replace(self, name=f"{self.name} with {what}")

    def within(self, limit: int | None) -> "Machine":
        """The same machine with no more than so many usable bytes in each on-chip memory (None: as
        many as there are)."""
        if limit is None:
            return self

        def resized(old: Memory) -> Memory:
            return replace(old, usable=min(old.usable, limit))

        main, *others = self.shared
        cores = tuple(
            replace(core, memories=tuple(map(resized, core.memories))) for core in self.cores
        )
        return replace(self, cores=cores, shared=(main, *map(resized, others)))

    def with_cores(self, names: Collection[str]) -> "Machine":
        """The same machine with some of its cores only, by name, and what leads to them."""
        part = self.part(names)
        return part._changed(f"{', '.join(core.name for core in part.cores)} only")

    def part(self, names: Collection[str]) -> "Machine":
        """Some of its cores by the name of the machine: for what is planned within it."""
        known = [core.name for core in self.cores]
        if isinstance(names, int) or not names or not set(names) <= set(known):
            text = f"with_cores takes names of {', '.join(known)}, not {names!r}"
            raise TilewrightError(f"machine {self.name}: {text}")
        cores = tuple(core for core in self.cores if core.name in names)
        gone = {m.name for core in self.cores if core not in cores for m in core.memories}
        kept = [
            tuple(r for r in link.routes if not gone & {r.source, r.destination})
            for link in self.links
        ]
        links = (replace(link, routes=r) for link, r in zip(self.links, kept, strict=True) if r)
        return replace(self, cores=cores, links=tuple(links))

    def with_bandwidth(self, group: str, rate: float | str) -> "Machine":
        """The same machine with another shared bandwidth, in bytes per second or as "12 GB/s" (a
        shared memory's name is its group)."""
        per_second = parse_bandwidth(rate) if isinstance(rate, str) else rate
        _check_positive(self.name, "bandwidth", per_second, "bytes per second")
        each = per_second / self.clock_hz
        if group not in dict(self.groups):
            known = ", ".join(name for name, _ in self.groups) or "none"
            raise TilewrightError(f"machine {self.name}: no bandwidth '{group}' (it has {known})")
        changed = replace(
            self,
            groups=tuple((name, each if name == group else old) for name, old in self.groups),
            shared=tuple(
                replace(m, bytes_per_cycle=each) if m.name == group else m for m in self.shared
            ),
        )
        return changed._changed(f"{group} at {format_bandwidth(per_second)}")


def _check_positive(
    machine: str, what: str, given: object, unit: str, *, whole: bool = False
) -> None:
    """Raise unless a figure is a number above nothing."""
    number = number_of(given)
    if number is None or number <= 0 or (whole and not isinstance(number, int)):
        kind = "a whole number" if whole else "a number"
        text = f"has to be {kind} of {unit} above 0"
        raise TilewrightError(f"machine {machine}: {what} {given!r}: {text}")


def _named(items: tuple[_T, ...], name: str, complaint: str) -> _T:
    for item in items:
        if item.name == name:
            return item
    known = ", ".join(item.name for item in items)
    raise TilewrightError(f"{complaint} '{name}' (it has {known})")
