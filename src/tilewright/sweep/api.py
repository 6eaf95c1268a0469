"""What a program calls: a whole sweep, or the results of one that is there."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.drafts import draft_in, writing
from tilewright.sweep.answers import Answers, answers_of
from tilewright.sweep.engine import RETRIES, Conditions, PlanningEngine
from tilewright.sweep.errors import EngineError, SpaceError, SweepStoreError
from tilewright.sweep.local import LocalEngine
from tilewright.sweep.run import Progress, Sweep, Watch, unwatched
from tilewright.sweep.space import Space
from tilewright.sweep.space_file import read_space, space_of
from tilewright.sweep.store import Store, StoredPoint
from tilewright.sweep.table import SweepTable, table_of
from tilewright.sweep.told import answers_json
from tilewright.tables import Shown, Table
from tilewright.units import noun

ENGINES = ("local", "dask")
ANSWERS, PAGE, PICTURE = "answers.json", "sweep.html", "sweep.png"


@dataclass(frozen=True, slots=True, repr=False)
class Swept(Shown):
    """A space with what is known of it. `progress` is None where nothing was run."""

    space: Space
    folder: Path
    table: SweepTable
    answers: Answers
    progress: Progress | None = None

    def headline(self) -> list[str]:
        """How many points there are, and where."""
        count, bad = len(self.table), int((~self.table.ok).sum())
        without = f", {bad} without a plan" if bad else ""
        return [f"{self.space.name}: {count} {noun(count, 'point')}{without} in '{self.folder}'"]

    def as_table(self) -> Table:
        """One row per point: its values on every axis, and what was found."""
        table, axes = self.table, [axis.name for axis in self.table.axes]
        rows = tuple(
            (
                int(table.numbers[row]),
                *(table.value(name, row) for name in axes),
                *(_known(column[row]) for column in table.figures.values()),
                table.reasons[row],
            )
            for row in range(len(table))
        )
        columns = ("point", *axes, *table.figures, "reason")
        return Table(f"points of {self.space.name}", columns, rows)


def _known(figure: float) -> float | None:
    return None if figure != figure else float(figure)  # nan: it is not known


def sweep(
    space: Space | Path | str | Mapping[str, Any] | None,
    out: Path | str,
    *,
    engine: str = "local",
    scheduler: str | None = None,
    workers: int | None = None,
    resume: bool = False,
    budget: int | None = None,
    timeout: float | None = None,
    retries: int = RETRIES,
    under_ms: float | None = None,
    watch: Watch = unwatched,
) -> Swept:
    """Plan every point of a space of machines, networks and options, and answer questions on them.

    `space` is a file or its mapping (None with `resume`: the one swept last); `out` is where every
    finished point is kept. `workers` processes plan points on this computer, or Dask's at
    `scheduler` with `engine="dask"`. `budget` limits the points of a guided search, `timeout` is
    in seconds a point, `retries` how often one is tried again whose worker died. `under_ms` asks
    for the cheapest machine that runs everything in so many milliseconds.

    >>> space = {
    ...     "axes": {"machine": ["npu-2.7", "mcu"]},
    ...     "fixed": {"model": "four_convs@16x16", "effort": "layers"},
    ... }
    >>> swept = tilewright.sweep(space, folder / "edge")
    >>> len(swept.as_table())
    2
    """
    folder = Path(out)
    if engine not in ENGINES:
        raise EngineError(f"there is no engine '{engine}': give one of {', '.join(ENGINES)}")
    if (engine == "dask") != (scheduler is not None):
        raise EngineError(
            "the engine dask goes with a scheduler (--scheduler tcp://HOST:PORT), and it with dask"
        )
    if resume:
        Store(folder).close()  # raises where there is nothing to go on with
    elif space is None:
        raise SpaceError("say what to sweep: SPACE.yaml, or resume (--resume) for the last one")
    chosen = _space(space, folder)
    conditions = Conditions(chosen.folder, timeout, retries)
    with Store(folder, create=True) as store:
        planners = _engine(conditions, engine, scheduler, workers)
        try:
            progress = Sweep(chosen, store, planners, watch).run(budget)
        finally:
            planners.close()
        table = table_of(store, chosen)
    return Swept(chosen, folder, table, answers_of(table, chosen, under_ms), progress)


def results(out: Path | str, under_ms: float | None = None) -> Swept:
    """What the store of a folder knows of the space that was swept last; nothing is planned."""
    folder = Path(out)
    with Store(folder) as store:
        chosen = _latest(store)
        table = table_of(store, chosen)
    return Swept(chosen, folder, table, answers_of(table, chosen, under_ms))


def find_point(out: Path | str, name: str) -> StoredPoint:
    """A point of a sweep by its number in the last space, or by (the beginning of) its key."""
    folder = Path(out)
    with Store(folder) as store:
        latest = store.latest_space()
        key = None
        if latest is not None and name.isdecimal() and len(name) < 12:
            key = store.member(latest[0], int(name))
        row = store.row(key or name)
    if row is None:
        raise SweepStoreError(
            f"'{folder}' holds no point '{name}', or more than one that begins so"
        )
    return row


def write_answers(swept: Swept) -> None:
    """Put answers.json, sweep.html and sweep.png into the folder of a sweep, each whole or not at
    all."""
    from tilewright.sweep.html.page import page_text
    from tilewright.sweep.plots import plot_sweep

    folder = swept.folder
    document = answers_json(swept.space, swept.table, swept.answers)
    with writing(folder), draft_in(folder) as draft:
        (draft / ANSWERS).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        with Store(folder) as store:
            text = page_text(swept.space, swept.table, swept.answers, store)
        (draft / PAGE).write_text(text, encoding="utf-8")
        plot_sweep(swept.space, swept.table, swept.answers, draft / PICTURE)
        for name in (ANSWERS, PAGE, PICTURE):
            os.replace(draft / name, folder / name)


def _space(space: Space | Path | str | Mapping[str, Any] | None, folder: Path) -> Space:
    if isinstance(space, Space):
        return space
    if isinstance(space, Path | str):
        return read_space(Path(space))
    if space is not None:
        return space_of(space, Path())
    with Store(folder) as store:
        return _latest(store)


def _latest(store: Store) -> Space:
    """The space that was swept last."""
    latest, where = store.latest_space(), store.folder_of_space()
    if latest is None or where is None:
        raise SweepStoreError(f"'{store.path}' holds no space yet: nothing was swept")
    return space_of(latest[1], Path(where))


def _engine(
    conditions: Conditions, engine: str, scheduler: str | None, workers: int | None
) -> PlanningEngine:
    if scheduler is None:
        return LocalEngine(conditions, workers)
    from tilewright.sweep.cluster import DaskEngine

    return DaskEngine(conditions, scheduler)
