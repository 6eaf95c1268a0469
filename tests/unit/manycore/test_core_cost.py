"""What a tile costs on a core: counted by hand where that is possible, sane everywhere else."""

from dataclasses import replace
from math import prod
from pathlib import Path
from random import Random

import pytest

from tilewright.manycore.core_cost import tile_cost
from tilewright.manycore.hardware import CoreKind
from tilewright.manycore.read_hardware import read_core
from tilewright.manycore.workload import LayerShape

CORES = Path(__file__).parents[3] / "examples" / "manycore" / "cores"


def example(name: str) -> CoreKind:
    """A core of the example."""
    return read_core(CORES / f"{name}.yaml")[0]


def shape(k: int = 16, ox: int = 32, c: int = 16, f: int = 3, oy: int = 1) -> LayerShape:
    """A tile of a convolution."""
    return LayerShape((1, k, 1, ox, oy, c, f, f))


def test_weights_that_stay_by_hand() -> None:
    """16 x 16 products a cycle; a unit's nine weights of 8 bits come in over 8 bits a cycle while
    nothing else runs, and the last sum leaves in one more cycle."""
    found = tile_cost(example("channels"), shape())
    assert found is not None
    assert found.unrolling == (("D1", "K", 16), ("D2", "C", 16))
    assert found.cycles == 9 * 32 + 9 + 1


def test_one_memory_without_registers_by_hand() -> None:
    """Eight channels by four columns, six products each: in every one of six cycles 4 inputs, 8
    weights and 32 sums of 16 bits are read over one port. That is three accesses, two of which find
    the port taken: 6 cycles, and about two more for each but the first."""
    found = tile_cost(example("small"), LayerShape((1, 8, 1, 4, 1, 6, 1, 1)))
    assert found is not None
    assert 6 + 8 <= found.cycles <= 6 + 10


def test_the_best_unrolling_is_legal_and_used() -> None:
    """Weights are fed along D1 and inputs along D2, each by one byte a cycle: only columns can run
    along D1, only channels along D2."""
    found = tile_cost(example("pixels"), shape(k=8, ox=28))
    assert found is not None
    assert found.unrolling == (("D1", "OX", 14), ("D2", "K", 8))


@pytest.mark.parametrize("name", ["channels", "pixels", "small"])
def test_never_faster_than_the_array_and_more_work_costs_more(name: str) -> None:
    core = example(name)
    small, large = tile_cost(core, shape(oy=1)), tile_cost(core, shape(oy=4))
    assert small is not None and large is not None
    assert small.cycles >= shape(oy=1).macs / core.units
    assert small.cycles < large.cycles and small.energy < large.energy


def test_systolic_arrays_drain() -> None:
    """Sixteen units along D1: the last result is there fifteen cycles later."""
    core = example("channels")
    plain = tile_cost(core, shape())
    drained = tile_cost(replace(core, systolic=frozenset({"D1"})), shape())
    assert plain is not None and drained is not None
    assert drained.cycles == plain.cycles + 15 and drained.energy == plain.energy


def test_costs_are_kept_by_shape() -> None:
    core = example("pixels")
    assert tile_cost(core, shape()) is tile_cost(core, shape())


def test_all_eight_loops_at_once() -> None:
    """More loops than are permuted: images and groups stay outside, and nothing is lost."""
    tile = LayerShape((2, 6, 3, 10, 10, 10, 3, 3))
    found = tile_cost(example("small"), tile)
    assert found is not None and len(found.order) > 6
    steps = prod(factor for _, factor in found.order)
    spread = prod(factor for _, _, factor in found.unrolling)
    assert steps * spread >= tile.macs and found.cycles >= steps


@pytest.mark.parametrize("name", ["channels", "pixels", "small"])
@pytest.mark.parametrize("seed", range(8))
def test_random_tiles_on_random_cores_are_sane(name: str, seed: int) -> None:
    """Never faster than all units at work; more of a loop never takes less; slower ports never
    help."""
    random = Random(seed)
    core = example(name)
    sizes = tuple((d, random.choice((4, 8, 16))) for d, _ in core.dimensions)
    core = replace(core, dimensions=sizes, dataflow=None)
    slow = replace(
        core,
        levels=tuple(
            replace(
                level,
                ports=tuple(replace(p, bandwidth=max(8, p.bandwidth // 2)) for p in level.ports),
            )
            for level in core.levels
        ),
    )
    extents = [random.choice((1, 2, 3, 8, 12, 16)) for _ in range(8)]
    extents[2] = 1
    tile = LayerShape(tuple(extents))
    found, slower = tile_cost(core, tile), tile_cost(slow, tile)
    assert found is not None and slower is not None
    assert found.cycles >= tile.macs / core.units
    assert found.energy >= core.unit_pj * tile.macs and found.cycles <= slower.cycles
    for loop in range(8):
        if extents[loop] > 1:
            twice = LayerShape(tuple(2 * e if k == loop else e for k, e in enumerate(extents)))
            more = tile_cost(core, twice)
            assert more is not None and more.cycles >= found.cycles


def test_a_core_without_a_memory_for_weights_runs_pools_only() -> None:
    core = example("small")
    (level,) = core.levels
    core = replace(core, levels=(replace(level, operands=("I1", "O")),), dataflow=None)
    assert tile_cost(core, shape()) is None
    pool = LayerShape((1, 1, 8, 4, 4, 1, 3, 3), weights=False)
    assert tile_cost(core, pool) is not None
