"""How the C library hands memory back: settings under which freed tiles leave the process, and how
much of it there was."""

import ctypes
import ctypes.util
import os
import re
import sys
import tempfile
from functools import cache
from pathlib import Path

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's mallopt parameters
THRESHOLD = 4096  # a page: tiles of small networks are small too
LARGEST = 32 << 20  # the highest threshold that glibc takes
_FILLING = (2032, 1008, 496, 240, 112, 56, 24)  # blocks that fill gaps of any size
_FILLED_AT_ONCE = 8


class _Info(ctypes.Structure):
    """glibc's `struct mallinfo2`; `hblkhd` are the bytes of all blocks mapped by themselves,
    `arena` those of all heaps."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


@cache
def _libc(*needed: str) -> ctypes.CDLL | None:
    """The C library, where it is glibc and has what is needed."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL(ctypes.util.find_library("c") or "libc.so.6")
    except OSError:
        return None
    return libc if all(hasattr(libc, n) for n in ("mallopt", "malloc_trim", *needed)) else None


def return_freed_memory() -> bool:
    """Give blocks from a page on back to the system as soon as they are freed.

    glibc otherwise raises that limit to the largest block freed so far (up to 32 MB) and keeps
    the tiles' buffers. True where the C library has the setting.
    """
    libc = _libc()
    if libc is None:
        return False
    libc.mallopt(ctypes.c_int(_MMAP_THRESHOLD), ctypes.c_int(THRESHOLD))
    libc.mallopt(ctypes.c_int(_TRIM_THRESHOLD), ctypes.c_int(THRESHOLD))
    return True


def keep_on_heap() -> bool:
    """Take blocks from the heap, all but the largest: so that later, behind `return_freed_memory`,
    only what comes then is mapped by itself, and can be counted (`mapped`)."""
    libc = _libc()
    return libc is not None and bool(libc.mallopt(_MMAP_THRESHOLD, LARGEST))


def mapped() -> int | None:
    """Bytes of all blocks that are mapped by themselves now; None where the C library cannot
    tell."""
    return _info("hblkhd")


def on_heaps() -> int | None:
    """Bytes of all heaps of the process now."""
    return _info("arena")


def _info(field: str) -> int | None:
    libc = _libc("mallinfo2")
    if libc is None:
        return None
    libc.mallinfo2.restype = _Info
    return int(getattr(libc.mallinfo2(), field))


def most_mapped() -> int | None:
    """The most there were of them at once since the process began: what glibc prints, and tells
    nowhere else."""
    libc = _libc("malloc_stats")
    if libc is None:
        return None
    with tempfile.TemporaryFile() as file:
        errors = os.dup(2)
        try:
            os.dup2(file.fileno(), 2)
            libc.malloc_stats()
        finally:
            os.dup2(errors, 2)
            os.close(errors)
        file.seek(0)
        found = re.search(rb"max mmap bytes\s*=\s*(\d+)", file.read())
    return None if found is None else int(found.group(1))


def most_on_heaps() -> int | None:
    """The most bytes that each heap of the process had, added up, since it began."""
    libc = _libc("malloc_info")
    if libc is None:
        return None
    libc.fdopen.restype = ctypes.c_void_p
    with tempfile.TemporaryFile() as file:
        stream = ctypes.c_void_p(libc.fdopen(os.dup(file.fileno()), b"w"))
        libc.malloc_info(0, stream)
        libc.fclose(stream)
        file.seek(0)
        found = re.findall(rb'<system type="max" size="(\d+)"', file.read())
    return int(found[-1]) if found else None  # the last is that of all heaps


def fill_heap() -> None:
    """Take all that is free on the heap of this thread, for good: what comes later has to grow the
    heap, or is mapped by itself. glibc gives every thread a heap of 132 KiB to begin with, and
    blocks of any size are taken from there as long as it lasts."""
    libc = _libc()
    if libc is None:
        return
    # Asking for the most takes blocks too, which may have made the heap grow: ask then what can be
    # told without.
    for asked, times in ((most_on_heaps, _FILLED_AT_ONCE), (on_heaps, 1)):
        for size in _FILLING:
            before = asked()
            while before is not None and asked() == before:
                for _ in range(times):
                    libc.malloc(size)


def trim() -> None:
    """Give back what earlier work left in the heap, so that a peak shows."""
    libc = _libc()
    if libc is not None:
        libc.malloc_trim(0)


def _status(key: str) -> int | None:
    """A figure of /proc/self/status in bytes; None on systems without it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key + ":")), None)


def resident() -> int | None:
    """Bytes of the process that are in memory now."""
    return _status("VmRSS")


def high_water_mark(*, reset: bool = False) -> int | None:
    """The most bytes the process had in memory, since its start or since the last reset; None
    where the system cannot tell."""
    if reset:
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            return None
    return _status("VmHWM")
