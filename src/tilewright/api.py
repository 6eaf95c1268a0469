"""What a program calls: every job of the command line as a function.

Each takes what people have: a model as a path, a zoo name, an ONNX ModelProto or a torch module; a
machine by name, file, mapping or object; a plan as a file or an object; a budget as "50%" or bytes.
Results print readably, show themselves in a notebook, and have `to_csv()` and `to_pandas()`.
`import tilewright` gives all of this as `tilewright.load`, `tilewright.plan`, ...
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.errors import ModelError, TilewrightError
from tilewright.files import check_writable, load_inputs, save_arrays
from tilewright.graph.graph import Graph
from tilewright.machine.dtypes import rate_class
from tilewright.machine.load import load_machine, machine_of
from tilewright.machine.machine import Machine
from tilewright.model import (
    Coverage,
    Model,
    Shapes,
    coverage,
    idioms,
    is_torch_name,
    load_model,
    load_torch,
    network_dtype,
)
from tilewright.partition.mapping import map_partition
from tilewright.partition.partition import Level, partition_graph
from tilewright.partition.target import load_target
from tilewright.plan.plan import Plan
from tilewright.planning import plan_model
from tilewright.program.lower import Watch
from tilewright.program.metrics import Objective
from tilewright.report.tiles_on import OnMachine
from tilewright.results import Explained, PartitionResult, PlanResult, Tiles
from tilewright.runs.saved import Rechecked, SavedRun, check_run, load_run
from tilewright.search.applied import apply as apply_trials
from tilewright.search.effort import Effort
from tilewright.search.explain import MOST_BOUNDARIES
from tilewright.search.explain import explain as explain_plan
from tilewright.search.patterns import Pattern, apart_edges
from tilewright.search.progress import Tell, silent
from tilewright.shrinking import (
    RunResult,
    ShrinkResult,
    parse_budget,
    run_model,
    shrink_model,
)
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import parse_splits
from tilewright.tiling.group import exports, find_node, group_between

if TYPE_CHECKING:
    from tilewright.compare import Difference
    from tilewright.kernel.plan import KernelPlan
    from tilewright.sweep.api import Swept
    from tilewright.sweep.space import Space

__all__ = [
    "Coverage",
    "Explained",
    "Graph",
    "Machine",
    "Model",
    "Objective",
    "PartitionResult",
    "Plan",
    "PlanResult",
    "Rechecked",
    "RunResult",
    "Shapes",
    "ShrinkResult",
    "Tiles",
    "check_writable",
    "compare",
    "coverage",
    "explain",
    "idioms",
    "kernel",
    "load",
    "load_inputs",
    "load_torch",
    "machine",
    "parse_budget",
    "partition",
    "plan",
    "run",
    "save_arrays",
    "shrink",
    "sweep",
    "tile",
    "verify",
]


def load(model: Any, shapes: Shapes | None = None, *, inputs: Any = None) -> Model:
    """A network: from a file, the zoo, or an object in memory.

    `model` is a path (`net.onnx`), a zoo name (`resnet18`, `fsrcnn@1080x1920`), what builds a torch
    module (`file.py:build`), an ONNX ModelProto or its bytes, a torch module (with example
    `inputs`), or a Graph. `shapes` fixes open dimensions: `{"input": (1, 3, 224, 224)}`, or by the
    dimension's name, `{"batch": (2,)}`.

    >>> net = tilewright.load("resnet18")
    >>> print(repr(net))
    resnet18: 69 nodes, 1.8 G MACs, weights 46.8 MB (numbers not there: seeded ones are used)
    inputs input float32[1x3x224x224]; outputs fc float32[1x1000]
    >>> net.as_table().column("operator")[:3]
    ['Conv', 'BatchNormalization', 'Relu']
    """
    return load_model(model, shapes, inputs)


def machine(name: str | Path | Mapping[str, Any] | Machine) -> Machine:
    """A machine: one that comes with Tilewright, a YAML file, or the mapping such a file holds.

    >>> npu = tilewright.machine("npu-2.7")
    >>> len(npu.cores), npu.main_memory.name
    (2, 'ddr')
    """
    if isinstance(name, Machine):
        return name
    if isinstance(name, Mapping):
        tree = dict(name)
        if "extends" in tree:
            raise TilewrightError(
                "a machine given as a mapping stands alone: 'extends' is for files"
            )
        return machine_of(tree, "the machine")
    return load_machine(name)


def tile(
    model: Any,
    split: str | Sequence[str],
    *,
    node: str | None = None,
    first: str | None = None,
    last: str | None = None,
    halo: str = "recompute",
    on: str | Path | Mapping[str, Any] | Machine | None = None,
    dtype: str | None = None,
    shapes: Shapes | None = None,
) -> Tiles:
    """Cut one node, or everything from `first` to `last`, into tiles: `"H=4"`, `"H=4,W=2"`.

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
        raise TilewrightError("give either --node, or --from and --to")
    if dtype is not None and on is None:
        raise TilewrightError("--dtype is the element type on a machine: give --on MACHINE")
    texts = [split] if isinstance(split, str) else split
    parts = [part for text in texts for part in text.split(",") if part.strip()]
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
    group = cut_group(graph, members, parse_splits(parts, rank, _cached_axes(halo)))
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
    shapes: Shapes | None = None,
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
    limit = parse_budget(budget) if isinstance(budget, str) else budget
    return shrink_model(
        load_model(model, shapes),
        limit,
        None if output is None else Path(output),
        measure=measure,
        seed=seed,
        runs=runs,
        progress=progress,
    )


