"""What is asked about networks, machines and plans: kernels, spaces, differences."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright.api.machines import MachineLike, chosen, machine, of_type
from tilewright.frontend.normalize import normalize
from tilewright.graph.graph import Graph
from tilewright.model import Model, ShapesLike, is_torch_name, load_model, load_torch, network_dtype
from tilewright.partition.mapping import map_partition
from tilewright.partition.partition import FusionLevel, partition_graph
from tilewright.partition.target import load_target
from tilewright.results.compared import Comparison
from tilewright.results.partitioned import PartitionResult
from tilewright.results.planned import PlanResult

if TYPE_CHECKING:
    from tilewright.kernel.nest import Nest
    from tilewright.kernel.plan import KernelPlan
    from tilewright.manycore.result import CoresResult

Comparable: TypeAlias = "str | Path | PlanResult | CoresResult"
"""What can be compared: a run's folder, a point of a sweep, or what `plan` or `allocate` gave."""


def partition(
    model: Any,
    *,
    on: MachineLike | None = None,
    level: str | FusionLevel = FusionLevel.PATTERN,
    inputs: Any = None,
    shapes: ShapesLike | None = None,
    graph: str = "auto",
    dtype: str | None = None,
) -> PartitionResult:
    """How many kernels, FLOPs and bytes a network has, and how it lands on a machine.

    `inputs` are a torch module's example inputs, `graph` which of its graphs is counted. `on` is a
    GPU, TPU or KPU by name or file, or a machine as `plan` takes it, `dtype` the element type.

    >>> found = tilewright.partition("resnet18", on="h100-sxm")
    >>> len(found.partition.kernels), len(found.as_table())
    (32, 32)
    """
    loaded = load_for_partition(model, inputs, shapes, graph)
    given = machine(on) if isinstance(on, Mapping) else on
    own = network_dtype(loaded.graph)
    target = None if given is None else load_target(given, own, dtype)
    found = partition_graph(
        loaded.graph,
        chosen(FusionLevel, level, "level"),
        name=loaded.name,
        operators=loaded.operators,
        target=target,
    )
    return PartitionResult(found, None if target is None else map_partition(found, target))


def load_for_partition(
    model: Any, inputs: Any = None, shapes: ShapesLike | None = None, graph: str = "auto"
) -> Model:
    """A model whose operators are counted: a torch one by its own graph."""
    torch = isinstance(model, str) and is_torch_name(model) and not os.path.exists(model)
    known = isinstance(model, str | Model | Graph | Path | bytes)
    if not torch and (known or hasattr(model, "SerializeToString")):
        return load_model(model, shapes)
    return load_torch(model, inputs, shapes=shapes, graph=graph)


def kernel(
    kind: str = "conv2d",
    *,
    image: str | tuple[int, int, int] | None = None,
    out_channels: int | None = None,
    kernel: str | int | tuple[int, int] = 3,
    pool: int = 1,
    batch: int = 1,
    pad: int = 0,
    stride: str | int | tuple[int, int] = 1,
    bias: bool = True,
    relu: bool = False,
    size: str | tuple[int, int, int] | None = None,
    model: Any = None,
    node: str | None = None,
    shapes: ShapesLike | None = None,
    dtype: str = "fp16",
    on: MachineLike = "trn2",
    nest: "Nest | str | Path | None" = None,
    searched: bool = False,
    claim_us: float | None = None,
    check: bool | None = None,
) -> "KernelPlan":
    """One fused kernel on a Trainium-like core: legality, ledger, engines, time; searched if asked.

    `kind` is conv2d or matmul. A convolution is given by its extents (`image` as channels x height
    x width, `out_channels`, `kernel`, ...), or as `node` of a `model` (`shapes` fixes its open
    dimensions); a product by `size`, M x K x N. The nest is the one given (`nest`, an object or its
    file), the one found where `searched`, else the last of the ladder. `check` executes all of it
    (True), nothing (False), or the first rows of a large problem (None); a time below the floor of
    `claim_us` is refused.

    >>> found = tilewright.kernel("matmul", size="512x256x1024")
    >>> found.assessment.legal
    True
    >>> first = tilewright.kernel(model="resnet18", node="conv1", check=False)
    >>> first.problem.text()
    'conv2d 3x224x224 -> 64 channels, 7x7, stride 2x2, ...'
    """
    from tilewright.kernel.from_graph import problem_of
    from tilewright.kernel.plan import plan_kernel
    from tilewright.kernel.problem import (
        KernelError,
        KernelProblem,
        element_type,
        image_extents,
        matmul_problem,
        pair,
        product_extents,
    )

    elements = element_type(dtype)
    if kind == "matmul":
        problem = matmul_problem(*product_extents(size), elements)
    elif kind != "conv2d":
        raise KernelError(f"kernels are conv2d or matmul, not '{kind}'")
    elif model is not None:
        problem = problem_of(normalize(load_model(model, shapes).graph), node or "", elements)
    else:
        channels, height, width = image_extents(image)
        outs = channels if out_channels is None else out_channels
        problem = KernelProblem(
            *(channels, height, width, outs, pair(kernel, "kernel size")),
            *(batch, pool, elements, bias, relu, (pad, pad, pad, pad)),
            strides=pair(stride, "stride"),
        )
    return plan_kernel(problem, machine(on), nest, searched, claim_us, check)


def compare(first: Comparable, *others: Comparable) -> Comparison:
    """What differs between plans, the largest causes first: results of `plan`, folders of runs, or
    points of sweeps (`"edge#17"`). The first is compared with each of the others; `.save(path)`
    writes the page that shows them side by side.

    >>> layers = tilewright.plan("four_convs@16x16", "mcu", layer_by_layer=True, verify=False)
    >>> fused = tilewright.plan("four_convs@16x16", "mcu", fast=True, verify=False)
    >>> (difference,) = tilewright.compare(layers, fused)
    >>> difference.headline()[0]
    'four_convs@16x16 (2) takes ...'
    """
    from tilewright.compare import compare_sides
    from tilewright.compare.side import PlanSide, load_side, side_of, side_of_mapped
    from tilewright.manycore.result import CoresResult

    def side(number: int, given: Comparable) -> PlanSide:
        if isinstance(given, PlanResult):
            return side_of(
                f"{given.plan.model} ({number})", given.summary, given.plan, given.machine.keys
            )
        if isinstance(given, CoresResult):
            return side_of_mapped(f"{given.plan.model} ({number})", given.summary)
        expected = "the folder of a run, a point of a sweep, or what `plan` or `allocate` gave"
        return load_side(str(of_type(given, (str, Path), f"plan {number}", expected)))

    sides = [side(n, given) for n, given in enumerate((first, *others), start=1)]
    return Comparison(tuple(compare_sides(sides)))
