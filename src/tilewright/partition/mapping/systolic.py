"""A kernel on systolic arrays: weights stand still, rows stream through, pipelines fill."""

from math import ceil

from tilewright.graph.ops.whole import Product
from tilewright.partition.mapping.result import MappedJob, MappedRun
from tilewright.partition.target import MappingTarget
from tilewright.processor.schema import Processor, Systolic


def array_cycles(array: Systolic, product: Product) -> int:
    """Cycles of a product on all arrays: for every block of weights the rows stream through, and
    the pipeline fills and drains once; loading the next weights hides behind it."""
    blocks = (
        product.batch * ceil(product.inner / array.rows) * ceil(product.columns / array.columns)
    )
    each = max(product.rows, array.rows) + array.rows + array.columns - 1
    if blocks >= array.arrays:
        return ceil(blocks / array.arrays) * each
    # Fewer blocks than arrays: rows are divided among the idle ones.
    share = array.arrays // blocks
    rows = ceil(product.rows / share)
    return max(rows, array.rows) + array.rows + array.columns - 1


def map_systolic(
    target: MappingTarget, processor: Processor, products: list[Product], job: MappedJob
) -> MappedRun:
    """Products on the arrays, the rest on the vector units, memories at their bandwidth."""
    array = processor.systolic
    assert array is not None
    cycles = sum(array_cycles(array, product) for product in products)
    macs = sum(product.macs for product in products)
    cells = array.arrays * array.rows * array.columns
    rest = job.flops_total - job.flops_matmul
    compute = cycles / processor.clock + rest / target.vector_rate
    memory = {level.name: job.external / level.bandwidth for level in target.memories}
    blocks = sum(
        p.batch * ceil(p.inner / array.rows) * ceil(p.columns / array.columns) for p in products
    )
    figures = {
        "array_cycles": cycles,
        "utilisation": macs / (cycles * cells) if cycles else 0.0,
        "weight_blocks": blocks,
        "arrays_busy": min(array.arrays, blocks * max(1, array.arrays // max(1, blocks)))
        if blocks
        else 0,
    }
    return MappedRun(
        compute, memory, target.launch * job.launches, job.launches, job.external, figures
    )
