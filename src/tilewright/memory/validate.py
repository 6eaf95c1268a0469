"""A naive check of an allocation, sharing no code with the solvers that made it."""

from tilewright.memory.problem import Problem


def violations(problem: Problem, offsets: tuple[int, ...]) -> list[str]:
    """Everything wrong with these offsets, in words; an empty list means the allocation is valid.

    Compares every buffer with every other whose lifetime begins before its own ends.
    """
    buffers = problem.buffers
    if len(offsets) != len(buffers):
        return [f"{len(offsets)} offsets for {len(buffers)} buffers"]
    faults: list[str] = []
    for buffer, offset in zip(buffers, offsets, strict=True):
        end = offset + buffer.size
        if offset < 0:
            faults.append(f"{buffer.name}: offset {offset} is negative")
        if problem.capacity is not None and end > problem.capacity:
            faults.append(f"{buffer.name}: ends at {end}, beyond capacity {problem.capacity}")
        if offset % buffer.alignment != 0:
            faults.append(f"{buffer.name}: offset {offset} is no multiple of {buffer.alignment}")
        if buffer.offset is not None and buffer.offset != offset:
            faults.append(f"{buffer.name}: pinned at {buffer.offset} but placed at {offset}")
    by_start = sorted(zip(buffers, offsets, strict=True), key=lambda pair: pair[0].start)
    for index, (one, low) in enumerate(by_start):
        for other, offset in by_start[index + 1 :]:
            if other.start >= one.stop:
                break
            if low < offset + other.size and offset < low + one.size:
                faults.append(
                    f"{one.name} at [{low}, {low + one.size}) overlaps "
                    f"{other.name} at [{offset}, {offset + other.size}) "
                    f"in time [{other.start}, {min(one.stop, other.stop)})"
                )
    return faults


class InvalidAllocationError(ValueError):
    """An allocation that breaks the rules of its problem: always a bug of the allocator."""


def check(problem: Problem, offsets: tuple[int, ...], peak: int) -> None:
    """Raise `InvalidAllocationError` unless the offsets are valid and reach exactly `peak`."""
    faults = violations(problem, offsets)
    ends = (o + b.size for b, o in zip(problem.buffers, offsets, strict=False))
    reached = max(ends, default=0)
    if reached != peak:
        faults.append(f"highest byte used is {reached}, not the stated peak {peak}")
    if faults:
        raise InvalidAllocationError("; ".join(faults))
