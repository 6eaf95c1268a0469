"""Branches of a plan: groups that do not wait for each other, and cores for each of them."""

from collections.abc import Hashable, Iterator, Mapping, Sequence

from tilewright.plan.plan import Place
from tilewright.search.improvement.shape import Shape

Fork = tuple[tuple[int, ...], ...]
"""Branches of a plan, each the numbers of its groups."""


def forks(shape: Shape) -> Iterator[Fork]:
    """Where a plan parts into branches of which none waits for another, the outermost first."""
    count = len(shape.ancestors)
    related = list(shape.ancestors)
    near = [0] * count
    for number, before in enumerate(shape.before):
        related[number] |= 1 << number
        for maker in before:
            near[maker] |= 1 << number
            near[number] |= 1 << maker
    for number in reversed(range(count)):
        for maker in range(number):
            if shape.ancestors[number] >> maker & 1:
                related[maker] |= 1 << number
    yield from _forks(shape, related, near, (1 << count) - 1)


def _forks(shape: Shape, related: list[int], near: list[int], inside: int) -> Iterator[Fork]:
    """The forks of some groups: where they fall into parts, or between two groups that all others
    of them wait for or come before."""
    parts = list(_parts(near, inside))
    if len(parts) > 1:
        fork = tuple(part for mask in parts if _works(shape, part := _bits(mask)))
        if len(fork) > 1:
            yield fork
        for mask in parts:
            yield from _forks(shape, related, near, mask)
        return
    cuts = sum(1 << number for number in _bits(inside) if not inside & ~related[number])
    sections: dict[int, int] = {}
    for number in _bits(inside & ~cuts):
        done = (shape.ancestors[number] & cuts).bit_count()
        sections[done] = sections.get(done, 0) | 1 << number
    for mask in sections.values() if cuts else ():
        yield from _forks(shape, related, near, mask)


def _parts(near: list[int], inside: int) -> Iterator[int]:
    """Groups that lead to each other within a set, set by set."""
    while inside:
        part = new = inside & -inside
        while new:
            found = 0
            for number in _bits(new):
                found |= near[number]
            new = found & inside & ~part
            part |= new
        yield part
        inside &= ~part


def _works(shape: Shape, numbers: Sequence[int]) -> bool:
    return any(shape.plan.groups[number].place is Place.CORES for number in numbers)


def _bits(mask: int) -> tuple[int, ...]:
    return tuple(number for number in range(mask.bit_length()) if mask >> number & 1)


def dealt(works: Sequence[float], cores: Sequence[str], lots: int) -> list[tuple[str, ...]]:
    """The cores of each branch, in so many lots, of which each has cores in proportion to the work
    of its branches; the branches with the most work are dealt first."""
    loads, home = [0.0] * lots, [0] * len(works)
    for branch in sorted(range(len(works)), key=lambda branch: -works[branch]):
        home[branch] = min(range(lots), key=lambda lot: loads[lot])
        loads[home[branch]] += works[branch]
    sizes = [1] * lots
    for _ in range(len(cores) - lots):
        sizes[max(range(lots), key=lambda lot: loads[lot] / sizes[lot])] += 1
    begins = [sum(sizes[:lot]) for lot in range(lots)]
    return [tuple(cores[begins[lot] : begins[lot] + sizes[lot]]) for lot in home]


def quickest(times: Sequence[Sequence[float]]) -> list[int]:
    """The lot of each branch, given what it takes on each: the longest first, each where it is done
    first behind those that are there."""
    loads, home = [0.0] * len(times[0]), [0] * len(times)
    for branch in sorted(range(len(times)), key=lambda branch: -min(times[branch])):
        ends = [load + time for load, time in zip(loads, times[branch], strict=True)]
        home[branch] = min(range(len(ends)), key=lambda lot: ends[lot])
        loads[home[branch]] = ends[home[branch]]
    return home


def abreast(fork: Fork, lots: Sequence[Hashable], works: Mapping[int, float]) -> list[int]:
    """The groups of branches in an order in which all lots come forward alike, the branches of one
    behind each other; `works` are by group."""
    rows: list[tuple[float, int, int]] = []
    for which, lot in enumerate(dict.fromkeys(lots)):
        mine = (branch for branch, home in zip(fork, lots, strict=True) if home == lot)
        numbers = [number for branch in mine for number in branch]
        done, whole = 0.0, sum(works[number] for number in numbers) or 1.0
        for number in numbers:
            rows.append((done / whole, which, number))
            done += works[number]
    return [number for _, _, number in sorted(rows, key=lambda row: row[:2])]
