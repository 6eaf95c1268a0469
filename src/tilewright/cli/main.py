"""Entry point: commands are registered here, errors end here."""

import sys
from typing import NoReturn, cast

import typer

from tilewright import __version__
from tilewright.cli import (
    check,
    compare,
    explain,
    kernel,
    partition,
    plan,
    show,
    shrink,
    sweep,
    tile,
)
from tilewright.errors import TilewrightError

app = typer.Typer(
    name="tilewright",
    help="Exact fused, tiled execution of neural networks.\n\n"
    "tile: every tile of an operator or a fused run of operators, with its exact halo and "
    "padding.\n\n"
    "shrink: an ordinary ONNX model with the same results in a fraction of the memory.\n\n"
    "plan: how a network runs on a machine, to the cycle and the byte, proved by executing it.\n\n"
    "explain: why the boundaries of a plan are where they are.\n\n"
    "partition: how many kernels, FLOPs and bytes, what operator fusion saves, and how it lands on "
    "a GPU, TPU or KPU.\n\n"
    "check: whether a machine, plan or pattern file is as it should be.\n\n"
    "kernel: one fused kernel on a Trainium-like core: legality, ledger, engines, time, search.\n\n"
    "sweep: thousands of plans over machines, networks and objectives, and what they say.\n\n"
    "compare: what differs between plans, and what each difference costs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("tile")(tile.tile)
app.command("shrink")(shrink.shrink)
app.command("run")(shrink.run)
app.command("plan")(plan.with_switches(plan.plan))
app.command("verify")(plan.verify)
app.command("explain")(explain.explain)
app.command("check")(check.check)
app.add_typer(kernel.app, name="kernel")
app.command("sweep")(sweep.sweep)
app.command("compare")(compare.compare)
app.command("partition")(partition.partition)
app.add_typer(show.app, name="show")


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


def main() -> None:
    """Run the command line; a user's mistake is one line and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except _UsageError as error:
        _stop(*_usage(cast(typer.BadParameter, error)))
    except TilewrightError as error:
        _stop(str(error))
    except MemoryError:
        _stop("there is not enough memory for this model's numbers")
    except KeyboardInterrupt:
        sys.stderr.write("tilewright: interrupted\n")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


def _usage(error: typer.BadParameter) -> tuple[str, str]:
    command = error.ctx.command_path if error.ctx is not None else "tilewright"
    return error.format_message(), f" (see {command} --help)"


def _stop(text: str, hint: str = "") -> NoReturn:
    line = " ".join(text.split())
    if line:  # no words: typer has shown the help already
        sys.stderr.write(f"tilewright: {line}{hint}\n")
    sys.exit(2)
