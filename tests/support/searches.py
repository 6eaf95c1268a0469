"""Small searches in a process of their own: `python -m support.searches SEED ...` prints, for each
seed, the plan and the figures that a search finds for a random network."""

import random
import sys

from support.builder import GraphBuilder
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.plan.plan import plan_text
from tilewright.planning import prepared
from tilewright.search.fusion import Fusion

MACHINES = ("npu-2.7", "npu-4.0", "three-core-bus")
KIBIBYTES = 16  # so little that groups are cut in many tiles, and many cuts cost the same


def segmentation_network(seed: int) -> Graph:
    """Convolutions between layout operators: branches that are joined, moved, resized, split."""
    chance = random.Random(seed)
    b = GraphBuilder(seed=seed)
    x = b.input(1, 16, 24, 24)
    for _ in range(2):
        x = b.add("Relu", b.add("Conv", x, b.weight(16, 16, 3, 3), pads=[1] * 4))
        kind = chance.choice(("resize", "space", "transpose"))
        if kind == "transpose":
            back = b.add("Transpose", b.add("Conv", x, b.weight(16, 16, 1, 1)), perm=[0, 1, 3, 2])
        else:
            half = b.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
            half = b.add("Conv", half, b.weight(64 if kind == "space" else 16, 16, 1, 1))
            scales = b.constant([1.0, 1.0, 2.0, 2.0], "float32")
            back = (
                b.add("DepthToSpace", half, blocksize=2)
                if kind == "space"
                else b.add("Resize", half, "", scales, mode="nearest")
            )
        parts = [x, back]
        chance.shuffle(parts)
        joined = b.add("Concat", *parts, axis=1)
        x = b.add("Conv", joined, b.weight(16, 32, 1, 1))
    first = b.add("Split", x, b.constant([8, 8], "int64"), outputs=2, axis=1)
    return b.graph(b.add("Mul", first, b.add("Sigmoid", f"{first}.1")))


def searched(seed: int) -> str:
    """The plan and the figures of one short search."""
    machine = load_machine(MACHINES[seed % len(MACHINES)]).with_memory(KIBIBYTES * 1024)
    graph = prepared(segmentation_network(seed), machine, machine.dtype).graph
    found = Fusion(graph, machine, machine.dtype, f"random{seed}").run(fast=True)
    rivals = "".join(f"{trial.name}: {trial.metrics}\n" for trial in found.rivals)
    return f"{plan_text(found.best.plan)}{found.best.name}: {found.best.metrics}\n{rivals}"


if __name__ == "__main__":
    for number in sys.argv[1:]:
        print(searched(int(number)))