def run(
    model: Any,
    inputs: str | Path | None = None,
    output: str | Path | None = None,
    *,
    shapes: Shapes | None = None,
    seed: int = 0,
    threads: int = 1,
) -> RunResult:
    """Run an ONNX model in onnxruntime with the settings under which tiling saves memory.

    `inputs` and `output` are .npz files; without inputs, seeded random ones are used.
    """
    return run_model(
        load_model(model, shapes),
        None if inputs is None else Path(inputs),
        None if output is None else Path(output),
        seed=seed,
        threads=threads,
    )


def plan(
    model: Any,
    on: str | Path | Mapping[str, Any] | Machine,
    *,
    plan: str | Path | Plan | PlanResult | None = None,
    layer_by_layer: bool = False,
    dtype: str | None = None,
    objective: str | Objective = Objective.LATENCY,
    effort: str | Effort = Effort.NORMAL,
    fast: bool = False,
    verify: bool = True,
    patterns: str | Path | Sequence[Pattern] | None = None,
    ablation: bool = False,
    without: Sequence[str] | frozenset[str] = (),
    seed: int = 0,
    shapes: Shapes | None = None,
    watch: Watch | None = None,
    progress: Tell = silent,
) -> PlanResult:
    """How a network runs on a machine: searched (or as `plan` says), lowered, placed, scheduled,
    validated and, unless `verify` is off, executed and compared with onnxruntime.

    `plan` is a plan.yaml, a Plan, or an earlier result, and is taken as it is. A result whose
    execution gave other numbers has `verified` False and says in `failure` what and where.
    `effort` is low, normal or high; `fast` is low by an older name.

    >>> found = tilewright.plan("four_convs@16x16", "npu-2.7", fast=True)
    >>> found.verified, len(found.layers)
    (True, 4)
    >>> sum(found.groups.column("cycles")) == found.latency_cycles
    True
    """
    given = plan.plan if isinstance(plan, PlanResult) else plan
    wanted = Path(patterns) if isinstance(patterns, str | Path) else tuple(patterns or ())
    return PlanResult(
        plan_model(
            load_model(model, shapes),
            machine(on),
            layer_by_layer=layer_by_layer,
            plan=Path(given) if isinstance(given, str | Path) else given,
            dtype=dtype,
            objective=Objective(objective),
            effort=Effort.LOW if fast else Effort(effort),
            without=frozenset(without),
            verify=verify,
            seed=seed,
            patterns=wanted,
            ablation=ablation,
            watch=watch,
            progress=progress,
        )
    )


def explain(
    run: str | Path | PlanResult,
    *,
    everything: bool = False,
    apply: bool = False,
    progress: Tell = silent,
) -> Explained:
    """Why the boundaries of a plan are where they are: each is taken away by force and simulated.

    `run` is a result of `plan`, or the folder of one; `everything` tries all boundaries, not the 40
    of the largest tensors. With `apply`, boundaries that are better joined are, one after the
    other, and `applied.plan` is the plan that gives: for plans edited by hand.

    >>> found = tilewright.plan("four_convs@16x16", "mcu", layer_by_layer=True, verify=False)
    >>> why = tilewright.explain(found)
    >>> why.as_table().column("tensor")
    ['conv1', 'conv2', 'conv3']
    """
    saved = _saved(run) if isinstance(run, PlanResult) else load_run(Path(run))
    graph, target, without = saved.graph, saved.machine, saved.without
    apart = apart_edges(graph, saved.patterns)
    limit = None if everything else MOST_BOUNDARIES
    explanation = explain_plan(
        graph,
        target,
        saved.plan,
        saved.placed,
        without=without,
        apart=apart,
        limit=limit,
        tell=progress,
    )
    applied = None
    if apply:
        applied = apply_trials(
            graph,
            target,
            saved.plan,
            explanation,
            without=without,
            apart=apart,
            limit=limit,
            tell=progress,
        )
    return Explained(saved.plan, target, explanation, saved.notes, applied)


