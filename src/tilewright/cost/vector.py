"""Vector engines: cycles per element by operator class, and per call."""

from tilewright.cost.base import Cost, CostError, CostModel, WorkKind, Workload, whole_cycles
from tilewright.cost.energy import EnergyFigures
from tilewright.machine.dtypes import nearest_class, runs_as
from tilewright.machine.machine import Engine
from tilewright.machine.parameters import VectorParameters, VectorRate

_CLASS_OF_KIND = {
    WorkKind.CONV: "mac",
    WorkKind.FIRST_CONV: "mac",
    WorkKind.DEPTHWISE: "depthwise",
    WorkKind.POOL: "pool",
}


class VectorModel(CostModel):
    """Costs work on one vector engine, all of its units sharing a call."""

    def __init__(self, engine: Engine, parameters: VectorParameters, energy: EnergyFigures) -> None:
        self._parameters = parameters
        self._energy = energy
        self._dtypes = tuple(parameters.dtype_factors)
        self._scale = engine.reference_cycles if parameters.cycles_of == "engine" else 1.0
        super().__init__()

    def supports(self, work: Workload) -> bool:
        """Whatever the file has a rate or a default for, in types that it has or that fit into one;
        multiplying needs the class `mac`, or `depthwise` for such convolutions."""
        if self._dtypes and runs_as(work.dtype, self._dtypes) is None:
            return False
        return self._rate(work) is not None

    def floor(self, work: Workload) -> float:
        """The elements, shared without rounding, and one call."""
        rate = self._rate_or_error(work)
        share = elements_of(work) / self._parameters.units
        busy = share * rate.per_element * self._factor(work)
        return (busy + self._call(rate)) * self._scale

    def makespan(self, work: Workload, engines: int) -> float:
        """One of the engines has at least an even share of the elements, and a call."""
        call = self._call(self._rate_or_error(work)) * self._scale
        return call + (self.floor(work) - call) / engines

    def compute(self, work: Workload) -> Cost:
        """Elements over the units, and one call."""
        rate = self._rate_or_error(work)
        elements = elements_of(work)
        share = -(-elements // self._parameters.units)
        busy = share * rate.per_element * self._factor(work)
        cycles = whole_cycles((busy + self._call(rate)) * self._scale)
        useful = elements / self._parameters.units * rate.per_element * self._factor(work)
        utilisation = min(1.0, useful * self._scale / cycles)
        return Cost(cycles, self._energy.vector(work, elements), utilisation)

    def _rate(self, work: Workload) -> VectorRate | None:
        rates = self._parameters.rates
        name = "pool" if work.operator == "pool" else _CLASS_OF_KIND.get(work.kind)
        otherwise = "mac" if name in ("mac", "depthwise") else "default"
        return rates.get(name or work.operator or "add") or rates.get(otherwise)

    def _rate_or_error(self, work: Workload) -> VectorRate:
        rate = self._rate(work)
        if rate is None:
            raise CostError(f"the vector engine has no rate for {work.operator or work.kind}")
        return rate

    def _call(self, rate: VectorRate) -> float:
        return self._parameters.per_call if rate.per_call is None else rate.per_call

    def _factor(self, work: Workload) -> float:
        factors = self._parameters.dtype_factors
        return factors[nearest_class(work.dtype, self._dtypes)] if factors else 1.0


def elements_of(work: Workload) -> int:
    """Element operations: taps count, and a reduction counts what it reads."""
    if work.macs:
        return work.macs
    return max(work.out_elements, work.in_elements)
