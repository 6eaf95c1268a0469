"""A planned network layer by layer and group by group: MACs, bytes, cycles, engine, share."""

from collections import Counter

from tilewright.graph.ops import macs_of, planned_by_bytes
from tilewright.model import BYTES_ALONE
from tilewright.plan.plan import Place
from tilewright.planning import Planned
from tilewright.program.account import TaskSums, added_cycles, counted, task_sums
from tilewright.report.html.groups import group_sums
from tilewright.report.verified import titled
from tilewright.tables import Cell, Table

LAYERS = (
    "node operator group engine macs macs_executed cycles share bytes_read bytes_written "
    "energy_pj costed_by"
)
GROUPS = (
    "group nodes operators place engine tiles macs_executed cycles share bytes_read_weights "
    "bytes_read_activations bytes_written energy_pj costed_by"
)


def layers_table(planned: Planned) -> Table:
    """One row per operator of the planned network. Cycles are those that engines are busy with it,
    and the share is of all engines' busy cycles; bytes are those of the main memory."""
    layers = task_sums(planned.placed, planned.machine, lambda task: task.node)
    folded = planned.placed.program.folded()
    busy = sum(layer.computing.total() for layer in layers.values())
    home = {name: n for n, group in enumerate(planned.plan.groups) for name in group.nodes}
    rows: list[tuple[Cell, ...]] = []
    for node in planned.graph.nodes:
        layer = layers.get(node.name, TaskSums())
        cycles = layer.computing.total()
        group = home[node.name]
        engine = _busiest(layer.computing)
        if not engine and node.name in folded:
            engine = f"folded into {folded[node.name]}"
        elif not engine and planned.plan.groups[group].place is not Place.MAIN:
            engine = "a view"
        rows.append(
            (
                node.name,
                node.kind,
                group,
                engine,
                macs_of(planned.graph, node),
                layer.macs,
                cycles,
                cycles / busy if busy else 0.0,
                layer.read,
                layer.written,
                counted(planned.machine, layer.energy_pj),
                BYTES_ALONE if planned_by_bytes(planned.graph, node) else "",
            )
        )
    return Table(f"layers of {titled(planned)}", tuple(LAYERS.split()), tuple(rows))


def groups_table(planned: Planned) -> Table:
    """One row per group. Cycles are what it adds to the run: they add up to the latency."""
    latency = planned.account.latency_cycles
    graph = planned.graph
    sums = group_sums(planned)
    added = added_cycles(total.end for total in sums)
    rows: list[tuple[Cell, ...]] = []
    for number, (group, total, adds) in enumerate(
        zip(planned.plan.groups, sums, added, strict=True)
    ):
        nodes = [graph.nodes[graph.index[name]] for name in group.nodes]
        rows.append(
            (
                number,
                " ".join(group.nodes),
                " ".join(node.kind for node in nodes),
                group.place.value,
                _busiest(total.engines),
                len(total.tiles),
                total.macs,
                adds,
                adds / latency if latency else 0.0,
                total.read_weights,
                total.read_activations,
                total.written,
                counted(planned.machine, total.energy_pj),
                BYTES_ALONE if any(planned_by_bytes(graph, node) for node in nodes) else "",
            )
        )
    return Table(f"groups of {titled(planned)}", tuple(GROUPS.split()), tuple(rows))


def _busiest(engines: Counter[str]) -> str:
    return max(engines, key=lambda name: engines[name], default="")
