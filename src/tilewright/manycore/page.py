"""The page of a plan on many cores: its data, put into the frame of all pages."""

from typing import Any

from tilewright.manycore.plan import CorePlan
from tilewright.manycore.told import allocation, core_uses, headline, lines, memory_uses
from tilewright.program.program import Compute, Task
from tilewright.report.html.layout import drawing_of
from tilewright.report.html.network import BoxRole, Drawing, DrawnBox, DrawnEdge, EdgeWay
from tilewright.report.html.page import package_page
from tilewright.report.verified import mark
from tilewright.units import noun

MOST_NAMED = 12  # tensors that a tip names


def page_text(data: dict[str, Any], *, full: bool) -> str:
    """The page, with everything inside; not `full`: the schedule alone."""
    title, shown = f"{data['title']}: Tilewright", {**data, "full": full}
    package, scripts = "tilewright.manycore", ("page.js",)
    return package_page(package, "page.html", "page.css", scripts, title, shown)


def _tensors(plan: CorePlan, number: int, task: Task) -> list[str]:
    """What a task reads and writes: pieces with their numbers, bytes and memories."""
    copies = plan.lowered.copies
    numbers = plan.lowered.numbers[number]
    places, tiles = plan.fabric.places, plan.tiles
    told: list[str] = []
    for label, listed in (("reads", copies.reads[numbers]), ("writes", copies.makes[numbers])):
        shown = [copies.all[copy] for copy in listed]
        names = [
            f"{tiles.piece_name(c.piece)} {tiles.tensor_of(c.piece).box(c.piece)} "
            f"in {places[c.place].name}"
            for c in shown[:MOST_NAMED]
        ]
        more = [f"and {len(shown) - MOST_NAMED} more"] if len(shown) > MOST_NAMED else []
        told += [f"{label} {name}" for name in (*names, *more)]
    if not isinstance(task.work, Compute):
        told.append(f"{task.moved * tiles.unit // 8:,} bytes")
    return told


def page_data(plan: CorePlan) -> dict[str, Any]:
    """What the page shows, as plain lists."""
    placed, machine = plan.lowered.placed, plan.lowered.machine
    layers = {layer.name: layer.number for layer in plan.workload.layers}
    makers = {layer.result: layer.number for layer in plan.workload.layers}
    starts, ends = placed.schedule.start.tolist(), placed.schedule.end.tolist()
    engines = placed.problem.engine.tolist()
    tasks: list[list[Any]] = []
    for number, task in enumerate(placed.program.tasks):
        group = layers.get(task.node, makers.get(task.node, len(layers)))
        row = [engines[number], starts[number], ends[number], task.name, group]
        tasks.append([*row, _tensors(plan, number, task)])
    told = lines(plan)
    return {
        "title": f"{plan.model} on {plan.fabric.accelerator.name}{mark(plan.failure)}",
        "proved": plan.verified is not None,
        "proof": told[-1],
        "cards": _cards(plan),
        "headline": headline(plan),
        "lines": told[:-1],
        "latency": max(1, placed.schedule.makespan),
        "engines": [
            *(engine.core for engine in machine.engines),
            *(link.name for link in machine.links),
        ],
        "tasks": tasks,
        "graph": drawing_of(_network(plan)),
        "layers": _layers(plan),
        "cores": [
            {
                "name": use.name,
                "share": use.busy / max(1, plan.best.latency),
                "idle": "; ".join(f"{cycles:,} {why}" for why, cycles in use.idle),
            }
            for use in core_uses(plan)
        ],
        "memories": [
            {
                "name": use.name,
                "peak": use.peak,
                "size": use.size,
                "more": use.gain(plan.best.latency),
            }
            for use in memory_uses(plan)
        ],
        "front": [
            [
                p.latency,
                round(p.energy),
                p.memory // 8,
                ", ".join(str(plan.fabric.cores[core][0]) for core in p.core_of),
            ]
            for p in plan.found.front
        ],
        "notes": list(plan.notes),
    }


def _cards(plan: CorePlan) -> list[tuple[str, str, str]]:
    """The figures at the top: name, value, what to know of it."""
    found, best = plan.found, plan.best
    space = f"{found.space:,}" if found.space < 10**7 else f"{float(found.space):.1e}"
    how = "every one was timed or bounded" if found.exact else "a seeded search"
    how = "interrupted" if plan.interrupted else how
    final = "results written outside" if plan.evaluator.write_final else "results stay on the chip"
    moved = int((best.kind != 0).sum())
    return [
        ("Latency", f"{best.latency:,} cycles", final),
        ("Above the bound", f"{found.gap:.0%}", f"{found.bounds.cycles:,}: {found.bounds.reason}"),
        ("Energy", f"{best.energy / 1e6:,.2f} uJ", "tiles on cores and transfers"),
        ("Allocations", space, how),
        (
            "Tiles",
            f"{len(plan.tiles.tiles):,}",
            f"{moved:,} transfers, {best.spills:,} {noun(best.spills, 'spill')}",
        ),
    ]


def _layers(plan: CorePlan) -> list[dict[str, Any]]:
    """Every layer: its cores by number and by position, and how it is cut."""
    cores, position = allocation(plan), plan.fabric.index
    count = [0] * len(plan.workload.layers)
    for tile in plan.tiles.tiles:
        count[tile.layer] += 1
    return [
        {
            "name": layer.name,
            "cores": cores[layer.name],
            "position": [position[core] for core in cores[layer.name]],
            "told": f"{layer.kind}, {'x'.join(map(str, layer.shape))}, "
            f"{count[layer.number]:,} {noun(count[layer.number], 'tile')}",
        }
        for layer in plan.workload.layers
    ]


def _network(plan: CorePlan) -> Drawing:
    """The layers and what flows between them; a tensor that stays on one core is resident."""
    graph, cores = plan.workload.graph, allocation(plan)
    boxes = [DrawnBox(name, "input", -1, BoxRole.INPUT) for name in graph.inputs]
    at = {name: k for k, name in enumerate(graph.inputs)}
    home: dict[str, set[int]] = {}
    edges: list[DrawnEdge] = []
    for layer in plan.workload.layers:
        here = set(cores[layer.name])
        for name in dict.fromkeys(name for _, name in layer.data):
            if name in at:
                way = EdgeWay.KEPT if len(here) == 1 and home.get(name) == here else EdgeWay.MAIN
                edges.append(DrawnEdge(at[name], len(boxes), name, None, way))
        at[layer.result], home[layer.result] = len(boxes), here
        boxes.append(DrawnBox(layer.name, layer.kind, layer.number, BoxRole.NODE))
    for name in graph.outputs:
        if name in at:
            edges.append(DrawnEdge(at[name], len(boxes), name, None, EdgeWay.MAIN))
            boxes.append(DrawnBox(name, "output", -1, BoxRole.OUTPUT))
    return Drawing(tuple(boxes), tuple(edges))
