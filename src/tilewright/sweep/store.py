"""The store of a sweep: one SQLite file, one row per point, kept the moment it is known.

docs/sweep.md has the schema. Rows are added and never changed, except those that were lost, so that
several processes may write to one store; what a process wrote stays if it is killed.
"""

import json
import os
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.sweep.errors import SweepStoreError
from tilewright.sweep.point import METRICS
from tilewright.sweep.space import Space, SpacePoint
from tilewright.version import __version__

FILE = "sweep.sqlite"
SCHEMA = 1
APPLICATION = 0x54574654  # marks the file as ours
_PATIENCE = 60.0  # seconds that a writer waits for another
_MOST_TOLD = 120  # characters of what SQLite says
_AT_ONCE = 500  # rows read with one question; older SQLite takes 999 keys
_SQL = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE points (
    key TEXT PRIMARY KEY,
    status TEXT NOT NULL CHECK (status IN ('ok', 'failed', 'lost')),
    reason TEXT NOT NULL,
    {", ".join(f"{name} {kind}" for name, kind in METRICS.items())},
    point TEXT NOT NULL,
    summary TEXT,
    plan TEXT,
    version TEXT NOT NULL
);
CREATE TABLE spaces (id TEXT PRIMARY KEY, name TEXT NOT NULL, document TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE members (
    space TEXT NOT NULL REFERENCES spaces (id),
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    axes TEXT NOT NULL,
    derived TEXT NOT NULL,
    PRIMARY KEY (space, number)
) WITHOUT ROWID;
CREATE TABLE timings (
    key TEXT PRIMARY KEY,
    seconds REAL NOT NULL,
    finished REAL NOT NULL
) WITHOUT ROWID;
"""


def _address(path: Path, create: bool) -> str:
    """A store in a folder where nothing can be written, and whose log is folded into it, is read as
    what cannot change: SQLite would have to write beside it otherwise."""
    rests = not create and not os.access(path.parent, os.W_OK)
    whole = rests and not os.path.lexists(f"{path}-wal")
    return f"{path.absolute().as_uri()}{'?immutable=1' if whole else ''}"


def _marks(count: int) -> str:
    return ", ".join("?" * count)


class Status(StrEnum):
    """What became of a point: planned; refused, as it will be every time; or lost with its worker
    or to its time-out, to be tried again."""

    OK = "ok"
    FAILED = "failed"
    LOST = "lost"


class StoredPoint(NamedTuple):
    """A point's row; the summary and the plan are there if it is `ok`."""

    key: str
    status: Status
    reason: str
    point: Mapping[str, Any]
    summary: Mapping[str, Any] | None
    plan: str | None
    seconds: float


class Store:
    """An open store. Every call is a transaction of its own."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open the store of a folder; make it where `create` and there is none."""
        self.path = folder / FILE
        there = os.path.lexists(self.path)
        if not there and not create:
            raise SweepStoreError(f"'{folder}' holds no sweep: there is no {FILE}")
        with self._told():
            if create:
                folder.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(
                _address(self.path, create),
                timeout=_PATIENCE,
                isolation_level=None,
                check_same_thread=False,
                uri=True,
            )
            try:
                self._check(there, create)
            except BaseException:
                self._database.close()
                raise

    def close(self) -> None:
        """Close the file; the last to do so folds the log into it."""
        self._database.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def damaged(self, what: object) -> SweepStoreError:
        """The error for a file that does not hold what it should."""
        text = " ".join(str(what).split())[:_MOST_TOLD]
        return SweepStoreError(f"'{self.path}' is damaged ({text}); nothing was changed")

    # ---- what there is

    def settled(self) -> set[str]:
        """Keys that need no work: planned, or refused."""
        with self._told():
            rows = self._database.execute("SELECT key FROM points WHERE status <> 'lost'")
            return {key for (key,) in rows}

    def has(self, key: str) -> bool:
        """Whether a point needs no work."""
        with self._told():
            found = self._database.execute(
                "SELECT 1 FROM points WHERE key = ? AND status <> 'lost'", (key,)
            )
            return found.fetchone() is not None

    def row(self, key: str) -> StoredPoint | None:
        """A point by its key, or by the beginning of it if no other begins so."""
        with self._told():
            found = self._database.execute(
                "SELECT key, status, reason, point, summary, plan FROM points "
                "WHERE key >= ? AND key < ? LIMIT 2",
                (key, key + "g"),
            ).fetchall()
        if len(found) != 1:
            return None
        own, status, reason, point, summary, plan = found[0]
        (asked,) = self._read([point])
        (known,) = self._read(["null" if summary is None else summary])
        return StoredPoint(own, Status(status), reason, asked, known, plan, 0.0)

    def member(self, space: str, number: int) -> str | None:
        """The key of a point by its number in a space."""
        with self._told():
            found = self._database.execute(
                "SELECT key FROM members WHERE space = ? AND number = ?", (space, number)
            ).fetchone()
        return None if found is None else found[0]

    def figures(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Status and figures of points, as a guided search needs them."""
        names = ("status", *METRICS)
        question = f"SELECT {', '.join(names)} FROM points WHERE key = ?"
        found: dict[str, dict[str, Any]] = {}
        with self._told():
            for key in keys:
                row = self._database.execute(question, (key,)).fetchone()
                if row is not None:
                    found[key] = dict(zip(names, row, strict=True))
        return found

    def latest_space(self) -> tuple[str, Mapping[str, Any]] | None:
        """Id and document of the space that was swept last."""
        with self._told():
            found = self._database.execute(
                "SELECT id, document FROM spaces JOIN meta ON value = id WHERE meta.name = 'latest'"
            ).fetchone()
        return None if found is None else (found[0], self._read(found[1:])[0])

    def folder_of_space(self) -> str | None:
        """The folder of the space that was swept last."""
        return self._noted("folder")

    def last_budget(self) -> int | None:
        """The budget that was given last, if there was one."""
        noted = self._noted("budget")
        return None if noted is None else int(noted)

    def _noted(self, name: str) -> str | None:
        with self._told():
            found = self._database.execute("SELECT value FROM meta WHERE name = ?", (name,))
            row = found.fetchone()
        return None if row is None else row[0]

    def table(self, space: str) -> Iterator[tuple[Sequence[Any], ...]]:
        """Columns of the points of a space that have a row, by number, many rows at a time: number,
        key, axes, derived, status, reason, and the figures."""
        columns = ", ".join(f"points.{name}" for name in METRICS)
        with self._told():
            found = self._database.execute(
                "SELECT number, key, axes, derived, status, reason, "
                f"{columns} FROM members JOIN points USING (key) WHERE space = ? ORDER BY number",
                (space,),
            )
            while rows := found.fetchmany(_AT_ONCE):
                numbers, keys, axes, derived, *others = zip(*rows, strict=True)
                yield numbers, keys, self._read(axes), self._read(derived), *others

    def plans(self, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Plans of points that have one, in the order asked for."""
        with self._told():
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                question = f"SELECT key, plan FROM points WHERE key IN ({_marks(len(some))})"
                found = dict(self._database.execute(question, some).fetchall())
                yield from ((key, found[key]) for key in some if found.get(key) is not None)

    def results(self) -> list[tuple[Any, ...]]:
        """All that was found out, without when and how fast: equal for equal sweeps."""
        with self._told():
            return self._database.execute("SELECT * FROM points ORDER BY key").fetchall()

    # ---- what is added

    def begin(self, space: Space, budget: int | None = None) -> None:
        """Note the space, as the one that is swept last, and its budget if there is one."""
        with self._write() as database:
            database.execute(
                "INSERT OR IGNORE INTO spaces VALUES (?, ?, ?)",
                (space.id, space.name, json.dumps(space.document)),
            )
            about = [("latest", space.id), ("folder", str(space.folder.absolute()))]
            about += [("budget", str(budget))] if budget is not None else []
            database.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", about)

    def enter(self, space: Space, members: Iterable[tuple[SpacePoint, str]]) -> None:
        """Note points of a space with their keys."""
        rows = [
            (space.id, each.number, key, json.dumps(each.values), json.dumps(each.derived))
            for each, key in members
        ]
        with self._write() as database:
            database.executemany("INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?, ?)", rows)

    def keep(self, row: StoredPoint) -> None:
        """Keep a result. A row that is there stays, unless it was lost."""
        summary = row.summary
        figures = [None if summary is None else summary.get(name) for name in METRICS]
        with self._write() as database:
            database.execute("DELETE FROM points WHERE key = ? AND status = 'lost'", (row.key,))
            database.execute(
                f"INSERT OR IGNORE INTO points VALUES ({_marks(7 + len(METRICS))})",
                (
                    row.key,
                    row.status.value,
                    row.reason,
                    *figures,
                    json.dumps(row.point),
                    None if summary is None else json.dumps(summary),
                    row.plan,
                    __version__,
                ),
            )
            database.execute(
                "INSERT OR REPLACE INTO timings VALUES (?, ?, ?)",
                (row.key, row.seconds, time.time()),
            )

    # ---- the file

    def _read(self, texts: Sequence[str]) -> list[Any]:
        """What JSON texts say; many are read as one, which is faster."""
        try:
            return json.loads(f"[{','.join(texts)}]")
        except ValueError as error:
            raise self.damaged(error) from None

    def _check(self, there: bool, create: bool) -> None:
        """Ours, and of a version we know; before anything is added, whole too (who only reads finds
        out by reading); a new one where there was none."""
        database = self._database
        if there:
            self._check_version()
        if not create:
            return
        if there:
            fault = database.execute("PRAGMA quick_check(1)").fetchone()[0]
            if fault != "ok":
                raise self.damaged(fault)
            if not os.access(self.path, os.W_OK):
                raise SweepStoreError(f"cannot write '{self.path}': it is read-only")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")  # whole after a kill; see docs/sweep.md
        with self._write():
            if database.execute("PRAGMA user_version").fetchone()[0] == 0:
                for statement in filter(str.strip, _SQL.split(";\n")):
                    database.execute(statement)
                database.execute(f"PRAGMA application_id = {APPLICATION}")
                database.execute(f"PRAGMA user_version = {SCHEMA}")

    def _check_version(self) -> None:
        ask = self._database.execute
        ours = ask("PRAGMA application_id").fetchone()[0]
        version = ask("PRAGMA user_version").fetchone()[0]
        empty = ask("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if not empty and ours != APPLICATION:
            raise SweepStoreError(f"'{self.path}' is no store of a sweep; nothing was changed")
        if version > SCHEMA:
            raise SweepStoreError(
                f"'{self.path}' is of version {version}, written by a newer Tilewright; this one "
                f"knows {SCHEMA}"
            )

    @contextmanager
    def _write(self) -> Generator[sqlite3.Connection]:
        """A transaction: all of it or nothing."""
        with self._told():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def _told(self) -> Generator[None]:
        """What SQLite complains about, as one line that says what is left."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise SweepStoreError(self._complaint(error)) from None
        except UnicodeDecodeError:
            raise self.damaged("it holds text that is none") from None
        except OSError as error:
            raise SweepStoreError(
                f"cannot write '{self.path}': {error.strerror or error}"
            ) from None

    def _complaint(self, error: sqlite3.DatabaseError) -> str:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF  # no text
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            return (
                f"cannot write '{self.path}': {error}; what it holds is kept, "
                "run again with resume (--resume) when there is room"
            )
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return str(self.damaged(error))
        if code == sqlite3.SQLITE_READONLY:
            return f"cannot write '{self.path}': it is read-only"
        if code == sqlite3.SQLITE_BUSY:
            return f"'{self.path}' is in use by another program ({error})"
        return f"'{self.path}' cannot be used: {error}"
