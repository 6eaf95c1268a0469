"""Every kernel of a partition on a machine, and every operator by itself."""

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.graph.types import BITS, FLOATS
from tilewright.partition.mapping.gpu import map_gpu
from tilewright.partition.mapping.result import Mapped, MappedJob, MappedKernel, MappedRun
from tilewright.partition.mapping.systolic import map_systolic
from tilewright.partition.mapping.tiles import map_tiles
from tilewright.partition.partition import Partition
from tilewright.partition.products import gemms
from tilewright.partition.target import MappingTarget

_SUMMED = ("scheduling_operations", "dram_accesses")


def map_partition(partition: Partition, target: MappingTarget) -> Mapped:
    """Each kernel, and each operator alone: launches, time, what binds it."""
    single: dict[int, MappedRun] = {}
    runs: list[MappedKernel] = []
    for kernel in partition.kernels:
        fused = _run(partition, target, kernel.operators)
        apart: list[MappedRun] = []
        for operator in kernel.operators:
            if len(kernel.operators) == 1:
                single[operator] = fused
            else:
                single[operator] = _run(partition, target, (operator,))
            apart.append(single[operator])
        runs.append(
            MappedKernel(fused, sum(r.seconds for r in apart), sum(r.launches for r in apart))
        )
    return Mapped(
        target, tuple(runs), _totals(target, [m.fused for m in runs], list(single.values()))
    )


def _run(partition: Partition, target: MappingTarget, operators: Sequence[int]) -> MappedRun:
    """Operators as one kernel on the machine."""
    job = _job(partition, target, operators)
    processor = target.processor
    if not job.launches and (processor is None or processor.tiles is None):
        return MappedRun(0.0, {}, 0.0, 0, job.external)  # a view
    if processor is not None and processor.tiles is not None:
        return map_tiles(target, processor, partition.graph, job)
    products = gemms(partition.graph, job.nodes)
    if processor is not None and processor.gpu is not None:
        return map_gpu(target, processor.gpu, products, job)
    if processor is not None:
        return map_systolic(target, processor, products, job)
    compute = job.flops_matmul / target.matrix_rate
    memory = {target.main.name: job.external / target.main.bandwidth}
    return MappedRun(compute, memory, target.launch * job.launches, job.launches, job.external)


def _job(partition: Partition, target: MappingTarget, operators: Sequence[int]) -> MappedJob:
    ledger = partition.ledger
    work = ledger.work_of(operators)
    nodes = tuple(sorted(n for o in operators for n in ledger.operators[o].nodes))
    entering, leaving = ledger.entering(operators), ledger.leaving(operators)
    external = reads = 0.0
    for name, count in (*entering.items(), *leaving.items()):
        size = _scaled(partition, target, name, count)
        external += size
        reads += size if name in entering and name not in ledger.parameters else 0.0
    elements = sum(ledger.graph.types[n].size for n in leaving if n in ledger.graph.types)
    launches = max((partition.launching(o) for o in operators), default=0)
    return MappedJob(
        nodes, external, reads, work.flops_matmul, work.flops_total, launches, elements
    )


def _scaled(partition: Partition, target: MappingTarget, name: str, count: int) -> float:
    """Bytes of a value in the machine's element type."""
    kind = partition.graph.types.get(name)
    if kind is None or kind.dtype not in FLOATS:
        return float(count)
    return count * 8 * target.element_bytes / BITS[kind.dtype]


def _totals(
    target: MappingTarget, fused: Sequence[MappedRun], single: Sequence[MappedRun]
) -> dict[str, Any]:
    before, after = _sum(single), _sum(fused)
    return {
        "dtype": target.dtype,
        "before": before,
        "after": after,
        "speedup": before["seconds"] / after["seconds"] if after["seconds"] else 1.0,
        "roofs": {
            "matrix_flops_per_second": target.matrix_rate,
            "vector_flops_per_second": target.vector_rate,
            "bytes_per_second": {level.name: level.bandwidth for level in target.memories},
        },
    }


def _sum(runs: Sequence[MappedRun]) -> dict[str, Any]:
    def total(read: Callable[[MappedRun], float]) -> float:
        return sum(read(run) for run in runs)

    bound: dict[str, int] = {}
    for run in runs:
        bound[run.bound] = bound.get(run.bound, 0) + 1
    found: dict[str, Any] = {
        "launches": sum(run.launches for run in runs),
        "seconds": total(lambda run: run.seconds),
        "compute_seconds": total(lambda run: run.compute),
        "overhead_seconds": total(lambda run: run.overhead),
        "bound_by": dict(sorted(bound.items(), key=lambda pair: (-pair[1], pair[0]))),
    }
    for key in _SUMMED:
        if runs and key in runs[0].figures:
            found[key] = sum(int(run.figures[key]) for run in runs)
    if runs and "fits" in runs[0].figures:
        found["kernels_that_fit"] = sum(bool(run.figures["fits"]) for run in runs)
    return found
