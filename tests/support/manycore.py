"""Random accelerators of several cores, and small networks to run on them."""

from random import Random

import numpy as np

from support.builder import GraphBuilder
from tilewright.graph.graph import Graph
from tilewright.manycore.evaluate import Evaluator, ShapeCosts
from tilewright.manycore.fabric import Fabric, fabric_of
from tilewright.manycore.hardware import OPERANDS, Accelerator, CoreKind, CoreMemory, Port, Wire
from tilewright.manycore.tiles import LayerCut, TileGraph, build_tiles
from tilewright.manycore.workload import workload_of

_WAYS = ("tl", "fh", "fl", "th")


def level(name: str, size: int, operands: tuple[str, ...], bandwidth: int = 256) -> CoreMemory:
    """A memory with a port for everything, for all units of the array."""
    serves = frozenset((operand, way) for operand in operands for way in _WAYS)
    port = Port("rw", bandwidth, bandwidth, serves)
    return CoreMemory(name, size, 10.0, 11.0, operands, frozenset({"D1", "D2"}), (port,))


def core(name: str, levels: tuple[CoreMemory, ...], sizes: tuple[int, int] = (4, 4)) -> CoreKind:
    """A core whose unrolling is given: channels by columns."""
    flow = (("D1", (("K", sizes[0]),)), ("D2", (("OX", sizes[1]),)))
    return CoreKind(name, (("D1", sizes[0]), ("D2", sizes[1])), 0.1, levels, flow)


def random_fabric(random: Random, cores: int) -> Fabric:
    """Cores with one memory or one per operand, some of them small; buses and links such that
    every core reaches the outside, some only over others."""
    made: list[tuple[int, CoreKind]] = []
    for number in range(cores):
        size = random.choice((350, 500, 700, 2_000)) * 8
        if random.random() < 0.3:
            levels = (level("w", size, ("I2",)), level("io", 2 * size, ("I1", "O")))
        elif random.random() < 0.3:
            levels = tuple(level(f"m{op}", 2 * size, (op,)) for op in OPERANDS)
        else:
            levels = (level("all", 2 * size, OPERANDS),)
        array = random.choice(((2, 2), (4, 4), (8, 2), (8, 8)))
        made.append((number, core(f"c{number}", levels, array)))
    wires: list[Wire] = []
    for number in range(cores):
        partner = random.randrange(number + 1) if random.random() < 0.3 else number
        ends = (number, cores) if partner == number else (number, partner)
        wires.append(Wire(f"link{len(wires)}", False, ends, random.choice((8, 24, 64)), 0.1))
    for _ in range(random.randrange(3)):
        ends = tuple(sorted(random.sample(range(cores + 1), random.randint(2, cores + 1))))
        wires.append(Wire(f"bus{len(wires)}", True, ends, random.choice((16, 32, 128)), 0.2))
    wires.append(Wire(f"link{len(wires)}", False, (0, cores), 32, 0.1))
    outside = core("outside", (level("dram", 2**33, OPERANDS, 64),))
    return fabric_of(Accelerator("random", tuple(made), outside, cores, tuple(wires)))


def random_network(random: Random, layers: int) -> Graph:
    """Convolutions, pools and sums on small images."""
    b = GraphBuilder(seed=random.randrange(1000))
    made = [b.input(1, 3, 12, 10)]
    channels = [3]
    for _ in range(layers):
        at = random.randrange(max(0, len(made) - 2), len(made))
        kind = random.choice(("conv", "conv", "conv", "stride", "pool", "add"))
        same = [k for k in range(1, len(made)) if _shape(b, made[k]) == _shape(b, made[at])]
        if kind == "add" and len(same) > 1 and at in same:
            made.append(b.add("Add", made[same[0]], made[at]))
            channels.append(channels[at])
        elif kind == "pool" and min(_shape(b, made[at])[2:]) > 3:
            pooled = b.add("MaxPool", made[at], kernel_shape=[3, 3], strides=[2, 2])
            made.append(pooled)
            channels.append(channels[at])
        else:
            out, k = random.choice((4, 6, 8)), random.choice((1, 3))
            stride = 2 if kind == "stride" and min(_shape(b, made[at])[2:]) > 3 else 1
            weight = b.weight(out, channels[at], k, k)
            inputs = (made[at], weight, b.weight(out))
            pads = [k // 2] * 4
            conv = b.add("Conv", *inputs, kernel_shape=[k, k], pads=pads, strides=[stride] * 2)
            made.append(b.add("Relu", conv) if random.random() < 0.5 else conv)
            channels.append(out)
    return b.graph()


def _shape(builder: GraphBuilder, name: str) -> tuple[int, ...]:
    return builder.inference.types[name].shape


def random_tiles(random: Random, graph: Graph, cores: int) -> TileGraph:
    """Every layer cut in its own way, across cores and within one."""
    workload = workload_of(graph)
    cuts: list[LayerCut] = []
    for layer in workload.layers:
        shape = layer.shape
        inter = ((1, random.randint(2, min(cores, shape[1]))),) if random.random() < 0.3 else ()
        rows = random.choice((1, 2, 3, shape[2]))
        intra = [(2, min(rows, shape[2]))] if rows > 1 else []
        if random.random() < 0.2 and shape[3] > 1:
            intra.append((3, 2))
        cuts.append(LayerCut(inter, tuple(intra)))
    return build_tiles(workload, cuts)


def random_costs(random: Random, tiles: TileGraph, cores: int) -> ShapeCosts:
    """Cycles that have nothing to do with anything."""
    rows = [[random.randint(1, 400) for _ in range(cores)] for _ in tiles.shapes]
    cycles = np.array(rows, np.int64)
    return ShapeCosts(cycles, cycles * 2.5)


def random_evaluator(seed: int, *, layers: int = 4, cores: int | None = None) -> Evaluator:
    """A machine, a network, cuts and costs of a seed."""
    random = Random(seed)
    count = cores or random.randint(2, 8)
    fabric = random_fabric(random, count)
    tiles = random_tiles(random, random_network(random, layers), count)
    return Evaluator(tiles, fabric, random_costs(random, tiles, count))
