"""The fusion search against layer by layer, greedy merging and the bound; the tables of
docs/results.md.

    python bench/fusion.py [--json FILE] [--verify]
        [--set main|low|whole|small|monotone|batch|clusters|objectives|growth|all]

CPU seconds are of the whole call, with compiled code already there. `--verify` also executes
every plan on the virtual machine and compares it with onnxruntime.
"""

import argparse
import json
import math
import resource
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tilewright import api
from tilewright.frontend.save import serialize
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.model import Model
from tilewright.plan.plan import Place, Plan, plan_text
from tilewright.planning import prepared
from tilewright.program.lower import lowered
from tilewright.program.metrics import Objective, score
from tilewright.search.candidates.layers import layer_by_layer
from tilewright.search.effort import Effort
from tilewright.search.fusion import Fusion

MODELS = Path(__file__).resolve().parents[2] / "shared" / "data" / "models"
FROM_FILES = {name: MODELS / f"{name}.onnx" for name in ("efficientnet_b0", "sd15_unet")}
MAIN = (
    ("resnet18", "npu-2.7"),
    ("resnet50", "npu-2.7"),
    ("mobilenet_v2", "npu-2.7"),
    ("efficientnet_b0", "npu-2.7"),
    ("unet", "npu-2.7"),
    ("fsrcnn@540x960", "npu-2.7"),
    ("vit_b16", "npu-2.7"),
    ("bert_base", "npu-2.7"),
    ("sd15_down_block", "npu-2.7"),
    ("resnet50", "npu-4.0"),
    ("mobilenet_v2", "npu-4.0"),
    ("unet@256x256", "trn2"),
)
WHOLE = "sd15_unet"
SHORT = ("resnet18", "resnet50", "mobilenet_v2", "unet")
SMALL = (
    *((model, kib) for model in SHORT for kib in (512, 256)),
    ("mobilenet_v2@1024x1024", None),
    ("resnet50@512x512", None),
)
SIZES = (192, 256, 320, 384, 512, 640, 768, 1024, 1536, 1936)  # KiB per cluster
BANDWIDTHS = (8, 12, 16, 20, 27, 36, 48, 64, 96, 136)  # GB/s
BATCH = ("mobilenet_v2", "resnet18", "fsrcnn@64x64")
BATCH_MACHINES = ("npu-2.7", "three-core-bus", "mcu")
CLUSTERS = (1, 2, 4, 6)
CLUSTER_NETWORKS = (*SHORT, "fsrcnn@270x480", "vit_b16")
GROWTH = ("resnet18", "resnet50", "unet", "sd15_down_block", WHOLE)


def there(models: Iterable[str]) -> Iterator[str]:
    """Those of some networks that are of the zoo, or lie in the folder beside the checkout."""
    yield from (name for name in models if name not in FROM_FILES or FROM_FILES[name].exists())


def loaded(model: str) -> Model:
    """A network of the zoo, or of the folder."""
    return api.load(FROM_FILES.get(model, model))


def searched(
    model: str, machine: Machine, *, effort: Effort = Effort.NORMAL, verify: bool = False
) -> dict[str, Any]:
    """One search, as a row; its plan executed and compared with onnxruntime if asked."""
    network = loaded(model)
    begin = time.process_time()
    planned = api.plan(network, machine, effort=effort, verify=False).planned
    seconds = time.process_time() - begin
    found, bounds = planned.found, planned.bounds
    assert found is not None
    rivals = {trial.name: trial for trial in found.rivals}
    plain = rivals.get("layer by layer")
    greedy = rivals.get("greedy merge")
    best = found.best
    tiled = sum(len(g.nodes) > 1 and bool(g.splits) for g in best.plan.groups)
    row: dict[str, Any] = {
        "model": model,
        "machine": machine.name,
        "cycles": best.cycles,
        "layer_by_layer": plain.cycles if plain else None,
        "greedy": greedy.cycles if greedy else None,
        "speed_up": round(plain.cycles / best.cycles, 3) if plain else None,
        "dram_mb": round(best.dram_bytes / 1e6, 2),
        "layer_by_layer_mb": round(plain.dram_bytes / 1e6, 2) if plain else None,
        "traffic_factor": round(plain.dram_bytes / best.dram_bytes, 2) if plain else None,
        "compulsory_mb": round(bounds.compulsory_bytes / 1e6, 2),
        "bound": bounds.cycles,
        "bound_name": bounds.name,
        "gap": round(best.cycles / bounds.cycles - 1, 4),
        "groups": sum(g.place is Place.CORES for g in best.plan.groups),
        "tiled_groups": tiled,
        "resident": len(best.plan.resident),
        "exact": found.exact,
        "cpu_seconds": round(seconds, 1),
    }
    if verify:
        row |= executed(model, machine, best.plan)
    return row


