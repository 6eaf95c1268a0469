"""Ctrl-C ends work where it tells what it does."""

import signal
import time

import pytest

from tilewright.search.progress import interrupted_between


def test_an_interrupt_waits_until_work_tells_what_it_does() -> None:
    heard: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with interrupted_between(lambda text, share=None: heard.append(text)) as tell:
        tell("first")
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)  # nothing happens within the work
        with pytest.raises(KeyboardInterrupt):
            tell("second")
        tell("after it")
    assert heard == ["first", "after it"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_interrupt_ends_work_at_once() -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        interrupted_between(lambda text, share=None: None),
    ):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it should have ended")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
