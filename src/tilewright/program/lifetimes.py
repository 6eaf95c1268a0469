"""How long buffers are held: until their last user in program order, and somewhat longer where that
lets engines overlap.

What a copy out of a core reads is held while the core computes on: the next result would otherwise
be given its bytes, and have to wait for the copy. In groups whose tiles overlap on two engines,
what an operator uses last is held until its engine goes on to its next task, or the other engine
would wait for bytes that are still being read. Both take room, and are given up group by group
where there is not enough.
"""

from collections.abc import Mapping, Sequence

from tilewright.machine.machine import Machine
from tilewright.program.program import Compute, Task, Transfer

Ahead = Mapping[int, int]
"""Group -> how many of the next operators on a core go on beside a copy out of it; a group with
none, or that is not listed, holds nothing longer than its order says."""

MOST_AHEAD = 2


def ends(
    tasks: Sequence[Task], machine: Machine, ahead: Ahead, *, engines: bool = True
) -> Mapping[int, int]:
    """For some tasks: up to which task (by place in the sequence) what they use last is held. Other
    tasks release at once and are not listed. `engines`: whether two engines of a core overlap."""
    held: dict[int, int] = {}
    homes = {memory.name: core.name for core in machine.cores for memory in core.memories}
    cores = {engine.name: engine.core for engine in machine.engines}
    following: dict[str, list[int]] = {core.name: [] for core in machine.cores}
    for place in range(len(tasks) - 1, -1, -1):
        task = tasks[place]
        if isinstance(task.work, Compute) and task.engine in cores:
            row = following[cores[task.engine]]
            row.insert(0, place)
            del row[MOST_AHEAD:]
        elif isinstance(task.work, Transfer) and task.work.route[0] in homes:
            row = following[homes[task.work.route[0]]][: ahead.get(task.group, 0)]
            if row:
                held[place] = row[-1]
    if engines:
        held.update(_overlapping(tasks, cores, ahead))
    return held


def _overlapping(
    tasks: Sequence[Task], cores: Mapping[str, str], ahead: Ahead
) -> Mapping[int, int]:
    """The operators of groups that overlap two engines of a core."""
    engines: dict[tuple[int, str], set[str]] = {}
    for task in tasks:
        if isinstance(task.work, Compute) and task.engine in cores:
            engines.setdefault((task.group, cores[task.engine]), set()).add(task.engine)
    following: dict[tuple[int, str], int] = {}
    held: dict[int, int] = {}
    for place in range(len(tasks) - 1, -1, -1):
        task = tasks[place]
        if not isinstance(task.work, Compute) or task.engine not in cores:
            continue
        if len(engines[task.group, cores[task.engine]]) < 2 or not ahead.get(task.group, 0):
            continue
        key = (task.group, task.engine)
        if key in following:
            held[place] = following[key] - 1
        following[key] = place
    return held
