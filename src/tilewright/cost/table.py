"""Costs looked up by shape, for machines whose costs were measured or computed elsewhere."""

from tilewright.cost.array import ArrayModel
from tilewright.cost.base import Cost, CostError, CostModel, WorkKind, Workload, whole_cycles
from tilewright.cost.energy import EnergyFigures
from tilewright.machine.dtypes import rate_class
from tilewright.machine.machine import Engine
from tilewright.machine.parameters import TableParameters, TableRow

_SHAPE = ("out_height", "out_width", "out_channels", "in_channels", "kernel_height", "kernel_width")


class TableModel(CostModel):
    """Costs work by the first row that matches it, else as the array the file gives."""

    def __init__(self, engine: Engine, parameters: TableParameters, energy: EnergyFigures) -> None:
        self._rows = parameters.rows
        self._energy = energy
        self._scale = engine.reference_cycles
        otherwise = parameters.otherwise
        self._array = ArrayModel(engine, otherwise, energy) if otherwise is not None else None
        super().__init__()

    def supports(self, work: Workload) -> bool:
        """Whether a row or the array covers the work."""
        row = self._row(work)
        return row is not None or (self._array is not None and self._array.supports(work))

    def floor(self, work: Workload) -> float:
        """Rows say nothing about other tilings: no more than the array's own floor, or zero."""
        if self._array is None or self._rows:
            return 0.0
        return self._array.floor(work)

    def makespan(self, work: Workload, engines: int) -> float:
        """As the floor: nothing where there are rows."""
        if self._array is None or self._rows:
            return 0.0
        return self._array.makespan(work, engines)

    def compute(self, work: Workload) -> Cost:
        """The row's figures."""
        row = self._row(work)
        if row is None:
            if self._array is None or not self._array.supports(work):
                raise CostError(
                    f"the table has no row for {work.kind} {work.out_channels}x{work.out_height}"
                    f"x{work.out_width} of {work.in_channels} channels, "
                    f"kernel {work.kernel_height}x{work.kernel_width}"
                )
            return self._array.cost(work)
        energy = self._energy.compute(work) if row.energy_pj is None else row.energy_pj
        cycles = whole_cycles(work.batch * row.cycles * self._scale)
        peak = self._array.peak_macs(work.dtype) if self._array is not None else None
        utilisation = min(1.0, work.macs / (peak * cycles)) if peak else 1.0
        return Cost(cycles, work.batch * energy, utilisation)

    def _row(self, work: Workload) -> TableRow | None:
        return next((row for row in self._rows if _matches(row, work)), None)


def _matches(row: TableRow, work: Workload) -> bool:
    plain = WorkKind.CONV if work.kind is WorkKind.FIRST_CONV else work.kind
    if row.kind not in (work.kind, plain) or row.operator not in (None, work.operator):
        return False
    if row.dtype is not None and rate_class(row.dtype) != rate_class(work.dtype):
        return False
    if row.stride is not None and (work.stride_height, work.stride_width) != (row.stride,) * 2:
        return False
    return all(getattr(row, key) in (None, getattr(work, key)) for key in _SHAPE)
