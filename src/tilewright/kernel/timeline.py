"""A nest as tasks on engines, for the simulator: what runs when, and who waits for whom.

Buffers are as many as the nest says: a load waits until the last reader of the buffer it takes has
ended. Transfers of all queues are one engine (a DMA is spread over them); what follows a transfer
waits for its latency too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from tilewright.kernel.assess import Assessment
from tilewright.kernel.nest import KERNEL
from tilewright.kernel.problem import element_size
from tilewright.kernel.transfers import weight_runs
from tilewright.kernel.walk import Key, Walk
from tilewright.kernel.work import BORDER_ENGINE, TENSOR, finishing_steps, step_seconds
from tilewright.schedule.problem import Engine, Problem, Resources, Schedule
from tilewright.schedule.simulate import simulate

TICKS = 1e10  # per second: cycles of the simulated clock
TRACKS = (TENSOR, "vector", "scalar", "gpsimd", "dma")
_LATENCY = len(TRACKS)  # transfers under way, beside the queues' own time
_MANY = 4096
MOST_STEPS = 200_000  # kernels with more are not simulated


@dataclass(frozen=True, slots=True)
class KernelTask:
    """An instruction or a transfer."""

    name: str
    what: str
    track: int
    ticks: int
    block: int
    bytes: int = 0


@dataclass(frozen=True)
class Simulated:
    """The tasks of a kernel with their times, in ticks."""

    tasks: tuple[KernelTask, ...]
    problem: Problem
    schedule: Schedule
    overhead: float  # seconds of launch and tail

    @property
    def seconds(self) -> float:
        """The whole kernel."""
        return self.schedule.makespan / TICKS + self.overhead

    def busy(self, track: int) -> float:
        """Seconds an engine works."""
        return sum(task.ticks for task in self.tasks if task.track == track) / TICKS


def simulated_seconds(assessment: Assessment) -> float | None:
    """The simulated time of a kernel; None where its tasks are too many."""
    return simulated(assessment).seconds if assessment.steps <= MOST_STEPS else None


def simulated(assessment: Assessment) -> Simulated:
    """All tasks of a kernel, simulated."""
    walk = _Tasks(assessment)
    walk.run()
    engines = [Engine() for _ in TRACKS]
    engines[TRACKS.index("dma")] = Engine(in_order=False)
    resources = Resources((*engines, Engine(in_order=False, servers=_MANY)))
    problem = Problem.of(
        resources,
        [task.track for task in walk.tasks],
        [task.ticks for task in walk.tasks],
        walk.needs,
    )
    fitted = assessment.target.fitted
    overhead = fitted["launch"] + fitted["tail"]
    return Simulated(tuple(walk.tasks), problem, simulate(problem), overhead)


class _Ring:
    """Buffers that are used in turn: who still reads the one that comes next."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._readers: list[dict[int, int]] = []  # of every use: track -> last reader

    def take(self) -> list[int]:
        """Begin the next use; gives the tasks it has to wait for."""
        self._readers.append({})
        old = len(self._readers) - 1 - self._count
        return sorted(self._readers[old].values()) if old >= 0 else []

    def read(self, track: int, task: int) -> None:
        """The use under way is read by a task."""
        if self._readers:
            self._readers[-1][track] = task


