"""A partition as JSON: every figure by name."""

from typing import Any

from tilewright.partition.mapping import Mapped, MappedKernel
from tilewright.partition.partition import FusedKernel, Partition
from tilewright.tables import picked

TOP = 10


def partition_json(partition: Partition, mapped: Mapped | None = None) -> dict[str, Any]:
    """All figures of a partition, and of its mapping on a machine where there is one."""
    work, traffic = partition.work, partition.traffic
    names = [kernel.name for kernel in partition.kernels]
    found: dict[str, Any] = {
        "model": partition.name,
        "level": partition.level.value,
        "operators": len(partition.operators),
        "kernels": len(partition.kernels),
        **picked(work, "macs", "flops_matmul", "flops_total"),
        "bytes_fused": traffic.external,
        "bytes_internal": traffic.internal,
        "bytes_op_by_op": traffic.op_by_op,
        "bytes_parameters": traffic.parameters,
        "saved_ratio": traffic.saved_ratio,
        "intermediates": intermediates(partition),
        "patterns": dict(partition.patterns),
        "pattern_saved_ratio": {
            pattern: {"min": low, "max": high}
            for pattern, (low, high) in partition.pattern_ranges.items()
        },
        "uncounted": list(partition.uncounted),
        "launches": {"before": partition.launches_before, "after": partition.launches_after},
        "operators_per_kernel": {
            "average": len(partition.operators) / max(1, len(partition.kernels)),
            "largest": max((len(k.operators) for k in partition.kernels), default=0),
        },
        "critical_path": [names[i] for i in partition.critical_path],
        "parallel_width": partition.width,
        "top_savings": [names[i] for i in top_savings(partition)],
        "kernel_list": [
            kernel_json(partition, index, mapped.kernels[index] if mapped else None)
            for index in range(len(names))
        ],
        "singles": [
            {"operator": kernel.name, "kind": kernel.label, "reason": kernel.reason}
            for kernel in partition.kernels
            if kernel.single
        ],
    }
    if mapped is not None:
        found["machine"] = mapped.machine
        found["mapping"] = dict(mapped.totals)
    return found


def kernel_json(
    partition: Partition, index: int, mapped: MappedKernel | None = None
) -> dict[str, Any]:
    """One kernel."""
    kernel = partition.kernels[index]
    work, traffic = kernel.work, kernel.traffic
    found: dict[str, Any] = {
        **picked(kernel, "name", "pattern", "label"),
        "operators": [partition.operators[o].name for o in kernel.operators],
        "macs": work.macs,
        "flops": work.flops_matmul,
        "flops_total": work.flops_total,
        "flops_share": flops_share(partition, kernel),
        "bytes_external": traffic.external,
        "bytes_internal": traffic.internal,
        "bytes_op_by_op": traffic.op_by_op,
        "bytes_parameters": traffic.parameters,
        "saved_ratio": traffic.saved_ratio,
        "intensity": kernel.intensity,
        "intensity_total": work.flops_total / traffic.external if traffic.external else 0.0,
        "launches": kernel.launches,
        "readers": [partition.kernels[i].name for i in partition.successors[index]],
        "reason": kernel.reason,
    }
    if kernel.tiling is not None:
        found["tiling"] = kernel.tiling.as_json()
    if mapped is not None:
        found["bottleneck"] = mapped.fused.roof
        found["mapping"] = mapped.as_json()
    return found


def flops_share(partition: Partition, kernel: FusedKernel) -> float:
    """The kernel's part of all FLOPs."""
    total = partition.work.flops_total
    return kernel.work.flops_total / total if total else 0.0


def intermediates(partition: Partition) -> dict[str, int]:
    """Bytes of activations written and read, before fusion and after it."""
    traffic = partition.traffic
    return {
        "writes_before": traffic.writes + traffic.internal_writes,
        "writes_after": traffic.writes,
        "reads_before": traffic.reads + traffic.internal_reads,
        "reads_after": traffic.reads,
    }


def top_savings(partition: Partition) -> list[int]:
    """Kernels that save the most bytes, largest first."""
    saved = [(k.traffic.op_by_op - k.traffic.external, -i) for i, k in enumerate(partition.kernels)]
    return [-i for bytes_saved, i in sorted(saved, reverse=True)[:TOP] if bytes_saved > 0]
