"""Tilewright: exact fused, tiled execution of neural networks.

    import tilewright

    net = tilewright.load("net.onnx")            # or a zoo name, a ModelProto, a torch module
    tilewright.tile(net, "H=4", node="conv1")    # exact tiles
    tilewright.shrink(net, "50%", "small.onnx")  # the same model in less memory
    run = tilewright.plan(net, on="npu-2.7")     # how it runs on a machine, executed
    run.layers.to_csv("layers.csv")
    tilewright.explain(run)

Nothing heavy is imported before it is used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tilewright import api
from tilewright.version import __version__

if TYPE_CHECKING:
    from tilewright.api import *  # noqa: F403
    from tilewright.errors import BudgetError, ModelError, TilewrightError
    from tilewright.machine.faults import FileError
    from tilewright.machine.machine import Machine
    from tilewright.model import Model
    from tilewright.plan.plan import Plan
    from tilewright.plan.read import PlanFileError
    from tilewright.planning.check import PlanFaultsError
    from tilewright.results.compared import Comparison
    from tilewright.results.explained import Explained
    from tilewright.results.partitioned import PartitionResult
    from tilewright.results.planned import PlanResult
    from tilewright.results.tiles import Tiles
    from tilewright.runs.saved import Rechecked
    from tilewright.shrinking import RunResult, ShrinkResult
    from tilewright.tables import Table


__all__ = [
    "BudgetError",
    "Comparison",
    "Explained",
    "FileError",
    "Machine",
    "Model",
    "ModelError",
    "PartitionResult",
    "Plan",
    "PlanFaultsError",
    "PlanFileError",
    "PlanResult",
    "Rechecked",
    "RunResult",
    "ShrinkResult",
    "Table",
    "Tiles",
    "TilewrightError",
    "__version__",
]
__all__ += api.__all__
# Jobs that have the name of the package that does them: the package can be called.
_PACKAGES = frozenset({"compare", "kernel", "machine", "partition", "plan", "shrink", "sweep"})
# What jobs take and give; the jobs themselves are of `api`.
_TYPES = {
    "BudgetError": "errors",
    "Comparison": "results.compared",
    "Explained": "results.explained",
    "FileError": "machine.faults",
    "Machine": "machine.machine",
    "Model": "model",
    "ModelError": "errors",
    "PartitionResult": "results.partitioned",
    "Plan": "plan.plan",
    "PlanFaultsError": "planning.check",
    "PlanFileError": "plan.read",
    "PlanResult": "results.planned",
    "Rechecked": "runs.saved",
    "RunResult": "shrinking",
    "ShrinkResult": "shrinking",
    "Table": "tables",
    "Tiles": "results.tiles",
    "TilewrightError": "errors",
}


class _Job(ModuleType):
    # A package that can be called: `tilewright.plan(...)` is the job, `tilewright.plan.plan` still
    # a module of it. Documentation and signature are those of the function.

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return _function(self)(*arguments, **options)

    @property
    def __doc__(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        # `help` shows no signature of a module: it stands at the top of the text.
        from inspect import cleandoc

        name = self.__name__.rpartition(".")[2]
        return f"{name}({_arguments(self)})\n\n{cleandoc(_function(self).__doc__ or '')}"

    @property
    def __signature__(self) -> Any:
        from inspect import signature

        return signature(_function(self))


def _arguments(package: _Job) -> str:
    # Names and defaults, in lines that fit a terminal.
    from textwrap import fill

    shown: list[str] = []
    for name, found in package.__signature__.parameters.items():
        if found.kind is found.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        if found.default is not found.empty:
            value = getattr(found.default, "value", found.default)  # of an enumeration
            name += "=..." if callable(value) else f"={value!r}"
        shown.append(name)
    return fill(", ".join(shown), 92, subsequent_indent="    ")


def _function(package: ModuleType) -> Any:
    return getattr(api, package.__name__.rpartition(".")[2])


class _Tilewright(ModuleType):
    """This package: whoever imports a part of it that is a job too makes it one that can be
    called."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _PACKAGES and type(value) is ModuleType:
            value.__class__ = _Job
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    """Names are looked up when they are used first."""
    if name in _PACKAGES:
        return import_module(f"tilewright.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'tilewright' has no attribute '{name}'")
    if name in api.__all__:
        return getattr(api, name)
    found = globals()[name] = getattr(import_module(f"tilewright.{_TYPES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = _Tilewright
