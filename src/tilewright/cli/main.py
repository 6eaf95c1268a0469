"""Entry point: commands are registered here, errors end here."""

import sys

import typer

from tilewright import __version__
from tilewright.cli import shrink, show, tile
from tilewright.errors import TilewrightError

app = typer.Typer(
    name="tilewright",
    help="Exact fused, tiled execution of neural networks.\n\n"
    "tile: every tile of an operator or a fused run of operators, with its exact halo and padding.\n\n"
    "shrink: an ordinary ONNX model with the same results in a fraction of the memory.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("tile")(tile.tile)
app.command("shrink")(shrink.shrink)
app.command("run")(shrink.run)
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


def main() -> None:
    """Run the command line; a user's mistake is one line and exit code 2."""
    try:
        app()
    except TilewrightError as error:
        text = " ".join(str(error).split())
        sys.stderr.write(f"tilewright: {text}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("tilewright: interrupted\n")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
