"""What a tile costs on a core: its loops unrolled over the array, the rest in the best order.

The unrolling is the core file's `dataflows`; without them every legal one is looked at: a loop may
be unrolled over an array dimension if each operand's innermost memory can feed (or take) what the
units below it need in a cycle. Costs depend on shapes alone and are kept by shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod

import numpy as np

from tilewright.manycore.hardware import OPERANDS, CoreKind
from tilewright.manycore.nest import FIELDS, INSIDE, MANY, READ, SIZE, WRITE, best_order
from tilewright.manycore.workload import LOOPS, LayerShape

LOOP_NUMBER = {name: k for k, name in enumerate(LOOPS)}
MOST_FACTORS = 6
"""Loops are permuted in so many factors; more are joined, the smallest first."""
TRIED = 4
"""Unrollings whose orders are looked at: those that need the fewest steps."""
_RELEVANT = {
    "I1": {"B", "G", "OX", "OY", "C", "FX", "FY"},
    "I2": {"K", "G", "C", "FX", "FY"},
    "O": {"B", "K", "G", "OX", "OY"},
}
_MOVES = [loop in _RELEVANT[operand] for operand in OPERANDS for loop in LOOPS]
_POINTWISE = [loop in _RELEVANT["O"] for _ in OPERANDS for loop in LOOPS]
"""Whether a loop changes what it touches of an operand: by operand and loop; for pointwise work."""
_OUTERMOST = {"G": 1, "B": 2}
_WAYS = ("tl", "fh", "fl", "th")

Unrolling = tuple[tuple[str, str, int], ...]
"""Array dimension, loop, factor."""


@dataclass(frozen=True, slots=True)
class TileCost:
    """Cycles and energy (pJ) of a tile, and how it runs: loops over the array, and the order of
    the others, innermost first."""

    cycles: int
    energy: float
    unrolling: Unrolling
    order: tuple[tuple[str, int], ...]


@lru_cache(maxsize=65536)
def tile_cost(core: CoreKind, shape: LayerShape) -> TileCost | None:
    """The best way to run a tile on a core; None where it has no memory for weights."""
    if shape.weights and not core.chain("I2"):
        return None
    best: TileCost | None = None
    seen: set[bytes] = set()
    for steps, unrolling in _candidates(core, shape)[:TRIED]:
        if best is not None and steps > best.cycles:
            break  # nothing waiting, it would take longer: so would all that follow
        memories = _below(core, unrolling)
        if memories.tobytes() in seen:  # the same loops over other dimensions, to the same memories
            continue
        seen.add(memories.tobytes())
        best = _ordered(core, shape, unrolling, memories, best)
    return best


def _candidates(core: CoreKind, shape: LayerShape) -> list[tuple[int, Unrolling]]:
    """The unrolling of the file, or all legal ones, those first that need the fewest steps."""
    if core.dataflow is not None:
        return [(0, _given(core, shape))]
    return sorted(_legal(core, shape))


def _given(core: CoreKind, shape: LayerShape) -> Unrolling:
    """The unrolling of the file, no further than the loops go; pools have their channels in G."""
    extents = dict(zip(LOOPS, shape.extents, strict=True))
    found: list[tuple[str, str, int]] = []
    for dimension, loops in core.dataflow or ():
        for name, factor in loops:
            loop = {"D": "OY", "H": "G"}.get(name, name)
            if loop == "K" and extents.get("K") == 1 and extents.get("G", 1) > 1:
                loop = "G"
            if loop in extents and extents[loop] > 1 and factor > 1:
                used = _even(extents[loop], factor)
                extents[loop] = ceil(extents[loop] / used)
                found.append((dimension, loop, used))
    return tuple(found)


def _even(extent: int, most: int) -> int:
    """The smallest factor with which a loop takes as few steps as with the largest allowed."""
    return ceil(extent / ceil(extent / most))


def _legal(core: CoreKind, shape: LayerShape) -> list[tuple[int, Unrolling]]:
    """One loop at most for each array dimension, each loop once, as far as every operand's
    innermost memory can keep up with the units below it; with the steps that are left."""
    extents = dict(zip(LOOPS, shape.extents, strict=True))
    loops = [loop for loop in LOOPS if extents[loop] > 1]
    innermost = [(core.chain(operand) or core.chain("I1"))[0] for operand in OPERANDS]
    begun: list[tuple[int, Unrolling, int, int, int]] = [(shape.macs, (), *_fed(core, shape))]
    for dimension, size in core.dimensions:
        fed = [dimension in core.levels[n].serves for n in innermost]
        choices: list[tuple[str, int, int, int, int, int]] = []
        for loop in loops:
            factor = _even(extents[loop], size)
            below = [
                factor if there and loop in _RELEVANT[operand] else 1
                for there, operand in zip(fed, OPERANDS, strict=True)
            ]
            if factor > 1:
                rest = ceil(extents[loop] / factor)
                choices.append((loop, factor, rest, below[0], below[1], below[2]))
        for steps, unrolling, inputs, weights, outputs in begun[:]:
            taken = [loop for _, loop, _ in unrolling]
            for loop, factor, rest, a, b, c in choices:
                if loop not in taken and a <= inputs and b <= weights and c <= outputs:
                    more = (*unrolling, (dimension, loop, factor))
                    left = inputs // a, weights // b, outputs // c
                    begun.append((steps // extents[loop] * rest, more, *left))
    return [(steps, unrolling) for steps, unrolling, *_ in begun]


def _fed(core: CoreKind, shape: LayerShape) -> tuple[int, int, int]:
    """Elements of every operand that its innermost memory passes to or from the array in a cycle:
    one at least."""
    widths = (shape.input_bits, shape.weight_bits, partial_bits(shape))
    found: list[int] = []
    for operand, width in zip(OPERANDS, widths, strict=True):
        level = core.levels[(core.chain(operand) or core.chain("I1"))[0]]
        port = level.port(operand, "fl" if operand == "O" else "tl")
        rate = port.bandwidth if port is not None else max(p.bandwidth for p in level.ports)
        found.append(max(1, rate // width))
    return found[0], found[1], found[2]


def partial_bits(shape: LayerShape) -> int:
    """Bits of a sum that is not complete: those of a product, or of the result where more."""
    return max(shape.output_bits, shape.input_bits + shape.weight_bits)


def _factors(shape: LayerShape, unrolling: Unrolling) -> list[tuple[int, str]]:
    """What is left of every loop, in prime factors; joined where there are too many. Groups and
    images come last: where there are more loops than are permuted, they stay outside."""
    rest = dict(zip(LOOPS, shape.extents, strict=True))
    for _, loop, factor in unrolling:
        rest[loop] = ceil(rest[loop] / factor)
    found = {loop: _primes(extent) for loop, extent in rest.items() if extent > 1}
    for _ in range(sum(map(len, found.values())) - MOST_FACTORS):
        most = max(found, key=lambda loop: len(found[loop]))
        if len(found[most]) == 1:
            break
        first, second, *others = found[most]
        found[most] = sorted((first * second, *others))
    inner = [loop for loop in found if loop not in _OUTERMOST]
    outer = sorted((loop for loop in found if loop in _OUTERMOST), key=_OUTERMOST.__getitem__)
    return [(factor, loop) for loop in (*inner, *outer) for factor in found[loop]]


def _primes(number: int) -> list[int]:
    """Prime factors, of a number near by where it has a large one: loops may be cut unevenly."""
    found: list[int] = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return [*found, number] if number > 1 else found


def _ordered(
    core: CoreKind,
    shape: LayerShape,
    unrolling: Unrolling,
    memories: np.ndarray,
    best: TileCost | None,
) -> TileCost:
    """The best order of the loops that are not unrolled; the best so far, where none is better."""
    factors = _factors(shape, unrolling)
    coded = [factor * 8 + LOOP_NUMBER[loop] for factor, loop in factors]
    inner, outer = sorted(coded[:MOST_FACTORS]), coded[MOST_FACTORS:]
    codes = sorted(set(inner))
    # Along a systolic dimension the last results leave the array a cycle per unit later.
    drain = sum(factor - 1 for dimension, _, factor in unrolling if dimension in core.systolic)
    computing = core.unit_pj * shape.macs
    least = np.full(2, np.inf)
    if best is not None:
        least[:] = best.cycles - drain, best.energy - computing
    order = np.empty(len(inner), np.int64)
    found = best_order(
        memories,
        _facts(core, shape, prod(factor for factor, _ in factors)),
        _tables(core)[1],
        np.array(codes, np.int64),
        np.array([inner.count(code) for code in codes], np.int64),
        np.array(outer, np.int64),
        least,
        order,
    )
    if best is not None and not found:
        return best
    loops = tuple((LOOPS[c % 8], c // 8) for c in (*order.tolist(), *outer))
    return TileCost(int(least[0]) + drain, float(least[1]) + computing, unrolling, loops)


def _facts(core: CoreKind, shape: LayerShape, steps: int) -> np.ndarray:
    """A tile as the compiled search wants it."""
    pointwise = _pointwise(shape)
    chains = [len(core.chain(operand)) for operand in OPERANDS]
    chains[1] *= shape.weights
    widths = (shape.input_bits, shape.weight_bits, shape.output_bits, partial_bits(shape))
    moves = _POINTWISE if pointwise else _MOVES
    return np.array(
        (*shape.stride, *shape.dilation, *widths, steps, pointwise, *chains, *moves), np.float64
    )


def _pointwise(shape: LayerShape) -> bool:
    """Whether results depend on one element of each operand."""
    extents = dict(zip(LOOPS, shape.extents, strict=True))
    return extents["C"] * extents["FX"] * extents["FY"] == 1 and extents["G"] > 1


def _below(core: CoreKind, unrolling: Unrolling) -> np.ndarray:
    """Every operand's memories, with the spatial extents below one, and how many work."""
    memories = _tables(core)[0].copy()
    for row, operand in enumerate(OPERANDS):
        for depth, number in enumerate(core.chain(operand)):
            serves = core.levels[number].serves
            for dimension, loop, factor in unrolling:
                column = INSIDE + LOOP_NUMBER[loop] if dimension in serves else MANY
                memories[row, depth, column] *= factor
    return memories


