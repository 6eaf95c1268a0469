"""Machine: cores with engines and local memories, shared memories, and links between memories.

Frozen facts in one clock: every latency is in cycles of the reference clock and every bandwidth in
bytes per such cycle, whatever clock domain the file wrote them in.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from tilewright.errors import TilewrightError
from tilewright.machine.parameters import ArrayParameters, EngineParameters, TableParameters

LinkKind = Literal["dma", "link", "bus", "broadcast"]
EngineKind = Literal["matrix", "vector"]
_T = TypeVar("_T", "Memory", "Core", "Link")


@dataclass(frozen=True, slots=True)
class Memory:
    """A place for tensors. `usable` is what a planner may give away; `core` is None for a memory
    that all cores share. `bytes_per_cycle` bounds all links together, where known."""

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

    @property
    def partition_bytes(self) -> int:
        """Usable bytes of one partition."""
        return self.usable // self.partitions


@dataclass(frozen=True, slots=True)
class Engine:
    """Something that computes. `reference_cycles` is how many cycles of the reference clock one of
    its own takes; `model` names the cost model that reads `parameters`."""

    name: str
    core: str
    kind: EngineKind
    model: str
    clock_hz: float
    reference_cycles: float
    parameters: EngineParameters


@dataclass(frozen=True, slots=True)
class Core:
    """Engines around local memories; the first memory is where tiles live."""

    name: str
    memories: tuple[Memory, ...]
    engines: tuple[Engine, ...]

    @property
    def memory(self) -> Memory:
        """The memory that tiles live in."""
        return self.memories[0]

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
        for route in self.routes:
            if (route.source, route.destination) == (source, destination):
                return route
        return None


@dataclass(frozen=True, slots=True)
class Limits:
    """What one operator may be; None is no limit. A pad may not exceed half the kernel where
    `pad_half_kernel`; `weight_table` is extra bytes per output channel beside the weights."""

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


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything a plan has to know about the hardware. `groups` are shared bandwidths in bytes per
    cycle; `sources` says, per place in the file, where its parameters come from."""

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

    @property
    def memories(self) -> tuple[Memory, ...]:
        """All memories, the shared ones first."""
        return (*self.shared, *(memory for core in self.cores for memory in core.memories))

    @property
    def packed_channels(self) -> int:
        """The most channels of a network's input that every array reads packed; 0: none does."""
        arrays = [engine for engine in self.engines if engine.kind == "matrix"]
        return min((_packed(engine.parameters) for engine in arrays), default=0)

    @property
    def main_memory(self) -> Memory:
        """The shared memory that holds the network's inputs, outputs and weights."""
        return self.shared[0]

    @property
    def engines(self) -> tuple[Engine, ...]:
        """All compute engines, core by core."""
        return tuple(engine for core in self.cores for engine in core.engines)

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
        return dict(self.groups)[name]

    def routes(self, source: str, destination: str) -> Iterator[tuple[Link, Route]]:
        """Every link that can copy from one memory to another."""
        for link in self.links:
            route = link.route(source, destination)
            if route is not None:
                yield link, route

    def alone_bytes_per_cycle(self, route: Route) -> float:
        """What a copy reaches when nothing else moves: its own rate, or a shared bandwidth."""
        return min([route.bytes_per_cycle, *map(self.group_bytes_per_cycle, route.groups)])

    def seconds(self, cycles: float) -> float:
        """Cycles of the reference clock as time."""
        return cycles / self.clock_hz

    def with_memory(self, usable: int, memory: str | None = None) -> "Machine":
        """The same machine with other local memories: `usable` bytes in the one named (`cmx`, in
        every core that has it), or in each core's main one. The reserved part stays."""
        hit = False

        def resized(core: Core) -> Core:
            nonlocal hit
            changed: list[Memory] = []
            for index, old in enumerate(core.memories):
                chosen = index == 0 if memory is None else memory in (old.name, _last(old.name))
                hit = hit or chosen
                capacity = usable + old.capacity - old.usable
                changed.append(replace(old, capacity=capacity, usable=usable) if chosen else old)
            return replace(core, memories=tuple(changed))

        cores = tuple(map(resized, self.cores))
        if usable <= 0 or not hit:
            raise TilewrightError(f"machine {self.name}: cannot set memory {memory} to {usable} B")
        return replace(self, cores=cores)

    def with_bandwidth(self, group: str, bytes_per_second: float) -> "Machine":
        """The same machine with another shared bandwidth (a shared memory's name is its group)."""
        rate = bytes_per_second / self.clock_hz
        if group not in dict(self.groups) or rate <= 0:
            known = ", ".join(name for name, _ in self.groups) or "none"
            raise TilewrightError(f"machine {self.name}: no bandwidth '{group}' (it has {known})")
        return replace(
            self,
            groups=tuple((name, rate if name == group else old) for name, old in self.groups),
            shared=tuple(
                replace(m, bytes_per_cycle=rate) if m.name == group else m for m in self.shared
            ),
        )


def _packed(parameters: EngineParameters) -> int:
    if isinstance(parameters, TableParameters):
        return 0 if parameters.otherwise is None else _packed(parameters.otherwise)
    return parameters.packed_channels or 0 if isinstance(parameters, ArrayParameters) else 0


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _named(items: tuple[_T, ...], name: str, complaint: str) -> _T:
    for item in items:
        if item.name == name:
            return item
    known = ", ".join(item.name for item in items)
    raise TilewrightError(f"{complaint} '{name}' (it has {known})")
