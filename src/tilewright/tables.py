"""Tables as results carry them: rows to read, to loop over, to write as CSV, to hand to pandas; and
how a result shows itself at a prompt and in a notebook."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from tilewright.drafts import writing
from tilewright.errors import TilewrightError

Cell = str | int | float | bool | None
SHOWN_ROWS = 40  # of a long table at a prompt and in a notebook; CSV and pandas have all
SHOWN_LETTERS = 72  # of a long text there


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """Rows of plain values under named columns. Iterating gives a mapping for every row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Cell]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def column(self, name: str) -> list[Cell]:
        """The values of one column, from the first row to the last."""
        if name not in self.columns:
            known = ", ".join(self.columns)
            raise TilewrightError(f"the table has no column '{name}'; it has {known}")
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV, which is also written to `path` if one is given."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(["" if cell is None else cell for cell in row] for row in self.rows)
        if path is not None:
            with writing(Path(path)):
                Path(path).write_text(text.getvalue(), encoding="utf-8", newline="")
        return text.getvalue()

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        try:
            import pandas  # pyright: ignore[reportMissingImports, reportMissingModuleSource, reportMissingTypeStubs]
        except ImportError:
            raise TilewrightError(
                "pandas is not installed: `pip install pandas`, or use to_csv()"
            ) from None
        frame: Any = pandas
        return frame.DataFrame(list(map(list, self.rows)), columns=list(self.columns))

    def __repr__(self) -> str:
        return "\n".join([f"{self.title}: {len(self.rows)} rows", *self.lines()])

    def lines(self) -> list[str]:
        """The table as aligned text; of a long one the first rows."""
        cells = [tuple(map(_text, row)) for row in self.rows[:SHOWN_ROWS]]
        widths = [
            max(len(name), *(len(row[place]) for row in cells), 0)
            for place, name in enumerate(self.columns)
        ]
        numeric = [_numeric(row[place] for row in self.rows) for place in range(len(self.columns))]

        def line(texts: Sequence[str]) -> str:
            parts = (
                text.rjust(width) if right else text.ljust(width)
                for text, width, right in zip(texts, widths, numeric, strict=True)
            )
            return "  ".join(parts).rstrip()

        more = len(self.rows) - len(cells)
        return [line(self.columns), *map(line, cells), *([f"... {more} more"] if more else [])]

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_text(cell))}</td>" for cell in row) + "</tr>"
            for row in self.rows[:SHOWN_ROWS]
        )
        more = len(self.rows) - SHOWN_ROWS
        note = f"<p>... {more} more rows</p>" if more > 0 else ""
        return (
            f"<table><caption>{escape(self.title)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>{note}"
        )


def picked(thing: object, *names: str) -> dict[str, Any]:
    """Some fields of a thing by their names, as JSON has them."""
    return {name: getattr(thing, name) for name in names}


class Shown:
    """A result that says in a few lines what it is, and has a table to look at and to export."""

    __slots__ = ()

    def headline(self) -> Sequence[str]:
        """What a person wants to know, most important first."""
        raise NotImplementedError

    def as_table(self) -> Table:
        """The figures behind it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return "\n".join(self.headline())

    def __str__(self) -> str:
        return "\n".join([*self.headline(), *self.as_table().lines()])

    def _repr_html_(self) -> str:
        first, *others = (escape(line) for line in self.headline())
        told = "".join(f"<br>{line}" for line in others)
        return f"<p><b>{first}</b>{told}</p>{self.as_table()._repr_html_()}"  # pyright: ignore[reportPrivateUsage]

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV, which is also written to `path` if one is given."""
        return self.as_table().to_csv(path)

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        return self.as_table().to_pandas()


def _numeric(cells: Iterator[Cell]) -> bool:
    return all(isinstance(cell, int | float) or cell is None for cell in cells)


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return cell if len(cell) <= SHOWN_LETTERS else f"{cell[: SHOWN_LETTERS - 4].rstrip()} ..."
