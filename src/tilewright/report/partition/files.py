"""The folder of a partition: every file or none."""

import json
from pathlib import Path

from tilewright.files import write_texts
from tilewright.partition.mapping import Mapped
from tilewright.partition.partition import Partition
from tilewright.report.partition.figures import partition_json
from tilewright.report.partition.page import page_text
from tilewright.report.partition.texts import csv_text, dot, mermaid


def write_partition(partition: Partition, mapped: Mapped | None, folder: Path) -> None:
    """Write the page, JSON, CSV, Mermaid and DOT; what else is in the folder stays."""
    texts = {
        "partition.html": page_text(partition, mapped),
        "partition.json": json.dumps(partition_json(partition, mapped), indent=2) + "\n",
        "partition.csv": csv_text(partition, mapped),
        "partition.mmd": mermaid(partition),
        "partition.dot": dot(partition),
    }
    write_texts(folder, texts)
