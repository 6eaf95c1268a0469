"""What the functions of `tilewright` give: results that print themselves, show themselves in a
notebook, and hand out their figures as tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, overload

from tilewright.compare.differ import Difference
from tilewright.compare.page import page as comparison_page
from tilewright.compare.told import difference_json
from tilewright.files import write_text
from tilewright.machine.machine import Machine
from tilewright.partition.mapping import Mapped
from tilewright.partition.partition import Partition
from tilewright.plan.plan import Plan, plan_text
from tilewright.planning import Failure, Planned
from tilewright.report.explained import explanation_json
from tilewright.report.partition.figures import partition_json
from tilewright.report.partition.tables import summary_lines as partition_lines
from tilewright.report.plan_summary import summary_json, summary_lines
from tilewright.report.plan_tables import groups_table, layers_table
from tilewright.report.tiles import tiles_json
from tilewright.report.tiles_on import OnMachine
from tilewright.report.verified import verified_line
from tilewright.search.explanation.applied import Applied
from tilewright.search.explanation.explain import Explanation, label_of
from tilewright.search.progress import Tell, silent
from tilewright.tables import Cell, Shown, Table
from tilewright.tiling.group import GroupTiles
from tilewright.units import format_bytes, noun


@dataclass(frozen=True, slots=True, repr=False)
class Tiles(Shown):
    """Every tile of an operator or of a fused run of operators; `machine` where one was given."""

    group: GroupTiles
    machine: OnMachine | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles along every dimension of the grid."""
        return self.group.counts

    @property
    def recompute_ratio(self) -> float:
        """Extra work of the tiles over that of the uncut operators."""
        return self.group.recompute_ratio

    @property
    def json(self) -> dict[str, Any]:
        """Everything, as `tilewright tile --json` prints it."""
        return tiles_json(self.group, self.machine)

    def headline(self) -> Sequence[str]:
        """Operators, grid, recomputed share."""
        group = self.group
        names = [tiled.node.name for tiled in group.ops]
        what = names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]} ({len(names)})"
        grid, count = " x ".join(map(str, group.counts)), prod(group.counts)
        tiles = f"{grid} {noun(count, 'tile')}"
        lines = [f"{what}: {tiles}; recomputed share {group.recompute_ratio:.1%}"]
        if group.line_buffer_bytes:
            lines.append(
                f"line buffers kept between tiles: {format_bytes(group.line_buffer_bytes)}"
            )
        lines += [f"'{name}' is recomputed: its rows are not needed in order"
                  for name in group.fallbacks]  # fmt: skip
        return lines

    def as_table(self) -> Table:
        """One row per tile of every operator: the region it writes, what it reads, its padding."""
        rows: list[tuple[Cell, ...]] = []
        for tile in self.json["tiles"]:
            read = "; ".join(f"{i['name']} {_region(i['region'])}" for i in tile["inputs"])
            pads = [" ".join(map(str, i["pads"].values())) for i in tile["inputs"]]
            row = (tile["node"], tile["op"], tile["index"], _region(tile["output"]), read)
            rows.append((*row, "; ".join(pads)))
        columns = ("node", "operator", "tile", "output", "inputs", "pads_top_bottom_left_right")
        return Table("tiles", columns, tuple(rows))


def _region(region: list[list[int]]) -> str:
    return " x ".join(f"{start}-{stop}" for start, stop in region)


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

        path = Path(folder)
        check_folder(path, force=force)
        write_run(self.planned, path, explained=explained, tell=progress)
        return path

    def headline(self) -> Sequence[str]:
        """The lines that `tilewright plan` prints."""
        return [*summary_lines(self.planned), verified_line(self.planned)]

    def as_table(self) -> Table:
        """The groups."""
        return self.groups


