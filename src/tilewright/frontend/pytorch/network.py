# pyright: basic
"""A torch network by name or as an object: found, given inputs, captured, translated."""

import importlib
import importlib.util
import inspect
import logging
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from tilewright.errors import ModelError, ShapeError
from tilewright.frontend.pytorch.capture import by_trace, of_traced
from tilewright.frontend.pytorch.exported import by_export, of_program
from tilewright.frontend.pytorch.translate import TorchNetwork, translate

Shapes = Mapping[str, tuple[int, ...]]
GUESSED_IMAGE = 224
GUESSED_LENGTH = 128
GRAPHS = ("auto", "module", "aten")
_OWN = str(Path(__file__).parents[2])
_LIBRARIES = (_OWN, *(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")))


def find(text: str) -> Any:
    """What `package.module:build` or `file.py:build` names, called if it is a function."""
    place, _, name = text.rpartition(":")
    holder = _from_file(Path(place)) if place.endswith(".py") else _from_package(place)
    found: Any = holder
    for part in name.split("."):
        if not hasattr(found, part):
            known = [n for n in vars(holder) if not n.startswith("_") and callable(vars(holder)[n])]
            near = get_close_matches(name, known) or known
            more = f" and {len(known) - 6} more" if len(known) > 6 and near is known else ""
            some = f"; it has {', '.join(near[:6])}{more}" if known else ""
            raise ModelError(f"'{place}' has no '{name}'{some}")
        found = getattr(found, part)
    if isinstance(found, torch.nn.Module | torch.export.ExportedProgram):
        return found
    if not callable(found):
        raise ModelError(f"'{text}' is no function and no module but {_kind(found)}")
    try:
        return found()
    except Exception as error:  # the user's own code
        raise ModelError(f"'{text}' could not be called: {_told(error)}") from None


def _told(error: Exception) -> str:
    """What code of others raised: its kind, its words, and the innermost line of that code which
    is no library's."""
    words = " ".join(str(error).split())
    kind = type(error).__name__
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((*_LIBRARIES, "<"))
    ]
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{kind}: {words}{where}" if words else f"{kind}{where}"


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise ModelError(f"there is no file '{path}'")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ModelError(f"'{path}' is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's own code
        raise ModelError(f"'{path}' cannot be run: {_told(error)}") from None
    finally:
        sys.path.pop(0)
    return module


def _from_package(name: str) -> Any:
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except Exception as error:  # the package's own code
        raise ModelError(f"'{name}' cannot be imported: {_told(error)}") from None
    finally:
        sys.path.remove(here)


def network_of(
    given: Any,
    *,
    name: str,
    inputs: Any = None,
    shapes: Shapes | None = None,
    graph: str = "auto",
) -> tuple[TorchNetwork, tuple[str, ...]]:
    """The network of a module, an exported program, or a (module, example inputs) pair; and notes
    on what was assumed. `graph` is `module` (FX), `aten` (torch.export), or `auto`: a module graph
    where the module can be traced, else an ATen graph."""
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], torch.nn.Module):
        given, inputs = given[0], given[1] if inputs is None else inputs
    if isinstance(given, torch.export.ExportedProgram):
        return translate(of_program(given, name)), ()
    if not isinstance(given, torch.nn.Module):
        raise ModelError(
            f"'{name}' is no torch module but {_kind(given)}: return a module, or a module and its "
            "example inputs"
        )
    training = given.training
    given.eval()
    try:
        args, kwargs, notes = _inputs(given, inputs, shapes or {})
        try:
            return _captured(given, args, kwargs, name, graph), notes
        except ModelError as error:
            assumed = f" ({'; '.join(notes)})" if notes else ""
            raise ModelError(f"{error}{assumed}") from None
    finally:
        given.train(training)


def _captured(
    module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], name: str, graph: str
) -> TorchNetwork:
    if graph not in GRAPHS:
        raise ModelError(f"there is no graph '{graph}'; there are: {', '.join(GRAPHS)}")
    with _quiet():
        return _followed(module, args, kwargs, name, graph)


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch's log, and what it prints of graphs that it cannot follow, off: what went wrong is told
    in one line."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            yield
    finally:
        logging.disable(before)


def _followed(
    module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], name: str, graph: str
) -> TorchNetwork:
    if isinstance(module, torch.fx.GraphModule) and graph != "aten":
        return translate(of_traced(module, args, kwargs, name))
    if graph == "aten":
        return translate(by_export(module, args, kwargs, name))
    try:
        return translate(by_trace(module, args, kwargs, name))
    except ModelError:
        if graph == "module":
            raise
    return translate(by_export(module, args, kwargs, name))


def _kind(found: Any) -> str:
    """What something is, with its article."""
    kind = type(found).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


def _inputs(
    module: torch.nn.Module, inputs: Any, shapes: Shapes
) -> tuple[tuple, dict[str, Any], tuple[str, ...]]:
    """Example inputs: as given, of the shapes given, or guessed from the first layer."""
    if inputs is not None and not shapes:
        if isinstance(inputs, dict):
            return (), dict(inputs), ()
        return (tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)), {}, ()
    parameters = inspect.signature(module.forward).parameters
    if shapes:
        unknown = [n for n in shapes if n not in parameters]
        if unknown:
            known = ", ".join(parameters)
            text = f"no input is called '{unknown[0]}' (shapes, --shape)"
            raise ShapeError(f"{text}: forward takes {known}")
        made = {
            n: torch.empty(s, dtype=_dtype(module, n), device="meta") for n, s in shapes.items()
        }
        return (), {n: torch.zeros_like(t, device="cpu") for n, t in made.items()}, ()
    needed = [
        n
        for n, p in parameters.items()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    needed = needed or [n for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD][:1]
    shape, dtype = _guessed(module)
    if len(needed) != 1 or shape is None:
        options = " ".join(f"--shape {n}=..." for n in needed)
        raise ShapeError(
            f"forward takes {', '.join(parameters)}: return (module, example inputs), or give "
            f"shapes ({options})"
        )
    (name,) = needed
    told = (
        f"no example inputs: {name} is taken to be {'x'.join(map(str, shape))}; inputs, or shapes "
        f"(--shape {name}=...), give another"
    )
    return (), {name: torch.zeros(shape, dtype=dtype)}, (told,)


def _dtype(module: torch.nn.Module, name: str) -> torch.dtype:
    """Element type of an input: whole numbers where the network looks rows up first."""
    if name.endswith(("ids", "tokens", "indices")):
        return torch.int64
    if "mask" in name:
        return torch.int64 if _guessed(module)[1] is torch.int64 else torch.float32
    return _guessed(module)[1]


def _guessed(module: torch.nn.Module) -> tuple[tuple[int, ...] | None, torch.dtype]:
    """The shape and the element type that the first layer takes."""
    floats = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    for layer in module.modules():
        if isinstance(layer, torch.nn.Embedding):
            return (1, GUESSED_LENGTH), torch.int64
        if isinstance(layer, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d):
            rank = len(layer.kernel_size)
            return (1, layer.in_channels, *[GUESSED_IMAGE] * rank), floats
        if isinstance(layer, torch.nn.Linear):
            return (1, layer.in_features), floats
    return None, floats