def _saved(result: PlanResult) -> SavedRun:
    planned = result.planned
    return SavedRun(
        planned.graph,
        planned.machine,
        planned.plan,
        planned.placed,
        planned.without,
        planned.patterns,
    )


def verify(run: str | Path | PlanResult) -> Rechecked:
    """Check a run again: from its folder's files alone, or the result of `plan` at hand.

    >>> found = tilewright.plan("four_convs@16x16", "npu-2.7", layer_by_layer=True)
    >>> tilewright.verify(found).verified is not None
    True
    """
    if not isinstance(run, PlanResult):
        return check_run(Path(run))
    from tilewright.runs.saved import recheck

    return recheck(run.planned)


def partition(
    model: Any,
    *,
    on: str | Path | None = None,
    level: str | Level = Level.PATTERN,
    inputs: Any = None,
    shapes: Shapes | None = None,
    graph: str = "auto",
    dtype: str | None = None,
) -> PartitionResult:
    """How many kernels, FLOPs and bytes a network has, and how it lands on a machine.

    `inputs` are a torch module's example inputs, `graph` which of its graphs is counted. `on` is a
    GPU, TPU, KPU or machine by name or file, `dtype` the element type there.

    >>> found = tilewright.partition("resnet18", on="h100-sxm")
    >>> len(found.partition.kernels), len(found.as_table())
    (32, 32)
    """
    loaded = load_for_partition(model, inputs, shapes, graph)
    target = None if on is None else load_target(str(on), dtype or network_dtype(loaded.graph))
    found = partition_graph(
        loaded.graph, Level(level), name=loaded.name, operators=loaded.operators, target=target
    )
    return PartitionResult(found, None if target is None else map_partition(found, target))


def load_for_partition(
    model: Any, inputs: Any = None, shapes: Shapes | None = None, graph: str = "auto"
) -> Model:
    """A model whose operators are counted: a torch one by its own graph."""
    text = isinstance(model, str)
    if text and is_torch_name(model) and not os.path.exists(model):
        return load_torch(model, inputs, shapes=shapes, graph=graph)
    in_memory = isinstance(model, Model | Graph | Path | bytes) or hasattr(
        model, "SerializeToString"
    )
    if text or in_memory:
        return load_model(model, shapes)
    return load_torch(model, inputs, shapes=shapes, graph=graph)


def kernel(kind: str = "conv2d", **options: Any) -> "KernelPlan":
    """One fused kernel on a Trainium-like core: legality, ledger, engines, time; searched if asked.

    `kind` is conv2d or matmul; see `tilewright.kernel.plan_kernel` for the options.

    >>> found = tilewright.kernel("matmul", size="512x256x1024")
    >>> found.assessment.legal
    True
    """
    from tilewright.kernel.plan import plan_kernel

    return plan_kernel(kind, **options)


def sweep(
    space: "Space | Path | str | Mapping[str, Any] | None", out: str | Path, **options: Any
) -> "Swept":
    """Plan every point of a space of machines, networks and options, and answer questions on them.

    `space` is a file or its mapping; `out` is where every finished point is kept. See
    `tilewright.sweep.api.sweep` for the options.

    >>> space = {
    ...     "axes": {"machine": ["npu-2.7", "mcu"]},
    ...     "fixed": {"model": "four_convs@16x16", "effort": "layers"},
    ... }
    >>> swept = tilewright.sweep(space, folder / "edge")
    >>> len(swept.as_table())
    2
    """
    from tilewright.sweep.api import sweep as sweep_all

    return sweep_all(space, out, **options)


def compare(first: str | Path | PlanResult, *others: str | Path | PlanResult) -> "list[Difference]":
    """What differs between plans, the largest causes first: results of `plan`, folders of runs, or
    points of sweeps (`"edge#17"`).

    >>> layers = tilewright.plan("four_convs@16x16", "mcu", layer_by_layer=True, verify=False)
    >>> fused = tilewright.plan("four_convs@16x16", "mcu", fast=True, verify=False)
    >>> (difference,) = tilewright.compare(layers, fused)
    >>> difference.headline()[0]
    'four_convs@16x16 (2) takes ...'
    """
    from tilewright.compare import compare_sides
    from tilewright.compare.side import Side, load_side, side_of

    def side(number: int, given: str | Path | PlanResult) -> Side:
        if not isinstance(given, PlanResult):
            return load_side(str(given))
        return side_of(f"{given.plan.model} ({number})", given.summary, given.plan)

    return compare_sides([side(n, given) for n, given in enumerate((first, *others), start=1)])
