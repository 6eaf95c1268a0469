"""Work on the engines of a machine: numbered, and what it costs there."""

from tilewright.cost.base import Workload
from tilewright.cost.models import models_of
from tilewright.machine.machine import Machine
from tilewright.program.rows import Price


class Works:
    """Append-only: numbers stay what they are. `numbered` are engines and the work they do."""

    def __init__(self, machine: Machine, engine_number: dict[str, int]) -> None:
        self.models = models_of(machine)
        self.numbered: list[tuple[int, Workload]] = []
        self._engines = machine.engines
        self._cores = machine.cores
        self._engine_number = engine_number
        self._numbers: dict[tuple[int, Workload], int] = {}
        self._bests: dict[tuple[int, Workload, bool], tuple[int, Price]] = {}
        self._reshaped: dict[int, tuple[int, Price]] = {}

    def number(self, engine: int, work: Workload) -> int:
        """The number of work on an engine."""
        known = self._numbers.get((engine, work))
        if known is None:
            known = self._numbers[engine, work] = len(self.numbered)
            self.numbered.append((engine, work))
        return known

    def best(self, core: int, work: Workload, whole: Workload) -> tuple[int, Price]:
        """A tile's work on the engine of a core that does it best: its number, and what it costs.
        `whole` is the operator that it is a tile of."""
        either = self.models.either(self._cores[core], whole)
        known = self._bests.get((core, work, either))
        if known is None:
            engine, cost = self.models.best(self._cores[core], work, either)
            number = self._engine_number[engine.name]
            price = Price(number, cost.cycles, cost.energy_pj)
            known = self._bests[core, work, either] = (self.number(number, work), price)
        return known

    def adding(self, number: int, elements: int) -> tuple[int, Price]:
        """Work whose results so many elements are added to on their way out."""
        engine, work = self.numbered[number]
        more = work._replace(added=work.added + elements)
        cost = self.models.model(self._engines[engine]).cost(more)
        return self.number(engine, more), Price(engine, cost.cycles, cost.energy_pj)

    def reshaped(self, number: int) -> tuple[int, Price]:
        """Work seen in the height x width that costs least: its number, and what it costs."""
        known = self._reshaped.get(number)
        if known is None:
            engine, work = self.numbered[number]
            model = self.models.model(self._engines[engine])
            best = model.seen(work)
            cost = model.cost(best)
            price = Price(engine, cost.cycles, cost.energy_pj)
            known = self._reshaped[number] = (self.number(engine, best), price)
        return known
