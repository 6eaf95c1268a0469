"""The command line."""

import atexit
import gc
import signal
import sys

from tilewright.garbage import collect_seldom


def main() -> None:
    """Run the command line. Ctrl-C at any moment, while modules are imported too, is one line."""
    collect_seldom()
    atexit.register(gc.freeze)  # the process ends: looking for cycles would only take time
    try:
        from tilewright.cli.app import run

        run()
    except (KeyboardInterrupt, Exception) as error:
        if not _interrupted(error):
            raise
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one must not break the first's end
        sys.stderr.write("tilewright: interrupted\n")
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is told: the end cannot be interrupted


def _interrupted(error: BaseException) -> bool:
    """Whether an error is an interrupt, or what native code of others has made of one."""
    return isinstance(error, KeyboardInterrupt) or KeyboardInterrupt.__name__ in str(error)


__all__ = ["main"]
