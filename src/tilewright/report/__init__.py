"""Results for people and programs: tables, JSON, pictures."""

from rich.table import Column


def right(*names: str) -> list[Column]:
    """Columns of figures."""
    return [Column(name, justify="right") for name in names]
