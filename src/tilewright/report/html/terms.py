"""Words of the field as the pages explain them, where they stand and in a list at the end."""

from tilewright.search.explanation.explain import RULE_OF_THUMB

TERMS: dict[str, str] = {
    # headline and bounds
    "layer by layer": (
        "Every operator alone: its result goes to the main memory before the next one starts."
    ),
    "greedy merge": "Operators joined one after the other as long as each step pays.",
    "this plan": "What this report is about: its simulated time and its bytes of the main memory.",
    "lower bound": (
        "A time that no plan can undercut, proven from the network and the machine alone. The "
        "strongest of several is compared with the plan."
    ),
    "gap": "How far the plan is above the strongest lower bound.",
    "matrix engines": (
        "Lower bound: all work of the arrays, evenly divided among them and never waiting."
    ),
    "vector engines": (
        "Lower bound: all work of the vector engines, evenly divided and never waiting."
    ),
    "all engines": "Lower bound: all work, each part on the engine that does it fastest.",
    "traffic": (
        "Lower bound: the bytes that have to move from and to the main memory, at its full "
        "bandwidth."
    ),
    "suffix": (
        "Lower bound: what has to happen before the last element of some operator is there, "
        "then everything that can only follow it."
    ),
    "prefix": (
        "Lower bound: what has to be loaded and done before an operator's first element, then "
        "everything that follows it."
    ),
    "chain": (
        "Lower bound: moments that have to wait for each other, one after the other, and what "
        "lies between them."
    ),
    # groups and tensors
    "group": (
        "Operators that run together, tile by tile: what one makes, the next one uses at once."
    ),
    "tile": (
        "One part of a group's result, with all that has to be loaded, computed and stored for it."
    ),
    "grid": "The axes that are cut, and into how many parts: H/4 is four parts of the height.",
    "halo": (
        "Rows that neighbouring tiles both need. The column shows the recomputed share: work that"
        " is done more than once because of them, over the work of the group uncut."
    ),
    "adds cycles": (
        "From the moment all groups before it have ended to its own end. These cycles add up to"
        " the latency."
    ),
    "copies": (
        "Busy share of the links that copy, while the group computes; what was loaded ahead of "
        "it is left out."
    ),
    "matrix": "Busy share of the arrays of its cores while the group computes.",
    "vector": "Busy share of the vector engines of its cores while the group computes.",
    "bytes moved": "Bytes that the group reads from the main memory and writes to it.",
    "peak": "The most bytes that its buffers take in one scratchpad at the same time.",
    "resident": (
        "A tensor that stays in the scratchpads from the group that makes it to those that read"
        " it: it does not pass the main memory."
    ),
    "reloaded": (
        "Resident for some of its readers, but loaded from the main memory again for this one."
    ),
    "shared memory": (
        "A memory on the chip that several cores reach, such as an L2: a tensor that lies there"
        " does not pass the main memory."
    ),
    "view": "Another way to look at bytes that are there already: nothing is computed or moved.",
    "folded": "Runs in the output stage of the operator before it, without a task of its own.",
    "critical path": (
        "Tasks of which each had to wait for the one before it: to be faster, one of them has "
        "to be."
    ),
    "scratchpad": "A core's own memory, where tiles live while they are computed.",
    "main memory": "Where the network's inputs, outputs and weights live (DRAM).",
    "MACs": "Multiply-accumulates.",
    "rule of thumb": (
        f"Beside the simulated run, which decides: {RULE_OF_THUMB}. Extra compute is what the "
        "groups compute more when they run as one."
    ),
    "boundary": "Two groups that tensors pass between, and the reason why they are two.",
    # why groups end
    "memory": "Joined, the groups do not fit in a memory.",
    "not tileable": "An operator cannot be cut as the group would have to be.",
    "limit": "Joined, a limit of the machine would be broken.",
    "not convex": "A tensor would leave the group and come back into it.",
    "no gain": "Joined, the run takes as long or longer, or less than half a percent less.",
    "kept apart": "A pattern of the user keeps them apart.",
    "better joined": "Joined, the run is faster: `tilewright explain --apply` writes that plan.",
    "cannot be lowered": "Joined, there is no program for them on this machine.",
    "not tried": (
        "Its tensor is smaller than those that were tried: `tilewright explain --all` tries all."
    ),
}
