"""A partition as text that other tools draw or read: Mermaid, DOT, CSV."""

import csv
import io
from collections.abc import Iterator
from itertools import cycle

from tilewright.partition.mapping import Mapped
from tilewright.partition.partition import Partition
from tilewright.report.partition.figures import kernel_json
from tilewright.units import format_bytes, several

_COLOURS = ("#7aa6d8", "#f2a65a", "#7fc08a", "#d98aa6", "#b39ddb", "#e3c94b", "#6fc3c9", "#c49a7a")
_COLUMNS = (
    "name pattern label operators macs flops flops_total flops_share bytes_external bytes_internal "
    "bytes_op_by_op saved_ratio intensity launches reason"
).split()


def _plain(text: str) -> str:
    """Text that neither Mermaid nor DOT takes for syntax."""
    return "".join(c if c.isalnum() or c in " +-_./:,()" else "_" for c in text)


def _boxes(partition: Partition) -> Iterator[tuple[str, str, str]]:
    """A title, details and the colour of its pattern for every kernel."""
    colour = dict(zip(partition.patterns, cycle(_COLOURS), strict=False))
    for kernel in partition.kernels:
        operators = several(len(kernel.operators), "operator")
        detail = f"{operators}, {format_bytes(kernel.traffic.external)}"
        yield _plain(f"{kernel.label}: {kernel.name}"), detail, colour[kernel.pattern]


def mermaid(partition: Partition) -> str:
    """The kernel graph as a Mermaid flowchart, coloured by pattern."""
    lines = ["flowchart TD"]
    for index, (name, detail, colour) in enumerate(_boxes(partition)):
        lines.append(f'  k{index}["{name}<br/>{detail}"]')
        lines.append(f"  style k{index} fill:{colour}")
    for index, readers in enumerate(partition.successors):
        lines += [f"  k{index} --> k{reader}" for reader in readers]
    return "\n".join(lines) + "\n"


def dot(partition: Partition) -> str:
    """The kernel graph for Graphviz, coloured by pattern."""
    lines = [f'digraph "{_plain(partition.name)}" {{', "  node [shape=box, style=filled];"]
    for index, (name, detail, colour) in enumerate(_boxes(partition)):
        lines.append(f'  k{index} [label="{name}\\n{detail}", fillcolor="{colour}"];')
    for index, readers in enumerate(partition.successors):
        lines += [f"  k{index} -> k{reader};" for reader in readers]
    return "\n".join([*lines, "}"]) + "\n"


def csv_text(partition: Partition, mapped: Mapped | None) -> str:
    """One line a kernel."""
    file = io.StringIO()
    extra = ("seconds", "bound", "unfused_seconds") if mapped is not None else ()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*_COLUMNS, *extra])
    for index in range(len(partition.kernels)):
        figures = kernel_json(partition, index)
        row = [" ".join(figures[key]) if key == "operators" else figures[key] for key in _COLUMNS]
        if mapped is not None:
            run = mapped.kernels[index]
            row += [run.fused.seconds, run.fused.bound, run.unfused_seconds]
        writer.writerow(row)
    return file.getvalue()
