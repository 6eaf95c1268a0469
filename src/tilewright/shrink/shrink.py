"""From a network and a budget to a tiled network: choose, write, check the prediction, repeat."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from tilewright.errors import BudgetError
from tilewright.graph.graph import Graph
from tilewright.graph.ops import macs_of
from tilewright.peak.dequantised import beside_readers, best_order
from tilewright.peak.predict import Prediction, predict_peak
from tilewright.shrink.choose import Chooser, Selection, silent
from tilewright.shrink.layouts import best_layouts, read_plain
from tilewright.tiling.cutting import cut_group
from tilewright.tiling.group import GroupTiles
from tilewright.tiling.rewrite import tile_graph
from tilewright.units import format_bytes

ROUNDS = 12  # so often at most the full prediction corrects the estimates of the search
TIGHTER = 0.97  # of a target that was missed, where there was nothing to correct
PRECISION = 0.02  # to which the smallest peak is found


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A tiled network that fits, and how it was cut; values in `plain` are read in one layout."""

    graph: Graph
    groups: tuple[GroupTiles, ...]
    original: Prediction
    predicted: Prediction
    plain: tuple[str, ...] = ()

    @property
    def recompute_ratio(self) -> float:
        """Extra multiply-accumulates over those of the whole network."""
        whole = 0
        if self.groups:
            graph = self.groups[0].graph
            whole = sum(macs_of(graph, node) for node in graph.nodes)
        extra = 0.0
        for group in self.groups:
            inside = sum(macs_of(group.graph, tiled.node) for tiled in group.ops)
            extra += inside * group.recompute_ratio
        return extra / whole if whole else 0.0


def shrink_graph(
    graph: Graph, budget: int | float | None, progress: Callable[[str], None] = silent
) -> Shrunk:
    """The network cut so that its peak stays under the budget (bytes, or a share of today's; None:
    as low as it goes)."""
    original = predict_peak(graph)
    if budget is None:
        return _smallest(Shrunk(graph, (), original, original), progress)
    target = round(budget * original.peak) if isinstance(budget, float) else budget
    if original.peak <= target:
        return Shrunk(graph, (), original, original)
    beside = beside_readers(graph)
    found = _attempt(beside, original, Chooser(beside, original, progress), target)
    if found is None or found.predicted.peak > target:  # what `smallest` gives is never refused
        found = _smallest(Shrunk(graph, (), original, original), progress)
    if found.predicted.peak > target:
        raise BudgetError(_why(target, found, beside))
    return found


def _attempt(graph: Graph, original: Prediction, chooser: Chooser, target: int) -> Shrunk | None:
    """The network cut for a target: what meets it, else the lowest peak on the way; None where the
    search itself knows of nothing."""
    chooser.forget()
    best: Shrunk | None = None
    inner = target
    for _ in range(ROUNDS):
        selection = chooser.within(inner)
        if selection is None:
            break
        shrunk = _write(graph, original, selection)
        best = shrunk if best is None else min(best, shrunk, key=_peak)
        if best.predicted.peak <= target:
            break
        if not chooser.learn(shrunk.predicted, selection.choices, inner):
            inner = round(TIGHTER * min(inner, selection.peak))
    return best


def _smallest(best: Shrunk, progress: Callable[[str], None]) -> Shrunk:
    """The lowest peak found, or the network as it is: targets are halved between what is met and
    what is not."""
    graph, original = beside_readers(best.graph), best.original
    chooser = Chooser(graph, original, progress)
    low, high = 0, original.peak
    while high > low * (1 + PRECISION) + 1:
        target = (low + high) // 2
        found = _attempt(graph, original, chooser, target)
        best = best if found is None else min(best, found, key=_peak)
        if best.predicted.peak <= target:
            high = best.predicted.peak
        else:
            low = target
    return best


def _peak(shrunk: Shrunk) -> int:
    return shrunk.predicted.peak


def _write(graph: Graph, original: Prediction, selection: Selection) -> Shrunk:
    groups = tuple(cut_group(graph, range(c.start, c.stop), c.splits) for c in selection.choices)
    tiled, predicted, plain = best_layouts(best_order(tile_graph(graph, groups)), graph)
    return Shrunk(tiled, groups, original, predicted, plain)


def rewritten(shrunk: Shrunk, graph: Graph) -> Graph:
    """The same groups and layouts, of the network with other numbers."""
    if not shrunk.groups and not shrunk.plain:
        return graph
    graph = beside_readers(graph)
    groups = [
        cut_group(graph, (graph.index[tiled.node.name] for tiled in group.ops), group.splits)
        for group in shrunk.groups
    ]
    return read_plain(best_order(tile_graph(graph, groups)), shrunk.plain)


def own_name(name: str, graph: Graph) -> str:
    """A value or node of a tiled network as the user knows it: `relu_4@0.0/in` is of 'relu_4'."""
    if name in graph.types or name in graph.index:
        return f"'{name}'"
    whole = name.split("@")[0]
    while whole and whole not in graph.types and whole not in graph.index:
        whole = whole.rpartition("/")[0]
    return f"a tile of '{whole}'" if whole else f"'{name}'"


def _at_least(size: int) -> str:
    """A size as a person would ask for it: what is printed is enough."""
    tenth = next((unit // 10 for unit in (1000**3, 1000**2, 1000) if size >= unit), 1)
    return format_bytes(-(-size // tenth) * tenth)


def _several(name: str, sizes: list[int]) -> str:
    """A value with its bytes, or several tiles of one with theirs."""
    if len(sizes) > 1:
        name = name.replace("a tile of", f"{len(sizes)} tiles of")
    return f"{name} {format_bytes(sum(sizes))}"


def _why(target: int, best: Shrunk, graph: Graph) -> str:
    """The smallest budget that can be met, and what stands in the way of less."""
    peak = best.predicted
    sizes: dict[str, list[int]] = {}
    for item in peak.live:
        sizes.setdefault(own_name(item.name, graph), []).append(item.bytes)
    largest = sorted(sizes.items(), key=lambda held: -sum(held[1]))[:3]
    parts = ", ".join(_several(name, some) for name, some in largest)
    if peak.scratch:
        parts += f", scratch {format_bytes(peak.scratch)}"
    return (
        f"{format_bytes(target)} cannot be met: the smallest found is {_at_least(peak.peak)} "
        f"({ceil(100 * peak.peak / best.original.peak)} % of today's, what `smallest` gives); "
        f"there {own_name(peak.at, graph)} holds it up with {parts}"
    )
