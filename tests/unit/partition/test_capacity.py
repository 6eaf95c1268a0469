"""Capacity: no group is larger than the memory it names, and every group says how it is cut."""

from itertools import product
from pathlib import Path

import pytest

from tilewright import api
from tilewright.frontend.normalize import normalize
from tilewright.graph.graph import Graph
from tilewright.legalise import legalise
from tilewright.machine.load import load_machine
from tilewright.partition.partition import FusedKernel, FusionLevel, Partition, partition_graph
from tilewright.partition.target import MappingTarget, load_target
from tilewright.report.plan_summary import summary_json
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Split, axis_of


def groups(graph: Graph, machine: str) -> tuple[Partition, MappingTarget]:
    target = load_target(machine, "float32")
    return partition_graph(graph, FusionLevel.CAPACITY, target=target), target


def nodes_of(found: Partition, kernel: FusedKernel) -> list[int]:
    return sorted(n for o in kernel.operators for n in found.operators[o].nodes)


def naive_working_set(found: Partition, kernel: FusedKernel, element: float) -> float:
    """Bytes of the largest tile, tile by tile and box by box."""
    graph = found.graph
    assert kernel.tiling is not None
    members = nodes_of(found, kernel)
    produced = {name for n in members for name in graph.nodes[n].writes}
    results = [
        name
        for n in members
        for name in graph.nodes[n].writes
        if name in graph.outputs or set(graph.consumers.get(name, ())) - set(members)
    ]
    rank = len(graph.types[results[-1]].shape)
    splits = tuple(Split(axis_of(axis, rank), n) for axis, n in kernel.tiling.splits)
    cut = cut_group(graph, members, splits)
    worst = 0.0
    for index in product(*(range(count) for count in cut.counts)):
        touched: dict[str, int] = {}
        for tiled in cut.ops:
            tile = cut.tile(tiled, index)
            if tile is None:
                continue
            for name, box in zip(tiled.node.outputs, tile.outputs, strict=True):
                if box is not None:
                    touched[name] = max(touched.get(name, 0), box.size)
            for position, name in enumerate(tiled.node.inputs):
                box = tile.input_box(position)
                if box is not None and name not in produced:
                    touched[name] = max(touched.get(name, 0), box.size)
        worst = max(worst, sum(touched.values()) * element)
    return worst


@pytest.mark.parametrize(
    ("network", "machine"),
    [
        ("resnet18@64x64", "kpu-t64"),
        ("mobilenet_v2@64x64", "kpu-t256"),
        ("resnet18@64x64", "rtx-3060-laptop"),
        ("unet@64x64", "npu-2.7"),
    ],
)
def test_no_group_exceeds_its_memory(network: str, machine: str) -> None:
    found, target = groups(api.load(network).graph, machine)
    single = partition_graph(found.graph)
    assert len(found.kernels) < len(single.kernels), "something was joined"
    assert found.traffic.external < single.traffic.external
    for kernel in found.kernels:
        if kernel.tiling is None:
            assert target.capacity.name in kernel.reason
            continue
        assert kernel.tiling.working_set <= target.capacity.capacity
        needed = naive_working_set(found, kernel, target.element_bytes)
        assert needed <= kernel.tiling.working_set + 8, kernel.name


def test_a_smaller_memory_makes_smaller_groups() -> None:
    graph = api.load("resnet18@64x64").graph
    small, _ = groups(graph, "kpu-t64")
    large, _ = groups(graph, "h100-sxm")
    assert len(large.kernels) < len(small.kernels)
    assert large.traffic.external < small.traffic.external


@pytest.mark.parametrize("network", ["four_convs", "resnet18@64x64"])
def test_groups_for_a_scratchpad_are_lowered_without_a_spill(network: str, tmp_path: Path) -> None:
    model, machine = api.load(network), load_machine("npu-2.7")
    graph = legalise(normalize(model.with_numbers()), machine, "fp16").graph
    found, target = groups(graph, "npu-2.7")
    lines = [f"model: {network}", "machine: npu-2.7", "dtype: fp16", "groups:"]
    for kernel in found.kernels:
        assert kernel.tiling is not None
        names = ", ".join(graph.nodes[n].name for n in nodes_of(found, kernel))
        rank = len(kernel.tiling.tile_shape)
        splits = ", ".join(
            f"{{axis: {axis_of(axis, rank)}, parts: {parts}, halo: recompute}}"
            for axis, parts in kernel.tiling.splits
        )
        lines += [f"- nodes: [{names}]", f"  splits: [{splits}]"]
    path = tmp_path / "plan.yaml"
    path.write_text("\n".join(lines) + "\n")
    planned = api.plan(model, machine, plan=path, verify=False).planned
    summary = summary_json(planned)
    assert summary["spills"] == 0
    local = [n for name, n in summary["peak_bytes"].items() if target.capacity.name in name]
    assert local and max(local) <= target.capacity.capacity
