"""A planned network layer by layer and group by group: MACs, bytes, cycles, engine, share."""

from dataclasses import dataclass, field

from tilewright.graph.ops import macs_of, planned_by_bytes
from tilewright.model import BYTES_ALONE
from tilewright.plan.plan import Place
from tilewright.planning import Planned
from tilewright.program.account import added_cycles, counted
from tilewright.program.program import Compute, Transfer
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
_WITHOUT_TASKS = {
    Place.CORES: "folded into another",
    Place.VIEW: "a view",
    Place.MAIN: "",
}


@dataclass(slots=True)
class _Layer:
    """What the tasks of a node add up to."""

    engines: dict[str, int] = field(default_factory=dict[str, int])
    macs: int = 0
    read: int = 0
    written: int = 0
    energy_pj: float = 0.0


def layers_table(planned: Planned) -> Table:
    """One row per operator of the planned network. Cycles are those that engines are busy with it,
    and the share is of all engines' busy cycles; bytes are those of the main memory."""
    layers = _layers(planned)
    busy = sum(sum(layer.engines.values()) for layer in layers.values())
    home = {name: n for n, group in enumerate(planned.plan.groups) for name in group.nodes}
    rows: list[tuple[Cell, ...]] = []
    for node in planned.graph.nodes:
        layer = layers.get(node.name, _Layer())
        cycles = sum(layer.engines.values())
        group = home[node.name]
        engine = _busiest(layer.engines) or _WITHOUT_TASKS[planned.plan.groups[group].place]
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


def _layers(planned: Planned) -> dict[str, _Layer]:
    program, schedule = planned.placed.program, planned.placed.schedule
    main = planned.machine.main_memory.name
    inside = [buffer.memory == main for buffer in program.buffers]
    found: dict[str, _Layer] = {}
    times = (schedule.end - schedule.start).tolist()
    for task, cycles in zip(program.tasks, times, strict=True):
        layer = found.setdefault(task.node, _Layer())
        layer.read += sum(view.bytes for view in task.reads if inside[view.buffer])
        layer.written += sum(view.bytes for view in task.writes if inside[view.buffer])
        layer.energy_pj += task.energy_pj
        if not isinstance(task.work, Transfer):
            layer.engines[task.engine] = layer.engines.get(task.engine, 0) + cycles
        if isinstance(task.work, Compute):
            layer.macs += task.work.workload.macs
    return found


def _busiest(engines: dict[str, int]) -> str:
    return max(engines, key=lambda name: engines[name], default="")
