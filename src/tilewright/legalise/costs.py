"""What a rewrite costs, for those that a network may do without: the cost model decides."""

from collections.abc import Sequence
from math import inf, prod

from tilewright.cost.base import Workload
from tilewright.cost.from_graph import workload_of
from tilewright.cost.models import CostModels
from tilewright.graph.ops.spec import IMAGE_RANKS
from tilewright.legalise.draft import Draft
from tilewright.legalise.limits import aligned
from tilewright.machine.dtypes import element_bits
from tilewright.machine.machine import Machine
from tilewright.tiling.group import typed_node, whole_tile


class LegalCosts:
    """Cycles of an operator in the ways that it can run: work shared by the cores, the main memory
    shared by all copies."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.machine = draft, draft.machine
        self.arrays = [engine for engine in self.machine.engines if engine.kind == "matrix"]
        self._models = CostModels(self.machine)
        self._item = element_bits(draft.dtype) / 8

    def work(self) -> Workload:
        """The operator as it is, whole."""
        tiled = typed_node(self.draft.graph, self.draft.old)
        return workload_of(tiled.spec, tiled.op, whole_tile(tiled), self.draft.dtype)

    def whole(self) -> float:
        """The operator as it is."""
        moved = self.bytes(self.draft.op.shape(0)) + self.bytes(self.draft.op.result().shape)
        return max(self.compute(self.work()), self.time(moved))

    def compute(self, work: Workload) -> float:
        """Every array gets the share of the work that it does while the others do theirs."""
        models = [self._models.model(array) for array in self.arrays]
        cycles = [model.cost(work).cycles for model in models if model.supports(work)]
        least = min(cycles, default=inf)
        return least / sum(least / each for each in cycles) if cycles else inf

    def bytes(self, shape: Sequence[int]) -> float:
        """Bytes of a tensor as the machine holds it."""
        channels = shape[1]
        if len(shape) in IMAGE_RANKS:
            channels = aligned(channels, self.machine.limits.channel_alignment)
        return prod(shape) // shape[1] * channels * self._item

    def time(self, moved: float) -> float:
        """Cycles in which the main memory gives or takes so many bytes."""
        return moved / _main_rate(self.machine)


def _main_rate(machine: Machine) -> float:
    main = machine.main_memory
    if main.bytes_per_cycle is not None:
        return main.bytes_per_cycle
    hops = [hop for core in machine.cores for hop in machine.path(main.name, core.memory.name)[:1]]
    return max(machine.alone_bytes_per_cycle(route) for _, route in hops)
