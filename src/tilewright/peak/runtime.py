"""Runtime: the session settings and machine facts that change memory."""

import platform
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

CPU_FACTS = Path("/proc/cpuinfo")


@cache
def native_block() -> int:
    """Channels per block of onnxruntime's blocked layout on this processor."""
    try:
        facts = CPU_FACTS.read_text(errors="replace")
    except OSError:
        return 8
    return 16 if "avx512f" in facts else 8


@cache
def native_signed() -> bool:
    """Whether quantised kernels take signed activations on this processor."""
    return platform.machine().lower().startswith(("arm", "aarch64"))


@dataclass(frozen=True, slots=True)
class Runtime:
    """How onnxruntime runs the model.

    Freed blocks are taken to leave the process at once: arena and memory reuse are off and malloc
    maps every block from a page on its own. docs/onnxruntime-memory.md says why.
    """

    block: int = field(default_factory=native_block)
    """Channels per block of the NCHWc layout; 1 means no layouts (optimisation level EXTENDED)."""
    extended: bool = True
    """Fusions of level EXTENDED; False is level BASIC, which has no layouts either."""
    signed_kernels: bool = field(default_factory=native_signed)
    """Quantised convolutions and products of signed activations; else they are made unsigned where
    one operator reads them, and run on real numbers where several do."""
    bookkeeping: bool = True
    """What malloc and the runtime take beside the numbers; False counts the numbers alone."""
