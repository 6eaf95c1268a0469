"""Entry point: commands are named here and imported when they are called; errors end here."""

import logging
import os
import sys
from difflib import get_close_matches
from importlib import import_module
from io import StringIO
from typing import Any, NoReturn, TextIO, cast

import typer
from typer.core import TyperGroup

from tilewright.errors import TilewrightError
from tilewright.version import __version__

# Every command: the module of this folder that has it, and what it does in a line. Their modules
# import half of Tilewright, so `tilewright --help` reads this and imports none.
COMMANDS = {
    "tile": ("tile", "Show every tile of an operator or a fused run of operators, with its halo."),
    "shrink": ("shrink", "Write an ordinary ONNX model with the same results in less memory."),
    "run": ("shrink", "Run a model in onnxruntime with the settings under which tiling pays."),
    "plan": ("plan", "Plan a network on a machine, execute the plan, and write all of it down."),
    "verify": ("plan", "Check a saved run from its files alone."),
    "explain": ("explain", "Tell why each boundary of a plan is where it is."),
    "check": ("check", "Check machine, plan and pattern files without running anything."),
    "kernel": ("kernel", "Plan one fused kernel on a Trainium-like core: legality, ledger, time."),
    "sweep": ("sweep", "Plan a whole space of machines, networks and objectives, and answer."),
    "compare": ("compare", "Compare plans: what differs, and what each difference costs."),
    "partition": ("partition", "Count kernels, FLOPs and bytes, and what operator fusion saves."),
    "show": ("show", "Show operators, models, machines, keys of machine files, passes, a model."),
}


INTERRUPTED = 130
HELP_WIDTH = "120"  # columns of help where no terminal says how many there are


class _Commands(TyperGroup):
    """Commands that are imported when they are called; a list of them needs no import."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        told = typer.Typer(add_completion=False)
        told.command(cmd_name, help=COMMANDS[cmd_name][1])(_nothing)
        return typer.main.get_command(told)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        near = get_close_matches(args[0], COMMANDS, 1) if args[0] not in COMMANDS else []
        if near and not args[0].startswith("-"):
            ctx.fail(f"No such command '{args[0]}': did you mean '{near[0]}'?")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load_command(name), rest


def _nothing() -> None:
    """Stands for a command in a list."""


def load_command(name: str) -> Any:
    """A command (or a group of them) with its options."""
    module = import_module(f"tilewright.cli.{COMMANDS[name][0]}")
    group = getattr(module, "app", None)
    if group is None:
        group = typer.Typer(add_completion=False, rich_markup_mode="rich")
        group.command(name)(getattr(module, name))
    command = typer.main.get_command(group)
    command.name = name
    return command


app = typer.Typer(
    name="tilewright",
    cls=_Commands,
    help="Exact fused, tiled execution of neural networks.\n\n"
    "MODEL is an .onnx file (- reads one from standard input), a network of the zoo, or what makes "
    "a torch module: file.py:build. Every command has --help with examples, and --json.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain: what draws boxes takes longer to import than all the rest
    context_settings={
        "max_content_width": int(HELP_WIDTH),
        "terminal_width": int(HELP_WIDTH),
        "help_option_names": ["--help", "-h"],
    },
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"tilewright {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


# What typer raises for a wrong command line: its name and place differ between versions.
_UsageError = cast("type[Exception]", typer.BadParameter.__mro__[1])


class _Notes(logging.Handler):
    """What the library logs, as remarks for the person."""

    def emit(self, record: logging.LogRecord) -> None:
        from tilewright.cli.common import note

        note(record.getMessage())


class _Heard:
    """Standard output. Whoever reads it may stop (`| head`): what is left to say goes nowhere, and
    the command ends as it would have."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            return self._drop() or len(text)
        except OSError as error:
            self._full(error)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop()
        except OSError as error:
            self._full(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _full(self, error: OSError) -> NoReturn:
        self._drop()  # what is left would fail again at the end
        _stop(f"cannot write to standard output: {error.strerror}")

    def _drop(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def run() -> None:
    """Run the command line; a user's mistake is one line and exit code 2."""
    stream = cast(TextIO | None, sys.stdout)
    heard = _Heard(StringIO() if stream is None else stream)  # it may be closed: >&-
    sys.stdout = cast(TextIO, heard)
    try:
        _run()
    finally:
        heard.flush()
        sys.stdout = cast(TextIO, stream)


def _run() -> None:
    if not sys.stdout.isatty():
        os.environ.setdefault("TERMINAL_WIDTH", HELP_WIDTH)  # what typer breaks help at
    log = logging.getLogger("tilewright")
    log.handlers = [_Notes()]  # this may be called again
    log.setLevel(logging.INFO)
    try:
        code = app(standalone_mode=False) or 0
        if code == INTERRUPTED:  # typer has swallowed it, and says nothing
            raise KeyboardInterrupt
        sys.exit(code)
    except _UsageError as error:
        usage = cast(typer.BadParameter, error)
        command = usage.ctx.command_path if usage.ctx is not None else "tilewright"
        text = usage.format_message().replace("Value error, ", "")  # a word of a library's
        _stop(text, f" (see {command} --help)")
    except TilewrightError as error:
        _stop(str(error))
    except MemoryError:
        _stop("there is not enough memory for this model's numbers")


def _stop(text: str, hint: str = "") -> NoReturn:
    line = " ".join(text.split())
    if line:  # no words: typer has shown the help already
        sys.stderr.write(f"tilewright: {line}{hint}\n")
    sys.exit(2)
