"""A YAML file as plain data that knows on which line each of its keys stands."""

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml

from tilewright.machine.faults import Fault, FileError, KeyFaultsError, Keys, written

Tree = dict[str, Any]
T = TypeVar("T")
_Parser = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))
_TAG = "tag:yaml.org,2002:"
LARGEST = 8 * 2**20  # bytes that are read of a file of keys; those of whole networks have a tenth
_TYPED = frozenset(_TAG + kind for kind in ("bool", "int", "float", "null", "timestamp"))


class _Loader(_Parser):
    """Says where a date or a number stands that is none."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return cast(Any, super().construct_object(node, deep))  # pyright: ignore[reportUnknownMemberType]
        except ValueError as error:
            mark = node.start_mark
            raise yaml.constructor.ConstructorError(None, None, str(error), mark) from None


class Document:
    """A file whose top is a mapping, its `tree`, or a list of them, its `entries` (where `listed`;
    None: whatever it is, its `top`); and the lines of its keys. What stands below one of `names`
    is text, also where YAML has another meaning for it (`no`, `on`, `007`)."""

    def __init__(
        self,
        file: Path | Traversable,
        what: str = "a machine file",
        listed: bool | None = False,
        names: frozenset[str] = frozenset(),
    ) -> None:
        self.file, self._what, self._names = file, what, names
        self.label = str(file) if isinstance(file, Path) else file.name
        self.tree: Tree = {}
        self.entries: list[Any] = []
        self._root, top = self._read()
        self.top = cast(Any, top)
        if listed is not False and isinstance(top, list):
            self.entries = cast("list[Any]", top)
        elif not listed and isinstance(top, dict):
            self.tree = cast(Tree, top)
        elif listed is not None:
            raise self.error(f"{what} is a {'list' if listed else 'mapping of keys'}")

    def find(self, keys: Keys) -> tuple[int, int | None]:
        """How many of the keys the file has, one below the other, and the line of the last."""
        node, line = self._root, None
        for depth, key in enumerate(keys):
            below = _below(node, key)
            if below is None:
                return depth, line
            line, node = below
        return len(keys), line

    def faults(self, found: Iterable[tuple[Keys, str]]) -> list[Fault]:
        """Faults with the lines of their keys, from the top of the file on."""
        faults = [Fault(self.label, self.find(k)[1], written(k), text) for k, text in found]
        return sorted(faults, key=lambda fault: (fault.line is None, fault.line or 0))

    def fault(self, keys: Keys, text: str) -> Fault:
        """A fault whose text names what it is about, with the line of its keys."""
        return Fault(self.label, self.find(keys)[1], "", text)

    def error(self, text: str, line: int | None = None, key: str = "") -> FileError:
        """Something that is wrong with the file as a whole, or with one of its keys."""
        return FileError([Fault(self.label, line, key, text)])

    def _read(self) -> tuple[yaml.Node, object]:
        try:
            loader = _Loader(text_of(self.file))
            node = loader.get_single_node()
            if node is not None:
                self._check(node)
                _as_text(node, self._names, False, set())
            tree = cast(object, node and loader.construct_document(node))  # pyright: ignore[reportUnknownMemberType]
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or "cannot be read"
            line = mark.line + 1 if mark is not None else None
            raise self.error(f"not YAML: {problem}", line) from None
        except RecursionError:
            raise self.error("not YAML: nested too deeply") from None
        except OSError as error:
            raise self.error(f"cannot be read: {error.strerror or error}") from None
        except UnicodeError:
            raise self.error("not YAML: it is no text, or not in UTF-8") from None
        if node is None:
            raise self.error(f"{self._what} is not empty")
        return node, tree

    def _check(self, root: yaml.Node) -> None:
        """No alias inside what it stands for: such a file has no end. No key twice: only the last
        would count. Looked at before `<<` is written out."""
        inside = _endless(root, set(), set())
        if inside is not None:
            raise self.error("an alias stands inside what it stands for", _line(inside))
        found = _twice(root, (), set())
        twice = [Fault(self.label, line, written(keys), "is given twice") for keys, line in found]
        if twice:
            raise FileError(twice)


def text_of(file: Path | Traversable) -> str:
    """The text of a file, unless it has more than a file of keys can have."""
    with file.open("rb") as stream:
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST >> 20} MiB, as no file of keys has")
    return data.decode("utf-8")


@lru_cache(maxsize=8)
def shipped_files(package: str) -> Mapping[str, Traversable]:
    """The files below `targets` of a package, by the names of what they describe."""
    folder = files(package) / "targets"
    return {f.name.removesuffix(".yaml"): f for f in folder.iterdir() if f.name.endswith(".yaml")}


def read_tree(
    path: Path,
    what: str,
    build: Callable[[Tree], T],
    wrong: type[FileError],
    names: frozenset[str] = frozenset(),
) -> T:
    """What a file of keys says; where it is wrong, an error of its kind with all faults."""
    try:
        document = Document(path, what, names=names)
    except FileError as error:
        raise wrong(error.faults) from None
    try:
        return build(document.tree)
    except KeyFaultsError as error:
        raise wrong(document.faults(error.faults)) from None


def take_tree(label: str, build: Callable[[], T], wrong: type[FileError]) -> T:
    """The same of a mapping that no file holds, which faults call `label`."""
    try:
        return build()
    except KeyFaultsError as error:
        raise wrong([Fault(label, None, written(k), text) for k, text in error.faults]) from None


def _below(node: yaml.Node, key: int | str) -> tuple[int, yaml.Node] | None:
    """The line and the node of a key, or of an item of a list."""
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        item = cast(yaml.Node, node.value[key])
        return _line(item), item
    found = [(_line(name), value) for name, value in _pairs(node) if name.value == key]
    return found[-1] if found else None  # behind what `<<` brought in


def _pairs(node: yaml.Node) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for name, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            if isinstance(name, yaml.ScalarNode):
                yield name, value


def _line(node: yaml.Node) -> int:
    return cast(int, node.start_mark.line) + 1


def _endless(node: yaml.Node, above: set[int], done: set[int]) -> yaml.Node | None:
    """A node that is inside itself, by an alias."""
    if id(node) in above:
        return node
    if id(node) in done or not isinstance(node, yaml.CollectionNode):
        return None
    above.add(id(node))
    items = cast("list[Any]", node.value)
    inner = chain.from_iterable(items) if isinstance(node, yaml.MappingNode) else items
    for below in inner:
        found = _endless(below, above, done)
        if found is not None:
            return found
    above.remove(id(node))
    done.add(id(node))
    return None


def _as_text(node: yaml.Node, names: frozenset[str], below: bool, seen: set[int]) -> None:
    """Have what stands below one of the names read as text; what is left empty stays so."""
    if isinstance(node, yaml.ScalarNode):
        if below and node.value and node.tag in _TYPED:
            node.tag = _TAG + "str"
    elif id(node) not in seen:
        seen.add(id(node))
        for name, value in _pairs(node):
            _as_text(name, names, below, seen)
            _as_text(value, names, below or name.value in names, seen)
        if isinstance(node, yaml.SequenceNode):
            for item in cast("list[yaml.Node]", node.value):
                _as_text(item, names, below, seen)


def _twice(node: yaml.Node, keys: Keys, seen: set[int]) -> Iterator[tuple[Keys, int]]:
    """Keys that a mapping has more than once."""
    if id(node) in seen:
        return  # an alias: its anchor was looked at
    seen.add(id(node))
    names: set[str] = set()
    for name, value in _pairs(node):
        text = cast(str, name.value)
        if text in names and text != "<<":
            yield (*keys, text), _line(name)
        names.add(text)
        yield from _twice(value, (*keys, text), seen)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(cast("list[yaml.Node]", node.value)):
            yield from _twice(item, (*keys, index), seen)
