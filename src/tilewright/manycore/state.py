"""Where everything lies in the two arrays of the evaluator.

Compiled code that passes many arrays about takes minutes to compile. So all that an evaluation
reads is one array of integers (`net`), all that it changes another (`st`), and `at` says where in
them each column begins; tables are stored row by row. Copies of pieces are records of `RECORD`
integers, so that what is asked of one lies together.
"""

from typing import Any

Column = Any
"""An array of integers as compiled code sees it: its elements are plain integers."""

NEVER = 2**60
POOL = 256
"""Released bytes are remembered by time in so many portions a memory; older ones are joined."""

FULL, TOO_SMALL, BEYOND = 1, 2, 3
"""Faults: the record is full; a tile does not fit in a memory; later than the limit."""

COMPUTE, COPY = 0, 1

# Of a copy: when it is there (-1: not); when its last use so far is over, and the task that uses
# it; the task that brought it; tiles of the memory's core that still read it; the tile that it was
# last fetched for; where in the list of the memory's copies it stands.
ARRIVE, LAST, LAST_TASK, BRING, USES, PINNED, POSITION, RECORD = range(8)

# Positions in `at`: numbers.
(
    PARTS,
    TILES,
    PIECES,
    PLACES,
    CORES,
    CARRIERS,
    ROOM,  # tasks that can be recorded, and gaps of a carrier
    WRITE_FINAL,
    AVOID,  # pieces pass between cores on carriers that do not lead outside, where there are such
    WINDOW,  # how many tiles of the depth-first order are looked at
    LIMIT,
) = range(11)

# Positions in `at`: where columns of `net` begin.
(
    PART_FIRST,
    PART_LAYER,
    TILE_SHAPE,
    READ_START,
    READS,  # twice the piece, and one more where it is of weights
    WRITE_START,
    WRITES,
    SIZE,
    MAKER,
    WEIGHT,
    FINAL,
    USE_START,
    USE_PART,
    USE_FIRST,
    USE_LAST,
    USE_COUNT,
    RANK,
    BY_RANK,  # tiles in the order of their ranks
    PLACE_CORE,
    INPUT_PLACE,  # core -> memory of inputs, memory of weights
    OUTPUT_PLACE,
    WAY_START,  # [source, target]
    WAY_COUNT,
    WAY_CARRIER,
    WAY_LENGTHS,  # way -> where in LENGTHS its cycles by piece begin
    WAY_AVOIDED,
    NEXT_HOP,  # [source, target]
    BUS,
    BUS_WAY,  # [way, target] -> way of the same carrier and source to that target, or -1
    SHORTEST,  # carrier -> cycles of the shortest copy it can carry
    LENGTHS,  # [rate, piece] -> cycles
    CYCLES,  # [shape, core]
) = range(11, 43)

# Positions in `at`: where columns of `st` begin; those up to FRESH have values at the start.
(
    FAULT,
    FAULT_TILE,
    FAULT_PLACE,
    SPILLS,
    DROPS,  # copies that were let go though somebody needs them
    TASKS,
    NEEDS,
    TARGETS,
    CORE_FREE,
    GAP_COUNT,
    POOL_COUNT,
    FREE,
    HELD_COUNT,  # memory -> copies in it
    COPIES,  # [piece, memory] -> record
    WANTED,  # piece -> memories that need it and have it not
    DONE,  # tile
    READY,  # part -> when the inputs of its next tile can be there
    WAITER,  # tile -> the first of the parts that wait for it
    FETCHED,  # part -> DROPS when the inputs of its next tile were all there, -1: they are not
    POOL_TIME,
    POOL_SIZE,
    POOL_GATE,
    FRESH,
    FOLLOWING,  # part -> its next tile
    CORE_OF,  # part -> core
    HELD,  # [memory, n] -> pieces with a copy in it
    NEXT_WAITER,  # part -> the next part that waits for the same tile
    ACTIVE,  # the parts that can go on
    GAP_START,
    GAP_END,
    TASK_KIND,
    TASK_ENGINE,
    TASK_ITEM,
    TASK_START,
    TASK_END,
    TASK_WAY,
    TARGET_START,
    TARGET_LIST,
    NEED_START,
    NEED_LIST,
    END,
) = range(43, 84)
