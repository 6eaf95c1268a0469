"""Ctrl-C ends work where it tells what it does."""

import signal
import time
from collections.abc import Iterator

import pytest

from tilewright.search.progress import interrupted_between, silent


@pytest.fixture(autouse=True)
def heard_interrupts() -> Iterator[None]:
    """SIGINT as a command at a terminal has it; where tests run in the background it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


def test_a_second_interrupt_waits_with_the_first() -> None:
    with interrupted_between(silent) as tell:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            tell("both are heard here")
        tell("once")


def test_a_second_interrupt_ends_the_process_where_there_is_a_way() -> None:
    ended: list[str] = []
    with interrupted_between(silent, lambda: ended.append("at once")) as tell:
        signal.raise_signal(signal.SIGINT)
        assert not ended
        signal.raise_signal(signal.SIGINT)
        assert ended == ["at once"]
        with pytest.raises(KeyboardInterrupt):
            tell("the first")
        signal.raise_signal(signal.SIGINT)  # of something else: it is a first one again
        with pytest.raises(KeyboardInterrupt):
            tell("the next")
    assert ended == ["at once"]


def test_an_interrupt_behind_the_last_word_is_not_lost() -> None:
    with pytest.raises(KeyboardInterrupt), interrupted_between(silent) as tell:
        tell("last word")
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_within_another_the_outer_one_listens() -> None:
    with interrupted_between(silent) as outer:
        with interrupted_between(outer) as inner:
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            inner("told to the outer one")
