# pyright: basic
"""The one module that imports onnxruntime: sessions with the settings tiled models need."""

import os
import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import ModelError
from tilewright.execute.memory_settings import (
    fill_heap,
    high_water_mark,
    keep_on_heap,
    mapped,
    most_mapped,
    most_on_heaps,
    resident,
    return_freed_memory,
    trim,
)
from tilewright.graph.graph import Array
from tilewright.graph.types import TensorType

Feeds = Mapping[str, Array]

# Its names of element types -> ours.
_ELEMENTS = {f"tensor({u}int{b})": f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)} | {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bfloat16)": "bfloat16",
    "tensor(bool)": "bool",
}

# What onnxruntime puts around its reasons: error codes, source lines with C++ signatures.
_NOISE = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : |\S*\.(?:cc|h):\d+ [^()]*\([^()]*\)(?: const)?"
)


def session(
    model: bytes | Path,
    *,
    arena: bool = True,
    reuse: bool = False,
    threads: int = 1,
    optimise: bool = True,
    precise: bool = False,
) -> Any:
    """An onnxruntime session on the CPU.

    Memory reuse planning is off: it would keep every tile's buffers alive at once. With the arena
    off too, freed memory goes back at once and the process's peak is the model's. Without
    `optimise` operators run as they are written, none fused or laid out anew. `precise` keeps sums
    of 8-bit products exact on processors whose fastest instructions saturate them (AVX2).
    """
    import onnxruntime as ort  # heavy: only where numbers are wanted

    source = model if isinstance(model, bytes) else str(model)

    def loaded(precisely: bool) -> Any:
        options = ort.SessionOptions()  # anew each time: an entry set twice is warned of
        options.enable_mem_reuse = reuse
        options.enable_mem_pattern = False
        options.enable_cpu_mem_arena = arena
        options.intra_op_num_threads = min(threads, os.cpu_count() or 1)
        options.inter_op_num_threads = 1
        options.log_severity_level = 4  # errors are raised; its log would repeat them
        if not optimise:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        if precisely:
            options.add_session_config_entry("session.x64quantprecision", "1")
        with _errors("onnxruntime cannot load the model"):
            return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    if precise:
        # It makes weights unsigned: where activations are signed no kernel takes both.
        with suppress(ModelError):
            return loaded(True)
    return loaded(False)


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """onnxruntime's errors as one line; its exception classes share no public base."""
    try:
        yield
    except Exception as error:
        own = type(error).__module__.startswith("onnxruntime")
        if not own and not isinstance(error, RuntimeError | ValueError):
            raise
        text = _NOISE.sub(" ", " ".join(str(error).split())).strip()
        raise ModelError(f"{what}: {text[:300]}") from None


def output_types(model: bytes | Path) -> dict[str, TensorType]:
    """Types of a model's outputs as onnxruntime works them out, where they are known to it: it has
    operators of its own that onnx does not know. It has one word for no axes and for an unknown
    number of them, which is left out."""
    found: dict[str, TensorType] = {}
    for output in session(model, optimise=False).get_outputs():
        dtype = _ELEMENTS.get(output.type)
        extents = output.shape
        if dtype is not None and extents and all(isinstance(extent, int) for extent in extents):
            found[output.name] = TensorType(dtype, tuple(output.shape))
    return found


def run(model: bytes | Path, feeds: Feeds, **settings: Any) -> dict[str, Array]:
    """All outputs of a model on these inputs."""
    return _outputs(session(model, **settings), feeds)


def _outputs(active: Any, feeds: Feeds) -> dict[str, Array]:
    names = [output.name for output in active.get_outputs()]
    with _errors("onnxruntime cannot run the model"):
        return dict(zip(names, active.run(names, dict(feeds)), strict=True))


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """Outputs of a run, its peak memory above the level before it, and its CPU time."""

    outputs: dict[str, Array]
    peak_bytes: int | None
    cpu_seconds: float


def run_measured(model: bytes | Path, feeds: Feeds, threads: int = 1) -> MeasuredRun:
    """Run with the settings under which freed tiles leave the process, and watch the memory.

    It runs once before, so that what is set up only once is there already. Meant for a process of
    its own: memory that others have left free there would be used, and not seen.
    """
    return_freed_memory()
    active = session(model, arena=False, threads=threads)
    _outputs(active, feeds)
    trim()
    before = resident()
    reset = high_water_mark(reset=True) is not None
    start = time.process_time()
    results = _outputs(active, feeds)
    seconds = time.process_time() - start
    highest = high_water_mark()
    peak = highest - before if reset and highest is not None and before is not None else None
    return MeasuredRun(results, peak, seconds)


def count_peak(model: bytes | Path, feeds: Feeds, threads: int = 1) -> int | None:
    """The most bytes of a run above the level before it, right to a few pages; None where there
    were more while loading, or the C library does not tell.

    Meant for a process of its own that takes all from the heap from its start on. What loading
    leaves free lies on the heap of its thread; a run in another does not find it there, and what is
    free on its own heap is taken before: so every block from a page on is mapped by itself, smaller
    ones grow the heap, and glibc knows the most that there were of both, each at its own moment.
    """
    keep_on_heap()
    active = session(model, arena=False, threads=threads)
    return_freed_memory()

    def counted() -> int | None:
        loading = most_mapped()
        _outputs(active, feeds)
        fill_heap()
        blocks, heaps = mapped(), most_on_heaps()
        _outputs(active, feeds)
        most, grown = most_mapped(), most_on_heaps()
        if loading is None or most is None or blocks is None or most <= loading:
            return None
        return most - blocks + (0 if grown is None or heaps is None else grown - heaps)

    with ThreadPoolExecutor(1) as other:
        return other.submit(counted).result()
