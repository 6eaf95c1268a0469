"""Mapping files of Stream, both dialects: which cores a layer may run on and how it is cut.

Entries are found by a layer's name, then by its operator, then `default`. The older dialect is a
list of entries with texts such as "K, 4"; the newer one has `layers` and `fused_groups` with
`{dim: D2, split: 4}` and `{dim: Node.D0, tile: 1}`. Of our own: `auto` for a count leaves it open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from tilewright.errors import TilewrightError
from tilewright.manycore.files import FileSection, fault, notes_of, read_yaml, whole

Parts = int | Literal["all", "*", "auto"]
"""Into how many parts: a number, every position by itself, one per core, or whatever is best."""

_UNUSED = frozenset(
    {"spatial_mapping", "spatial_mapping_hint", "memory_operand_links", "temporal_ordering"}
)


@dataclass(frozen=True, slots=True)
class LoopCut:
    """A loop of a layer and how it is cut: into so many `parts`, or into parts of `size`
    positions. `key` is where it stands in the file."""

    loop: str
    parts: Parts
    key: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class MappingEntry:
    """What a mapping says of a layer: candidate cores, cuts across cores and within a core, and
    whether cores and parts belong together one to one (None: iff their numbers are equal)."""

    name: str
    cores: tuple[int, ...]
    inter: tuple[LoopCut, ...]
    intra: tuple[LoopCut, ...]
    fixed: bool | None
    key: str


@dataclass(frozen=True, slots=True)
class FusedGroup:
    """Layers that flow into each other, and a cut of one of them that all of them follow."""

    name: str
    layers: tuple[str, ...]
    intra: tuple[tuple[str, LoopCut], ...]


@dataclass(frozen=True, slots=True)
class MappingFile:
    """A mapping: its entries by name, and the groups of the newer dialect."""

    file: Path
    entries: Mapping[str, MappingEntry]
    groups: tuple[FusedGroup, ...] = ()
    notes: tuple[str, ...] = ()

    def entry(self, name: str, kind: str, also: Sequence[str] = ()) -> MappingEntry:
        """What holds for a layer: by name, by operator (or what it is called too), else default."""
        for wanted in (name, kind, *also, "default"):
            if wanted in self.entries:
                return self.entries[wanted]
        raise fault(self.file, "", f"no entry for layer '{name}' ({kind}), and no default")

    def error(self, key: str, text: str) -> TilewrightError:
        """Something that is wrong with the file."""
        return fault(self.file, key, text)


def read_mapping(file: Path, cores: Sequence[int]) -> MappingFile:
    """The mapping of a file; every core it names has to be one of `cores`."""
    tree = read_yaml(file)
    if isinstance(tree, list):
        return _older(file, cast("list[Any]", tree), cores)
    top = FileSection(file, "", tree, "a list, or a mapping with `layers`,")
    left: list[str] = []
    entries: dict[str, MappingEntry] = {}
    for index, item in enumerate(top.items("layers")):
        entry = _entry(FileSection(file, f"layers[{index}]", item), cores, left)
        entries.setdefault(entry.name, entry)
    groups = tuple(
        _group(FileSection(file, f"fused_groups[{i}]", item), left)
        for i, item in enumerate(top.items("fused_groups", needed=False))
    )
    return MappingFile(file, entries, groups, notes_of(file, (*left, *top.left())))


def _older(file: Path, items: list[Any], cores: Sequence[int]) -> MappingFile:
    left: list[str] = []
    entries: dict[str, MappingEntry] = {}
    for index, item in enumerate(items):
        entry = _entry(FileSection(file, f"[{index}]", item), cores, left)
        if entry.name in entries:
            raise fault(file, f"[{index}].name", f"'{entry.name}' is there twice")
        entries[entry.name] = entry
    if not entries:
        raise fault(file, "", "has no entry")
    return MappingFile(file, entries, (), notes_of(file, left))


def _entry(section: FileSection, cores: Sequence[int], left: list[str]) -> MappingEntry:
    name = section.text("name")
    given = section.get("core_allocation")
    listed = [0] if given is None else section.items("core_allocation", needed=False)
    if all(isinstance(item, list) for item in listed):  # the newer dialect: one list per choice
        listed = [core for choice in cast("list[list[Any]]", listed) for core in choice]
    allowed: list[int] = []
    for value in listed:
        if isinstance(value, bool) or not isinstance(value, int):
            raise section.error("core_allocation", f"has to be numbers of cores, not {value!r}")
        if value not in cores:
            there = ", ".join(map(str, cores))
            raise section.error("core_allocation", f"there is no core {value} (there are {there})")
        if value not in allowed:
            allowed.append(value)
    if not allowed:
        raise section.error("core_allocation", "names no core")
    fixed = section.get("core_allocation_is_fixed")
    if fixed is not None and not isinstance(fixed, bool):
        raise section.error("core_allocation_is_fixed", "has to be true or false")
    inter = _cuttings(section, "inter_core_tiling")
    intra = _cuttings(section, "intra_core_tiling")
    left += section.left(_UNUSED)
    left += [section.key(key) for key in section.tree if key in _UNUSED]
    return MappingEntry(name, tuple(allowed), inter, intra, fixed, section.where)


def _cuttings(section: FileSection, name: str) -> tuple[LoopCut, ...]:
    items = section.items(name, needed=False)
    if items and all(isinstance(item, list) for item in items):
        items = cast("Sequence[Any]", items[0])  # the newer dialect: one list per choice
    return tuple(_cutting(section, f"{name}[{index}]", item) for index, item in enumerate(items))


def _cutting(section: FileSection, key: str, item: object) -> LoopCut:
    where = section.key(key)
    if isinstance(item, dict):
        entry = FileSection(section.file, where, cast(object, item))
        loop = entry.text("dim")
        if entry.get("tile") is not None:
            return LoopCut(loop, "auto", where, _count(entry, "tile", entry.get("tile")))
        return LoopCut(loop, _parts(entry, "split", entry.need("split")), where)
    loop, comma, count = (part.strip() for part in str(item).partition(","))
    if not comma or not loop or not count:
        raise section.error(key, f"'{item}' is no loop with a count, such as 'OY, all' or 'K, 4'")
    return LoopCut(loop, _parts(section, key, count), where)


def _parts(section: FileSection, key: str, value: object) -> Parts:
    if value in ("all", "*", "auto"):
        return cast(Parts, value)
    return _count(section, key, value)


def _count(section: FileSection, key: str, value: object) -> int:
    count = whole(str(value))
    if not count:
        raise section.error(key, f"'{value}' is no count: a number, all, * or auto")
    return count


def _group(section: FileSection, left: list[str]) -> FusedGroup:
    name = section.text("name", section.where)
    layers = tuple(str(layer) for layer in section.items("layers"))
    cuts: list[tuple[str, LoopCut]] = []
    for index, cutting in enumerate(_cuttings(section, "intra_core_tiling")):
        node, dot, loop = cutting.loop.rpartition(".")
        if not dot:
            key = f"intra_core_tiling[{index}]"
            raise section.error(key, f"'{cutting.loop}' names no node: write Node.D2")
        cuts.append((node, LoopCut(loop, cutting.parts, cutting.key, cutting.size)))
    left += section.left()
    return FusedGroup(name, layers, tuple(cuts))
