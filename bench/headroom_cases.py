"""Random small networks with layout operators, and random machines, for `headroom.py`."""

import random
import tempfile
from pathlib import Path

import numpy as np

from tilewright.frontend.builder import Builder
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine

KINDS = ("plain", "inverted", "skip", "up", "attention", "shuffle", "gate", "split", "pad")


def random_machine(chance: random.Random) -> Machine:
    """1-8 cores, 128 KiB-4 MiB, 4-128 GB/s."""
    cores = chance.randint(1, 8)
    base = chance.choice(("npu-2.7", "npu-4.0"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.yaml"
        path.write_text(f"extends: {base}\ntitle: random\ncores:\n  cluster: {{count: {cores}}}\n")
        machine = load_machine(str(path))
    machine = machine.with_memory(2 ** chance.randint(17, 22))
    return machine.with_bandwidth("ddr", 4e9 * 2 ** chance.randint(0, 5))


def random_network(chance: random.Random, number: int) -> Graph:
    """Convolutions, products and activations between layout operators."""
    b = Builder(f"random{number}")
    side, depth = chance.choice((16, 28, 32, 48, 56)), chance.choice((16, 24, 32, 64))
    x = b.input("x", (1, depth, side, side))
    skips = [x]
    for block in range(chance.randint(2, 5)):
        with b.scope(f"b{block}"):
            x = _block(b, chance, x, skips)
        skips.append(x)
    return b.finish(x)


def _block(b: Builder, chance: random.Random, x: str, skips: list[str]) -> str:
    _, depth, side, _ = b.shape(x)
    kind = chance.choice(KINDS)
    if kind == "inverted":
        y = b.relu6(b.conv(x, 4 * depth, 1))
        y = b.relu6(b.conv(y, 4 * depth, 3, groups=4 * depth, pads=1))
        return b.op("Add", x, b.conv(y, depth, 1))
    if kind == "skip":
        twins = [s for s in skips if b.shape(s)[2:] == b.shape(x)[2:] and s != x]
        joined = b.op("Concat", x, chance.choice(twins or [x]), axis=1)
        return b.op("Relu", b.conv(joined, depth, 3, pads=1))
    if kind == "up" and side % 2 == 0:
        low = b.op("Relu", b.conv(x, depth, 3, stride=2, pads=1))
        low = b.op("Relu", b.conv(low, depth, 3, pads=1))
        scales = b.constant("scales", np.asarray([1, 1, 2, 2], np.float32))
        high = b.op("Resize", low, "", scales, mode="nearest")
        return b.conv(b.op("Concat", x, high, axis=1), depth, 1)
    if kind == "attention" and side <= 32:
        rows = b.op("Transpose", b.reshape(x, (1, depth, side * side)), perm=(0, 2, 1))
        q, k, v = (b.heads(b.linear(rows, depth), 2) for _ in range(3))
        mixed = b.linear(b.attention(q, k, v), depth)
        back = b.op("Transpose", mixed, perm=(0, 2, 1))
        return b.op("Add", x, b.reshape(back, (1, depth, side, side)))
    if kind == "shuffle" and side % 2 == 0:
        y = b.conv(b.op("SpaceToDepth", x, blocksize=2), 4 * depth, 1)
        return b.op("DepthToSpace", y, blocksize=2)
    if kind == "gate":
        return b.silu(b.conv(x, depth, 3, pads=1))
    if kind == "split":
        sizes = b.constant("sizes", np.asarray([depth // 2, depth // 2], np.int64))
        one, other = b.split_op("Split", x, sizes, results=2, axis=1)
        return b.op("Concat", b.silu(b.conv(one, depth // 2, 3, pads=1)), other, axis=1)
    if kind == "pad":
        pads = b.constant("pads", np.asarray([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
        return b.op("Relu", b.conv(b.op("Pad", x, pads), depth, 3))
    return b.op("Relu", b.conv(x, chance.choice((depth, 2 * depth)), 3, pads=1))
