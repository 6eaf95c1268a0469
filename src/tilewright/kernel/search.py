"""Search: the fastest legal nest of a problem, and what each of its choices buys.

Structure first (loops, tiles, blocks, where operands are loaded), with the usual other choices;
then all other choices for the best structures; then the finalists are simulated. Nests are compared
as they are written: no load is counted as removed by a compiler.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import product
from math import inf, log
from typing import Any

from tilewright.kernel.assess import Assessment, NestModel
from tilewright.kernel.ladder import last_rung
from tilewright.kernel.nest import KERNEL, Nest
from tilewright.kernel.nest_file import KEYS
from tilewright.kernel.problem import KernelError, KernelProblem
from tilewright.kernel.target import CoreTarget
from tilewright.kernel.timeline import simulated_seconds

_RESULTS = (("image", "out", "block"), ("image", "block", "out"), ("out", "image", "block"))
_REDUCTIONS = (("in", "fh", "fw"), ("fh", "fw", "in"))
_INPUT_PLACES = ("in", "block", "image", KERNEL)
_WEIGHT_PLACES = ((KERNEL, KERNEL), ("out", "out"), ("in", "in"), ("out", "in"))
_BLOCK_TILES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_STRUCTURES = 40  # how many go on to the other choices
_EQUAL = 1.005  # times that differ by less are a matter of bytes
_NEAR = 1.2  # finalists are at most so much slower than the fastest, by the model
_SIMULATED_PRODUCTS = 24_000  # of all finalists together
_Entry = tuple[float, int, Nest]  # seconds, when it was looked at, and the nest

# What belongs together, by the words of the report.
CHANGES = {
    "loop order": ("order",),
    "tile": ("tile_in", "tile_out", "tile_rows", "tile_cols"),
    "rows per block": ("block_rows",),
    "input loaded": ("x_at", "x_copy_at", "x_copy_engine"),
    "weights loaded and transposed": ("w_at", "w_cast_at", "w_transpose_at", "w_engine"),
    "element types": ("compute", "psum"),
    "bias": ("bias",),
    "pool before bias": ("pool_first",),
    "stores": ("store",),
    "buffers": ("x_buffers", "w_buffers", "out_buffers", "psum_buffers"),
}


@dataclass(frozen=True, slots=True)
class NestChange:
    """A choice in which the found nest differs from the ladder's last rung.

    Times are seconds as `Judge` tells them; None where the nest would be illegal, with the rule.
    """

    name: str
    before: str
    after: str
    alone: float | None  # the last rung with this change only
    without: float | None  # the found nest without it
    without_bytes: int | None  # what that one moves
    rule: str = ""


@dataclass(frozen=True, slots=True)
class FoundNest:
    """The result of a search."""

    best: Assessment
    start: Assessment
    judged: float  # the found nest's time and
    start_judged: float | None  # the last rung's, as `Judge` tells them
    looked_at: int
    legal: int
    changes: tuple[NestChange, ...]
    steps: tuple[tuple[str, float | None], ...]  # the changes one after the other, best first

    @property
    def speed_up(self) -> float:
        """How much faster the found nest is than the ladder's last rung."""
        return self.start.high / self.best.high

    @property
    def above_floor(self) -> float:
        """The found nest's time over that of the tensor engine alone, less one."""
        return self.best.high / self.best.floor - 1

    def held_back_by(self) -> str:
        """What keeps the found nest above the floor of the tensor engine."""
        best = self.best
        busy = dict(best.engines)
        ends = best.high - max(busy.values())
        parts = [f"{ends * 1e6:.1f} us before the first product and after the last"]
        engine = best.binding
        if engine == "tensor":
            extra = busy["tensor"] - best.floor
            parts.append(f"{extra * 1e6:.1f} us of transposes and part-filled products")
        else:
            extra = busy[engine] - best.floor
            parts.append(f"the {engine} engine takes {extra * 1e6:.1f} us longer than the floor")
        return "; ".join(parts)


