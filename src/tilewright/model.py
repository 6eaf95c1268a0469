"""A network as people have it: a file, a name of the zoo, an ONNX model or a torch module in
memory; and how much of it can be cut."""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, cast

from tilewright.accounting import Operator
from tilewright.errors import ModelError, ShapeError
from tilewright.frontend import zoo
from tilewright.frontend.load import load_data, load_onnx
from tilewright.frontend.weights import seeded
from tilewright.graph.graph import Graph
from tilewright.graph.ops import accesses_of, costed_by_bytes, macs_of
from tilewright.graph.types import FLOATS
from tilewright.tables import Cell, Shown, Table
from tilewright.units import format_bytes, format_count, noun, number_of

Shapes = Mapping[str, tuple[int, ...]]
"""The extents of inputs, or of dimensions by their names."""

ShapesLike = Mapping[str, Sequence[int] | int]
"""As people write them: a dimension's one extent needs no brackets."""
BYTES_ALONE = "bytes alone"  # how tables mark operators of which nothing else is known
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class Model(Shown):
    """A network by the name the user gave, where it came from, and what its file lacks.

    `path` is its file, `data` the bytes of a model that was no file; neither: it was built here.
    """

    name: str
    graph: Graph
    path: Path | None
    missing_files: tuple[str, ...] = ()
    reshaped: bool = False  # whether dimensions that the file fixes were replaced
    operators: tuple[Operator, ...] | None = None  # what torch calls so; None: every node
    notes: tuple[str, ...] = ()
    zoo: bool = False  # whether the name is one of the zoo
    data: bytes | None = None

    @property
    def original(self) -> Path | bytes | None:
        """What a runtime can run as it was given: a file or its bytes; None where the network was
        built or changed here, or its weights are not there."""
        if self.reshaped or self.graph.weightless:
            return None
        return self.path if self.path is not None else self.data

    def headline(self) -> list[str]:
        """Size, inputs and outputs, what is missing, and what its costs leave out."""
        graph, covered = self.graph, coverage(self.graph)
        inputs = ", ".join(f"{name} {graph.types[name]}" for name in graph.inputs)
        outputs = ", ".join(f"{name} {graph.types.get(name, '?')}" for name in graph.outputs)
        seeded_ones = " (numbers not there: seeded ones are used)" if graph.weightless else ""
        lines = [
            f"{self.name}: {covered.nodes} {noun(covered.nodes, 'node')}, "
            f"{format_count(covered.macs)} MACs, weights {format_bytes(graph.weight_bytes)}"
            f"{seeded_ones}",
            f"inputs {inputs or 'none'}; outputs {outputs}",
        ]
        if covered.costed_by_bytes:
            lines.append(f"costed by their bytes alone: {', '.join(covered.costed_by_bytes)}")
        return [*lines, *self.notes]

    def as_table(self) -> Table:
        """Every operator: what it makes, its MACs and their share, bytes it reads and writes."""
        graph = self.graph
        work = [macs_of(graph, node) for node in graph.nodes]
        total = sum(work)
        rows: list[tuple[Cell, ...]] = []
        for node, macs in zip(graph.nodes, work, strict=True):
            read = [graph.types[name].bytes for name in node.reads if name in graph.types]
            written = [graph.types[name].bytes for name in node.writes if name in graph.types]
            results = ", ".join(str(graph.types.get(name, "?")) for name in node.writes)
            costed = BYTES_ALONE if costed_by_bytes(graph, node) else ""
            share = macs / total if total else 0.0
            row = (node.name, node.kind, results, macs, share, sum(read), sum(written), costed)
            rows.append(row)
        columns = "node operator result macs macs_share bytes_read bytes_written costed_by".split()
        return Table(f"operators of {self.name}", tuple(columns), tuple(rows))

    def with_numbers(self, seed: int = 0) -> Graph:
        """The graph with every weight there; those the file leaves out are seeded."""
        return seeded(self.graph, seed) if self.graph.weightless else self.graph


