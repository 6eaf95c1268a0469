"""Stream's labs and its ResNet-18 on four cores, beside what that tool gives on the same files.

python bench/stream.py [--json PATH] [--files FOLDER]

Its files are not part of the project: without them only the project's own example is measured.
"""

import argparse
import time
from pathlib import Path
from typing import Any

from common import write_json

from tilewright.api import load
from tilewright.manycore.core_cost import core_costs, tile_cost
from tilewright.manycore.evaluate import Evaluator, Rule
from tilewright.manycore.plan import CorePlan, plan_cores

ROOT = Path(__file__).resolve().parents[1]
FILES = ROOT.parent / "shared" / "data" / "stream"
LAB = ("lab/workload/4_convs.onnx", "lab/hardware/hda_bus.yaml")
RESNET = ("resnet18/workload/resnet18.onnx", "resnet18/hardware/tpu_like_quad_core.yaml")
# Latency, CPU seconds in all, CPU seconds per allocation: measured with Stream on two cores.
CASES: tuple[tuple[str, tuple[str, str], str, dict[str, Any], tuple[int, float, float]], ...] = (
    ("lab1, layer by layer", LAB, "lab/mapping/lab1.yaml", {"fused": False}, (79_340, 149, 0.010)),
    ("lab2, split over K", LAB, "lab/mapping/lab2.yaml", {}, (128_831, 385, 0.018)),
    ("lab3, fused", LAB, "lab/mapping/lab3.yaml", {}, (25_614, 182, 0.40)),
    (
        "lab3, no final write, its costs",
        LAB,
        "lab/mapping/lab3.yaml",
        {"final_write": False, "core_costs": "lab/core_costs.csv"},
        (25_614, 182, 0.40),
    ),
    (
        "ResNet-18, four cores",
        RESNET,
        "resnet18/mapping/tpu_like_quad_core.yaml",
        {},
        (6_438_958, 335, 6.66),
    ),
)


def main() -> None:
    """Plan everything, once to warm up and once to measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument(
        "--files", type=Path, default=FILES, help="the folder with lab and resnet18"
    )
    arguments = parser.parse_args()
    rows = [_own()]
    if arguments.files.is_dir():
        rows += [_case(arguments.files, *case) for case in CASES]
    print(
        "| case | cycles | Stream | bound | CPU s | Stream "
        "| ms per allocation | all rules | Stream | ms per tile and core |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        peer = row["stream"]
        cells = [row["case"], f"{row['cycles']:,}", "", f"{row['bound']:,}"]
        cells += [f"{row['cpu_s']:.1f}", "", f"{row['ms_per_allocation']:.2f}"]
        cells += [f"{row['ms_all_rules']:.2f}", "", f"{row['ms_per_tile']:.2f}"]
        if peer is not None:
            cells[2], cells[5] = f"{peer['cycles']:,}", f"{peer['cpu_s']:,}"
            cells[8] = f"{1000 * peer['cpu_s_per_allocation']:,.0f}"
        print("| " + " | ".join(cells) + " |")
    write_json(arguments.json, rows)


def _own() -> dict[str, Any]:
    example = ROOT / "examples" / "manycore"
    machine, mapping = example / "three_cores.yaml", example / "fused.yaml"
    return _measured("the example", "four_convs", machine, mapping, {}, None)


def _case(
    files: Path,
    name: str,
    inputs: tuple[str, str],
    mapping: str,
    options: dict[str, Any],
    stream: tuple[int, float, float],
) -> dict[str, Any]:
    given = dict(options)
    if "core_costs" in given:
        given["core_costs"] = files / given["core_costs"]
    model, machine = files / inputs[0], files / inputs[1]
    return _measured(name, str(model), machine, files / mapping, given, stream)


def _measured(
    name: str,
    model: str,
    machine: Path,
    mapping: Path,
    options: dict[str, Any],
    stream: tuple[int, float, float] | None,
) -> dict[str, Any]:
    def planned() -> CorePlan:
        loaded = load(model)
        graph = loaded.graph
        numbered = loaded.with_numbers(0)
        return plan_cores(loaded.name, graph, machine, mapping, numbered=numbered, **options)

    planned()
    tile_cost.cache_clear()
    begin = time.process_time()
    plan = planned()
    taken = time.process_time() - begin
    return {
        "case": name,
        "cycles": plan.best.latency,
        "bound": plan.found.bounds.cycles,
        "exact": plan.found.exact,
        "cpu_s": taken,
        "ms_per_allocation": _per_allocation(plan.evaluator, plan.best.core_of, (plan.best.rule,)),
        "ms_all_rules": _per_allocation(plan.evaluator, plan.best.core_of, plan.evaluator.rules),
        "ms_per_tile": _per_tile(plan),
        "stream": None
        if stream is None
        else dict(zip(("cycles", "cpu_s", "cpu_s_per_allocation"), stream, strict=True)),
    }


def _per_allocation(
    evaluator: Evaluator, core_of: tuple[int, ...], rules: tuple[Rule, ...]
) -> float:
    """An allocation under some rules, the best of twenty, in CPU milliseconds."""
    times: list[float] = []
    for _ in range(20):
        begin = time.process_time()
        for rule in rules:
            evaluator.timed(core_of, rule=rule)
        times.append(time.process_time() - begin)
    return 1000 * min(times)


def _per_tile(plan: CorePlan) -> float:
    """The cost of a distinct tile on a core, the best of five, in CPU milliseconds."""
    shapes, cores = plan.tiles.shapes, [core for _, core in plan.fabric.cores]
    times: list[float] = []
    for _ in range(5):
        tile_cost.cache_clear()
        begin = time.process_time()
        core_costs(cores, shapes)
        times.append(time.process_time() - begin)
    return 1000 * min(times) / (len(shapes) * len(cores))


if __name__ == "__main__":
    main()