def search(problem: KernelProblem, target: CoreTarget) -> FoundNest:
    """The fastest legal nest. Never slower than the ladder's last rung: that one is looked at."""
    model = NestModel(problem, target)
    start = last_rung(problem, target)
    looked, legal = 1, 0
    ranked: list[_Entry] = []

    def look(nest: Nest) -> None:
        nonlocal looked, legal
        looked += 1
        if not model.violations(nest):
            legal += 1
            ranked.append((model.literal_seconds(nest), looked, nest))

    look(start)
    for nest in _structures(problem, target, start):
        look(nest)
    for _, _, nest in nsmallest(_STRUCTURES, ranked):
        for other in _variants(problem, nest):
            look(other)
    if not ranked:
        first = model.violations(start)[0]
        raise KernelError(
            f"no legal nest was found; the usual one breaks {first.rule}: {first.text}"
        )
    judge = Judge(model)
    best = replace(_climbed(judge, start, _chosen(model, start, ranked)), name="found")
    judged = judge.time(best)[0]
    assert judged is not None
    changes, steps = _changes(judge, start, best), _steps(judge, start, best)
    return FoundNest(
        model.assess(best),
        model.assess(start),
        judged,
        judge.time(start)[0],
        looked,
        legal,
        changes,
        steps,
    )


class Judge:
    """The time a nest is chosen by: the longer of the model's and the simulator's, where its tasks
    are few enough to be simulated."""

    def __init__(self, model: NestModel) -> None:
        self.model = model
        self._known: dict[Nest, tuple[float | None, str]] = {}

    def time(self, nest: Nest) -> tuple[float | None, str]:
        """Seconds, or the rule that the nest breaks."""
        key = replace(nest, name="")
        if key not in self._known:
            broken = self.model.violations(nest)
            self._known[key] = (None, broken[0].rule) if broken else (self._longer(nest), "")
        return self._known[key]

    def _longer(self, nest: Nest) -> float:
        return max(
            self.model.literal_seconds(nest), simulated_seconds(self.model.assess(nest)) or 0.0
        )


def _climbed(judge: Judge, start: Nest, best: Nest) -> Nest:
    """The chosen nest, or one that differs from it by a choice of the last rung and is faster:
    then that, as long as there is one. So no row of the ablation is better than what is taken. As
    before, none that the model finds slower than the start."""
    model = judge.model
    slowest = inf if model.violations(start) else model.literal_seconds(start)
    while True:
        now = judge.time(best)[0] or inf
        faster: list[tuple[float, int, Nest]] = []
        for number, fields in enumerate(CHANGES.values()):
            old = {field: getattr(start, field) for field in fields}
            new = {field: getattr(best, field) for field in fields}
            for nest in (replace(best, **old), replace(start, **new)):
                seconds = judge.time(nest)[0] or inf
                if seconds * _EQUAL < now and model.literal_seconds(nest) <= slowest:
                    faster.append((seconds, number, nest))
        if not faster:
            return best
        best = min(faster, key=lambda entry: entry[:2])[2]


def _chosen(model: NestModel, start: Nest, ranked: list[_Entry]) -> Nest:
    """The fastest of the finalists, by the model and by the simulator; never one that either of
    them finds slower than the start. Of those as good as equal, what moves least."""
    if model.violations(start):
        slowest = simulated_slowest = inf
    else:
        slowest = model.literal_seconds(start)
        simulated_slowest = simulated_seconds(model.assess(start)) or inf
    least = min(ranked)[0]

    def rank(seconds: float, entry: _Entry) -> tuple[float, ...]:
        moved, products, transfers, held = model.sizes(entry[2])
        steps = int(log(seconds / least) / log(_EQUAL))
        return steps, moved, products, transfers, seconds, held, entry[1]

    def structure(nest: Nest) -> tuple[Any, ...]:
        return nest.order, nest.tile_rows, nest.tile_cols, nest.block_rows, nest.x_at, nest.w_at

    finalists: dict[tuple[Any, ...], _Entry] = {}
    near = [entry for entry in ranked if entry[0] <= min(slowest, least * _NEAR)]
    for entry in sorted(near, key=lambda entry: rank(entry[0], entry)):
        finalists.setdefault(structure(entry[2]), entry)
    best, left = ((inf,), start), _SIMULATED_PRODUCTS
    for entry in finalists.values():
        left -= model.sizes(entry[2])[1]
        if left < 0 and best[0] != (inf,):
            break
        run = simulated_seconds(model.assess(entry[2])) or entry[0]
        if run <= simulated_slowest:
            best = min(best, (rank(max(run, entry[0]), entry), entry[2]), key=lambda item: item[0])
    return best[1]


