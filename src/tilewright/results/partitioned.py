"""A network as kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.partition.mapping import Mapped
from tilewright.partition.partition import Partition
from tilewright.report.partition.figures import partition_json
from tilewright.report.partition.tables import summary_lines as partition_lines
from tilewright.tables import Cell, Shown, Table


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
