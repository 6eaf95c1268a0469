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
    from tilewright.api.machines import MachineLike, allocate, explain, machine, plan, verify
    from tilewright.api.models import load, run, shrink, tile
    from tilewright.api.studies import compare, kernel, load_for_partition, partition
    from tilewright.files import check_writable, load_inputs, save_arrays
    from tilewright.graph.graph import Graph
    from tilewright.machine.machine import Machine
    from tilewright.model import Coverage, Model, Shapes, ShapesLike, coverage, idioms, load_torch
    from tilewright.plan.plan import Plan
    from tilewright.program.metrics import Objective
    from tilewright.results.compared import Comparison
    from tilewright.results.explained import Explained
    from tilewright.results.partitioned import PartitionResult
    from tilewright.results.planned import PlanResult
    from tilewright.results.tiles import Tiles
    from tilewright.runs.saved import Rechecked
    from tilewright.shrinking import RunResult, ShrinkResult, parse_budget
    from tilewright.sweep.api import sweep

__all__ = [
    "Comparison",
    "Coverage",
    "Explained",
    "Graph",
    "Machine",
    "MachineLike",
    "Model",
    "Objective",
    "PartitionResult",
    "Plan",
    "PlanResult",
    "Rechecked",
    "RunResult",
    "Shapes",
    "ShapesLike",
    "ShrinkResult",
    "Tiles",
    "allocate",
    "check_writable",
    "compare",
    "coverage",
    "explain",
    "idioms",
    "kernel",
    "load",
    "load_for_partition",
    "load_inputs",
    "load_torch",
    "machine",
    "parse_budget",
    "partition",
    "plan",
    "run",
    "save_arrays",
    "shrink",
    "sweep",
    "tile",
    "verify",
]

# A job loads what it needs, and nothing of the others: where the names above are.
_PLACES = {
    "api.machines": "MachineLike allocate explain machine plan verify",
    "api.models": "load run shrink tile",
    "api.studies": "compare kernel load_for_partition partition",
    "files": "check_writable load_inputs save_arrays",
    "graph.graph": "Graph",
    "machine.machine": "Machine",
    "model": "Coverage Model Shapes ShapesLike coverage idioms load_torch",
    "plan.plan": "Plan",
    "program.metrics": "Objective",
    "results.compared": "Comparison",
    "results.explained": "Explained",
    "results.partitioned": "PartitionResult",
    "results.planned": "PlanResult",
    "results.tiles": "Tiles",
    "runs.saved": "Rechecked",
    "sweep.api": "sweep",
    "shrinking": "RunResult ShrinkResult parse_budget",
}


def __getattr__(name: str) -> Any:
    """Names are looked up when they are used first."""
    for place, names in _PLACES.items():
        if name in names.split():
            found = globals()[name] = getattr(import_module(f"tilewright.{place}"), name)
            return found
    raise AttributeError(f"module 'tilewright.api' has no attribute '{name}'")
