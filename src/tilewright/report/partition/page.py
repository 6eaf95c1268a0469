"""The files of a partition, and its page: data inside, in the style of report.html."""

import json
from pathlib import Path
from typing import Any

from tilewright.files import write_texts
from tilewright.graph.ops.roles import Role
from tilewright.partition.mapping import Mapped
from tilewright.partition.partition import Partition
from tilewright.report.html.layout import drawing_of
from tilewright.report.html.network import BoxRole, Drawing, DrawnBox, DrawnEdge, EdgeWay
from tilewright.report.html.page import package_page
from tilewright.report.partition.figures import partition_json
from tilewright.report.partition.texts import csv_text, dot, mermaid

SCRIPTS = ("partition/base.js", "html/graph.js", "partition/charts.js")
_VIEWS = frozenset({Role.VIEW, Role.COPY, Role.TURN, Role.MOVE})


def page_text(partition: Partition, mapped: Mapped | None) -> str:
    """The whole page."""
    on = f" on {mapped.machine}" if mapped is not None else ""
    title = f"{partition.name}{on}, kernels: Tilewright"
    body, sheet = "partition/page.html", "partition/partition.css"
    data = page_data(partition, mapped)
    return package_page("tilewright.report", body, sheet, SCRIPTS, title, data)


def write_partition(partition: Partition, mapped: Mapped | None, folder: Path) -> None:
    """Write the page, JSON, CSV, Mermaid and DOT, or none; what else is in the folder stays."""
    texts = {
        "partition.html": page_text(partition, mapped),
        "partition.json": json.dumps(partition_json(partition, mapped), indent=2) + "\n",
        "partition.csv": csv_text(partition, mapped),
        "partition.mmd": mermaid(partition),
        "partition.dot": dot(partition),
    }
    write_texts(folder, texts)


def page_data(partition: Partition, mapped: Mapped | None) -> dict[str, Any]:
    """What the page draws."""
    found = partition_json(partition, mapped)
    return {
        "figures": found,
        "graph": drawing_of(_network(partition)),
        "title": mapped.target.title if mapped is not None else "",
        "capacity": mapped
        and {"name": mapped.target.capacity.name, "bytes": mapped.target.capacity.capacity},
    }


def _network(partition: Partition) -> Drawing:
    """Operators as boxes, a kernel as a group."""
    ledger, graph = partition.ledger, partition.graph
    home = {o: i for i, kernel in enumerate(partition.kernels) for o in kernel.operators}
    boxes = [DrawnBox(name, "input", -1, BoxRole.INPUT) for name in graph.inputs]
    source = {name: i for i, name in enumerate(graph.inputs)}
    pairs: dict[tuple[int, int, str], None] = {}
    for index, operator in enumerate(partition.operators):
        item = partition.items.items[partition.items.item_of[index]]
        role = BoxRole.VIEW if item.role in _VIEWS else BoxRole.NODE
        telling = graph.nodes[partition.items.telling[index]]
        kind = telling.kind if len(item.operators) > 1 else item.label
        here = len(boxes)
        boxes.append(DrawnBox(operator.name, kind, home[index], role))
        for name in ledger.reads[index]:
            if name in source:
                pairs[source[name], here, name] = None
        source.update(dict.fromkeys(ledger.writes[index], here))
    for name in graph.outputs:
        if name in source:
            boxes.append(DrawnBox(name, "output", -1, BoxRole.OUTPUT))
            pairs[source[name], len(boxes) - 1, name] = None
    sizes = {name: kind.bytes for name, kind in graph.types.items()}
    edges = (DrawnEdge(a, b, name, sizes.get(name), EdgeWay.MAIN) for a, b, name in pairs)
    return Drawing(tuple(boxes), tuple(edges))