@lru_cache(maxsize=256)
def _tables(core: CoreKind) -> tuple[np.ndarray, int]:
    """Sizes, ports and prices of every operand's memories, nothing unrolled; how many ports."""
    memories = np.zeros((3, len(core.levels), FIELDS))
    memories[:, :, MANY:] = 1
    ports: dict[tuple[int, str], int] = {}
    for row, operand in enumerate(OPERANDS):
        for place, number in enumerate(core.chain(operand)):
            level = core.levels[number]
            memories[row, place, SIZE] = level.size
            memories[row, place, READ], memories[row, place, WRITE] = level.read_pj, level.write_pj
            for k, way in enumerate(_WAYS):
                port = level.port(operand, way) or level.ports[0]
                key = ports.setdefault((number, port.name), len(ports))
                memories[row, place, 1 + 3 * k : 4 + 3 * k] = port.bandwidth, port.least, key
    return memories, len(ports)


def core_costs(
    cores: Sequence[CoreKind], shapes: Sequence[LayerShape]
) -> tuple[np.ndarray, np.ndarray]:
    """Cycles and energy of every shape on every core; -1 cycles where it cannot run."""
    cycles = np.full((len(shapes), len(cores)), -1, np.int64)
    energy = np.zeros((len(shapes), len(cores)), np.float64)
    for row, shape in enumerate(shapes):
        for column, core in enumerate(cores):
            found = tile_cost(core, shape)
            if found is not None:
                cycles[row, column], energy[row, column] = found.cycles, found.energy
    return cycles, energy
