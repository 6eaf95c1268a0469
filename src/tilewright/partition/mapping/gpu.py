"""A kernel on a GPU: thread blocks in waves over the multiprocessors."""

from math import ceil, prod

from tilewright.graph.ops.whole import Product
from tilewright.partition.mapping.result import MappedJob, MappedRun
from tilewright.partition.target import MappingTarget
from tilewright.processor.schema import BlockTile, Gpu


def occupancy(gpu: Gpu, threads: int, registers: int, shared: float, capacity: float) -> int:
    """Thread blocks that one multiprocessor holds at once: the least of what warps, blocks,
    registers and shared memory allow; at least one, as a larger block is split by its compiler."""
    warps = ceil(threads / gpu.warp)
    limits = [
        gpu.blocks_per_unit,
        gpu.warps_per_unit // warps,
        gpu.registers_per_unit // (registers * warps * gpu.warp),
    ]
    if shared > 0:
        limits.append(int(capacity // shared))
    return max(1, min(limits))


def map_gpu(target: MappingTarget, gpu: Gpu, products: list[Product], job: MappedJob) -> MappedRun:
    """Products tile by tile, the rest element by element; caches and memory at their bandwidth."""
    shared = next(level for level in target.memories if level.name == gpu.shared)
    compute, inner_bytes, blocks = 0.0, 0.0, 0
    residence, warps, chosen = 1, 0, ""
    for product in products:
        tile = min(gpu.tiles, key=lambda t: (_seconds(target, product, t), -t.rows * t.columns))
        compute += _seconds(target, product, tile)
        count = _blocks(product, tile)
        panels = (tile.rows + tile.columns) * product.inner * target.element_bytes
        inner_bytes += count * panels
        if count >= blocks:
            buffers = tile.stages * (tile.rows + tile.columns) * tile.depth * target.element_bytes
            residence = occupancy(gpu, tile.threads, tile.registers, buffers, shared.capacity)
            blocks, warps = count, ceil(tile.threads / gpu.warp)
            chosen = f"{tile.rows}x{tile.columns}"
    if not products:
        work = gpu.elementwise
        blocks = ceil(job.elements / (work.threads * work.elements_per_thread))
        residence = occupancy(gpu, work.threads, work.registers, 0, shared.capacity)
        warps = ceil(work.threads / gpu.warp)
    rest = job.flops_total - job.flops_matmul
    compute += rest / target.vector_rate
    memory = {target.main.name: job.external / target.main.bandwidth}
    for level in target.memories[1:]:
        moved = max(job.external, inner_bytes)
        memory[level.name] = moved / level.bandwidth
    figures = {
        "blocks": blocks,
        "waves": ceil(blocks / (target.units * residence)),
        "occupancy": min(1.0, residence * warps / gpu.warps_per_unit),
        "blocks_per_unit": residence,
        "units_busy": min(target.units, blocks),
        "tile": chosen,
    }
    return MappedRun(
        compute, memory, target.launch * job.launches, job.launches, job.external, figures
    )


def _blocks(product: Product, tile: BlockTile) -> int:
    grid = (ceil(product.rows / tile.rows), ceil(product.columns / tile.columns))
    return product.batch * prod(grid)


def _seconds(target: MappingTarget, product: Product, tile: BlockTile) -> float:
    """The multiprocessor with the most blocks sets the time; a tile is computed whole."""
    most = ceil(_blocks(product, tile) / target.units)
    flops = 2 * tile.rows * tile.columns * product.inner
    return most * flops / (target.matrix_rate / target.units)
