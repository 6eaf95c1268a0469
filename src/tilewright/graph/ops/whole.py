"""Operators that always run whole, but whose work is known: matrix products that they are made of.

A recurrent layer, an attention, a Fourier transform cannot be cut by one rule per axis; what they
multiply can be counted all the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, log2, prod

from tilewright.graph.ops.spec import Op


@dataclass(frozen=True, slots=True)
class Product:
    """So many products [rows, inner] x [inner, columns]."""

    batch: int
    rows: int
    inner: int
    columns: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all of them."""
        return self.batch * self.rows * self.inner * self.columns


def _recurrent(op: Op) -> tuple[Product, ...]:
    """LSTM, GRU, RNN: all inputs at once, and what is kept of the past step by step. The weights
    hold the gates side by side."""
    x, weight, recurrence = op.shape(0), op.shape(1), op.shape(2)
    batch_first = bool(op.int_of("layout", 0))
    batch, length = (x[0], x[1]) if batch_first else (x[1], x[0])
    directions, gates, inputs = weight
    return (
        Product(directions, length * batch, inputs, gates),
        Product(directions * length, batch, recurrence[2], gates),
    )


def _attention(op: Op) -> tuple[Product, ...]:
    """Scores of queries and keys, and values weighted by them; keys of the past are read too."""
    query, key, value = (op.shape(index) for index in range(3))
    heads, kv_heads = op.int_of("q_num_heads", 0), op.int_of("kv_num_heads", 0)
    if len(query) == 3:
        if not heads or not kv_heads:
            return ()
        batch, rows, depth = query[0], query[1], query[2] // heads
        columns, width = key[1], value[2] // kv_heads
    else:
        batch, heads, rows, depth = query
        columns, width = key[2], value[3]
    if op.has(4):
        columns += op.shape(4)[2]
    return (
        Product(batch * heads, rows, depth, columns),
        Product(batch * heads, rows, columns, width),
    )


def _einsum(op: Op) -> tuple[Product, ...]:
    """Letters of both operands and the result are a batch; those of the result alone rows and
    columns; the others are summed. More than two operands are multiplied all at once."""
    terms, _, result = op.str_of("equation", "").replace(" ", "").partition("->")
    operands = terms.split(",")
    if len(operands) != len(op.inputs) or len(operands) < 2:
        return ()
    extents: dict[str, int] = {}
    letters: list[set[str]] = []
    for index, term in enumerate(operands):
        shape = op.shape(index)
        before, dots, after = term.partition("...")
        hidden = [f"...{k}" for k in range(len(shape) - len(before) - len(after), 0, -1)]
        names = [*before, *(hidden if dots else ()), *after]
        if len(names) != len(shape):
            return ()
        letters.append(set(names))
        for name, extent in zip(names, shape, strict=True):
            extents[name] = max(extent, extents.get(name, 1))
    if "->" not in op.str_of("equation", ""):
        result = "".join(n for n in extents if len(n) == 1 and terms.count(n) == 1)
    kept = {n for n in extents if n in result or n.startswith(".")}

    def size(names: set[str]) -> int:
        return prod(extents[name] for name in sorted(names))

    everything = set(extents)
    if len(operands) > 2:
        return (Product(1, size(kept), size(everything - kept), 1),)
    left, right = letters
    shared = left & right
    columns = (right - left) & kept
    batch = shared & kept
    rows = kept - batch - columns
    return (Product(size(batch), size(rows), size(everything - kept), size(columns)),)


def _butterflies(transforms: int, length: int) -> tuple[Product, ...]:
    """A fast Fourier transform: in each of log2 n stages n/2 complex products, of 2 x 2 numbers."""
    stages = max(1, ceil(log2(max(2, length))))
    return (Product(transforms * stages, max(1, length // 2), 2, 2),)


def _fourier(op: Op) -> tuple[Product, ...]:
    shape, result = op.shape(0), op.result().shape
    axis = op.int_of("axis", 1)
    if op.has(2):
        given = op.value_of(2)
        if given is None:
            return ()
        axis = int(given.reshape(-1)[0])
    axis %= len(shape)
    length = max(shape[axis], result[axis])
    return _butterflies(prod(shape[:-1]) // max(1, shape[axis]), length)


def _short_fourier(op: Op) -> tuple[Product, ...]:
    batch, frames = op.result().shape[:2]
    length = op.value_of(3)
    if length is not None:
        return _butterflies(batch * frames, int(length.reshape(-1)[0]))
    return _butterflies(batch * frames, op.shape(2)[0]) if op.has(2) else ()


def _deformed(op: Op) -> tuple[Product, ...]:
    """A convolution whose window reads where its offsets say: as many products as a plain one."""
    groups = op.int_of("group", 1)
    filters, inner = op.shape(1)[0], prod(op.shape(1)[1:])
    batch, _, *extents = op.result().shape
    return (Product(batch * groups, prod(extents), inner, filters // groups),)


def _packed(op: Op) -> tuple[Product, ...]:
    """A product with weights of few bits, whose shape the attributes tell."""
    inner, columns = op.int_of("K", 0), op.int_of("N", 0)
    return (Product(1, prod(op.shape(0)) // max(1, inner), inner, columns),)


PRODUCTS: Mapping[str, Callable[[Op], tuple[Product, ...]]] = {
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "Attention": _attention,
    "Einsum": _einsum,
    "DFT": _fourier,
    "STFT": _short_fourier,
    "DeformConv": _deformed,
}
# Of onnxruntime's own domain.
RUNTIME_PRODUCTS: Mapping[str, Callable[[Op], tuple[Product, ...]]] = {"MatMulNBits": _packed}
