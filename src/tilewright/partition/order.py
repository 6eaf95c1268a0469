"""The graph of kernels: its order, its longest chain, and how many kernels can run at once."""

from collections import deque
from collections.abc import Sequence

Edges = Sequence[Sequence[int]]  # kernel -> kernels that read its results


def topological(successors: Edges) -> list[int] | None:
    """An order in which kernels can run, the earliest in the list first; None for a cycle."""
    waiting = [0] * len(successors)
    for following in successors:
        for index in following:
            waiting[index] += 1
    ready = deque(i for i, count in enumerate(waiting) if not count)
    order: list[int] = []
    while ready:
        index = ready.popleft()
        order.append(index)
        for following in successors[index]:
            waiting[following] -= 1
            if not waiting[following]:
                ready.append(following)
    return order if len(order) == len(successors) else None


def critical_path(successors: Edges, weights: Sequence[float]) -> list[int]:
    """Kernels of the heaviest chain, in order; the first such one where several are equal."""
    order = topological(successors) or []
    best = list(weights)
    came: list[int | None] = [None] * len(weights)
    for index in order:
        for following in successors[index]:
            if best[index] + weights[following] > best[following]:
                best[following] = best[index] + weights[following]
                came[following] = index
    if not best:
        return []
    at: int | None = max(range(len(best)), key=lambda i: (best[i], -i))
    path: list[int] = []
    while at is not None:
        path.append(at)
        at = came[at]
    return path[::-1]


def parallel_width(successors: Edges) -> int:
    """The most kernels of which none depends on another.

    It equals the fewest chains that cover all kernels (Dilworth): a flow through the graph, at
    least one unit through every kernel, made as small as it can be.
    """
    count = len(successors)
    order = topological(successors) or []
    flow = _Flow(count, successors)
    covered = [False] * count
    for index in order:
        if not covered[index]:
            flow.start(index)
            while True:
                covered[index] = True
                # On to the end, over kernels that others cover where no new one follows: few
                # chains to begin with leave little to take away.
                following = successors[index]
                onward = next((f for f in following if not covered[f]), None)
                if onward is None and not following:
                    break
                onward = following[0] if onward is None else onward
                flow.pass_on(index, onward)
                index = onward
            flow.stop(index)
    while flow.reduce():
        pass
    return flow.units


class _Flow:
    """Units of flow from kernel to kernel; every kernel has at least one through it."""

    def __init__(self, count: int, successors: Edges) -> None:
        self.successors = successors
        self.predecessors: list[list[int]] = [[] for _ in range(count)]
        for index, following in enumerate(successors):
            for other in following:
                self.predecessors[other].append(index)
        self.edge: dict[tuple[int, int], int] = {}
        self.through = [0] * count
        self.starts = [0] * count
        self.stops = [0] * count
        self.units = 0

    def start(self, index: int) -> None:
        """A chain begins."""
        self.units += 1
        self.starts[index] += 1
        self.through[index] += 1

    def pass_on(self, index: int, onward: int) -> None:
        """A chain goes on."""
        self.edge[index, onward] = self.edge.get((index, onward), 0) + 1
        self.through[onward] += 1

    def stop(self, index: int) -> None:
        """A chain ends."""
        self.stops[index] += 1

    def reduce(self) -> bool:
        """Take one unit away, rerouting others; False where that cannot be done.

        A search from the sink to the source: places are (kernel, 0) before it and (kernel, 1)
        behind it. Against the flow a step takes a unit away, along it a step adds one.
        """
        came: dict[tuple[int, int], tuple[int, int] | None] = {}
        todo: deque[tuple[int, int]] = deque()
        for index, stopped in enumerate(self.stops):
            if stopped:
                came[index, 1] = None
                todo.append((index, 1))
        while todo:
            place = todo.popleft()
            index, side = place
            if side == 0 and self.starts[index]:
                self._undo(place, came)
                return True
            for step in self._steps(index, side):
                if step not in came:
                    came[step] = place
                    todo.append(step)
        return False

    def _steps(self, index: int, side: int) -> list[tuple[int, int]]:
        if side == 1:
            steps = [(following, 0) for following in self.successors[index]]  # add a unit
            if self.through[index] > 1:
                steps.append((index, 0))  # take one away
            return steps
        steps = [(index, 1)]  # add a unit
        steps += [(p, 1) for p in self.predecessors[index] if self.edge.get((p, index), 0)]
        return steps

    def _undo(
        self, last: tuple[int, int], came: dict[tuple[int, int], tuple[int, int] | None]
    ) -> None:
        self.units -= 1
        self.starts[last[0]] -= 1
        place = last
        while True:
            before = came[place]
            if before is None:
                self.stops[place[0]] -= 1
                return
            (a, side_a), (b, side_b) = before, place
            if a == b:
                self.through[a] += 1 if side_a == 0 else -1
            elif side_a == 1 and side_b == 0:
                self.edge[a, b] = self.edge.get((a, b), 0) + 1
            else:
                self.edge[b, a] -= 1
            place = before