class _Tasks(Walk):
    """Makes tasks where the executor makes numbers."""

    def __init__(self, assessment: Assessment) -> None:
        super().__init__(assessment.problem, assessment.nest)
        self.target = assessment.target
        self.size = element_size(self.problem.dtype)
        nest = self.nest
        self.tasks: list[KernelTask] = []
        self.needs: list[list[int]] = []
        self.x, self.x_copy = _Ring(nest.x_buffers), _Ring(nest.x_buffers)
        self.w, self.w_cast = _Ring(nest.w_buffers), _Ring(nest.w_buffers)
        self.turned = _Ring(nest.w_buffers)
        inside = nest.w_transpose_at != KERNEL
        self.turning = _Ring(1 if inside else self.target.psum_banks)
        self.out = _Ring(nest.out_buffers)
        live = next(held for held in assessment.ledger.banks if held.name == "accumulators")
        self.banks = _Ring(live.copies)
        self.windows: dict[tuple[int, int], int] = {}
        self.copied: dict[tuple[int, int], int] = {}
        self.raw: dict[tuple[int, int], int] = {}
        self.cast: dict[tuple[int, int], int] = {}
        self.waits: list[int] = []
        self.stationary: dict[tuple[int, int, int, int], int] = {}
        self.psum: dict[Key, int] = {}
        self.sums: dict[Key, int] = {}
        self.finished: dict[tuple[int, int, int], dict[int, int]] = {}
        self.bias_task: int | None = None

    # ---- tasks

    def _add(
        self, name: str, what: str, engine: str, seconds: float, needs: Iterable[int], size: int = 0
    ) -> int:
        block = self.at.get("block", -1)
        track = TRACKS.index(engine)
        self.tasks.append(
            KernelTask(name, what, track, max(1, round(seconds * TICKS)), block, size)
        )
        self.needs.append(list(needs))
        return len(self.tasks) - 1

    def _dma(self, what: str, runs: int, size: int, needs: Iterable[int]) -> tuple[int, int]:
        """A transfer, and its arrival."""
        target = self.target
        seconds = target.dma_seconds(1, runs, size)
        task = self._add(self._name(what), what, "dma", seconds, needs, runs * size)
        rest = target.dma_latency * (1 - 1 / target.queues)
        block = self.at.get("block", -1)
        self.tasks.append(KernelTask("latency", "latency", _LATENCY, round(rest * TICKS), block))
        self.needs.append([task])
        return task, len(self.tasks) - 1

    def _name(self, what: str) -> str:
        indices = " ".join(f"{loop}{value}" for loop, value in self.at.items())
        return f"{what} {indices}".strip()

    # ---- what happens

    def load_bias(self) -> None:
        for a, b in self.outs:
            _, self.bias_task = self._dma("load bias", b - a, self.size, [])

    def load_input(self) -> None:
        waits = self.x.take()
        needed = [b - a for a, b in (self.extent(0), self.extent(1))]
        rows, cols = (b - a for a, b in (self.inside(0), self.inside(1)))
        whole = cols == needed[1] == self.problem.width
        self.windows.clear()
        for place in self.chosen_inputs():
            a, b = self.ins[place[1]]
            before = waits
            if rows * cols < needed[0] * needed[1]:
                border = needed[0] * needed[1] - rows * cols
                seconds = self.target.vectors[BORDER_ENGINE].seconds(border)
                name = self._name("zero borders")
                before = [self._add(name, "zero borders", BORDER_ENGINE, seconds, waits)]
                self.windows[place] = before[0]
            if rows and cols:
                runs, run = (1, rows * cols) if whole else (rows, cols)
                _, arrived = self._dma("load x", (b - a) * runs, run * self.size, before)
                self.windows[place] = arrived

    def copy_input(self) -> None:
        problem, nest = self.problem, self.nest
        waits = self.x_copy.take()
        elements = 1
        for axis in (0, 1):
            first, last = self.extent(axis)
            elements *= last - first
        fast = problem.dtype == nest.compute and element_size(nest.compute) == 2
        seconds = self.target.vectors[nest.x_copy_engine].seconds(elements, copy=fast)
        self.copied.clear()
        for place in self.chosen_inputs():
            needs = [*waits, self.windows[place]]
            task = self._add(self._name("copy x"), "copy x", nest.x_copy_engine, seconds, needs)
            self.x.read(self.tasks[task].track, task)
            self.copied[place] = task

    def load_weights(self) -> None:
        waits = self.w.take()
        high, wide = self.taps()
        self.raw.clear()
        for out, number in self.chosen_weights():
            (a, b), (c, d) = self.outs[out], self.ins[number]
            runs, run = weight_runs(d - c, (len(high), len(wide)), self.problem.kernel)
            _, arrived = self._dma("load w", (b - a) * runs, run * self.size, waits)
            self.raw[out, number] = arrived

    def cast_weights(self) -> None:
        waits = self.w_cast.take()
        high, wide = self.taps()
        engine = self.nest.w_engine
        self.cast.clear()
        for place in self.chosen_weights():
            c, d = self.ins[place[1]]
            seconds = self.target.vectors[engine].seconds((d - c) * len(high) * len(wide))
            needs = [*waits, self.raw[place]]
            task = self._add(self._name("cast w"), "cast w", engine, seconds, needs)
            self.w.read(self.tasks[task].track, task)
            self.cast[place] = task

    def transpose_weights(self) -> None:
        nest, target = self.nest, self.target
        cast = nest.w_cast_at is not None
        given, ring = (self.cast, self.w_cast) if cast else (self.raw, self.w)
        dtype = nest.compute if cast else self.problem.dtype
        fast = dtype == nest.compute and element_size(dtype) == 2
        waits = self.turned.take()
        self.stationary.clear()
        for place in self.chosen_weights():
            a, b = self.outs[place[0]]
            for fh, fw in product(*self.taps()):
                needs = [*self.turning.take(), given[place]]
                seconds = target.matmul_seconds(b - a, dtype)
                turn = self._add(self._name("transpose w"), "transpose w", TENSOR, seconds, needs)
                ring.read(self.tasks[turn].track, turn)
                seconds = target.vectors[nest.w_engine].seconds(b - a, copy=fast, psum=True)
                name = self._name("w to SBUF")
                copy = self._add(name, "w to SBUF", nest.w_engine, seconds, [*waits, turn])
                self.turning.read(self.tasks[copy].track, copy)
                self.stationary[(*place, fh, fw)] = copy

    def multiply(self) -> None:
        key, nest = self.key(), self.nest
        needs: list[int] = []
        if not self.psum:
            self.waits = self.banks.take()
        if key not in self.psum:
            needs += self.waits
        copied = nest.x_copy_at is not None
        source = self.copied if copied else self.windows
        needs.append(source[key[0], self.at["in"]])
        needs.append(self.stationary[key[1], self.at["in"], self.at["fh"], self.at["fw"]])
        rows, cols = self.tile_shape(key)
        seconds = self.target.matmul_seconds(rows * cols, nest.compute)
        task = self._add(self._name("product"), "product", TENSOR, seconds, needs)
        (self.x_copy if copied else self.x).read(0, task)
        self.turned.read(0, task)
        self.psum[key] = task

    def flush(self) -> None:
        nest = self.nest
        for key, product_task in self.psum.items():
            rows, cols = self.tile_shape(key)
            seconds = self.target.vectors[nest.flush_engine].seconds(rows * cols, psum=True)
            needs = [product_task, *([self.sums[key]] if key in self.sums else [])]
            task = self._add(self._name("add up"), "add up", nest.flush_engine, seconds, needs)
            self.banks.read(self.tasks[task].track, task)
            self.sums[key] = task
        self.psum.clear()

    def finish(self) -> None:
        nest = self.nest
        source = self.psum if nest.flush_at is None else self.sums
        for key in sorted(source):
            image, out, block, row = key
            place = (image, out, block)
            alone = nest.store == "tile"
            begun = place in self.finished and not alone
            waits = [] if begun else self.out.take()
            done = self.finished.setdefault(place, {})
            done[row] = self._finish_tile(key, source[key], waits)
            if alone or len(done) == len(self.tiles(block)):
                self._store(place, {row: done[row]} if alone else done)
                del self.finished[place]
        source.clear()

    def _finish_tile(self, key: Key, complete: int, waits: list[int]) -> int:
        rows, cols = self.tile_shape(key)
        task = complete
        needs = [complete, *waits]
        if self.bias_task is not None:
            needs.append(self.bias_task)
        for step in finishing_steps(self.problem, self.nest, rows * cols):
            seconds = step_seconds(step, self.target.vectors[step.engine])
            task = self._add(self._name(step.what), step.what, step.engine, seconds, needs)
            if step.psum:
                self.banks.read(self.tasks[task].track, task)
            needs = [task]
        return task

    def _store(self, place: tuple[int, int, int], tiles: dict[int, int]) -> None:
        _, out, block = place
        spans, pool = self.tiles(block), self.problem.pool
        high = (spans[max(tiles)][1] - spans[min(tiles)][0]) // pool
        left, right = self.blocks[block][1]
        wide = (right - left) // pool
        runs, run = (1, high * wide) if right - left == self.problem.cols else (high, wide)
        a, b = self.outs[out]
        needs = sorted(tiles.values())
        task, _ = self._dma("store", (b - a) * runs, run * self.size, needs)
        self.out.read(self.tasks[task].track, task)
