"""How long buffers are held: until their last user in program order, and in groups whose tiles
overlap on two engines until that user's engine goes on to its next task.

Without the second rule the other engine would be given the bytes that are still being read, and
would have to wait: the overlap that the order of tasks allows would be lost to addresses.
"""

from collections.abc import Mapping, Sequence

from tilewright.machine.machine import Machine
from tilewright.program.program import Compute, Task


def ends(tasks: Sequence[Task], machine: Machine) -> Mapping[int, int]:
    """For tasks in groups that overlap two engines of a core: up to which task (by place in the
    sequence) what they use last is held. Other tasks release at once and are not listed."""
    cores = {engine.name: engine.core for engine in machine.engines}
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
        if len(engines[task.group, cores[task.engine]]) < 2:
            continue
        key = (task.group, task.engine)
        if key in following:
            held[place] = following[key] - 1
        following[key] = place
    return held
