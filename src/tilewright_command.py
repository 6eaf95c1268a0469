"""The program `tilewright`: imports nothing by itself, so that Ctrl-C is heard from the start."""


def main() -> None:
    """Run the command line; Ctrl-C while it is being imported is one line too."""
    try:
        from tilewright.cli import main as run
    except KeyboardInterrupt:
        import sys

        sys.stderr.write("tilewright: interrupted\n")
        sys.exit(130)
    run()
