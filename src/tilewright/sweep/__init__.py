"""Sweeps: machines, networks and objectives as a space, every point planned and kept.

from tilewright.sweep import sweep
swept = sweep("space.yaml", "out")
swept.answers.fronts
"""

from tilewright.sweep.api import Swept, find_point, results, sweep, write_answers

__all__ = ["Swept", "find_point", "results", "sweep", "write_answers"]