@dataclass(frozen=True, slots=True, repr=False)
class Explained(Shown):
    """Why every boundary of a plan is where it is, from trials that took it away."""

    plan: Plan
    machine: Machine
    explanation: Explanation
    notes: tuple[str, ...] = ()
    applied: Applied | None = None

    @property
    def json(self) -> dict[str, Any]:
        """Everything, as `tilewright explain --json` prints it."""
        return explanation_json(self.plan, self.machine, self.explanation)

    def headline(self) -> Sequence[str]:
        """How many boundaries were tried, and how many of them would pay."""
        told = self.explanation
        count = len(told.boundaries)
        faster = sum(b.trial is not None and (b.trial.cycles or 0) < told.cycles
                     for b in told.boundaries)  # fmt: skip
        return [
            f"{self.plan.model} on {self.machine.name}: {count} "
            f"{noun(count, 'boundary', 'boundaries')}, {told.simulated} "
            f"{noun(told.simulated, 'trial')} simulated; {faster} would be faster without",
            *([] if self.applied is None else [applied_line(self.applied)]),
        ]

    def as_table(self) -> Table:
        """One row per boundary."""
        groups, base = self.plan.groups, self.explanation.cycles
        rows: list[tuple[Cell, ...]] = []
        for b in self.explanation.boundaries:
            cycles = None if b.trial is None or b.trial.cycles is None else b.trial.cycles - base
            ends = label_of(groups[b.edge.before]), label_of(groups[b.edge.after])
            rows.append((b.edge.tensor, *ends, b.bytes, b.resident, b.kind.value, cycles, b.text))
        columns = "tensor before after bytes resident kind cycles_without text".split()
        return Table("boundaries", tuple(columns), tuple(rows))


def applied_line(applied: Applied) -> str:
    """What taking boundaries away gave."""
    first, last, count = applied.cycles[0], applied.cycles[-1], len(applied.tensors)
    if not count:
        return "no boundary is better joined: the plan is written as it was"
    return (
        f"{count} {noun(count, 'boundary', 'boundaries')} joined ({', '.join(applied.tensors)}): "
        f"{first:,} -> {last:,} cycles"
    )


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Shown, Sequence[Difference]):
    """The first of several plans against each of the others."""

    differences: tuple[Difference, ...]

    @overload
    def __getitem__(self, index: int) -> Difference: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Difference]: ...

    def __getitem__(self, index: int | slice) -> Difference | Sequence[Difference]:
        return self.differences[index]

    def __len__(self) -> int:
        return len(self.differences)

    @property
    def json(self) -> dict[str, Any]:
        """Everything, as `tilewright compare --json` prints it."""
        return {"compared": [difference_json(each) for each in self.differences]}

    def save(self, path: str | Path) -> Path:
        """Write the page that shows the plans side by side."""
        write_text(Path(path), comparison_page(self.differences, Path(path).parent))
        return Path(path)

    def headline(self) -> Sequence[str]:
        """A line for every comparison, and what was asked for differently."""
        return [line for each in self.differences for line in each.headline()]

    def as_table(self) -> Table:
        """One row per part of the network that differs, by the plan it is of."""
        tables = [(each.after.name, each.as_table()) for each in self.differences]
        rows = tuple((name, *row) for name, table in tables for row in table.rows)
        return Table("causes", ("plan", *tables[0][1].columns), rows)


@dataclass(frozen=True, slots=True, repr=False)
class PartitionResult(Shown):
    """A network as kernels, and these on a machine where one was given."""

    partition: Partition
    mapped: Mapped | None

    @property
    def json(self) -> dict[str, Any]:
        """Everything, as `tilewright partition --json` prints it."""
        return partition_json(self.partition, self.mapped)

    def headline(self) -> Sequence[str]:
        """Operators, kernels, FLOPs, bytes."""
        return partition_lines(self.partition, self.mapped)

    def as_table(self) -> Table:
        """One row per kernel."""
        total = self.partition.work.flops_matmul
        rows: list[tuple[Cell, ...]] = []
        for index, kernel in enumerate(self.partition.kernels):
            names = " ".join(self.partition.operators[o].name for o in kernel.operators)
            flops, moved = kernel.work.flops_matmul, kernel.traffic
            run = None if self.mapped is None else self.mapped.kernels[index].fused
            rows.append(
                (
                    kernel.name,
                    kernel.label,
                    names,
                    kernel.work.macs,
                    flops / total if total else 0.0,
                    moved.external,
                    moved.internal,
                    kernel.intensity,
                    None if run is None else run.seconds * 1e6,
                    None if run is None else run.bound,
                )
            )
        columns = (
            "kernel pattern operators macs share bytes_external bytes_internal flops_per_byte "
            "time_us bound_by"
        )
        return Table(f"kernels of {self.partition.name}", tuple(columns.split()), tuple(rows))