def read_shapes(given: object) -> Shapes | None:
    """Shapes as a program gave them, or what they have to be."""
    if given is None:
        return None
    expected = 'write {"input": (1, 3, 224, 224)}, or a dimension by its name, {"batch": 2}'
    if not isinstance(given, Mapping):
        raise ShapeError(f"shapes {given!r}: has to be a mapping; {expected}")
    found: dict[str, tuple[int, ...]] = {}
    for name, value in cast("Mapping[object, object]", given).items():
        extents = tuple(cast("Sequence[object]", value)) if _listed(value) else (value,)
        whole = [n for n in map(number_of, extents) if isinstance(n, int) and n > 0]
        if not isinstance(name, str) or not whole or len(whole) < len(extents):
            raise ShapeError(
                f"shapes {{{name!r}: {value!r}}}: has to be one or several whole numbers from 1 "
                f"on; {expected}"
            )
        found[name] = tuple(whole)
    return found


def _listed(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def load_model(model: Any, shapes: ShapesLike | None = None, inputs: Any = None) -> Model:
    """A model by file name (`net.onnx`; `-` is standard input), from the zoo (`resnet18`,
    `fsrcnn@1080x1920`), a torch module by what builds it (`package.module:build`, `file.py:build`);
    or in memory: an ONNX ModelProto, a torch module (with example `inputs`), a Graph, a Model."""
    return _load(model, read_shapes(shapes), inputs)


def _load(model: Any, shapes: Shapes | None, inputs: Any) -> Model:
    if shapes and isinstance(model, Model | Graph):
        raise ShapeError("shapes go to `load`: this model is loaded, and its dimensions are fixed")
    if isinstance(model, Model):
        return model
    if isinstance(model, Graph):
        return Model(model.name or "network", model, None)
    if isinstance(model, Path):
        return _load_file(model, shapes)
    if isinstance(model, bytes) or hasattr(model, "SerializeToString"):
        data = model if isinstance(model, bytes) else model.SerializeToString()
        return load_bytes(data, "the model", shapes)
    if not isinstance(model, str):
        return load_torch(model, inputs, shapes=shapes, graph="aten", runnable=True)
    if model == "-":
        return load_bytes(sys.stdin.buffer.read(), "standard input", shapes)
    if model.endswith(".py"):
        raise ModelError(f"'{model}' is Python: say what makes the torch module, as {model}:build")
    if os.path.exists(model) or model.endswith(".onnx"):
        return _load_file(Path(model), shapes)
    if is_torch_name(model):
        return load_torch(model, shapes=shapes, graph="aten", runnable=True)
    if not zoo.is_zoo_name(model):
        raise ModelError(no_model(model))
    if shapes:
        plain = model.partition("@")[0]
        raise ModelError(
            f"zoo networks have one image and take their size in the name: {plain}@HEIGHTxWIDTH"
        )
    return Model(model, zoo.build(model), None, zoo=True)


def no_model(name: str) -> str:
    """What is said of a name that is neither a file's nor that of a network of the zoo."""
    base, at, size = name.partition("@")
    near = get_close_matches(base, zoo.MODELS, 1)
    hint = f"did you mean '{near[0]}{at}{size}'? " if near and near[0] != base else ""
    known = ", ".join(zoo.MODELS)
    text = f"there is no file '{name}', and no network of the zoo is called so;"
    return f"{text} {hint}the zoo has: {known}"


def _load_file(path: Path, shapes: Shapes | None) -> Model:
    if os.path.isdir(path):
        raise ModelError(f"'{path}' is a folder; give an .onnx file or a zoo name")
    loaded = load_onnx(path, shapes)
    return Model(path.stem, loaded.graph, path, loaded.missing_files, loaded.reshaped)


def load_bytes(data: bytes, label: str, shapes: Shapes | None = None) -> Model:
    """A model from the bytes of an ONNX file; errors call it `label`."""
    loaded = load_data(data, label, shapes)
    name = loaded.graph.name or "network"
    return Model(name, loaded.graph, None, loaded.missing_files, loaded.reshaped, data=data)


def is_torch_name(text: str) -> bool:
    """Whether the text names something in Python: `package.module:build`, `file.py:build`."""
    place, colon, name = text.rpartition(":")
    return bool(colon and place and name) and not text.endswith(".onnx")


def load_torch(
    module: Any,
    inputs: Any = None,
    *,
    name: str = "",
    shapes: ShapesLike | None = None,
    graph: str = "auto",
    runnable: bool = False,
) -> Model:
    """A torch module (or its name, an exported program, a module with example inputs) as a Model.

    `graph` is `module` (as FX traces it), `aten` (as torch.export gives it) or `auto`: the first
    where it can be had. `runnable` asks for a network that a runtime can execute.
    """
    if not isinstance(module, str) and not _of_torch(module):
        raise ModelError(
            f"an object of type {type(module).__name__} is no model: give an .onnx file, a zoo "
            "name, an ONNX ModelProto or a torch module"
        )
    try:
        from tilewright.frontend.pytorch.network import find, network_of
    except ImportError as error:
        if error.name != "torch":
            raise
        raise ModelError(
            "torch is not installed: `pip install tilewright[torch]` for PyTorch networks"
        ) from None
    given = find(module) if isinstance(module, str) else module
    fixed = read_shapes(shapes)
    called = name or (module.rpartition(":")[2] if isinstance(module, str) else "network")
    network, notes = network_of(given, name=called, inputs=inputs, shapes=fixed, graph=graph)
    for text in notes:
        _log.warning("%s", text)
    if runnable and network.untranslated:
        raise ModelError(
            f"'{called}' calls torch operators that have no ONNX form here: "
            f"{', '.join(network.untranslated)}"
        )
    return Model(called, network.graph, None, operators=network.operators, notes=notes)


def _of_torch(given: Any) -> bool:
    """Whether something may be a torch module, an exported program, or one with example inputs:
    torch is not imported to find out."""
    pair: object = given
    first: Any = cast("tuple[Any, ...]", pair)[0] if isinstance(pair, tuple) and pair else given
    return any(base.__module__.startswith("torch") for base in type(first).__mro__)


def network_dtype(graph: Graph) -> str:
    """The element type that most bytes of a network's values have."""
    counts: dict[str, int] = {}
    for kind in graph.types.values():
        if kind.dtype in FLOATS or kind.dtype in ("int8", "uint8"):
            counts[kind.dtype] = counts.get(kind.dtype, 0) + kind.bytes
    return max(counts, key=lambda dtype: (counts[dtype], dtype)) if counts else "float32"


class Coverage(NamedTuple):
    """How much of a network Tilewright can cut."""

    nodes: int
    tileable_nodes: int
    macs: int
    tileable_macs: int
    whole_kinds: tuple[str, ...]
    costed_by_bytes: tuple[str, ...] = ()  # kinds of which nothing is known but their bytes

    @property
    def tileable_share(self) -> float | None:
        """Share of multiply-accumulates in operators that can be cut; None where there are none."""
        return self.tileable_macs / self.macs if self.macs else None


def coverage(graph: Graph) -> Coverage:
    """Which operators can be cut, by count and by multiply-accumulates."""
    macs = tileable_macs = tileable_nodes = 0
    whole: dict[str, None] = {}
    by_bytes: dict[str, None] = {}
    for node in graph.nodes:
        work = macs_of(graph, node)
        macs += work
        if costed_by_bytes(graph, node):
            by_bytes[node.kind] = None
        access = next(iter(accesses_of(graph, node)), None)
        if access is None:
            whole[node.kind] = None
        elif access.tileable():
            tileable_nodes += 1
            tileable_macs += work
    return Coverage(
        len(graph.nodes), tileable_nodes, macs, tileable_macs, tuple(whole), tuple(by_bytes)
    )
