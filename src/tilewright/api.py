"""What a program calls: the same jobs as the command line, as functions on plain values."""

import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import write_array
from numpy.lib.npyio import NpzFile

from tilewright import __version__
from tilewright.accounting import Operator
from tilewright.errors import (
    ModelError,
    OutputError,
    ShapeError,
    TilewrightError,
    VerificationError,
)
from tilewright.execute.compare import Difference, compare
from tilewright.execute.runtime import run, run_measured
from tilewright.frontend import zoo
from tilewright.frontend.idioms import Idiom, recognise
from tilewright.frontend.load import load_onnx
from tilewright.frontend.save import save_onnx
from tilewright.frontend.weights import seeded, seeded_inputs
from tilewright.graph.graph import Array, Graph
from tilewright.graph.ops import costed_by_bytes, macs_of, spec_of
from tilewright.graph.types import FLOATS
from tilewright.partition.mapping import Mapped, map_partition
from tilewright.partition.partition import Level, Partition, partition_graph
from tilewright.partition.target import load_target
from tilewright.shrink.choose import silent
from tilewright.shrink.measure import Measured
from tilewright.shrink.measure import measure as measure_models
from tilewright.shrink.shrink import Shrunk, shrink_graph
from tilewright.tiling.grid import parse_splits
from tilewright.tiling.group import GroupTiles, cut_group, exports, find_node, group_between
from tilewright.tiling.rewrite import tile_graph
from tilewright.units import parse_bytes

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Model:
    """A network by the name the user gave, where it came from, and what its file lacks."""

    name: str
    graph: Graph
    path: Path | None
    missing_files: tuple[str, ...] = ()
    reshaped: bool = False  # whether dimensions that the file fixes were replaced
    operators: tuple[Operator, ...] | None = None  # what torch calls so; None: every node
    notes: tuple[str, ...] = ()

    def with_numbers(self, seed: int = 0) -> Graph:
        """The graph with every weight there; those the file leaves out are seeded."""
        return seeded(self.graph, seed) if self.graph.weightless else self.graph


def load(model: str, shapes: Shapes | None = None) -> Model:
    """A model by file name (`net.onnx`), from the zoo (`resnet18`, `fsrcnn@1080x1920`), or a torch
    module by what builds it (`package.module:build`, `file.py:build`)."""
    path = Path(model)
    if os.path.isdir(model):
        raise ModelError(f"'{model}' is a folder; give an .onnx file or a zoo name")
    if os.path.exists(model) or path.suffix == ".onnx":
        loaded = load_onnx(path, shapes)
        return Model(path.stem, loaded.graph, path, loaded.missing_files, loaded.reshaped)
    if is_torch_name(model):
        return load_torch(model, shapes=shapes, graph="aten", runnable=True)
    if not zoo.is_zoo_name(model):
        raise ModelError(
            f"there is no file '{model}', and no network of the zoo is called so; "
            f"the zoo has: {', '.join(zoo.MODELS)}"
        )
    if shapes:
        raise ModelError(f"zoo networks take their size in the name: {model}@HEIGHTxWIDTH")
    return Model(model, zoo.build(model), None)


def is_torch_name(text: str) -> bool:
    """Whether the text names something in Python: `package.module:build`, `file.py:build`."""
    place, colon, name = text.rpartition(":")
    return bool(colon and place and name) and not text.endswith(".onnx")


def load_torch(
    module: Any,
    inputs: Any = None,
    *,
    name: str = "",
    shapes: Shapes | None = None,
    graph: str = "auto",
    runnable: bool = False,
) -> Model:
    """A torch module (or its name, an exported program, a module with example inputs) as a Model.

    `graph` is `module` (as FX traces it), `aten` (as torch.export gives it) or `auto`: the first
    where it can be had. `runnable` asks for a network that a runtime can execute.
    """
    try:
        from tilewright.frontend.pytorch.network import find, network_of
    except ImportError as error:
        if error.name != "torch":
            raise
        raise ModelError(
            "torch is not installed: `pip install tilewright[torch]` for PyTorch networks"
        ) from None
    given = find(module) if isinstance(module, str) else module
    called = name or (module.rpartition(":")[2] if isinstance(module, str) else "network")
    network, notes = network_of(given, name=called, inputs=inputs, shapes=shapes, graph=graph)
    if runnable and network.untranslated:
        raise ModelError(
            f"'{called}' calls torch operators that have no ONNX form here: "
            f"{', '.join(network.untranslated)}"
        )
    return Model(called, network.graph, None, operators=network.operators, notes=notes)


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """A network as kernels, and these on a machine where one was given."""

    partition: Partition
    mapped: Mapped | None


