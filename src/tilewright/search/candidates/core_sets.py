"""Sets of cores that a group may run on."""

from tilewright.search.candidates.network import Network


def parts_of_cores(network: Network) -> list[tuple[str, ...]]:
    """Cores that tiles may run on instead of all: a half, the other, a single one."""
    names = tuple(core.name for core in network.machine.cores)
    half = len(names) // 2
    return list(dict.fromkeys((names[:half], names[half:], names[:1]))) if half else []


def kinds_of_cores(network: Network) -> list[tuple[str, ...]]:
    """The cores of each kind, where a machine has several kinds."""
    kinds = network.models.core_classes
    return [tuple(core.name for core in alike) for alike in kinds] if len(kinds) > 1 else []


def core_sets(network: Network) -> tuple[tuple[str, ...], ...]:
    """Cores that groups may be divided among: all, and where memories differ, those that have more
    than the smallest, than the two smallest, and so on. Shares say which of them get nothing, but a
    tile has to fit all of them."""
    sizes = {core.name: core.memory.usable for core in network.machine.cores}
    steps = sorted(set(sizes.values()))[1:]
    return ((), *(tuple(name for name, size in sizes.items() if size >= step) for step in steps))
