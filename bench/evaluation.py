"""What one evaluation of a plan costs: with one group changed, and from scratch.

    python bench/evaluation.py [--json FILE] [--only NAME ...] [--groups 20] [--layer-by-layer]

CPU milliseconds of one thread, compiled code already loaded. `changed_ms`: everything about the
plan is known except one group, which is cut in a way that was never lowered; the mean over groups
that lie spread over the plan. Each begins with what was known before the others. `scratch_ms`:
nothing is known, not even how the tensors of the network lie; the least of three. An evaluation
gives addresses, times and figures of all tasks, or says what does not fit. What is true of the
machine (costs of works and copies) and of the network's operators (access relations, signatures,
the work of tiles by their extents) is kept with them, so the first of four evaluations finds it
out. The garbage collector runs as rarely as under the command line. Networks that are neither in
the zoo nor in the folder beside the checkout are left out.
"""

import argparse
import copy
import gc
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from tilewright import api
from tilewright.errors import TilewrightError
from tilewright.garbage import collect_seldom
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.machine.machine import Machine
from tilewright.plan.plan import GroupPlan, Place, Plan
from tilewright.planning import prepared
from tilewright.program.lowering import Lowering
from tilewright.program.metrics import Metrics, metrics_of
from tilewright.program.timed import Refused
from tilewright.search.candidates.layers import layer_by_layer
from tilewright.search.fusion import Fusion

MODELS = Path(__file__).resolve().parents[2] / "shared" / "data" / "models"
LIMITS = {  # milliseconds with one group changed; from scratch, five times as many
    "mobilenet_v2": 4,
    "resnet50": 8,
    "efficientnet_b0": 10,
    "sd15_down_block": 120,
    "sd15_unet": 600,
}
NETWORKS = (*LIMITS, "vit_b16", "bert_base")
FROM_FILES = ("efficientnet_b0", "sd15_unet")
LARGE = ("sd15_down_block", "sd15_unet")  # no search here: layer by layer alone


def evaluated(lowering: Lowering, plan: Plan) -> Metrics | Refused:
    """The figures of a plan, or what is short."""
    found = lowering.timed(plan)
    if isinstance(found, Refused):
        return found
    return metrics_of(found)


def forked(lowering: Lowering) -> Lowering:
    """One that knows the same plans, and learns apart."""
    twin = copy.copy(lowering)
    for name, value in vars(lowering).items():
        if isinstance(value, dict):
            setattr(twin, name, dict(value))
    return twin


def recuts(group: GroupPlan) -> Iterator[GroupPlan]:
    """The group with more or fewer parts along a dimension, small changes first."""
    for step in (1, -1, 2, -2, 3, 4):
        for dimension, split in reversed(list(enumerate(group.splits))):
            if split.parts + step > 1:
                other = replace(split, parts=split.parts + step)
                splits = (*group.splits[:dimension], other, *group.splits[dimension + 1 :])
                yield replace(group, splits=splits)


def changed_milliseconds(known: Lowering, plan: Plan, number: int) -> float | None:
    """One evaluation of the plan with a group cut otherwise; None where no other cut lowers."""
    groups = plan.groups
    for other in recuts(groups[number]):
        changed = replace(plan, groups=(*groups[:number], other, *groups[number + 1 :]))
        lowering = forked(known)
        begin = time.process_time()
        try:
            evaluated(lowering, changed)
        except TilewrightError:
            continue  # told before anything is lowered: no evaluation to speak of
        return (time.process_time() - begin) * 1e3
    return None


def spread_over(count: int, wanted: int) -> list[int]:
    """At most so many of the numbers below `count`, evenly apart."""
    return sorted({round(k * (count - 1) / max(1, wanted - 1)) for k in range(min(count, wanted))})


def measured(
    network: str, kind: str, graph: Graph, machine: Machine, plan: Plan, most: int
) -> dict[str, Any]:
    """A row of results."""
    gc.collect()
    gc.freeze()
    scratch: list[float] = []
    for _ in range(4):  # the first loads compiled code
        begin = time.process_time()
        lowering = Lowering(graph, machine, plan.dtype)
        found = evaluated(lowering, plan)
        scratch.append((time.process_time() - begin) * 1e3)
    tasks = lowering.linked(plan).columns.tasks
    gc.collect()
    gc.freeze()
    cut = [n for n, g in enumerate(plan.groups) if g.place is Place.CORES and g.splits]
    picked = [cut[k] for k in spread_over(len(cut), most)] if cut else []
    times = [changed_milliseconds(lowering, plan, number) for number in picked]
    changed = [taken for taken in times if taken is not None]
    return {
        "network": network,
        "plan": kind,
        "groups": len(plan.groups),
        "resident": len(plan.resident),
        "tasks": tasks,
        "cycles": found.cycles if isinstance(found, Metrics) else None,
        "changed_groups": len(changed),
        "changed_ms": round(fmean(changed), 3),
        "changed_worst_ms": round(max(changed), 3),
        "scratch_ms": round(min(scratch[1:]), 3),
    }


def rows(names: list[str], most: int, plain: bool) -> Iterator[dict[str, Any]]:
    """A row for every network and plan."""
    machine = load_machine("npu-2.7")
    for name in names:
        path = MODELS / f"{name}.onnx"
        if name in FROM_FILES and not path.exists():
            print(f"{name:16} is not beside the checkout", flush=True)
            continue
        model = str(path) if name in FROM_FILES else name
        graph = prepared(api.load(model).graph, machine, machine.dtype).graph
        plan = layer_by_layer(graph, machine, machine.dtype, name)
        yield measured(name, "layer by layer", graph, machine, plan, most)
        if name not in LARGE and not plain:
            best = Fusion(graph, machine, machine.dtype, name).run(fast=True).best.plan
            yield measured(name, "fast search", graph, machine, best, most)


def main() -> None:
    """Measure, print a table, write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--layer-by-layer", action="store_true", help="no searched plans")
    options = parser.parse_args()
    collect_seldom()  # as the command line does
    results: list[dict[str, Any]] = []
    for row in rows(options.only, options.groups, options.layer_by_layer):
        results.append(row)
        limit = LIMITS.get(row["network"])
        print(
            f"{row['network']:16} {row['plan']:14} {row['tasks']:6} tasks, "
            f"{row['resident']:3} resident: changed {row['changed_ms']:8.2f} ms "
            f"(limit {limit or 'none'}, worst {row['changed_worst_ms']:.2f}), "
            f"scratch {row['scratch_ms']:8.2f} ms (limit {5 * limit if limit else 'none'})",
            flush=True,
        )
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
