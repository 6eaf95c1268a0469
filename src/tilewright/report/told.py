"""What a search has to say about its plan, as the report tells it."""

from tilewright.planning import Planned
from tilewright.report.html.story import Bound, Rival, Story


def told(planned: Planned) -> Story:
    """Rivals and bounds of a planned network."""
    bounds = planned.bounds
    parts = {
        "matrix engines": bounds.matrix,
        "vector engines": bounds.vector,
        "all engines": bounds.compute,
        "traffic": bounds.traffic,
        "suffix": bounds.suffix,
        "prefix": bounds.prefix,
    }
    account = planned.account
    moved = account.dram_read_bytes + account.dram_write_bytes
    rivals: list[Rival] = []
    if planned.found is not None:
        rivals = [Rival(t.name, t.cycles, t.dram_bytes) for t in planned.found.rivals]
    rivals.append(Rival("this plan", account.latency_cycles, moved))
    return Story(
        rivals=tuple(rivals),
        bounds=tuple(Bound(name, cycles) for name, cycles in parts.items()),
    )
