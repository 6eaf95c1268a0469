"""Layers and tiles of networks for many cores: what may be cut where."""

from itertools import pairwise

from support.builder import GraphBuilder
from tilewright.manycore.tiles import LayerCut, layer_boxes
from tilewright.manycore.workload import workload_of


def test_a_softmax_is_a_layer_that_is_not_cut_along_its_axis() -> None:
    """The product before it may be cut by columns; what needs whole rows may not."""
    b = GraphBuilder()
    product = b.add("MatMul", b.input(1, 8, 16), b.weight(16, 12))
    b.add("Softmax", b.add("Relu", product), axis=-1)
    layers = workload_of(b.graph()).layers
    assert [layer.kind for layer in layers] == ["MatMul", "Softmax"]
    assert [len(layer_boxes(layer, LayerCut((), ((2, 4),)))[0]) for layer in layers] == [4, 1]
    assert [len(layer_boxes(layer, LayerCut((), ((1, 4),)))[0]) for layer in layers] == [4, 4]


def test_no_tile_is_made_of_padding_alone() -> None:
    """Five rows of padding above, a kernel of three: the first tile has to reach a real row."""
    b = GraphBuilder()
    pads = [5, 1, 1, 1]
    b.add("Conv", b.input(1, 3, 8, 8), b.weight(4, 3, 3, 3), kernel_shape=[3, 3], pads=pads)
    (layer,) = workload_of(b.graph()).layers
    (boxes,) = layer_boxes(layer, LayerCut((), ((2, 12),)))
    rows = [box[2] for box in boxes]
    assert rows[0].start == 0 and rows[0].stop == 4 and rows[-1].stop == 12
    assert all(a.stop == b.start for a, b in pairwise(rows))
