"""Values that onnxruntime would hold in two layouts at once, read in one.

Convolutions make and read channels in blocks; the slices of a group that is cut read the plain
tensor. A value that both read exists twice from the first tile to the last reader of the blocks.
Seen as one dimension more and back, which moves nothing, it is plain for everyone, and the blocks
go as soon as it is.
"""

from collections import Counter
from collections.abc import Iterable

from tilewright.graph.edit import Writer
from tilewright.graph.graph import Graph, Node
from tilewright.peak.predict import Prediction, predict_peak


def read_plain(graph: Graph, names: Iterable[str]) -> Graph:
    """The network in which everyone reads these values in the plain layout."""
    writer = Writer(graph)
    renamed: dict[str, str] = {}
    wanted = frozenset(names)
    for node in graph.nodes:
        writer.nodes.append(node.renamed(renamed, {}))
        for name in node.writes:
            if name in wanted:
                renamed[name] = _plain(writer, name, node)
    return writer.finish()


def _plain(writer: Writer, name: str, maker: Node) -> str:
    kind = writer.graph.types[name]
    higher, plain = (writer.names.take(f"{name}/{word}") for word in ("higher", "plain"))
    first = writer.integers(f"{name}/axes", (0,))
    for step, source, result, shape in (
        ("Unsqueeze", name, higher, (1, *kind.shape)),
        ("Squeeze", higher, plain, kind.shape),
    ):
        label = writer.names.take(f"{maker.name}:{step}")
        writer.node(label, step, (source, first), {result: kind.with_shape(shape)})
    return plain


def best_layouts(tiled: Graph, original: Graph) -> tuple[Graph, Prediction, tuple[str, ...]]:
    """The tiled network with those values of the original read plain that lower its peak so."""
    plain: list[str] = []
    graph, predicted = tiled, predict_peak(tiled)
    while True:
        counts = Counter(item.name for item in predicted.live)
        twice = [
            item.name
            for item in predicted.live
            if counts[item.name] > 1 and item.name in original.producer and item.name not in plain
        ]
        for name in dict.fromkeys(twice):
            changed = read_plain(tiled, (*plain, name))
            found = predict_peak(changed)
            if found.peak < predicted.peak:
                graph, predicted = changed, found
                plain.append(name)
                break
        else:
            return graph, predicted, tuple(plain)
