"""A kernel on tiles with a small memory each: does it fit, how many are busy, what DRAM sees."""

from math import ceil

from tilewright.graph.graph import Graph
from tilewright.partition.mapping.result import MappedJob, MappedRun
from tilewright.partition.target import MappingTarget
from tilewright.partition.tilings import Tiling, best_tiling
from tilewright.processor.schema import Processor

_IDLE: dict[str, float | int | bool | str] = {
    "fits": True,
    "working_set_bytes": 0,
    "split": "a view",
    "parts": 0,
    "units_busy": 0,
    "rounds": 0,
    "scheduling_operations": 0,
    "dram_accesses": 0,
}


def map_tiles(
    target: MappingTarget, processor: Processor, graph: Graph, job: MappedJob
) -> MappedRun:
    """The kernel in as many parts as there are tiles, if it can be cut so; each part in one."""
    tiles = processor.tiles
    assert tiles is not None
    local = next(level for level in target.memories if level.name == tiles.local)
    units = target.units
    if not job.launches:
        return MappedRun(0.0, {}, 0.0, 0, job.external, _IDLE)
    cut = best_tiling(graph, job.nodes, local.capacity, target.element_bytes, least=units)
    parts = cut.tiles if cut is not None else 1
    busy = min(units, parts)
    rounds = ceil(parts / units)
    halo = 1.0 + (cut.halo if cut is not None else 0.0)
    one = target.matrix_rate / units
    compute = rounds * (job.flops_total * halo / parts) / one
    again = job.reads * ((cut.read_ratio if cut is not None else 1.0) - 1.0)
    moved = job.external + again
    # What several tiles read comes from the memory once, where the next one in holds all of it.
    outer = target.memories[1] if len(target.memories) > 1 else target.main
    fetched = job.external if job.external <= outer.capacity else moved
    memory = {target.main.name: fetched / target.main.bandwidth}
    for level in target.memories[1:]:
        memory[level.name] = moved / level.bandwidth
    figures: dict[str, float | int | bool | str] = {
        "fits": cut is not None,
        "working_set_bytes": cut.working_set if cut is not None else 0,
        "split": _text(cut),
        "parts": parts,
        "units_busy": busy,
        "rounds": rounds,
        "scheduling_operations": parts,
        "dram_accesses": ceil(fetched / tiles.access),
    }
    overhead = tiles.schedule * parts * job.launches + target.launch * job.launches
    return MappedRun(compute, memory, overhead, job.launches, job.external, figures)


def _text(cut: Tiling | None) -> str:
    if cut is None:
        return "does not fit"
    return " ".join(f"{axis}={parts}" for axis, parts in cut.splits) or "whole"
