"""Accelerator files of Stream, and the core files of ZigZag they name, read as they are."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tilewright.machine.load import list_machines
from tilewright.manycore.files import (
    MOST,
    FileSection,
    InputFileError,
    fault,
    notes_of,
    read_yaml,
    whole,
)
from tilewright.manycore.hardware import OPERANDS, Accelerator, CoreKind, CoreMemory, Port, Wire

_DIRECTIONS = ("tl", "fh", "fl", "th")
_PORT_KINDS = ("read", "write", "read_write")
# What such files carry that has no bearing here: areas, what a generator would fill in.
_KNOWN = frozenset({"area", "latency", "auto_cost_extraction", "unit_area", "type", "cost"})
_OF_MACHINES = frozenset({"memories", "links", "extends"})  # keys of machine files alone
_NO_MAPPING = (
    "it is planned without a mapping (--mapping), which is for accelerator files of Stream (cores "
    "by number, core_connectivity)"
)


def is_accelerator_file(file: Path) -> bool:
    """Whether a YAML file describes cores by number and what connects them."""
    if file.suffix not in (".yaml", ".yml") or not file.is_file():
        return False
    try:
        tree = read_yaml(file)
    except InputFileError:
        return False
    if not isinstance(tree, dict):
        return False
    keys = {str(key) for key in cast("dict[Any, Any]", tree)}
    return "cores" in keys and bool(keys & {"core_connectivity", "offchip_core_id", "offchip_core"})


def read_accelerator(file: Path) -> Accelerator:
    """The accelerator of a file and of the core files beside it."""
    if not file.is_file() and str(file) in list_machines():
        raise fault(file, "", f"is a machine that is shipped: {_NO_MAPPING}")
    top = FileSection(file, "", read_yaml(file))
    if top.tree.keys() & _OF_MACHINES and not is_accelerator_file(file):
        raise fault(file, "", f"is a machine file of Tilewright: {_NO_MAPPING}")
    name = top.text("name", file.stem)
    pj_per_bit = top.number("unit_energy_cost", 0.0)
    listed = top.section("cores")
    notes: list[str] = []
    read: dict[Path, CoreKind] = {}
    cores: dict[int, CoreKind] = {}
    for key in listed.tree:
        number = whole(key)
        if number is None:
            raise listed.error(
                key,
                "cores are numbered (0, 1, 2, ...); machine files of Tilewright are planned "
                "without a mapping",
            )
        cores[number] = _core_of(file, listed, key, read, notes)
    outside_id = _outside(file, top, listed, cores, read, notes)
    outside = cores.pop(outside_id)
    if not cores:
        raise top.error("cores", "there is no core beside the one outside")
    for number, core in cores.items():
        if core.units < 1:
            text = f"'{core.name}' cannot compute: a size in its operational_array.sizes is 0"
            raise listed.error(str(number), text)
    wires = _wires(top, cores, outside_id, pj_per_bit)
    if "offchip_core" in top.tree and not any(outside_id in wire.cores for wire in wires):
        wires += _outside_links(cores, outside, outside_id, pj_per_bit, len(wires))
    made = Accelerator(name, tuple(sorted(cores.items())), outside, outside_id, wires)
    _check_paths(top, made)
    if top.get("core_memory_sharing"):
        notes.append(f"{file}: core_memory_sharing: cores are taken to have memories of their own")
    return replace(made, notes=(*notes, *notes_of(file, top.left())))


def _core_of(
    file: Path, listed: FileSection, key: str, read: dict[Path, CoreKind], notes: list[str]
) -> CoreKind:
    """The core of an entry; files that are named twice are read once."""
    named = listed.text(key)
    try:
        path = next((p for p in _places(file, named) if p.is_file()), None)
    except OSError:  # no name that a file can have
        path = None
    if path is None:
        raise listed.error(key, f"there is no file '{named}'")
    if path not in read:
        read[path], left = read_core(path)
        notes += left
    return read[path]


def _places(file: Path, named: str) -> list[Path]:
    """Where a core file may lie: beside the accelerator, or in a folder `cores` there."""
    return [file.parent / named, file.parent / "cores" / named]


def _outside(
    file: Path,
    top: FileSection,
    listed: FileSection,
    cores: dict[int, CoreKind],
    read: dict[Path, CoreKind],
    notes: list[str],
) -> int:
    """The number of the core that stands for the memory outside."""
    if top.get("offchip_core_id") is not None:
        number = top.count("offchip_core_id", least=0)
        if number not in cores:
            raise top.error("offchip_core_id", f"there is no core {number}")
        return number
    if top.get("offchip_core") is None:
        raise top.error("offchip_core_id", "is missing: which core is the memory outside?")
    number = max(cores, default=-1) + 1
    cores[number] = _core_of(file, top, "offchip_core", read, notes)
    return number


def _wires(
    top: FileSection, cores: dict[int, CoreKind], outside: int, pj_per_bit: float
) -> tuple[Wire, ...]:
    """What `core_connectivity` lists; older files write pairs of numbers with one bandwidth."""
    found: list[Wire] = []
    known = {*cores, outside}
    for index, item in enumerate(top.items("core_connectivity", needed=False)):
        where = f"core_connectivity[{index}]"
        if isinstance(item, list | str):
            ends = _pair(top, where, cast(object, item))
            item = {"type": "link", "cores": ends, "bandwidth": top.number("bandwidth", least=1)}
        entry = FileSection(top.file, where, item)
        kind = entry.text("type", "link")
        if kind not in ("link", "bus"):
            raise entry.error("type", f"is '{kind}', has to be link or bus")
        ends = [_number(entry, "cores", value) for value in entry.items("cores")]
        for end in ends:
            if end not in known:
                raise entry.error("cores", f"there is no core {end}")
        if len(set(ends)) != len(ends) or len(ends) < 2 or (kind == "link" and len(ends) != 2):
            raise entry.error("cores", "a link has two cores, a bus two or more, each once")
        energy = entry.number("unit_energy_cost", pj_per_bit)
        bandwidth = entry.count("bandwidth")
        found.append(Wire(f"{kind}{index}", kind == "bus", tuple(ends), bandwidth, energy))
    return tuple(found)


def _pair(top: FileSection, where: str, item: object) -> list[object]:
    parts = item.replace(",", " ").split() if isinstance(item, str) else cast("list[object]", item)
    if len(parts) != 2:
        raise fault(top.file, where, "a pair of cores has two numbers")
    return list(parts)


def _number(entry: FileSection, name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and (number := whole(value)) is not None:
        return number
    raise entry.error(name, f"has to be numbers of cores, not {value!r}")


def _outside_links(
    cores: dict[int, CoreKind], outside: CoreKind, number: int, pj_per_bit: float, first: int
) -> tuple[Wire, ...]:
    """Older files: the memory outside is linked to every core, as fast as its ports."""
    bandwidth = outside.levels[-1].bandwidth(OPERANDS, reads=True)
    return tuple(
        Wire(f"link{first + i}", False, (core, number), bandwidth, pj_per_bit)
        for i, core in enumerate(sorted(cores))
    )


def _check_paths(top: FileSection, made: Accelerator) -> None:
    """Every core has to reach the memory outside, over wires and other cores."""
    reached = {made.outside_id}
    while True:
        more = {c for w in made.wires if reached & {*w.cores} for c in w.cores} - reached
        if not more:
            break
        reached |= more
    for number in made.ids:
        if number not in reached:
            raise top.error(
                "core_connectivity",
                f"core {number} has no path to the memory outside (core {made.outside_id})",
            )


def read_core(file: Path) -> tuple[CoreKind, tuple[str, ...]]:
    """A core file, and remarks on keys left aside."""
    top = FileSection(file, "", read_yaml(file))
    name = top.text("name", file.stem)
    array = top.section("operational_array")
    names = [str(value) for value in array.items("dimensions")]
    sizes = array.items("sizes")
    if len(names) != len(sizes) or len(set(names)) != len(names):
        raise array.error("sizes", f"{len(sizes)} sizes for {len(names)} dimensions")
    dimensions: list[tuple[str, int]] = []
    for dimension, size in zip(names, sizes, strict=True):
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= MOST:
            raise array.error("sizes", f"has to be whole numbers, not {size!r}")
        dimensions.append((dimension, size))
    energy = array.number("unit_energy", 0.0)
    systolic = frozenset(str(v) for v in array.items("systolic_dimensions", needed=False))
    if not systolic <= {*names}:
        unknown = ", ".join(sorted(systolic - {*names}))
        raise array.error("systolic_dimensions", f"the array has no dimension {unknown}")
    memories = top.section("memories")
    left = array.left(_KNOWN)
    levels: list[CoreMemory] = []
    for key in memories.tree:
        entry = memories.section(key)
        levels.append(_level(entry, key, frozenset(names)))
        left += entry.left(_KNOWN)
    flow = _dataflow(top, dimensions)
    core = CoreKind(name, tuple(dimensions), energy, tuple(levels), flow, systolic)
    for operand in ("I1", "O"):  # pools have no weights
        if not core.chain(operand):
            raise top.error("memories", f"no memory has operand {operand}")
    left += top.left(_KNOWN)
    return core, notes_of(file, left)


def _level(entry: FileSection, name: str, dimensions: frozenset[str]) -> CoreMemory:
    operands = tuple(str(value) for value in entry.items("operands"))
    for operand in operands:
        if operand not in OPERANDS:
            raise entry.error("operands", f"'{operand}' is none of {', '.join(OPERANDS)}")
    serves = frozenset(str(value) for value in entry.items("served_dimensions", needed=False))
    if not serves <= dimensions:
        unknown = ", ".join(sorted(serves - dimensions))
        # The memory outside has no array: its dimensions are not looked at.
        raise entry.error("served_dimensions", f"the array has no dimension {unknown}")
    ports = [
        _port(FileSection(entry.file, entry.key(f"ports[{i}]"), item), i)
        for i, item in enumerate(entry.items("ports"))
    ]
    if not ports:
        raise entry.error("ports", "a memory has at least one port")
    return CoreMemory(
        name,
        entry.count("size"),
        entry.number("r_cost", 0.0),
        entry.number("w_cost", 0.0),
        operands,
        serves,
        tuple(ports),
    )


def _port(entry: FileSection, index: int) -> Port:
    kind = entry.text("type")
    if kind not in _PORT_KINDS:
        raise entry.error("type", f"is '{kind}', has to be one of {', '.join(_PORT_KINDS)}")
    most = entry.count("bandwidth_max")
    least = entry.count("bandwidth_min", most)
    serves: set[tuple[str, str]] = set()
    for value in entry.items("allocation"):
        parts = [part.strip() for part in str(value).split(",")]
        if len(parts) != 2 or parts[0] not in OPERANDS or parts[1] not in _DIRECTIONS:
            raise entry.error("allocation", f"'{value}' is no operand with tl, fh, fl or th")
        serves.add((parts[0], parts[1]))
    return Port(entry.text("name", f"port{index}"), min(least, most), most, frozenset(serves))


def _dataflow(
    top: FileSection, dimensions: Sequence[tuple[str, int]]
) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...] | None:
    """The spatial unrolling that a file gives: loops with factors for each array dimension."""
    if top.get("dataflows") is None:
        return None
    flows = top.section("dataflows")
    sizes = dict(dimensions)
    found: list[tuple[str, tuple[tuple[str, int], ...]]] = []
    for dimension in flows.tree:
        if dimension not in sizes:
            raise flows.error(dimension, "the array has no such dimension")
        loops: list[tuple[str, int]] = []
        for value in flows.items(dimension, needed=False):
            loop, _, factor = (part.strip() for part in str(value).partition(","))
            if not loop or not (count := whole(factor)):
                raise flows.error(dimension, f"'{value}' is no loop with a factor, such as 'K, 32'")
            loops.append((loop, count))
        found.append((dimension, tuple(loops)))
    return tuple(found)
