"""A layered drawing of a network: left to right, in lines like text, since networks are long.

Layers by longest path; a tensor that passes layers gets a lane in each; lanes are ordered by the
mean of their neighbours and spaced by isotonic regression. Sizes are in pixels at full scale.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, sqrt
from typing import Any

from tilewright.report.html.network import Drawing
from tilewright.tables import picked

WIDTH, HEIGHT = 104, 30  # of a box
COLUMN, LANE, LINE_GAP, MARGIN = 134, 40, 38, 44
ASPECT = 3.3  # width to height of the whole drawing
SHORT = 1600  # a drawing up to this width stays on one line
_SWEEPS = 6


@dataclass(slots=True)
class _Mesh:
    """Boxes and the lanes between them. A point is a box (its number) or a lane behind the boxes;
    `ways` are steps between points of neighbouring layers."""

    layer: list[int]
    rows: list[list[int]]
    ways: set[tuple[int, int]]
    paths: list[list[int]]  # of every edge, as points
    inner: set[tuple[int, int]]  # ways of tensors inside a group: no line should end there


def drawing_of(network: Drawing) -> dict[str, Any]:
    """Boxes with their places, edges with their paths."""
    mesh = _mesh(network)
    _order(mesh)
    lanes = _lanes(mesh)
    place, size = _places(mesh, lanes)
    boxes = range(len(network.boxes))
    return {
        "width": size[0],
        "height": size[1],
        "box": [WIDTH, HEIGHT],
        **{
            key: [getattr(box, key) for box in network.boxes]
            for key in ("name", "kind", "role", "host", "group")
        },
        "x": [place[point][0] for point in boxes],
        "y": [place[point][1] for point in boxes],
        "edges": [
            {
                "from": edge.source,
                "to": edge.target,
                **picked(edge, "tensor", "bytes", "resident", "way", "memory"),
                "path": _path([place[point] for point in points], size[0]),
            }
            for edge, points in zip(network.edges, mesh.paths, strict=True)
        ],
    }


def _mesh(network: Drawing) -> _Mesh:
    count = len(network.boxes)
    after: list[list[int]] = [[] for _ in range(count)]
    layer = [0] * count
    for edge in sorted(network.edges, key=lambda edge: edge.target):
        after[edge.source].append(edge.target)
        layer[edge.target] = max(layer[edge.target], layer[edge.source] + 1)
    sources = set(range(count)) - {edge.target for edge in network.edges}
    for point in sorted(sources):
        if after[point]:  # beside its first reader, not at the very beginning
            layer[point] = min(layer[other] for other in after[point]) - 1
        elif point:
            layer[point] = layer[point - 1] + 1  # nothing is known but its turn
    rows: list[list[int]] = [[] for _ in range(max(layer, default=0) + 1)]
    for point in range(count):
        rows[layer[point]].append(point)
    ways: set[tuple[int, int]] = set()
    lane_of: dict[tuple[int, str], list[int]] = {}
    paths: list[list[int]] = []
    for edge in network.edges:
        # One lane per tensor, however many read it.
        lane = lane_of.setdefault((edge.source, edge.tensor), [edge.source])
        between = layer[edge.target] - layer[edge.source] - 1
        while len(lane) - 1 < between:
            point = len(layer)
            layer.append(layer[lane[-1]] + 1)
            rows[layer[-1]].append(point)
            ways.add((lane[-1], point))
            lane.append(point)
        ways.add((lane[between], edge.target))
        paths.append([*lane[: between + 1], edge.target])
    inner = {
        way
        for edge, path in zip(network.edges, paths, strict=True)
        if 0 <= network.boxes[edge.source].group == network.boxes[edge.target].group
        for way in pairwise(path)
    }
    return _Mesh(layer, rows, ways, paths, inner)


def _neighbours(mesh: _Mesh) -> tuple[list[list[int]], list[list[int]]]:
    before: list[list[int]] = [[] for _ in mesh.layer]
    after: list[list[int]] = [[] for _ in mesh.layer]
    for a, b in sorted(mesh.ways):
        after[a].append(b)
        before[b].append(a)
    return before, after


def _order(mesh: _Mesh) -> None:
    """Order every layer by the mean place of its neighbours, back and forth."""
    before, after = _neighbours(mesh)
    spot = [0.0] * len(mesh.layer)

    def settle(row: list[int]) -> None:
        for i, point in enumerate(row):
            spot[point] = i - (len(row) - 1) / 2

    for row in mesh.rows:
        settle(row)
    for sweep in range(_SWEEPS):
        near = before if sweep % 2 == 0 else after
        for row in mesh.rows if sweep % 2 == 0 else reversed(mesh.rows):
            means = dict(zip(row, _means(row, near, spot), strict=True))
            row.sort(key=means.__getitem__)
            settle(row)


def _means(row: list[int], near: list[list[int]], spot: list[float]) -> list[float]:
    """Where points would be in the middle of their neighbours; where they are without any."""
    return [sum(spot[q] for q in near[p]) / len(near[p]) if near[p] else spot[p] for p in row]


def _lanes(mesh: _Mesh) -> list[float]:
    """The height of every point, in lanes."""
    before, after = _neighbours(mesh)
    lanes = [0.0] * len(mesh.layer)
    for row in mesh.rows:
        for i, point in enumerate(row):
            lanes[point] = float(i)
    for sweep in range(2 * _SWEEPS):
        near = before if sweep % 2 == 0 else after
        for row in mesh.rows if sweep % 2 == 0 else reversed(mesh.rows):
            wanted = _means(row, near, lanes)
            spaced = _isotonic([want - i for i, want in enumerate(wanted)])
            for i, point in enumerate(row):
                lanes[point] = spaced[i] + i
    return lanes


def _isotonic(wanted: list[float]) -> list[float]:
    """The nearest sequence that never falls: neighbours that would cross are pooled."""
    pools: list[tuple[float, int]] = []
    for value in wanted:
        total, count = value, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            more, others = pools.pop()
            total, count = total + more, count + others
        pools.append((total, count))
    return [total / count for total, count in pools for _ in range(count)]


Point = tuple[int, int, int, int]  # x, y, number of the line, y of the gap above the line


def _places(mesh: _Mesh, lanes: list[float]) -> tuple[list[Point], tuple[int, int]]:
    """Pixels: the layers are broken into lines where few tensors cross."""
    lines = _lines(mesh, lanes)
    place: list[Point] = [(0, 0, 0, 0)] * len(mesh.layer)
    top = MARGIN
    longest = max((len(line) for line in lines), default=1)
    for number, line in enumerate(lines):
        points = [point for layer in line for point in mesh.rows[layer]]
        least = min((lanes[point] for point in points), default=0.0)
        most = max((lanes[point] for point in points), default=0.0)
        for column, layer in enumerate(line):
            for point in mesh.rows[layer]:
                x = MARGIN + column * COLUMN + WIDTH // 2
                y = top + round((lanes[point] - least) * LANE) + HEIGHT // 2
                place[point] = (x, y, number, top - LINE_GAP // 2)
        top += round((most - least) * LANE) + HEIGHT + LINE_GAP
    return place, (2 * MARGIN + (longest - 1) * COLUMN + WIDTH, top + MARGIN - LINE_GAP)


def _lines(mesh: _Mesh, lanes: list[float]) -> list[list[int]]:
    """Layers per line such that the drawing has the page's proportions."""
    count = len(mesh.rows)
    heights = [max(lanes[p] for p in row) - min(lanes[p] for p in row) for row in mesh.rows if row]
    typical = sorted(heights)[int(0.9 * (len(heights) - 1))] if heights else 0.0
    tall = typical * LANE + HEIGHT + LINE_GAP
    length = count * COLUMN
    number = 1 if length <= SHORT else max(1, round(sqrt(length / (ASPECT * tall))))
    crossing = [0] * (count + 1)
    for way in mesh.ways:
        crossing[mesh.layer[way[0]] + 1] += 4 if way in mesh.inner else 1
    lines: list[list[int]] = []
    start = 0
    while start < count:
        size = ceil((count - start) / max(1, number - len(lines)))
        even = start + size
        if even < count:
            slack = range(max(start + 1, even - size // 6), min(count, even + size // 6 + 1))
            stop = min(slack, key=lambda at, even=even: (crossing[at], abs(at - even)))
        else:
            stop = count
        lines.append(list(range(start, stop)))
        start = stop
    return lines


def _path(points: list[Point], width: int) -> str:
    """An SVG path from box to box; lanes are passed straight, ends of lines by the gap below."""
    parts: list[str] = []
    half = WIDTH // 2
    last = len(points) - 1
    for i in range(last):
        (x0, y0, line0, _), (x1, y1, line1, gap) = points[i], points[i + 1]
        x0, x1 = x0 + half, x1 - half
        if i == 0:
            parts.append(f"M{x0} {y0}")
        if line0 == line1:
            middle = (x0 + x1) // 2
            parts.append(f"C{middle} {y0} {middle} {y1} {x1} {y1}")
        else:
            edge = 12 + (y0 // 7) % 14
            parts.append(f"H{width - MARGIN + edge}V{gap}H{MARGIN - edge}V{y1}H{x1}")
        if i + 1 < last:
            parts.append(f"H{x1 + WIDTH}")
    return "".join(parts)
