"""How long work says what it is doing, and where it may be interrupted."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol

from tilewright.pauses import asked, interrupt


class Tell(Protocol):
    """Hears what is being done, and where it is known the share that is done."""

    def __call__(self, text: str, share: float | None = None, /) -> None: ...


def silent(text: str, share: float | None = None, /) -> None:
    """Nobody listens."""


@contextmanager
def interrupted_between(
    tell: Tell, at_once: Callable[[], None] | None = None
) -> Generator[Tell, None, None]:
    """A Ctrl-C ends work where it next tells what it does or compiles a function, and never within
    compiled code, which does not survive it everywhere; else at the end of this. Those that
    come before it was heard wait with it, unless `at_once` ends the process. Entered where a person
    or a program comes in: by the functions of `api`, and around them by a command, which also
    writes files and can end its process."""
    before = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread()
    if not ours or before not in (signal.default_int_handler, interrupt):
        yield tell  # somebody else listens
        return
    came = False

    def hear(number: int, frame: object) -> None:
        nonlocal came
        if came and at_once is not None:
            at_once()
        came = True

    def raised() -> None:
        nonlocal came
        if came:
            came = False
            raise KeyboardInterrupt

    def told(text: str, share: float | None = None, /) -> None:
        raised()
        tell(text, share)

    signal.signal(signal.SIGINT, hear)
    asked.append(raised)
    try:
        yield told
        raised()
    finally:
        asked.remove(raised)
        signal.signal(signal.SIGINT, before)
