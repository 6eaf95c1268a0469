"""What a program calls: every job of the command line as a function.

Each takes what people have: a model as a path, a zoo name, an ONNX ModelProto or a torch module; a
machine by name, file, mapping or object; a plan as a file or an object; a budget as "50%" or bytes.
Results print readably, show themselves in a notebook, and have `to_csv()` and `to_pandas()`.
`import tilewright` gives all of this as `tilewright.load`, `tilewright.plan`, ...

`models` has what is done to a network by itself, `machines` what is done on a machine, `studies`
what is asked about several of either.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.api.machines import allocate, explain, machine, plan, verify
    from tilewright.api.models import load, run, shrink, tile
    from tilewright.api.studies import compare, kernel, partition
    from tilewright.sweep.api import sweep

__all__ = [
    "allocate",
    "compare",
    "explain",
    "kernel",
    "load",
    "machine",
    "partition",
    "plan",
    "run",
    "shrink",
    "sweep",
    "tile",
    "verify",
]

# A job loads what it needs, and nothing of the others: where the names above are.
_PLACES = {
    "api.machines": "allocate explain machine plan verify",
    "api.models": "load run shrink tile",
    "api.studies": "compare kernel partition",
    "sweep.api": "sweep",
}


def __getattr__(name: str) -> Any:
    """Names are looked up when they are used first."""
    for place, names in _PLACES.items():
        if name in names.split():
            found = globals()[name] = getattr(import_module(f"tilewright.{place}"), name)
            return found
    raise AttributeError(f"module 'tilewright.api' has no attribute '{name}'")
