"""memory.png: buffers are where their addresses and times say."""

from pathlib import Path

import pytest
from PIL import Image

from tilewright import api
from tilewright.errors import OutputError
from tilewright.report import memory_map
from tilewright.report.memory_map import plot_memory_map

pytestmark = pytest.mark.quick


def test_every_memory_has_a_row_and_bytes_nobody_holds_stay_white(tmp_path: Path) -> None:
    planned = api.plan("four_convs@16x16", "npu-2.7", layer_by_layer=True, verify=False).planned
    plot_memory_map(planned, tmp_path / "memory.png")
    with Image.open(tmp_path / "memory.png") as picture:
        memories = len(planned.placed.highest)
        lowest = memory_map._TOP + memories * memory_map._ROW + (memories - 1) * memory_map._BETWEEN
        assert picture.size == (memory_map._WIDTH, lowest + memory_map._BOTTOM)
        # The first row is the main memory, from whose first byte on the network's constants lie.
        middle = (memory_map._LEFT + memory_map._WIDTH - memory_map._RIGHT) // 2
        bottom = memory_map._TOP + memory_map._ROW
        column = [picture.getpixel((middle, y)) for y in range(memory_map._TOP + 20, bottom - 1)]
        blank = {(255, 255, 255), (235, 235, 235)}
        used = [pixel not in blank for pixel in column]
        assert used[-1] and not used[0]


@pytest.mark.parametrize(
    ("span", "texts"),
    [
        (2.1, ["0.00", "0.25", "0.50", "0.75", "1.00", "1.25", "1.50", "1.75", "2.00"]),
        (95.0, ["0", "10", "20", "30", "40", "50", "60", "70", "80", "90"]),
        (5.0, ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5", "3.0", "3.5", "4.0", "4.5", "5.0"]),
    ],
)
def test_ticks_are_round_numbers(span: float, texts: list[str]) -> None:
    assert [text for _, text in memory_map._ticks(span)] == texts


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    planned = api.plan("four_convs@16x16", "npu-2.7", layer_by_layer=True, verify=False).planned
    with pytest.raises(OutputError, match="cannot write"):
        plot_memory_map(planned, tmp_path / "nowhere" / "memory.png")
