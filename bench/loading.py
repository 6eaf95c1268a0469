"""CPU time and memory of loading and tiling a large network, in a process of its own.

python bench/loading.py [MODEL.onnx] [--json PATH]
"""

import argparse
import resource
import time
from pathlib import Path

from common import write_json

from tilewright import api
from tilewright.errors import TilingError
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.grid import Split

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data" / "models" / "sd15_unet.onnx"


def main() -> None:
    """Load the model and cut every node along every axis that can be cut."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=str(BESIDE))
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    if not Path(arguments.model).exists():
        print(f"skipped: {arguments.model} is not there")
        return
    start = time.process_time()
    graph = api.load(arguments.model).graph
    loaded = time.process_time()
    cuts = 0
    for index in range(len(graph.nodes)):
        for axis in range(5):
            try:
                cuts += len(list(cut_group(graph, [index], (Split(axis, 4),)).indices))
            except TilingError:
                continue
    done = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    facts = {
        "nodes": len(graph.nodes),
        "load_cpu_seconds": loaded - start,
        "tile_cpu_seconds": done - loaded,
        "tiles": cuts,
        "peak_process_bytes": peak,
    }
    print(
        f"{Path(arguments.model).name}: {facts['nodes']} nodes loaded in {loaded - start:.2f} s, "
        f"{cuts} tiles in {done - loaded:.2f} s CPU; process peak {peak / 1e6:.0f} MB"
    )
    write_json(arguments.json, facts)


if __name__ == "__main__":
    main()
