"""The cost model an engine's file names, and the engine that runs a piece of work best."""

from contextlib import suppress
from dataclasses import replace
from functools import cached_property

from tilewright.cost.array import ArrayModel
from tilewright.cost.base import Cost, CostError, CostModel, WorkKind, Workload
from tilewright.cost.energy import EnergyFigures
from tilewright.cost.limits import broken_limit
from tilewright.cost.table import TableModel
from tilewright.cost.vector import VectorModel
from tilewright.machine.dtypes import rate_class
from tilewright.machine.machine import Core, Engine, Machine
from tilewright.machine.parameters import ArrayParameters, VectorParameters, lacking_elements


def model_for(machine: Machine, engine: Engine) -> CostModel:
    """A new model of an engine; keep it, it remembers what it has computed."""
    figures = EnergyFigures.of(machine.energy, machine.core(engine.core))
    parameters = engine.parameters
    if isinstance(parameters, ArrayParameters):
        return ArrayModel(engine, parameters, figures)
    if isinstance(parameters, VectorParameters):
        return VectorModel(engine, parameters, figures)
    return TableModel(engine, parameters, figures)


def peak_macs(machine: Machine, dtype: str) -> float | None:
    """Multiply-accumulates per reference cycle of all matrix engines that have the element type, or
    a wider one, together; of all others where there is none; None where no model tells."""
    work = Workload(WorkKind.CONV, dtype, 1024, 1024, out_height=64, out_width=64)
    models = [(engine, model_for(machine, engine)) for engine in machine.engines]
    models = [(engine, model) for engine, model in models if model.supports(work)]
    arrays = [model for engine, model in models if engine.kind == "matrix"]
    known: list[float] = []
    for model in arrays or [model for _, model in models]:
        if isinstance(model, ArrayModel):
            known.append(model.sustained_macs(dtype))
            continue
        with suppress(CostError, ZeroDivisionError):  # a table says nothing about other work
            known.append(work.macs / model.floor(work))
    return sum(known) if known else None


