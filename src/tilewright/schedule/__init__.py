"""Tasks on engines: the simulator and what can be said and checked about its schedules.

Knows integers, not operators: tasks, engines, cycles, bytes.
"""