def partition(
    model: Any,
    *,
    on: str | None = None,
    level: str | Level = Level.PATTERN,
    inputs: Any = None,
    shapes: Shapes | None = None,
    graph: str = "auto",
    dtype: str | None = None,
) -> PartitionResult:
    """How many kernels, FLOPs and bytes a network has, and how it lands on a machine.

    `model` is what `load` takes, a Model, a Graph, a torch module, or an exported program.
    `inputs` are a torch module's example inputs. `dtype` is the element type on the machine.
    """
    loaded = load_for_partition(model, inputs, shapes, graph)
    chosen = Level(level)
    target = None if on is None else load_target(on, dtype or network_dtype(loaded.graph))
    found = partition_graph(
        loaded.graph, chosen, name=loaded.name, operators=loaded.operators, target=target
    )
    return PartitionResult(found, None if target is None else map_partition(found, target))


def load_for_partition(
    model: Any, inputs: Any = None, shapes: Shapes | None = None, graph: str = "auto"
) -> Model:
    """A model whose operators are counted: a torch one by its own graph."""
    if isinstance(model, Model):
        return model
    if isinstance(model, Graph):
        return Model(model.name, model, None)
    if isinstance(model, str) and (os.path.exists(model) or not is_torch_name(model)):
        return load(model, shapes)
    return load_torch(model, inputs, shapes=shapes, graph=graph)


def network_dtype(graph: Graph) -> str:
    """The element type that most bytes of a network's values have."""
    counts: dict[str, int] = {}
    for kind in graph.types.values():
        if kind.dtype in FLOATS or kind.dtype in ("int8", "uint8"):
            counts[kind.dtype] = counts.get(kind.dtype, 0) + kind.bytes
    return max(counts, key=lambda dtype: (counts[dtype], dtype)) if counts else "float32"


def tile(
    graph: Graph,
    split: list[str],
    *,
    node: str | None = None,
    first: str | None = None,
    last: str | None = None,
    cached_axes: list[str] | None = None,
) -> GroupTiles:
    """Cut one node, or everything between two nodes, as `H=4` or `H=4`, `W=2` say."""
    if node is not None:
        members = (find_node(graph, node),)
    elif first is not None and last is not None:
        members = group_between(graph, first, last)
    else:
        raise ModelError("say what to cut: --node NAME, or --from A --to B")
    exported = exports(graph, members)
    final = [name for name, used_inside in exported.items() if not used_inside]
    known = graph.types.get(final[0]) if final else None
    rank = len(known.shape) if known is not None else 4
    return cut_group(graph, members, parse_splits(split, rank, cached_axes or []))


def idioms(graph: Graph) -> tuple[Idiom, ...]:
    """What exporters wrote as several nodes: norms, activations, attention."""
    return recognise(graph)


@dataclass(frozen=True, slots=True)
class Coverage:
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
        known = spec_of(graph, node)
        access = None
        if known is not None and known[1].outputs and known[1].outputs[0] is not None:
            access = known[0].access(known[1], 0)
        if access is None:
            whole[node.kind] = None
        elif access.tileable():
            tileable_nodes += 1
            tileable_macs += work
    return Coverage(
        len(graph.nodes), tileable_nodes, macs, tileable_macs, tuple(whole), tuple(by_bytes)
    )


@dataclass(frozen=True, slots=True)
class ShrinkResult:
    """A model that fits the budget, verified; measured figures where they were asked for."""

    shrunk: Shrunk
    difference: Difference
    measured: Measured | None
    weights_seeded: bool


def parse_budget(text: str) -> int | float:
    """`64MB` as bytes, `60%` as a share of what the model needs today."""
    stripped = text.strip()
    if not stripped.endswith("%"):
        try:
            budget = parse_bytes(stripped)
        except OverflowError:
            raise TilewrightError(f"'{text}' is no memory budget: it is too large") from None
        if budget <= 0:
            raise TilewrightError(f"'{text}' is no memory budget: it has to be more than nothing")
        return budget
    try:
        share = float(stripped[:-1]) / 100
    except ValueError:
        share = 0.0
    if not 0.0 < share < inf:
        raise TilewrightError(f"'{text}' is no memory budget: write 64MB or 60%")
    return share


def shrink(
    model: Model,
    budget: int | float,
    output: Path,
    *,
    measure: bool = False,
    seed: int = 0,
    runs: int = 5,
    progress: Callable[[str], None] = silent,
) -> ShrinkResult:
    """Write an ordinary ONNX model that needs less memory and gives the same numbers.

    Nothing is written to `output` unless the new model was verified against the original in
    onnxruntime on seeded inputs.
    """
    check_writable(output)
    shrunk = shrink_graph(model.graph, budget, progress)
    progress("filling in weights")
    numbered = model.with_numbers(seed)
    tiled = replace(
        shrunk, graph=shrunk.graph if numbered is model.graph else _retile(shrunk, numbered)
    )
    feeds = seeded_inputs(model.graph, seed)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        small, inputs = Path(folder) / "small.onnx", Path(folder) / "inputs.npz"
        save_onnx(tiled.graph, small, _metadata(model, shrunk, numbered is not model.graph))
        if model.path is not None and not model.graph.weightless and not model.reshaped:
            original = model.path
        else:
            original = Path(folder) / "original.onnx"
            save_onnx(numbered, original)
        _write_npz(feeds, inputs)
        progress("verifying against the original in onnxruntime")
        difference = _verify(original, small, feeds)
        measured = None
        if measure:
            progress("measuring memory and CPU time")
            measured = measure_models(original, small, inputs, runs)
        save_onnx(tiled.graph, output, _metadata(model, shrunk, numbered is not model.graph))
    return ShrinkResult(tiled, difference, measured, numbered is not model.graph)


