"""A person is told what the first minute on a new computer is spent on."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import logging
from tilewright.compiled import njit
logging.basicConfig(level=logging.INFO, format="%(message)s")

@njit(cache=False)
def twice(x):
    return 2 * x

print(twice(3), twice(4))
"""


def test_the_first_function_that_is_compiled_is_told_once(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout == "6 8\n"
    assert run.stderr.count("compiling the hot loops this needs, each once on a computer") == 1


INTERRUPTED = """
import signal
from tilewright.compiled import njit
from tilewright.search.progress import interrupted_between, silent

@njit(cache=False)
def inner(x):
    return x + 1

@njit(cache=False)
def outer(x):
    return 2 * inner(x)

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
try:
    with interrupted_between(silent):
        signal.raise_signal(signal.SIGINT)
        print(outer(3), "although it was interrupted")
except KeyboardInterrupt:
    print("interrupted", outer(3))
"""


def test_an_interrupt_does_not_wait_for_all_that_is_compiled() -> None:
    run = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert run.stdout == "interrupted 8\n", run.stderr


def test_the_api_is_found_before_any_job_was_used() -> None:
    program = "import tilewright; print(tilewright.api.plan.__name__)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "plan\n"
