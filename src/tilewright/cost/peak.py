"""The roof of computing; that of traffic is the account's."""

from tilewright.cost.array import ArrayModel
from tilewright.cost.base import CostError, WorkKind, Workload
from tilewright.cost.models import model_for
from tilewright.machine.machine import Engine, Machine


def peak_macs(machine: Machine, dtype: str) -> float | None:
    """Multiply-accumulates per reference cycle of all matrix engines together; of all engines where
    there is no matrix engine; None where no model tells."""
    arrays = [engine for engine in machine.engines if engine.kind == "matrix"]
    found = [_peak(machine, engine, dtype) for engine in arrays or machine.engines]
    known = [peak for peak in found if peak is not None]
    return sum(known) if known else None


def _peak(machine: Machine, engine: Engine, dtype: str) -> float | None:
    model = model_for(machine, engine)
    if isinstance(model, ArrayModel):
        return model.peak_macs(dtype)
    work = Workload(WorkKind.CONV, dtype, 1024, 1024, out_height=64, out_width=64)
    try:
        cycles = model.floor(work) if model.supports(work) else 0.0
    except CostError:
        return None
    return work.macs / cycles if cycles > 0 else None