class CostModels:
    """The models of all engines of a machine. Equal cores share one model, so the same tile is
    costed once however many clusters run it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        shared: list[tuple[Engine, CostModel]] = []
        self._models: dict[str, CostModel] = {}
        self._either: dict[tuple[str, Workload], bool] = {}
        for engine in machine.engines:
            same = next((model for other, model in shared if _alike(machine, other, engine)), None)
            if same is None:
                same = model_for(machine, engine)
                shared.append((engine, same))
            self._models[engine.name] = same

    def model(self, engine: Engine) -> CostModel:
        """The model of an engine."""
        return self._models[engine.name]

    def able(self, core: Core, work: Workload, either: bool = False) -> list[Engine]:
        """The engines of a core that may run the work: arrays where they can, others where the
        work is not for arrays, is beyond their limits, or is for `either` kind of engine."""
        able = [engine for engine in core.engines if self.model(engine).supports(work)]
        if broken_limit(work, self.machine.limits):
            return [engine for engine in able if engine.kind != "matrix"]
        arrays = [engine for engine in able if engine.kind == "matrix"]
        return able if either or not arrays or work.kind is WorkKind.VECTOR else arrays

    def either(self, core: Core, whole: Workload) -> bool:
        """Whether tiles of an operator that an array of a core can run go to its vector engines
        too, each tile to the cheaper: so where one of these would do the `whole` operator in fewer
        cycles. It is a fact of the operator, not of tiles, so that bounds know it."""
        known = self._either.get((core.name, whole))
        if known is None:
            arrays = self.able(core, whole)
            known = bool(arrays) and all(engine.kind == "matrix" for engine in arrays)
            known = known and any(
                engine.kind == "vector"
                and self._least(engine, whole) < min(self._least(a, whole) for a in arrays)
                for engine in self.able(core, whole, either=True)
            )
            self._either[core.name, whole] = known
        return known

    def _least(self, engine: Engine, work: Workload) -> int:
        """What work takes in the shape of its positions that suits an engine best."""
        model = self.model(engine)
        return model.cost(model.seen(work)).cycles

    def grains(self, dtype: str) -> tuple[int, ...]:
        """Multiples that some engine rounds work in an element type up to."""
        found = (model.grains(dtype) for model in self._models.values())
        return tuple(sorted(frozenset[int]().union(*found)))

    @cached_property
    def core_classes(self) -> tuple[tuple[Core, ...], ...]:
        """The cores in classes that cost alike: the same engines and memories, as far from the
        main memory. A plan for one core of a class is one for any other."""
        classes: list[tuple[object, list[Core]]] = []
        for core in self.machine.cores:
            facts = self._facts(core)
            if not any(known == facts for known, _ in classes):
                classes.append((facts, []))
            next(members for known, members in classes if known == facts).append(core)
        return tuple(tuple(members) for _, members in classes)

    def _facts(self, core: Core) -> object:
        main, own = self.machine.main_memory.name, core.memory.name
        engines = [(e.kind, e.output_stage, id(self.model(e))) for e in core.engines]
        memories = [replace(memory, name="", core="") for memory in core.memories]
        hops = [*self.machine.path(main, own), *self.machine.path(own, main)]
        routes = [replace(route, source="", destination="", groups=()) for _, route in hops]
        shared = [tuple(g for g in r.groups if g not in (own, core.name)) for _, r in hops]
        return engines, memories, routes, shared, [link.stride_levels for link, _ in hops]

    def best(self, core: Core, work: Workload, either: bool = False) -> tuple[Engine, Cost]:
        """The engine that runs the work in the fewest cycles, of those of a core that may."""
        engine = self.engine(core, work, either)
        return engine, self.model(engine).cost(work)

    def engine(self, core: Core, work: Workload, either: bool = False) -> Engine:
        """The same without the cost, which need not be known where there is one engine."""
        able = self.able(core, work, either)
        if not able:
            whose = f"{self.machine.name}'s {core.name}"
            what = work.operator or ("conv" if work.dense else work.kind)
            every = [e.parameters for e in core.engines]
            arrays = [e.parameters for e in core.engines if e.kind == "matrix" and work.product]
            for its, engines in (("it", every), ("its array", arrays)):
                lacking = engines and lacking_elements(engines, rate_class(work.dtype))
                if lacking:
                    raise CostError(f"{whose} cannot run {what}: {its} {lacking}")
            broken = broken_limit(work, self.machine.limits)
            because = f": {broken}" if broken else ""
            raise CostError(f"no engine of {whose} runs {what}{because} ({_needed(work)})")
        if len(able) == 1:
            return able[0]
        return min(able, key=lambda engine: self.model(engine).cost(work).cycles)


def finishes(engine: Engine, finish: str, work: Workload) -> bool:
    """Whether an engine runs an operator in its output stage, on the way out of such work: anything
    behind convolutions and products, but only a clamp behind pooling and sums."""
    return finish in engine.output_stage and (work.product or finish == "clamp")


_latest: list[CostModels] = []


def models_of(machine: Machine) -> CostModels:
    """The models of a machine. Those of the machine asked for last are kept with what they have
    computed: many plans in a row are lowered for the same one."""
    if not _latest or _latest[0].machine is not machine:
        _latest[:] = [CostModels(machine)]
    return _latest[0]


def _needed(work: Workload) -> str:
    """The rates that would let an engine run the work."""
    if work.dense:
        return "it takes an array, or `mac` under the rates of a vector engine"
    if work.product:
        return "it takes `depthwise` under the rates of an array or of a vector engine, or `mac`"
    name = work.operator or "add"
    return f"it takes `{name}` or `default` under the rates of a vector engine"


def _alike(machine: Machine, *engines: Engine) -> bool:
    one, other = (
        (
            *(engine.kind, engine.model, engine.clock_hz, engine.parameters),
            EnergyFigures.of(machine.energy, machine.core(engine.core)),
        )
        for engine in engines
    )
    return one == other
