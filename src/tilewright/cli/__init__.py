"""The command line."""

import signal
import sys


def main() -> None:
    """Run the command line. Ctrl-C at any moment, while modules are imported too, is one line."""
    try:
        from tilewright.cli.app import run

        run()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one must not break the first's end
        sys.stderr.write("tilewright: interrupted\n")
        sys.exit(130)


__all__ = ["main"]
