"""Ctrl-C, and where long work that tells nothing can be stopped."""

from collections.abc import Callable

asked: list[Callable[[], None]] = []
"""Called at every pause; whoever waits for one may raise there."""

interrupts: list[int] = []
"""Those that a command got. Code of others may make something else of the exception."""


def pause() -> None:
    """Here work can be stopped: between functions that are being compiled."""
    for ask in asked:
        ask()


def interrupt(number: int, frame: object) -> None:
    """What a command does on Ctrl-C, as Python does."""
    interrupts.append(number)
    raise KeyboardInterrupt
