"""From columns in program order to addresses and times: the steps behind the passes that work
within groups, and how they are repeated where a scratchpad is short."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tilewright.memory import Buffer as Rectangle
from tilewright.memory import Misfit, MisfitReason, Problem, allocate, lower_bound
from tilewright.program.columns import COPY, Columns, Hardware, Needs
from tilewright.program.kernels.dispatch import Rates, by_urgency
from tilewright.program.kernels.link import link
from tilewright.program.kernels.live import least_live
from tilewright.program.kernels.order import (
    Issued,
    in_place,
    issued_on,
    issued_order,
    own_places,
    permuted,
    renumbered,
)
from tilewright.program.kernels.prefetch import Loads, find_loads, held_until, late_loads
from tilewright.program.kernels.reuse import (
    Users,
    byte_waits,
    needed_waits,
    peaks_of,
    place_main,
    users_of,
    with_waits,
)
from tilewright.program.kernels.space import Space, find_space, find_standing, held_over
from tilewright.program.tables import Tables
from tilewright.schedule.kernel import run
from tilewright.schedule.problem import Flags, Ids, Quantities

STEPS = 2  # so often only what is held where something found no room is given up
WIDER = 4  # groups on either side that then give up what they hold too; then so many times as many
NODES = 1000  # of the exact search, where greedy addresses do not fit


@dataclass(frozen=True, slots=True)
class Switches:
    """The steps behind the passes within groups that can be left out: loads ahead of their use,
    copies dealt out over the links. `overlapping`: engines of a core work on neighbouring tiles;
    `hold`: so many operators may go on beside a copy out of their core, whose bytes are held for as
    long."""

    prefetch: bool = True
    queues: bool = True
    overlapping: bool = True
    hold: int = 2


@dataclass(frozen=True, slots=True)
class Timed:
    """A program with addresses and times. Rows are in the order the tasks are issued: `order` are
    their numbers in the columns, `needs` what each waits for by its data, `waits` also by reused
    bytes. `tables` are what numbers in the columns mean; `ways` tells how often it was run to
    compare results in place with those that are not."""

    tables: Tables
    columns: Columns
    order: Ids
    needs: Needs
    waits: Needs
    issued: Issued
    address: Quantities
    highest: Quantities
    most_live: Quantities
    start: Quantities
    end: Quantities
    ways: int = 1

    @property
    def makespan(self) -> int:
        """When the last task ends."""
        return int(self.end.max(initial=0))


@dataclass(frozen=True, slots=True)
class Refused:
    """A program that does not fit, and during which groups."""

    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class Short(Refused):
    """The same with the reason: in which memory, why, and in which order."""

    memory: int
    misfit: Misfit
    order: Ids
    needs: Needs


def timed(
    columns: Columns, tables: Tables, switches: Switches, *, explained: bool = True
) -> Timed | Refused:
    """Link, issue loads ahead, find addresses, deal out copies, simulate. Where there is not room
    for all that would be held, results are also put over operands that die, and the faster counts,
    or only that where else whole groups would have to hold less. Where no order of the loads leaves
    enough room, none is looked for, unless that shall be `explained`: then it is `Short`."""
    needs = link(columns, tables.views)
    roomed = partial(_roomed, tables=tables, needs=needs, switches=switches)
    if not (columns.over >= 0).any():
        return _run(roomed(columns, explained=explained), tables, needs, switches)
    plain = roomed(columns, explained=explained, by_group=False)
    if not plain.tight:
        return _run(plain, tables, needs, switches)
    over = roomed(in_place(columns), explained=False)
    if over.short:
        return _run(roomed(columns, explained=explained), tables, needs, switches)
    if plain.short:  # in place there are addresses for all
        found = _run(over, tables, needs, switches)
        if isinstance(found, Refused):
            found = _run(roomed(columns, explained=explained), tables, needs, switches)
        return found
    ways = [_run(way, tables, needs, switches, both=False) for way in (plain, over)]
    found = min(ways, key=_end)
    return replace(found, ways=len(ways)) if isinstance(found, Timed) else found


@dataclass(frozen=True, slots=True)
class _Roomed:
    """A program with room for what it holds: `space` is none where the `crowded` memories are too
    small, whatever is done `during` some groups, or has places at which something is short.
    `ahead`: what groups hold beyond their use; `tight`, that there is not room for all of that."""

    columns: Columns
    loads: Loads
    crowded: list[int]
    during: frozenset[int]
    space: Space | None
    ahead: Ids
    tight: bool

    @property
    def short(self) -> bool:
        """Whether not all has an address."""
        return self.space is None or bool(self.space.short.any())


def _roomed(
    columns: Columns,
    tables: Tables,
    needs: Needs,
    switches: Switches,
    *,
    explained: bool,
    by_group: bool = True,
) -> _Roomed:
    """Room for what is loaded and computed: groups without hold less at once, step by step, as long
    as not whole groups have to (unless that is so `by_group`); at last none holds more than the
    order says."""
    loads = find_loads(columns, tables.copies, needs, tables.hardware)
    if not switches.prefetch:
        loads = loads._replace(wanted=own_places(columns.tasks, loads))
    at_once = np.arange(loads.rest.size, dtype=np.int32)
    live, short = least_live(columns, tables.hardware, loads, at_once)
    crowded = [m for m in _scratchpads(tables.hardware) if live[m] > tables.hardware.usable[m]]
    during = _groups_at(columns, loads, short) if crowded else frozenset[int]()
    hold = switches.hold if switches.prefetch and not crowded else 0
    copies = columns.kind[loads.rest] == COPY
    wish = np.where(copies, hold, min(hold, 1)).astype(np.int32)  # others hold something or do not
    if crowded and not explained:
        return _Roomed(columns, loads, crowded, during, None, wish, tight=True)
    ahead, space = _with_room(columns, tables, loads, wish, switches, by_group)
    tight = bool(space.short.any()) or not np.array_equal(ahead, wish)
    return _Roomed(columns, loads, crowded, during, space, ahead, tight)


def _run(
    way: _Roomed, tables: Tables, needs: Needs, switches: Switches, *, both: bool = True
) -> Timed | Refused:
    """A program in its room. Where loads come late and come earlier with another way to make room,
    the faster of `both` counts, or only the other is simulated."""
    if way.space is None:
        return Refused(way.during)
    columns, loads, crowded = way.columns, way.loads, way.crowded
    other = None
    if switches.prefetch and switches.hold and not crowded:
        other = _roomier(columns, tables, loads, way.space, way.ahead, switches)
    spaces = [way.space] if other is None else [way.space, other] if both else [other]
    found = (_in_space(columns, tables, needs, loads, s, crowded, switches) for s in spaces)
    return min(found, key=_end)


def _end(found: Timed | Refused) -> float:
    """When it ends, if it fits."""
    return found.makespan if isinstance(found, Timed) else np.inf


def _with_room(
    columns: Columns,
    tables: Tables,
    loads: Loads,
    ahead: Ids,
    switches: Switches,
    by_group: bool,
) -> tuple[Ids, Space]:
    """Addresses, and how many operators each position holds something beside: as given. Where there
    is no room, first only what is held there gives way, then, `by_group`, all that its groups hold,
    and more and more of their neighbours: at last all."""
    step = near = 0
    while True:
        held, ahead = _held(columns, tables, loads, ahead, switches)
        space = _space(columns, tables, loads, held)
        if not space.short.any() or not ahead.any():
            return ahead, space
        over = held_over(columns, loads, held, space.short)
        fewer = ahead - over
        if step >= STEPS or not over.any():
            if not by_group:
                return ahead, space
            fewer = ahead
        while np.array_equal(fewer, ahead):
            fewer = ahead * ~_near_groups(columns, loads, space.short, near)
            near = WIDER * (near + 1)
        ahead = fewer
        step += 1


def _held(
    columns: Columns, tables: Tables, loads: Loads, ahead: Ids, switches: Switches
) -> tuple[Ids, Ids]:
    """Up to which position each holds what it uses, and beside how many operators: as given, or
    less where the bytes alone are too many, whatever their addresses."""
    while True:
        held = held_until(columns, tables.hardware, loads.rest, ahead, switches.overlapping)
        _, short = least_live(columns, tables.hardware, loads, held)
        over = held_over(columns, loads, held, short) if short.any() else short[0, :-1]
        if not over.any():
            return held, ahead
        ahead = ahead - over


def _in_space(
    columns: Columns,
    tables: Tables,
    needs: Needs,
    loads: Loads,
    space: Space,
    crowded: list[int],
    switches: Switches,
) -> Timed | Short:
    """The run with these addresses and this order of the loads."""
    order = issued_order(columns.tasks, loads, space.issue)
    ordered, valid = renumbered(order, needs)
    if not valid:
        ordered = link(permuted(columns, order), tables.views)
    users = users_of(columns, order)
    if space.short.any() or loads.idle.size:
        memories = crowded or _scratchpads(tables.hardware)
        misfit = _allocated(columns, tables, users, space.address, memories)
        if misfit is not None:
            return _short(columns, order, ordered, misfit, _groups_at(columns, loads, space.short))
    return _simulated(columns, tables, order, ordered, users, space.address, switches.queues)


def _roomier(
    columns: Columns, tables: Tables, loads: Loads, space: Space, ahead: Ids, switches: Switches
) -> Space | None:
    """Another way to make room, where loads come late and come earlier so: the groups that they
    wait for hold the results of one operator less, and what a single task uses lies apart."""
    group = columns.group[loads.rest]
    groups = int(group.max(initial=0)) + 1
    late = late_loads(columns, tables.copies, tables.hardware, loads, space.issue, groups)
    if late.cycles == 0:
        return None
    fewer = ahead - (late.groups[group] & (ahead > 1)).astype(np.int32)
    held = held_until(columns, tables.hardware, loads.rest, fewer, switches.overlapping)
    standing = find_standing(columns, tables.hardware, loads, held)
    if standing.short.any():
        return None
    other = find_space(columns, tables.hardware, loads, standing, apart=True)
    if other.short.any():
        return None
    less = late_loads(columns, tables.copies, tables.hardware, loads, other.issue, groups)
    return other if less.cycles < late.cycles else None


def timed_in_order(columns: Columns, tables: Tables, *, deal: bool) -> Timed | Short:
    """The same for a program whose order is settled: addresses and times."""
    order = np.arange(columns.tasks, dtype=np.int32)
    needs = link(columns, tables.views)
    users = users_of(columns, order)
    address = np.full(columns.memory.size, -1, np.int64)
    misfit = _allocated(columns, tables, users, address, _scratchpads(tables.hardware))
    if misfit is not None:
        return _short(columns, order, needs, misfit, frozenset())
    return _simulated(columns, tables, order, needs, users, address, deal)


def _space(columns: Columns, tables: Tables, loads: Loads, held: Ids) -> Space:
    """Loads as in a ring; or where that is short of room and the other way is not, those of a
    single task apart from those that stay."""
    standing = find_standing(columns, tables.hardware, loads, held)
    ring = find_space(columns, tables.hardware, loads, standing, apart=False)
    if standing.short.any() or not ring.short.any():
        return ring
    other = find_space(columns, tables.hardware, loads, standing, apart=True)
    return ring if other.short.any() else other


def _scratchpads(hardware: Hardware) -> list[int]:
    """Every memory but the main one."""
    return [memory for memory in range(hardware.home.size) if memory != hardware.main]


def _near_groups(columns: Columns, loads: Loads, short: Flags, near: int) -> Flags:
    """Positions of the groups that run where there is no room for something, and of so many before
    and behind each of them."""
    group = columns.group[loads.rest]
    groups = int(group.max(initial=0)) + 1
    there = np.full(groups + 2 * near, near >= groups)
    for number in _groups_at(columns, loads, short):
        there[number : number + 2 * near + 1] = True
    return there[group + near]


def _groups_at(columns: Columns, loads: Loads, short: Flags) -> frozenset[int]:
    """The groups that run where there is no room for something."""
    places = np.flatnonzero(short[:, :-1].any(axis=0))
    return frozenset(columns.group[loads.rest[places]].tolist())


def _allocated(
    columns: Columns, tables: Tables, users: Users, address: Quantities, memories: list[int]
) -> tuple[int, Misfit] | None:
    """Fill in addresses of some memories by the exact solver, or say which of them is too small:
    one that has too few bytes whatever the addresses, if there is any."""
    used = np.flatnonzero(np.diff(users.start))
    problems: list[tuple[int, list[int], Problem]] = []
    for memory in memories:
        inside: list[int] = used[columns.memory[used] == memory].tolist()
        rows = zip(
            inside,
            users.users[users.start[inside]].tolist(),
            users.users[users.start[np.array(inside, np.int64) + 1] - 1].tolist(),
            columns.size[inside].tolist(),
            columns.alignment[inside].tolist(),
            strict=True,
        )
        rectangles = [Rectangle(str(b), born, last + 1, *rest) for b, born, last, *rest in rows]
        problem = Problem(tuple(rectangles), int(tables.hardware.usable[memory]))
        problems.append((memory, inside, problem))
    problems.sort(key=lambda p: lower_bound(p[2]) <= (p[2].capacity or 0))  # hopeless ones first
    for memory, inside, problem in problems:
        found = allocate(problem, node_limit=NODES, minimise_peak=False)
        if isinstance(found, Misfit):
            buffers = tuple(inside[number] for number in found.buffers)
            return memory, replace(found, buffers=buffers)
        address[inside] = found.offsets
    return None


def _short(
    columns: Columns,
    order: Ids,
    needs: Needs,
    found: tuple[int, Misfit],
    groups: frozenset[int],
) -> Short:
    memory, misfit = found
    window: list[int] = columns.group[order[misfit.start : misfit.stop]].tolist()
    return Short(groups | frozenset(window), memory, misfit, order, needs)


def _simulated(
    columns: Columns,
    tables: Tables,
    order: Ids,
    needs: Needs,
    users: Users,
    address: Quantities,
    deal: bool,
) -> Timed | Short:
    """Deal out copies, order what shares bytes, and let the engines run."""
    hardware = tables.hardware
    top = place_main(columns, hardware, users, columns.tasks, address)
    if top > hardware.usable[hardware.main]:
        misfit = _main_memory_misfit(columns, hardware, users, top)
        return _short(columns, order, needs, (hardware.main, misfit), frozenset())
    bytes_of, sound = byte_waits(columns, hardware, order, needs, users, address)
    assert sound, "buffers that share bytes are live together"
    choice = columns.choice[order].astype(np.int32)
    if deal:
        sequence, choice = _dispatched(columns, tables, order, needs, bytes_of)
        order = order[sequence]
        needs, _ = renumbered(sequence, needs)
        bytes_of, _ = renumbered(sequence, bytes_of)
        users = users_of(columns, order)
    issued = issued_on(columns, tables.copies, order, choice)
    waits = needed_waits(issued.engine, hardware.core_of.size, needs, bytes_of)
    highest, live = peaks_of(columns, hardware, users, columns.tasks, address)
    rates = tables.resources.table
    start, end = np.empty(columns.tasks, np.int64), np.empty(columns.tasks, np.int64)
    run(
        issued.engine,
        issued.duration,
        issued.transfer,
        np.zeros(columns.tasks, np.int64),
        waits.start,
        waits.needs,
        rates.in_order,
        rates.servers,
        rates.pool,
        rates.units_per_byte,
        rates.units_per_cycle,
        rates.pool_units_per_cycle,
        start,
        end,
    )
    return Timed(tables, columns, order, needs, waits, issued, address, highest, live, start, end)


def _dispatched(
    columns: Columns, tables: Tables, order: Ids, needs: Needs, bytes_of: Needs
) -> tuple[Ids, Ids]:
    """The order tasks start in, as places in the given one, and the ways of the copies in it."""
    if not columns.tasks:
        return order, order  # a network that hands its inputs through
    table = tables.resources.table
    rates = Rates(
        table.pool, table.units_per_byte, table.units_per_cycle, table.pool_units_per_cycle
    )
    waits = with_waits(needs, bytes_of)
    found = by_urgency(columns, tables.copies, tables.hardware, rates, order, needs, waits)
    return found.sequence, found.choice[found.sequence]


def _main_memory_misfit(columns: Columns, hardware: Hardware, users: Users, top: int) -> Misfit:
    """The main memory is too small, for all of the run."""
    usable = int(hardware.usable[hardware.main])
    inside = np.flatnonzero(columns.memory == hardware.main).tolist()
    return Misfit(
        start=0,
        stop=columns.tasks,
        capacity=usable,
        live_bytes=top,
        short_by=top - usable,
        reason=MisfitReason.CAPACITY,
        buffers=tuple(inside),
        proven=False,
        nodes=0,
    )
