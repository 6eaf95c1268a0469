"""What is done to a network by itself: load it, cut it into tiles, shrink it, run it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.api.machines import MachineLike, machine, of_type, seed_of
from tilewright.errors import ModelError, ShapeError, TilewrightError
from tilewright.files import load_npz
from tilewright.graph.graph import Array
from tilewright.machine.dtypes import rate_class
from tilewright.model import Model, ShapesLike, load_model
from tilewright.report.tiles_on import OnMachine
from tilewright.results.tiles import Tiles
from tilewright.search.progress import silent
from tilewright.shrinking import RunResult, ShrinkResult, read_budget, run_model, shrink_model
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import parse_splits
from tilewright.tiling.group import exports, find_node, group_between, is_signal, typed_group


def load(model: Any, shapes: ShapesLike | None = None, *, inputs: Any = None) -> Model:
    """A network: from a file, the zoo, or an object in memory.

    `model` is a path (`net.onnx`), a zoo name (`resnet18`, `fsrcnn@1080x1920`), what builds a torch
    module (`file.py:build`), an ONNX ModelProto or its bytes, a torch module (with example
    `inputs`), or a Graph. `shapes` fixes open dimensions: `{"input": (1, 3, 224, 224)}`, or by the
    dimension's name, `{"batch": 2}`.

    >>> net = tilewright.load("resnet18")
    >>> print(repr(net))
    resnet18: 69 nodes, 1.8 G MACs, weights 46.8 MB (numbers not there: seeded ones are used)
    inputs input float32[1x3x224x224]; outputs fc float32[1x1000]
    >>> net.as_table().column("operator")[:3]
    ['Conv', 'BatchNormalization', 'Relu']
    """
    return load_model(model, shapes, inputs)


def tile(
    model: Any,
    split: str | Sequence[str] | Mapping[str, int],
    *,
    node: str | None = None,
    first: str | None = None,
    last: str | None = None,
    halo: str = "recompute",
    on: MachineLike | None = None,
    dtype: str | None = None,
    shapes: ShapesLike | None = None,
) -> Tiles:
    """Cut one node, or everything from `first` to `last`, into tiles: `"H=4"`, `"H=4,W=2"`,
    `{"H": 4, "W": 2}`.

    `halo` says what becomes of rows that neighbours share: `recompute`, `cache`, or by axis
    `"H=cache"`. With a machine (`on`), tiles are checked against its limits and its scratchpad.

    >>> tiles = tilewright.tile("rn50_stem", "H=4", node="conv1")
    >>> tiles
    conv1: 4 tiles; recomputed share 0.0%
    >>> tiles.as_table().column("output")[1]
    '0-1 x 0-64 x 28-56 x 0-112'
    """
    graph = load_model(model, shapes).graph
    if node is not None and (first is not None or last is not None):
        raise TilewrightError("give either node (--node), or first and last (--from, --to)")
    if dtype is not None and on is None:
        raise TilewrightError("dtype is the element type on a machine: give one (on, --on)")
    for what, name in (("node", node), ("first", first), ("last", last)):
        of_type("" if name is None else name, str, what, "the name of a node, or of what it makes")
    texts = [split] if isinstance(split, str) else split
    if isinstance(split, Mapping):
        texts = [f"{axis}={parts}" for axis, parts in split.items()]
    parts = [part for part in ",".join(texts).split(",") if part.strip()]
    if node is not None:
        members = (find_node(graph, node),)
    elif first is not None and last is not None:
        members = group_between(graph, first, last)
    else:
        raise ModelError("say what to cut: a node (--node), or first and last (--from, --to)")
    exported = exports(graph, members)
    final = [name for name, used_inside in exported.items() if not used_inside]
    known = graph.types.get(final[0]) if final else None
    rank = len(known.shape) if known is not None else 4
    signal = is_signal(typed_group(graph, members))
    splits = parse_splits(parts, rank, _cached_axes(halo), signal=signal)
    group = cut_group(graph, members, splits)
    if on is None:
        return Tiles(group)
    target = machine(on)
    return Tiles(group, OnMachine.of(graph, target, rate_class(dtype or target.dtype)))


def _cached_axes(text: str) -> list[str]:
    """`cache`, `recompute`, or a policy per axis."""
    cached: list[str] = []
    for part in text.split(","):
        axis, equals, policy = part.rpartition("=")
        if policy.strip() not in ("cache", "recompute") or (equals and not axis):
            raise TilewrightError(f"'{text}' is no halo policy: write recompute, cache or H=cache")
        if policy.strip() == "cache":
            cached.append(axis or "all")
    return cached


def shrink(
    model: Any,
    budget: str | int | float,
    output: str | Path | None = None,
    *,
    measure: bool = False,
    seed: int = 0,
    runs: int = 5,
    shapes: ShapesLike | None = None,
    progress: Callable[[str], None] = silent,
) -> ShrinkResult:
    """The same model in less memory: an ordinary ONNX model, verified in onnxruntime.

    `budget` is for activations and scratch during a run: `"50%"` of what the model needs today,
    `"64MB"`, bytes, a share (0.5), or `"smallest"`. It is written to `output`, or later with
    `.save(path)`.

    >>> small = tilewright.shrink("fsrcnn@64x64", "50%")
    >>> small.predicted_peak_bytes <= small.original_peak_bytes / 2
    True
    """
    return shrink_model(
        load_model(model, shapes),
        read_budget(budget),
        None if output is None else Path(of_type(output, (str, Path), "output", "a file to write")),
        measure=measure,
        seed=seed_of(seed),
        runs=runs,
        progress=progress,
    )


def run(
    model: Any,
    inputs: str | Path | Mapping[str, Array] | None = None,
    output: str | Path | None = None,
    *,
    shapes: ShapesLike | None = None,
    seed: int = 0,
    threads: int = 1,
) -> RunResult:
    """Run an ONNX model in onnxruntime with the settings under which tiling saves memory.

    `inputs` are arrays by name or an .npz file, seeded random ones if not given; open dimensions
    are theirs, or those of `shapes`. `output` is an .npz file for the results.

    >>> small = tilewright.shrink("fsrcnn@64x64", "50%", folder / "small.onnx")
    >>> done = tilewright.run(folder / "small.onnx")
    >>> done.as_table().column("output"), done.outputs["upscale"].shape
    (['upscale'], (1, 1, 128, 128))
    """
    given = Path(inputs) if isinstance(inputs, str | Path) else inputs
    return run_model(
        _fed(model, shapes, given),
        given,
        None if output is None else Path(output),
        seed=seed_of(seed),
        threads=threads,
    )


def _fed(model: Any, shapes: ShapesLike | None, inputs: Path | Mapping[str, Array] | None) -> Model:
    """The model, whose open dimensions may be known from what it is fed alone."""
    try:
        return load_model(model, shapes)
    except ShapeError:
        if inputs is None or shapes or model == "-":  # which can be read only once
            raise
        arrays = load_npz(inputs) if isinstance(inputs, Path) else inputs
        return load_model(model, {name: array.shape for name, array in arrays.items()})
