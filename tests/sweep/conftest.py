"""A small space that all tests of sweeps share, and one undisturbed sweep of it."""

from pathlib import Path
from typing import Any

import pytest

from tilewright.sweep.api import sweep
from tilewright.sweep.store import Store

Rows = list[tuple[Any, ...]]

SPACE = """
name: tiny
fixed: {machine: npu-2.7, effort: layers}
axes:
  model: [four_convs@8x8, four_convs@10x10]
  scratchpad: {field: machine.cores.cluster.memories.cmx.usable, from: 256 KiB, to: 1 MiB, times: 2}
  bandwidth: {field: machine.memories.ddr.bandwidth, from: 9 GB/s, to: 27 GB/s, step: 9 GB/s}
  cores: {field: machine.cores.cluster.count, values: [1, 2]}
  queues: {field: machine.links.dma.count, values: [1, 2], with: cores}
set:
  machine.cores.cluster.memories.cmx.capacity: scratchpad + 112 * KiB
define:
  area: cores * (1 + scratchpad / MiB)
  cost: area + bandwidth / GB / 10
require: [cost <= 6]
under_ms: 0.02
"""


@pytest.fixture(scope="session")
def space_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("space") / "space.yaml"
    path.write_text(SPACE)
    return path


@pytest.fixture(scope="session")
def swept_folder(space_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep that nothing disturbed."""
    folder = tmp_path_factory.mktemp("swept")
    sweep(space_file, folder)
    return folder


@pytest.fixture(scope="session")
def undisturbed(swept_folder: Path) -> Rows:
    """The results of that sweep."""
    with Store(swept_folder) as store:
        return store.results()
