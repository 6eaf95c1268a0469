"""How long work says what it is doing, and where it may be interrupted."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol


class Tell(Protocol):
    """Hears what is being done, and where it is known the share that is done."""

    def __call__(self, text: str, share: float | None = None, /) -> None: ...


def silent(text: str, share: float | None = None, /) -> None:
    """Nobody listens."""


@contextmanager
def interrupted_between(tell: Tell) -> Generator[Tell, None, None]:
    """A Ctrl-C ends work where it next tells what it does, and not within compiled code, which
    does not survive it everywhere. A second one ends it at once."""
    before = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread()
    if not ours or before is not signal.default_int_handler:
        yield tell  # somebody else listens
        return
    came = False

    def hear(number: int, frame: object) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    def told(text: str, share: float | None = None, /) -> None:
        nonlocal came
        if came:
            came = False
            raise KeyboardInterrupt
        tell(text, share)

    signal.signal(signal.SIGINT, hear)
    try:
        yield told
    finally:
        signal.signal(signal.SIGINT, before)
