"""Room for loads: two ways to divide a scratchpad."""

from collections.abc import Sequence

from tilewright.cost.base import WorkKind, Workload
from tilewright.machine.load import load_machine
from tilewright.program.from_program import columns_of
from tilewright.program.program import Buffer, Compute, Program, Task, Transfer, View
from tilewright.program.tables import Tables
from tilewright.program.timed import Refused, Switches, Timed, timed

KIB = 1024


def timed_rows(
    rows: Sequence[tuple[int, str, Sequence[int]]],
    kib: int,
    *,
    result: int = 1,
    stored: bool = False,
) -> Timed | Refused:
    """A program on one core with so many KiB. A row is a task: its group, its result (of so many
    KiB, stored or not), and the KiB of what it reads, each loaded before the first task that
    does."""
    machine = load_machine("mcu").with_memory(kib * KIB)
    (core,) = machine.cores
    main, near = machine.main_memory.name, core.memory.name
    buffers: list[Buffer] = []
    tasks: list[Task] = []
    link = machine.links[0].name

    def view(name: str, memory: str, size: int) -> View:
        buffers.append(Buffer(name, memory, size * KIB, 16))
        return View(len(buffers) - 1, 0, (size * KIB,), (1,), "int8", 1)

    work = Compute((), Workload(WorkKind.VECTOR, "int8", 8))
    known: dict[int, View] = {}
    for group, name, sizes in rows:
        reads: list[View] = []
        for size in sizes:
            if size not in known:
                source = view(f"c{size}", main, size)
                known[size] = view(f"l{size}", near, size)
                route = Transfer((main, near))
                tasks.append(
                    Task(f"load{size}", link, route, (source,), (known[size],), 1, group=group)
                )
            reads.append(known[size])
        made = (view(name, near, result),)
        engine = core.engines[0].name
        tasks.append(Task(f"make {name}", engine, work, tuple(reads), made, 1, group=group))
        if stored:
            there = (view(f"stored {name}", main, result),)
            tasks.append(
                Task(f"store {name}", link, Transfer((near, main)), made, there, 1, group=group)
            )
    program = Program(machine.name, tuple(tasks), tuple(buffers), (), (), ())
    tables = Tables(machine)
    return timed(columns_of(program, tables), tables, Switches())


def test_what_stays_does_not_lie_in_the_middle_where_that_leaves_no_room() -> None:
    rows = [(0, "a", (20,)), (1, "b", (30, 60)), (1, "c", (30, 61)), (1, "d", (30, 62))]
    found = timed_rows(rows, 100)
    assert isinstance(found, Timed)
    stays = found.columns.size.tolist().index(30 * KIB) + 1  # behind its constant
    assert found.address[stays] == 70 * KIB


def test_one_place_without_room_takes_nothing_from_the_rest_of_its_group() -> None:
    rows = [(0, f"r{tile}", (62,) if tile == 6 else (1,)) for tile in range(9)]
    found = timed_rows(rows, 100, result=20, stored=True)
    assert isinstance(found, Timed)
    results = [b for b, size in enumerate(found.columns.size) if size == 20 * KIB]
    near = [int(found.address[b]) for b in results if found.columns.memory[b] != 0]
    first, last = ({*near[tiles]} for tiles in (slice(0, 3), slice(7, 9)))
    assert (len(first), len(last)) == (3, 2)  # stored while the next two are computed