def _verify(original: Path, small: Path, feeds: Mapping[str, Array]) -> Difference:
    """Compare both models in onnxruntime. Its optimiser treats tiles and whole operators
    differently, and a saturated output can magnify that; what decides then is the comparison of
    both as they are written."""
    try:
        return compare(run(original, feeds), run(small, feeds))
    except VerificationError:
        return compare(run(original, feeds, optimise=False), run(small, feeds, optimise=False))


def _retile(shrunk: Shrunk, numbered: Graph) -> Graph:
    """The same groups, cut from the graph that has numbers."""
    groups = [
        cut_group(numbered, (numbered.index[t.node.name] for t in group.ops), group.splits)
        for group in shrunk.groups
    ]
    return tile_graph(numbered, groups)


def _metadata(model: Model, shrunk: Shrunk, seeded_weights: bool) -> dict[str, str]:
    facts = {
        "tilewright.version": __version__,
        "tilewright.predicted_peak_bytes": str(shrunk.predicted.peak),
        "tilewright.groups": str(len(shrunk.groups)),
    }
    if seeded_weights:
        facts["tilewright.weights"] = "seeded random numbers: the model's own were not there"
    return facts


def check_writable(path: Path) -> None:
    """Raise before the work begins where the result could not be written."""
    folder = path.parent
    if os.path.isdir(path):
        raise OutputError(f"cannot write '{path}': it is a folder")
    if not os.path.isdir(folder):
        raise OutputError(f"cannot write '{path}': there is no folder '{folder}'")
    exists = os.path.exists(path)
    if exists and not os.path.isfile(path):
        raise OutputError(f"cannot write '{path}': it is not an ordinary file")
    if not os.access(folder, os.W_OK) or (exists and not os.access(path, os.W_OK)):
        raise OutputError(f"cannot write '{path}': permission denied")


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run gave and took; the peak is None where the system does not report it."""

    outputs: Mapping[str, Array]
    peak_bytes: int | None
    cpu_seconds: float


def run_model(
    model: str,
    inputs: Path | None = None,
    output: Path | None = None,
    *,
    shapes: Shapes | None = None,
    seed: int = 0,
    threads: int = 1,
) -> RunResult:
    """Run an ONNX file in onnxruntime with the settings tiled models need."""
    loaded = load(model, shapes)
    if loaded.path is None:
        raise ModelError(f"'{model}' is no file: shrink it first, then run the file")
    if loaded.reshaped:
        raise ShapeError(f"--shape cannot change the dimensions that '{model}' fixes")
    if loaded.graph.weightless:
        missing = ", ".join(name for name in loaded.missing_files if name) or "cleared weights"
        raise ModelError(f"'{model}' cannot run: its weights are not there ({missing})")
    feeds = (
        seeded_inputs(loaded.graph, seed) if inputs is None else load_inputs(inputs, loaded.graph)
    )
    outcome = run_measured(loaded.path, feeds, threads)
    if output is not None:
        save_arrays(outcome.outputs, output)
    return RunResult(outcome.outputs, outcome.peak_bytes, outcome.cpu_seconds)


def load_inputs(path: Path, graph: Graph) -> dict[str, Array]:
    """Arrays for every input of the network, from an .npz file."""
    try:
        stored = np.load(path)
        if not isinstance(stored, NpzFile):
            raise ValueError("it holds one array without a name (.npy)")
        with stored:
            arrays: dict[str, Array] = {name: stored[name] for name in stored.files}
    except OSError as error:
        raise ModelError(f"cannot read '{path}': {error.strerror or error}") from None
    except (ValueError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ModelError(f"cannot read '{path}' as .npz: {error}") from None
    for name in graph.inputs:
        if name not in arrays:
            raise ModelError(f"'{path}' has no array for input '{name}'")
        kind = graph.types[name]
        if arrays[name].shape != kind.shape or str(arrays[name].dtype) != kind.dtype:
            raise ModelError(
                f"input '{name}' is {kind}; '{path}' holds {arrays[name].dtype}"
                f"{list(arrays[name].shape)}"
            )
    return {name: arrays[name] for name in graph.inputs}


def save_arrays(arrays: Mapping[str, Array], path: Path) -> None:
    """Write arrays as .npz, whole or not at all."""
    try:
        with tempfile.TemporaryDirectory(prefix=".tilewright-", dir=path.parent) as folder:
            draft = Path(folder) / "arrays.npz"
            _write_npz(arrays, draft)
            os.replace(draft, path)
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror or error}") from None


def _write_npz(arrays: Mapping[str, Array], path: Path) -> None:
    """As numpy.savez does, for arrays of any name (its parameters' names too)."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            plain = array.astype(str) if array.dtype == object else array
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                write_array(file, plain, allow_pickle=False)
