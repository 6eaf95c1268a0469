"""The command line."""

import atexit
import gc
import signal
import sys

from tilewright.garbage import collect_seldom
from tilewright.pauses import interrupt, interrupts


def main() -> None:
    """Run the command line. Ctrl-C at any moment, while modules are imported too, is one line."""
    collect_seldom()
    interrupts.clear()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    atexit.register(gc.freeze)  # the process ends: looking for cycles would only take time
    try:
        from tilewright.cli.app import run

        run()
    except (KeyboardInterrupt, Exception) as error:
        if not isinstance(error, KeyboardInterrupt) and not interrupts:
            raise
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one must not break the first's end
        sys.stderr.write("tilewright: interrupted\n")
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is told: the end cannot be interrupted


__all__ = ["main"]
