"""Every command with its arguments and options, from the commands themselves, as a page."""

from collections.abc import Iterator
from enum import Enum
from typing import Any

from tilewright.cli.app import COMMANDS, load_command

HEAD = """# Commands

Made from the commands themselves (`tilewright show commands`; `make golden` writes this page anew).
Exit codes: 0 done, 2 a mistake in what was given (one line says which), 3 a run that gave other
numbers than the original, 4 a model that `shrink --measure` measured above its budget (it is
written all the same), 130 interrupted.
"""


def reference_page() -> str:
    """The page, in Markdown."""
    lines = [HEAD]
    for name in COMMANDS:
        lines += _command(load_command(name), f"tilewright {name}", 2)
    return "\n".join(lines).rstrip() + "\n"


def _command(command: Any, name: str, level: int) -> Iterator[str]:
    below: dict[str, Any] = getattr(command, "commands", None) or {}
    yield f"{'#' * level} {name}\n"
    yield from _text(command.help or "")
    if below:
        for word, inner in below.items():
            yield from _command(inner, f"{name} {word}", level + 1)
        return
    rows = [_row(each) for each in command.params if each.name != "help"]
    if rows:
        yield "| argument, option | what it is |\n|---|---|"
        yield from rows
        yield ""


def _text(text: str) -> Iterator[str]:
    """Paragraphs; lines that are examples stand as code."""
    for paragraph in text.split("\n\n"):
        words = " ".join(paragraph.split())
        if words:
            yield f"    {words}\n" if words.startswith("tilewright ") else f"{words}\n"


def _row(each: Any) -> str:
    names = ", ".join((*each.opts, *each.secondary_opts))
    chosen = each.default if isinstance(each.default, Enum) else None
    choices = () if chosen is None else tuple(str(one.value) for one in type(chosen))
    value = each.metavar or "|".join(choices)
    shown = f"`{names} {value}`" if names.startswith("-") and value else f"`{names}`"
    if not names.startswith("-"):
        shown = f"`{value or names}`"
    needed = " (needed)" if each.required else ""
    told = " ".join((each.help or "").split())
    default = getattr(each, "show_default", None) if chosen is None else chosen.value
    if isinstance(default, str):
        told += f" Default: {default}."
    return f"| {_cell(shown)}{needed} | {_cell(told)} |"


def _cell(text: str) -> str:
    """A bar would end the cell of a table."""
    return text.replace("|", "\\|")