def _structures(problem: KernelProblem, target: CoreTarget, start: Nest) -> Iterator[Nest]:
    orders = [
        (*results, *inner)
        for results, reductions in product(_RESULTS, _REDUCTIONS)
        for inner in (("row", *reductions), (*reductions, "row"))
    ]
    usual = replace(start, bias="activation", store="block", pool_first=problem.pool > 1)
    for rows, cols in _tiles(problem, target):
        for block in _blocks(problem, rows):
            cut = replace(usual, tile_rows=rows, tile_cols=cols, block_rows=block)
            for order in orders:
                nest = replace(cut, order=order)
                for x_at, (w_at, turned_at) in product(_INPUT_PLACES, _WEIGHT_PLACES):
                    yield replace(nest, x_at=x_at, w_at=w_at, w_transpose_at=turned_at)


def _tiles(problem: KernelProblem, target: CoreTarget) -> list[tuple[int, int]]:
    """Rows and columns of tiles: whole rows, halves, thirds and quarters, as high as fits, and
    half as high."""
    pool, found = problem.pool, dict[tuple[int, int], None]()
    for share in (1, 2, 3, 4):
        cols = -(-problem.cols // share)
        cols = min(-(-cols // pool) * pool, target.moving // pool // pool * pool)
        if cols < 1:
            continue
        high = min(target.moving // cols // pool * pool, problem.rows)
        for rows in (high, high // 2 // pool * pool):
            if rows > 0:
                found[rows, cols] = None
    return list(found)


def _blocks(problem: KernelProblem, rows: int) -> list[int]:
    """Rows of blocks: some tiles, or the whole image."""
    whole = -(-problem.rows // rows) * rows
    sizes = [min(rows * tiles, whole) for tiles in _BLOCK_TILES]
    return list(dict.fromkeys([*sizes, whole]))


def _variants(problem: KernelProblem, nest: Nest) -> Iterator[Nest]:
    pools = (True, False) if problem.pool > 1 else (nest.pool_first,)
    for bias, pool_first, store, psum, x, engine in product(
        ("activation", "tensor_tensor", "tensor_scalar"),
        pools,
        ("block", "tile"),
        (2, 3),
        (2, 3),
        ("vector", "scalar"),
    ):
        made = replace(nest, bias=bias, pool_first=pool_first, store=store)
        yield replace(made, psum_buffers=psum, x_buffers=x, w_engine=engine)


def _changes(judge: Judge, start: Nest, best: Nest) -> tuple[NestChange, ...]:
    """Every choice that differs, alone on the last rung, and taken back from the found nest."""
    found: list[NestChange] = []
    for name, fields in CHANGES.items():
        old = {field: getattr(start, field) for field in fields}
        new = {field: getattr(best, field) for field in fields}
        differing = [field for field in fields if old[field] != new[field]]
        if not differing:
            continue
        alone, rule_alone = judge.time(replace(start, **new))
        without, rule_without = judge.time(replace(best, **old))
        rules = [
            f"alone it breaks {rule_alone}" if rule_alone else "",
            f"the rest without it breaks {rule_without}" if rule_without else "",
        ]
        found.append(
            NestChange(
                name,
                _shown(old, differing),
                _shown(new, differing),
                alone,
                without,
                None if without is None else judge.model.sizes(replace(best, **old))[0],
                "; ".join(filter(None, rules)),
            )
        )
    return tuple(sorted(found, key=lambda change: -(change.without or 1.0)))


def _steps(judge: Judge, start: Nest, best: Nest) -> tuple[tuple[str, float | None], ...]:
    """From the last rung to the found nest, one change at a time: always the one that helps most.
    A step that is illegal without the next has no time."""
    left = [
        name
        for name, fields in CHANGES.items()
        if any(getattr(start, field) != getattr(best, field) for field in fields)
    ]
    now, steps = start, list[tuple[str, float | None]]()
    while left:
        tried: list[tuple[float, int, str, Nest]] = []
        for number, name in enumerate(left):
            after = {field: getattr(best, field) for field in CHANGES[name]}
            nest = replace(now, **after)
            seconds, _ = judge.time(nest)
            tried.append((inf if seconds is None else seconds, number, name, nest))
        seconds, _, name, now = min(tried, key=lambda entry: entry[:2])
        left.remove(name)
        steps.append((name, None if seconds == inf else seconds))
    return tuple(steps)


def _shown(values: dict[str, Any], fields: list[str]) -> str:
    def text(value: Any) -> str:
        return " > ".join(value) if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    if len(fields) == 1:
        return text(values[fields[0]])
    names = {field: key for (_, key), field in KEYS.items()}
    return ", ".join(f"{names[field]} {text(values[field])}" for field in fields)
