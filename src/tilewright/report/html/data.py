"""Everything the page shows, as plain data. Names are numbers of `strings`; tasks, views and
buffers are columns, since a run may have tens of thousands."""

from typing import Any

from tilewright.cost.models import peak_macs
from tilewright.machine.rates import main_bytes_per_cycle
from tilewright.planning import Planned
from tilewright.report.html.columns import Strings, columns_of
from tilewright.report.html.groups import group_rows
from tilewright.report.html.layout import drawing_of
from tilewright.report.html.network import network_of
from tilewright.report.html.story import story_of
from tilewright.report.html.terms import TERMS
from tilewright.report.objective import layer_by_layer
from tilewright.report.plan_tables import groups_table, layers_table
from tilewright.report.searched import search_line
from tilewright.report.verified import mark, verified_line
from tilewright.schedule.timeline import critical_path
from tilewright.search.explanation.explain import Explanation
from tilewright.tables import Table, picked

VERSION = 1


def report_data(
    planned: Planned, explanation: Explanation | None = None, remedies: bool = True
) -> dict[str, Any]:
    """The data of a report, for `json.dumps`. Reasons are those of an explanation, whose trials
    were made with `remedies` or without."""
    strings = Strings()
    columns = columns_of(planned, strings)
    steps = critical_path(planned.placed.problem, planned.placed.schedule)
    return {
        "version": VERSION,
        "terms": TERMS,
        "head": _head(planned),
        "machine": _machine(planned),
        "story": story_of(planned, explanation, remedies),
        "groups": group_rows(planned),
        "layers": _table(layers_table(planned)),
        "group_table": _table(groups_table(planned)),
        "graph": drawing_of(network_of(planned)),
        "critical": [step.task for step in steps],
        **columns,
        "strings": list(strings.known),
    }


def _table(table: Table) -> dict[str, Any]:
    return {"columns": list(table.columns), "rows": [list(row) for row in table.rows]}


def _head(planned: Planned) -> dict[str, Any]:
    account, machine = planned.account, planned.machine
    baseline = layer_by_layer(planned)
    return {
        "model": planned.plan.model,
        "machine": machine.name,
        "title": machine.title,
        "dtype": planned.plan.dtype,
        **picked(account, "latency_cycles", "dram_read_bytes", "dram_write_bytes"),
        "compulsory_bytes": planned.bounds.compulsory_bytes,
        "energy_pj": account.energy_pj,
        "energy_estimate": machine.energy.estimate,
        "legalised": [[s.node, s.limit, s.outcome, s.what] for s in planned.legalisation],
        "verified": planned.verified is not None,
        "failed": planned.failure is not None,
        "mark": mark(planned.failure),
        "warnings": list(planned.warnings),
        "verified_line": verified_line(planned),
        "search_line": search_line(planned),
        "interrupted": planned.found is not None and planned.found.interrupted,
        "notes": list(planned.notes),
        "baseline": None
        if baseline is None
        else {
            "name": baseline.name,
            "latency_cycles": baseline.cycles,
            "dram_bytes": baseline.dram_bytes,
        },
    }


def _machine(planned: Planned) -> dict[str, Any]:
    machine, placed = planned.machine, planned.placed
    peaks, highest = dict(placed.most_live), dict(placed.highest)
    kinds = {engine.name: engine.kind for engine in machine.engines}
    return {
        "clock_hz": machine.clock_hz,
        "engines": [
            {
                "name": name,
                "kind": kinds.get(name, "copy"),
                "busy": use.busy,
                "idle": [[part.reason.value, part.waited_for, part.cycles] for part in use.idle],
            }
            for name, use in planned.account.engines
        ],
        "pools": [name for name, _ in machine.groups],
        "memories": [
            {
                **picked(memory, "name", "capacity", "usable"),
                "peak": peaks[memory.name],
                "highest": highest[memory.name],
                "main": memory.name == machine.main_memory.name,
            }
            for memory in machine.memories
        ],
        "roofs": {
            "macs_per_cycle": peak_macs(machine, planned.plan.dtype),
            "bytes_per_cycle": main_bytes_per_cycle(machine),
        },
    }
