"""A partition in the terminal: its kernels, and what a person wants to know first."""

from rich.table import Table

from tilewright.partition.mapping import Mapped
from tilewright.partition.partition import SINGLE, Partition
from tilewright.report.partition.figures import flops_share, intermediates, top_savings
from tilewright.units import format_bytes, format_time, noun, several, some


def kernels_table(partition: Partition, mapped: Mapped | None) -> Table:
    """One line a kernel."""
    table = Table("kernel", "operators")
    prefix, flop = _flop_prefix(partition.work.flops_total / 10)
    unit, byte = _byte_unit(max((k.traffic.external for k in partition.kernels), default=0))
    for title in (f"{prefix}FLOP", "share", "external", "internal", "FLOP/B", "saved"):
        table.add_column(title, justify="right", no_wrap=True)
    tiled = any(kernel.tiling is not None for kernel in partition.kernels)
    if tiled:
        table.add_column("tile")
    retyped = mapped is not None and _retyped(partition, mapped)
    if mapped is not None:
        if retyped:
            table.add_column(f"in {mapped.target.dtype}", justify="right", no_wrap=True)
        table.add_column("time", justify="right", no_wrap=True)
        table.add_column("bound by", no_wrap=True)
    for index, kernel in enumerate(partition.kernels):
        traffic, names = kernel.traffic, [partition.operators[o].name for o in kernel.operators]
        many = f"{names[0]} ... {names[-1]} ({len(names)})"
        cells = [
            kernel.label,
            many if len(names) > 3 else ", ".join(names),
            f"{kernel.work.flops_matmul / flop:.3f}",
            f"{flops_share(partition, kernel):.1%}",
            f"{traffic.external / byte:.2f} {unit}",
            f"{traffic.internal / byte:.2f} {unit}",
            f"{kernel.intensity:.2f}",
            f"{traffic.saved_ratio:.1%}",
        ]
        if tiled:
            cells.append("" if kernel.tiling is None else str(kernel.tiling))
        if mapped is not None:
            run = mapped.kernels[index].fused
            moved = [f"{run.external / byte:.2f} {unit}"] if retyped else []
            cells += [*moved, format_time(run.seconds), run.bound]
        table.add_row(*cells)
    return table


def _retyped(partition: Partition, mapped: Mapped) -> bool:
    """Whether the machine's elements are of another size than the network's."""
    own = sum(kernel.traffic.external for kernel in partition.kernels)
    return abs(sum(kernel.fused.external for kernel in mapped.kernels) - own) > 0.5


def summary_lines(partition: Partition, mapped: Mapped | None) -> list[str]:
    """What it comes to, most important first."""
    work, traffic = partition.work, partition.traffic
    operators, kernels = len(partition.operators), len(partition.kernels)
    moved = {what: format_bytes(count) for what, count in intermediates(partition).items()}
    prefix, flop = _flop_prefix(work.flops_total)
    unit, byte = _byte_unit(traffic.op_by_op)
    lines = [
        f"{partition.name}: {several(operators, 'operator')} -> {kernels} "
        f"{noun(kernels, 'kernel')} ({partition.level.value} level), {partition.launches_before} "
        f"-> {partition.launches_after} launches; longest chain {len(partition.critical_path)}, "
        f"width {partition.width}",
        f"FLOPs: {work.flops_matmul / flop:.4f} {prefix} in products (MAC = 2), "
        f"{work.flops_total / flop:.4f} {prefix} with norms, activations and sums",
        f"bytes: {traffic.op_by_op / byte:.2f} {unit} op by op -> "
        f"{traffic.external / byte:.2f} {unit} fused ({traffic.saved_ratio:.1%} saved); "
        f"{traffic.internal / byte:.2f} {unit} stay inside; "
        f"parameters {traffic.parameters / byte:.2f} {unit}",
        f"intermediates: written {moved['writes_before']} -> {moved['writes_after']}, "
        f"read {moved['reads_before']} -> {moved['reads_after']}",
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
        lines.append(f"single ({reason}): {some(names)}")
    left = partition.uncounted
    if left:
        lines.append(
            f"not counted: what {some(left)} {'gives' if len(left) == 1 else 'give'}, whose size "
            "is not known before it runs"
        )
    return lines + ([] if mapped is None else mapped_lines(partition, mapped))


def _flop_prefix(largest: float) -> tuple[str, float]:
    """The decimal prefix in which FLOPs are readable of which the largest number is this."""
    return ("G", 1e9) if largest >= 1e8 else ("M", 1e6) if largest >= 1e5 else ("k", 1e3)


def _byte_unit(largest: float) -> tuple[str, float]:
    """MB, as data sheets of networks have it, or kB where MB would be all noughts."""
    return ("MB", 1e6) if largest >= 1e5 else ("kB", 1e3)


def _patterns(partition: Partition) -> str:
    told: list[str] = []
    for pattern, count in partition.patterns.items():
        ends = dict.fromkeys(f"{end:.0%}" for end in partition.pattern_ranges[pattern])
        spread = "" if pattern == SINGLE else f" ({'-'.join(ends)} saved)"
        told.append(f"{pattern} {count}{spread}")
    return ", ".join(told)


def mapped_lines(partition: Partition, mapped: Mapped) -> list[str]:
    """Before and after on the machine."""
    before, after = mapped.totals["before"], mapped.totals["after"]

    def bound(side: dict[str, dict[str, int]]) -> str:
        return ", ".join(f"{name} {count}" for name, count in side["bound_by"].items())

    target, rate = mapped.target, mapped.target.matrix_rate / 1e12
    teraflops = f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
    lines = [
        f"on {target.name} in {target.dtype} ({teraflops} TFLOP/s, "
        f"{target.main.name} {format_bytes(target.main.bandwidth)}/s): "
        f"{format_time(before['seconds'])} op by op -> {format_time(after['seconds'])} fused "
        f"({mapped.totals['speedup']:.2f}x); {before['launches']} -> {after['launches']} launches, "
        f"{format_time(before['overhead_seconds'])} -> {format_time(after['overhead_seconds'])} "
        "of overhead",
        f"bound by: {bound(before)} before; {bound(after)} after",
    ]
    if _retyped(partition, mapped):
        own = format_bytes(partition.traffic.external)
        there = format_bytes(sum(kernel.fused.external for kernel in mapped.kernels))
        lines.append(
            f"bytes above are of the network's own types; times are for {target.dtype}, in which "
            f"{own} are {there}"
        )
    if "scheduling_operations" in after:
        lines.append(
            f"scheduling operations {before['scheduling_operations']} -> "
            f"{after['scheduling_operations']}; DRAM accesses {before['dram_accesses']:,} -> "
            f"{after['dram_accesses']:,}; {after['kernels_that_fit']} kernels fit a tile's memory"
        )
    return lines
