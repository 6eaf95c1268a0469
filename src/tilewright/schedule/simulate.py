"""The simulator: when every task starts and ends.

Each moment is settled in rounds until nothing more happens in it: all that is due ends, then every
engine starts what it may. Then each pool is divided anew among its active transfers. A transfer
that would end inside a cycle ends, and gives up its share, when the cycle does. The loop is
compiled (`kernel.py`); a twin among the tests says the same in plain Python, to the cycle.
"""

import numpy as np

from tilewright.schedule.kernel import run
from tilewright.schedule.problem import Problem, Schedule


def simulate(problem: Problem) -> Schedule:
    """The schedule that the engines produce when each starts its tasks as early as it may."""
    table = problem.resources.table
    start = np.empty(problem.count, dtype=np.int64)
    end = np.empty(problem.count, dtype=np.int64)
    run(
        problem.engine,
        problem.duration,
        problem.transfer,
        problem.priority,
        problem.need_start,
        problem.needs,
        table.in_order,
        table.servers,
        table.pool,
        table.units_per_byte,
        table.units_per_cycle,
        table.pool_units_per_cycle,
        start,
        end,
    )
    return Schedule(start, end)
