"""The search for the best order of loops leaves orders out: none of them may be better."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tilewright.manycore import core_cost
from tilewright.manycore.core_cost import tile_cost
from tilewright.manycore.nest import best_order
from tilewright.manycore.read_hardware import read_core
from tilewright.manycore.workload import LayerShape

CORES = Path(__file__).parents[3] / "examples" / "manycore" / "cores"


def every_order(
    memories: np.ndarray,
    tile: np.ndarray,
    ports: int,
    codes: np.ndarray,
    left: np.ndarray,
    outer: np.ndarray,
    best: np.ndarray,
    order: np.ndarray,
) -> bool:
    """The same by trying all: loops that stay outside are not permuted, so all of them do."""
    none = np.empty(0, np.int64)
    before = tuple(best)
    for tried in sorted(set(permutations(np.repeat(codes, left).tolist()))):
        fixed = np.array((*tried, *outer.tolist()), np.int64)
        if best_order(memories, tile, ports, none, none, fixed, best, none):
            order[:] = tried
    return tuple(best) != before


@pytest.mark.parametrize("name", ["channels", "pixels", "small"])
@pytest.mark.parametrize("seed", range(12))
def test_no_order_is_better(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    core = read_core(CORES / f"{name}.yaml")[0]
    larger = [replace(lv, size=lv.size * random.choice((1, 2, 4, 9))) for lv in core.levels]
    core = replace(core, levels=tuple(larger))
    extents = [random.choice((1, 2, 3, 6, 8, 20, 28)) for _ in range(8)]
    extents[0], extents[2] = random.choice((1, 2)), random.choice((1, 1, 6))
    stride = random.choice(((1, 1), (2, 2)))
    tile = LayerShape(tuple(extents), stride)
    tile_cost.cache_clear()
    found = tile_cost(core, tile)
    tile_cost.cache_clear()
    monkeypatch.setattr(core_cost, "best_order", every_order)
    expected = tile_cost(core, tile)
    tile_cost.cache_clear()
    assert found is not None and expected is not None
    assert found.cycles == expected.cycles
    assert found.energy == pytest.approx(expected.energy, rel=1e-12)
