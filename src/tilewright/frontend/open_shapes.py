"""Dimensions that a model file leaves open: given by the input or by their names, or suggested."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from shlex import quote

from tilewright.frontend import proto

Shapes = Mapping[str, tuple[int, ...]]
Inputs = Mapping[str, proto.OpenType]
Dim = int | str | None

# Sizes to begin with, by the words of a dimension's name; where a network does not take the first,
# others that are common.
_BATCH, _CHANNELS = (1,), (3, 1)
_LENGTHS = (128, 16, 64, 256, 512, 77, 32, 8)
_SIDES = (224, 32, 64, 28, 256, 128, 320, 640)
_CALLED = {
    ("batch", "n", "b"): _BATCH,
    ("channel", "channels", "c"): _CHANNELS,
    ("seq", "sequence", "len", "length", "time", "token", "tokens", "t", "s"): _LENGTHS,
    ("height", "width", "size", "h", "w"): _SIDES,
}
_LAID_OUT = {
    1: (_BATCH,),
    2: (_BATCH, _LENGTHS),
    3: (_BATCH, _LENGTHS, _LENGTHS),
    4: (_BATCH, _CHANNELS, _SIDES, _SIDES),
    5: (_BATCH, _CHANNELS, (16, 8), (112, 32), (112, 32)),
}
_ANY_RANK = (1, 3, 224, 224)
_TRIED = 8  # shapes that are tried before one is suggested


def by_input(inputs: Inputs, shapes: Shapes) -> Shapes:
    """Shapes of inputs, where dimensions were given by their names (`batch=2`), or by the shape of
    another input: an input whose every open dimension is known that way has its shape."""
    named, sizes = _named(inputs, shapes), _sizes(inputs, shapes)
    used: set[str] = set()
    found: dict[str, tuple[int, ...]] = {n: s for n, s in shapes.items() if n not in named}
    for name, kind in inputs.items():
        wanted = {t for d in kind.shape or () for t in _terms(d) if t in sizes}
        if name in found or not wanted:
            continue
        used |= wanted
        extents = [_extent(d, sizes) for d in kind.shape or ()]
        if all(extent is not None for extent in extents):
            found[name] = tuple(extent for extent in extents if extent is not None)
    known = {t for kind in inputs.values() for d in kind.shape or () for t in _terms(d)}
    return {**found, **{n: shapes[n] for n in named if n not in used and n not in known}}


def named_dims(inputs: Inputs) -> list[str]:
    """Names of open dimensions, each once; those that are sums of others left out."""
    every = (t for kind in inputs.values() for d in kind.shape or () for t in _terms(d))
    return list(dict.fromkeys(every))


def open_message(
    inputs: Inputs, shapes: Shapes, said: Shapes, refused: Callable[[Shapes], str]
) -> str:
    """Which dimensions are open, and the options that close them: with sizes that the network
    takes, as far as some are found (`refused` says why it does not take others). `shapes` are those
    of inputs that are known, `said` is all that was given."""
    left = {name: kind for name, kind in inputs.items() if _open(kind) and name not in shapes}
    tries = list(_suggestions(left, _sizes(inputs, said)))
    faults: list[str] = []
    for found, _ in tries:
        faults.append(refused({**shapes, **found}))
        if not faults[-1]:
            break
    found, named = tries[0 if faults[-1] else len(faults) - 1]
    told = [f"'{name}' is [{_written(kind.shape)}]" for name, kind in left.items()]
    options = [f"{name}={','.join(map(str, shape))}" for name, shape in {**shapes, **found}.items()]
    by_name = ""
    if named and all(d is not None for kind in left.values() for d in kind.shape or (None,)):
        kept = [f"{n}={','.join(map(str, s))}" for n, s in said.items() if n in inputs]
        every = [*kept, *(f"{name}={extent}" for name, extent in named.items())]
        by_name = f", or by name: {_pasted(every)}"
    still = "still " if said else ""
    if faults[-1]:  # what is known not to fit is no advice
        closed = dict.fromkeys(found, "SIZES") | {
            n: ",".join(map(str, s)) for n, s in shapes.items()
        }
        wanted = _pasted([f"{name}={sizes}" for name, sizes in closed.items()])
        return (
            f"input dimensions are {still}open: {'; '.join(told)}. Fix them with {wanted} (in "
            f"Python shapes={{...}}); none of the sizes tried fits: with {_pasted(options)}, "
            f"{faults[0]}"
        )
    in_python = ", ".join(f"{name!r}: {shape}" for name, shape in {**shapes, **found}.items())
    return (
        f"input dimensions are {still}open: {'; '.join(told)}. Fix them, e.g. "
        f"{_pasted(options)}{by_name} (in Python shapes={{{in_python}}})"
    )


def _pasted(options: Sequence[str]) -> str:
    """Options as a shell takes them."""
    return " ".join(f"--shape {quote(option)}" for option in options)


def _written(shape: Sequence[Dim] | None) -> str:
    return ",".join("?" if d is None else str(d) for d in shape or ()) or "any rank"


def _open(kind: proto.OpenType) -> bool:
    return kind.shape is None or any(not isinstance(dim, int) for dim in kind.shape)


def _named(inputs: Inputs, shapes: Shapes) -> dict[str, int]:
    """What was given for dimensions by their names."""
    return {n: extent[0] for n, extent in shapes.items() if len(extent) == 1 and n not in inputs}


def _sizes(inputs: Inputs, shapes: Shapes) -> dict[str, int]:
    """The dimensions whose extents are known: from inputs that have them, or by their names."""
    found = {
        dim: extent
        for name, given in shapes.items()
        if name in inputs and len(inputs[name].shape or ()) == len(given)
        for dim, extent in zip(inputs[name].shape or (), given, strict=True)
        if isinstance(dim, str)
    }
    return found | _named(inputs, shapes)


def _terms(dim: Dim) -> list[str]:
    """The dimensions that a named one is made of: itself, or those of a sum, as exporters write
    what grows (`past + sequence`, `past + 1`)."""
    if not isinstance(dim, str):
        return []
    terms = [term.strip() for term in dim.split("+")]
    if not all(re.fullmatch(r"\w+", term) for term in terms):
        return [dim]
    return [term for term in terms if not term.isdecimal()]


def _extent(dim: Dim, named: Mapping[str, int]) -> int | None:
    """What a dimension is, where it or all that it is made of is known."""
    if not isinstance(dim, str):
        return dim
    if dim in named:
        return named[dim]
    terms = [int(t) if t.strip().isdecimal() else named.get(t.strip()) for t in dim.split("+")]
    known = [term for term in terms if term is not None]
    return sum(known) if len(known) == len(terms) else None


def _suggestions(
    inputs: Inputs, given: Mapping[str, int]
) -> Iterator[tuple[Shapes, dict[str, int]]]:
    """Shapes for open inputs, and the named dimensions that make them; likely ones first. What has
    the same name has the same extent everywhere."""
    choices: dict[str, tuple[int, ...]] = {}
    for kind in inputs.values():
        for dim, usual in zip(kind.shape or (), _likely(kind.shape or ()), strict=True):
            for term in _terms(dim):
                if len(usual) > len(choices.get(term, ())):
                    choices[term] = usual
    for number in range(_TRIED):
        named = {
            t: given.get(t, sizes[min(number, len(sizes) - 1)]) for t, sizes in choices.items()
        }
        found: dict[str, tuple[int, ...]] = {}
        for name, kind in inputs.items():
            shape = kind.shape or ()
            usual = [sizes[min(number, len(sizes) - 1)] for sizes in _likely(shape)]
            extents = [_extent(dim, named) for dim in shape]
            pairs = zip(extents, usual, strict=True)
            found[name] = tuple(u if e is None else e for e, u in pairs) or _ANY_RANK
        yield found, named


def _likely(shape: Sequence[Dim]) -> list[tuple[int, ...]]:
    """Extents to begin with: open dimensions as their names say, or as inputs of this rank mostly
    are (images with their channels first, or last where those alone are fixed)."""
    rank = len(shape)
    usual = _LAID_OUT.get(rank, (_BATCH,) * rank)
    if rank == 4 and isinstance(shape[3], int) and shape[3] <= 4 and not isinstance(shape[2], int):
        usual = (_BATCH, _SIDES, _SIDES, (shape[3],))
    found: list[tuple[int, ...]] = []
    for dim, extents in zip(shape, usual, strict=True):
        words = [w for w in re.split(r"[^a-z]+", str(dim).lower()) if w]
        words = words if len(words) == 1 else [w for w in words if len(w) > 1]  # `n_feat`
        named = [sizes for names, sizes in _CALLED.items() if any(w in names for w in words)]
        found.append((dim,) if isinstance(dim, int) else named[0] if named else extents)
    return found
