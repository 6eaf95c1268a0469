"""The roof of computing; that of traffic is the account's."""

from contextlib import suppress

from tilewright.cost.array import ArrayModel
from tilewright.cost.base import CostError, WorkKind, Workload
from tilewright.cost.models import model_for
from tilewright.machine.machine import Machine


def peak_macs(machine: Machine, dtype: str) -> float | None:
    """Multiply-accumulates per reference cycle of all matrix engines together; of all engines where
    there is no matrix engine; None where no model tells."""
    arrays = [engine for engine in machine.engines if engine.kind == "matrix"]
    work = Workload(WorkKind.CONV, dtype, 1024, 1024, out_height=64, out_width=64)
    known: list[float] = []
    for engine in arrays or machine.engines:
        model = model_for(machine, engine)
        if isinstance(model, ArrayModel):
            known.append(model.peak_macs(dtype))
            continue
        with suppress(CostError, ZeroDivisionError):  # a table says nothing about other work
            known += [work.macs / model.floor(work)] if model.supports(work) else []
    return sum(known) if known else None
