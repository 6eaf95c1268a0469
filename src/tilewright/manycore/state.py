"""Where everything lies in the two arrays of the evaluator.

Compiled code that passes many arrays about takes minutes to compile. So all that an evaluation
reads is one array of integers (`net`), all that it changes another (`st`), and `at` says where in
them each column begins; tables are stored row by row.
"""

from typing import Any

Column = Any
"""An array of integers as compiled code sees it: its elements are plain integers."""

NEVER = 2**60
POOL = 96
"""Released bytes are remembered by time in so many portions a memory; older ones are joined."""

FULL, TOO_SMALL, BEYOND = 1, 2, 3
"""Faults: the record is full; a tile does not fit in a memory; later than the limit."""

COMPUTE, COPY = 0, 1
AVOID = 1
"""Policy: pieces pass between cores on carriers that do not lead outside, where there are such."""

# Positions in `at`: numbers.
PARTS = 0
TILES = 1
PIECES = 2
PLACES = 3
CORES = 4
CARRIERS = 5
ROOM = 6  # tasks that can be recorded, and gaps of a carrier
UNIT = 7  # bits
WRITE_FINAL = 8
POLICY = 9
LIMIT = 10

# Positions in `at`: where columns of `net` begin.
PART_FIRST = 11
PART_LAYER = 12
TILE_SHAPE = 13
READ_START = 14
READS = 15
WRITE_START = 16
WRITES = 17
SIZE = 18
MAKER = 19
WEIGHT = 20
FINAL = 21
USE_START = 22
USE_PART = 23
USE_FIRST = 24
USE_LAST = 25
USE_COUNT = 26
RANK = 27
PLACE_CORE = 28
INPUT_PLACE = 29
WEIGHT_PLACE = 30
OUTPUT_PLACE = 31
WAY_START = 32  # [source, target]
WAY_COUNT = 33
WAY_CARRIER = 34
WAY_BITS = 35
WAY_AVOIDED = 36
NEXT_HOP = 37  # [source, target]
BUS = 38
BUS_WAY = 39  # [way, target] -> way of the same carrier and source to that target, or -1
CYCLES = 40  # [shape, core]

# Positions in `at`: where columns of `st` begin; those up to FRESH have values at the start.
FAULT = 41
FAULT_TILE = 42
FAULT_PLACE = 43
SPILLS = 44
TASKS = 45
NEEDS = 46
TARGETS = 47
CORE_FREE = 48
GAP_COUNT = 49
POOL_COUNT = 50
FREE = 51
HELD_COUNT = 52  # memory -> copies in it
ARRIVE = 53  # [piece, memory] -> when it is there, -1: not
LAST = 54  # when its last use so far is over
LAST_TASK = 55
BRING = 56  # the task that brought it
USES = 57  # tiles of the memory's core that still read it
PINNED = 58  # the tile that it was last fetched for
WANTED = 59  # piece -> memories that need it and have it not
DONE = 60  # tile
READY = 61  # part -> when the inputs of its next tile can be there
WAITER = 62  # tile -> the first of the parts that wait for it
FETCHED = 63
POOL_TIME = 64
POOL_SIZE = 65
POOL_GATE = 66
FRESH = 67
FOLLOWING = 68  # part -> its next tile
CORE_OF = 69  # part -> core
HELD = 70  # [memory, n] -> pieces with a copy in it
POSITION = 71  # [piece, memory] -> where in that list
NEXT_WAITER = 72  # part -> the next part that waits for the same tile
ACTIVE = 73  # the parts that can go on
GAP_START = 74
GAP_END = 75
TASK_KIND = 76
TASK_ENGINE = 77
TASK_ITEM = 78
TASK_START = 79
TASK_END = 80
TASK_WAY = 81
TARGET_START = 82
TARGET_LIST = 83
NEED_START = 84
NEED_LIST = 85
END = 86
