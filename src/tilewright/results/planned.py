"""A planned network."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.files import path_of
from tilewright.machine.machine import Machine
from tilewright.plan.plan import Plan, plan_text
from tilewright.planning import Failure, Planned
from tilewright.report.plan_summary import summary_json, summary_lines
from tilewright.report.plan_tables import groups_table, layers_table
from tilewright.report.verified import verified_line
from tilewright.search.progress import Tell, silent
from tilewright.tables import Shown, Table


@dataclass(frozen=True, slots=True, repr=False)
class PlanResult(Shown):
    """A planned network: figures, tables by layer and by group, the plan to edit, files to save.

    `planned` has everything: the placed program, bounds, what the search compared, the numbers.
    """

    planned: Planned

    @property
    def plan(self) -> Plan:
        """The decisions: groups, cuts, what stays resident."""
        return self.planned.plan

    @property
    def machine(self) -> Machine:
        """The machine it was planned for."""
        return self.planned.machine

    @property
    def latency_cycles(self) -> int:
        """Cycles of one run."""
        return self.planned.account.latency_cycles

    @property
    def latency_ms(self) -> float:
        """Milliseconds of one run."""
        return self.machine.seconds(self.latency_cycles) * 1e3

    @property
    def lower_bound_cycles(self) -> int:
        """Cycles that no plan can undercut."""
        return self.planned.bounds.cycles

    @property
    def traffic_bytes(self) -> int:
        """Bytes from and to the main memory."""
        return self.planned.account.dram_read_bytes + self.planned.account.dram_write_bytes

    @property
    def energy_pj(self) -> float | None:
        """Energy of one run, 0 where the machine has no figures for it."""
        return self.planned.account.energy_pj

    @property
    def verified(self) -> bool:
        """Whether it was executed and gave the original's numbers."""
        return self.planned.verified is not None

    @property
    def failure(self) -> Failure | None:
        """What was wrong with the numbers of its execution, if anything."""
        return self.planned.failure

    @property
    def layers(self) -> Table:
        """One row per operator: MACs, cycles, engine, share, bytes."""
        return layers_table(self.planned)

    @property
    def groups(self) -> Table:
        """One row per group; their cycles add up to the latency."""
        return groups_table(self.planned)

    @property
    def summary(self) -> dict[str, Any]:
        """All figures, as summary.json has them."""
        return summary_json(self.planned)

    @property
    def yaml(self) -> str:
        """The plan as plan.yaml has it: to edit, and to give back as `plan=`."""
        return plan_text(self.plan)

    def save(
        self,
        folder: str | Path,
        *,
        explained: bool = False,
        force: bool = False,
        progress: Tell = silent,
    ) -> Path:
        """Write the run's folder: report, summary, plan, program, schedule, and what `verify` and
        `explain` read. An earlier run there is replaced only with `force`."""
        from tilewright.runs.folder import check_folder, write_run

        path = path_of(folder)
        check_folder(path, force=force)
        write_run(self.planned, path, explained=explained, tell=progress)
        return path

    def headline(self) -> Sequence[str]:
        """The lines that `tilewright plan` prints."""
        return [*summary_lines(self.planned), verified_line(self.planned)]

    def as_table(self) -> Table:
        """The groups."""
        return self.groups