def executed(model: str, machine: Machine, plan: Plan) -> dict[str, Any]:
    """A plan lowered for good, executed at its addresses and compared with onnxruntime."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.yaml"
        path.write_text(plan_text(plan))
        planned = api.plan(loaded(model), machine, plan=path).planned
    assert planned.verified is not None
    difference = planned.verified.difference.max_rel_error
    return {"reported_cycles": planned.account.latency_cycles, "max_rel_error": difference}


def untiled(model: str, machine: Machine) -> int | None:
    """Cycles of the best plan that keeps values but runs no two operators tile by tile."""
    graph = prepared(api.load(model).graph, machine, machine.dtype).graph
    search = Fusion(graph, machine, machine.dtype, model)
    search.candidates.tiled = False
    return search.run().best.cycles


def rows_of(kind: str, verify: bool) -> Iterator[dict[str, Any]]:
    """The rows of one table."""
    base = load_machine("npu-2.7")
    if kind in ("main", "low"):
        effort = Effort.LOW if kind == "low" else Effort.NORMAL
        for model, machine in MAIN:
            if [*there([model])]:
                row = searched(model, load_machine(machine), effort=effort, verify=verify)
                yield {**row, "effort": effort}
    elif kind == "whole":
        for model in there([WHOLE]):
            yield {
                **searched(model, base),
                "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
    elif kind == "objectives":
        yield from _objectives(base)
    elif kind == "small":
        for model, kib in SMALL:
            machine = base if kib is None else base.with_memory(kib * 1024)
            row = {**searched(model, machine, verify=verify), "kib": kib}
            yield row | {"untiled": untiled(model, machine)}
    elif kind == "monotone":
        for model in ("resnet18", "mobilenet_v2"):
            for kib in SIZES:
                machine = base.with_memory(kib * 1024)
                yield {**searched(model, machine), "kib": kib}
            for rate in BANDWIDTHS:
                machine = base.with_bandwidth("ddr", rate * 1e9)
                yield {**searched(model, machine), "gb_per_s": rate}
    elif kind == "batch":
        yield from _batches()
    elif kind == "clusters":
        yield from _clusters()
    else:
        yield from _growth(base)


def _batches() -> Iterator[dict[str, Any]]:
    """Cycles of four images against four times those of one, low effort."""
    for machine in map(load_machine, BATCH_MACHINES):
        for model in BATCH:
            network = api.load(model)
            (name,) = network.graph.inputs
            one, *rest = network.graph.types[name].shape
            several = api.load(serialize(network.with_numbers(0)), {name: (4 * one, *rest)})
            both = [plan_of(images, machine) for images in (network, several)]
            ratio = round(both[1]["cycles"] / both[0]["cycles"], 3)
            yield {"model": model, "machine": machine.name, "ratio": ratio, "batch": both}


def _clusters() -> Iterator[dict[str, Any]]:
    """npu-4.0 with fewer clusters and with all, low effort: more are never slower."""
    for model in CLUSTER_NETWORKS:
        for count in CLUSTERS:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "machine.yaml"
                path.write_text(
                    f"extends: npu-4.0\ntitle: clusters\ncores:\n  cluster: {{count: {count}}}\n"
                )
                machine = load_machine(str(path))
            yield {"model": model, "clusters": count, **plan_of(api.load(model), machine)}


def plan_of(network: Model, machine: Machine) -> dict[str, Any]:
    """What `tilewright plan --effort low --no-verify` finds, batches cut into images included."""
    begin = time.process_time()
    account = api.plan(network, machine, effort=Effort.LOW, verify=False).planned.account
    seconds = round(time.process_time() - begin, 1)
    return {"cycles": account.latency_cycles, "cpu_seconds": seconds}


def _objectives(machine: Machine) -> Iterator[dict[str, Any]]:
    """What the plan found for each objective is by the measures of all, low effort."""
    for model in ("resnet18", "mobilenet_v2", "unet"):
        for objective in Objective:
            begin = time.process_time()
            planned = api.plan(
                api.load(model), machine, objective=objective, effort=Effort.LOW, verify=False
            ).planned
            seconds = round(time.process_time() - begin, 1)
            assert planned.found is not None
            metrics = planned.found.best.metrics
            measures = {each.value: score(metrics, each) for each in Objective}
            yield {"model": model, "for": objective, **measures, "cpu_seconds": seconds}


def _growth(machine: Machine) -> Iterator[dict[str, Any]]:
    """CPU seconds of lowering layer by layer against tasks, and the exponent between the ends."""
    points: list[tuple[int, float]] = []
    for model in there(GROWTH):
        graph = prepared(loaded(model).graph, machine, machine.dtype).graph
        begin = time.process_time()
        plan = layer_by_layer(graph, machine, machine.dtype, model)
        chosen = time.process_time()
        placed = lowered(graph, machine, plan)
        done = time.process_time()
        points.append((len(placed.program.tasks), done - begin))
        yield {
            "model": model,
            "tasks": points[-1][0],
            "tiles_s": round(chosen - begin, 2),
            "lowered_s": round(done - chosen, 2),
        }
    (few, short), (many, long) = points[0], points[-1]
    yield {"exponent": round(math.log(long / short) / math.log(many / few), 3)}


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--set", default="main")
    parser.add_argument("--verify", action="store_true")
    options = parser.parse_args()
    kinds = "main low whole small monotone batch clusters objectives growth".split()
    rows: list[dict[str, Any]] = []
    for kind in kinds if options.set == "all" else (options.set,):
        for row in rows_of(kind, options.verify):
            rows.append({"set": kind, **row})
            print(json.dumps(rows[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
