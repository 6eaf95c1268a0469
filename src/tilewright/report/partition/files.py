"""The folder of a partition: every file or none."""

import json
import os
from pathlib import Path

from tilewright.errors import OutputError
from tilewright.files import write_texts
from tilewright.partition.mapping import Mapped
from tilewright.partition.partition import Partition
from tilewright.report.partition.figures import partition_json
from tilewright.report.partition.page import page_text
from tilewright.report.partition.texts import csv_text, dot, mermaid


def check_folder(folder: Path) -> None:
    """Raise before the work begins where the folder could not be written."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise OutputError(f"cannot write '{folder}': it is not a folder")
    existing = next((p for p in (folder, *folder.absolute().parents) if os.path.lexists(p)), None)
    if existing is None or not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write '{folder}': '{existing}' is not a folder to write in")


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
