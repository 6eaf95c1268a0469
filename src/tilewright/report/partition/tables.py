"""A partition in the terminal: its kernels, and what a person wants to know first."""

from rich.table import Table

from tilewright.partition.mapping import Mapped
from tilewright.partition.partition import SINGLE, Kernel, Partition
from tilewright.report.partition.figures import flops_share, intermediates, top_savings
from tilewright.units import format_bytes, format_time, noun


def _operators(partition: Partition, kernel: Kernel) -> str:
    names = [partition.operators[o].name for o in kernel.operators]
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]} ... {names[-1]} ({len(names)})"


def kernels_table(partition: Partition, mapped: Mapped | None) -> Table:
    """One line a kernel."""
    table = Table("kernel", "operators")
    for title in ("GFLOP", "share", "external", "internal", "FLOP/B", "saved"):
        table.add_column(title, justify="right", no_wrap=True)
    tiled = any(kernel.tiling is not None for kernel in partition.kernels)
    if tiled:
        table.add_column("tile")
    if mapped is not None:
        table.add_column("time", justify="right", no_wrap=True)
        table.add_column("bound by", no_wrap=True)
    for index, kernel in enumerate(partition.kernels):
        traffic = kernel.traffic
        cells = [
            kernel.label,
            _operators(partition, kernel),
            f"{kernel.work.flops_matmul / 1e9:.3f}",
            f"{flops_share(partition, kernel):.1%}",
            f"{traffic.external / 1e6:.2f} MB",
            f"{traffic.internal / 1e6:.2f} MB",
            f"{kernel.intensity:.2f}",
            f"{traffic.saved_ratio:.1%}",
        ]
        if tiled:
            cells.append("" if kernel.tiling is None else str(kernel.tiling))
        if mapped is not None:
            run = mapped.kernels[index].fused
            cells += [format_time(run.seconds), run.bound]
        table.add_row(*cells)
    return table


def summary_lines(partition: Partition, mapped: Mapped | None) -> list[str]:
    """What it comes to, most important first."""
    work, traffic = partition.work, partition.traffic
    operators, kernels = len(partition.operators), len(partition.kernels)
    moved = intermediates(partition)
    lines = [
        f"{partition.name}: {operators} {noun(operators, 'operator')} -> {kernels} "
        f"{noun(kernels, 'kernel')} ({partition.level.value} level), {partition.launches_before} "
        f"-> {partition.launches_after} launches; longest chain {len(partition.critical_path)}, "
        f"width {partition.width}",
        f"FLOPs: {work.flops_matmul / 1e9:.4f} G in products (MAC = 2), "
        f"{work.flops_total / 1e9:.4f} G with norms, activations and sums",
        f"bytes: {traffic.op_by_op / 1e6:.2f} MB op by op -> {traffic.external / 1e6:.2f} MB fused "
        f"({traffic.saved_ratio:.1%} saved); {traffic.internal / 1e6:.2f} MB stay inside; "
        f"parameters {traffic.parameters / 1e6:.2f} MB",
        f"intermediates: written {_pair(moved, 'writes')}, read {_pair(moved, 'reads')}",
        "patterns: " + _patterns(partition),
    ]
    best = [partition.kernels[i] for i in top_savings(partition)[:3]]
    if best:
        told = (f"{k.name} {format_bytes(k.traffic.op_by_op - k.traffic.external)}" for k in best)
        lines.append("saves most: " + ", ".join(told))
    singles: dict[str, list[str]] = {}
    for kernel in partition.kernels:
        if kernel.single:
            singles.setdefault(kernel.reason, []).append(kernel.name)
    for reason, names in sorted(singles.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:8]:
        some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        lines.append(f"single ({reason}): {some}")
    return lines + ([] if mapped is None else mapped_lines(mapped))


def _pair(moved: dict[str, int], what: str) -> str:
    before, after = moved[f"{what}_before"], moved[f"{what}_after"]
    return f"{format_bytes(before)} -> {format_bytes(after)}"


def _patterns(partition: Partition) -> str:
    told: list[str] = []
    for pattern, count in partition.patterns.items():
        low, high = partition.pattern_ranges[pattern]
        spread = "" if pattern == SINGLE else f" ({low:.0%}-{high:.0%} saved)"
        told.append(f"{pattern} {count}{spread}")
    return ", ".join(told)


def mapped_lines(mapped: Mapped) -> list[str]:
    """Before and after on the machine."""
    before, after = mapped.totals["before"], mapped.totals["after"]

    def bound(side: dict[str, dict[str, int]]) -> str:
        return ", ".join(f"{name} {count}" for name, count in side["bound_by"].items())

    target = mapped.target
    lines = [
        f"on {target.name} in {target.dtype} ({target.matrix_rate / 1e12:.3g} TFLOP/s, "
        f"{target.main.name} {format_bytes(target.main.bandwidth)}/s): "
        f"{format_time(before['seconds'])} op by op -> {format_time(after['seconds'])} fused "
        f"({mapped.totals['speedup']:.2f}x); {before['launches']} -> {after['launches']} launches, "
        f"{format_time(before['overhead_seconds'])} -> {format_time(after['overhead_seconds'])} "
        "of overhead",
        f"bound by: {bound(before)} before; {bound(after)} after",
    ]
    if "scheduling_operations" in after:
        lines.append(
            f"scheduling operations {before['scheduling_operations']} -> "
            f"{after['scheduling_operations']}; DRAM accesses {before['dram_accesses']:,} -> "
            f"{after['dram_accesses']:,}; {after['kernels_that_fit']} kernels fit a tile's memory"
        )
    return lines
