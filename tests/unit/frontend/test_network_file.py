"""Networks without weights as files: all but the weights comes back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright import api
from tilewright.errors import ModelError
from tilewright.frontend.network_file import load_network, save_network
from tilewright.graph.graph import Opaque


@pytest.mark.parametrize("name", ["resnet18@32x32", "fsrcnn@16x16", "vit_b16", "four_convs"])
def test_all_but_the_weights_comes_back(tmp_path: Path, name: str) -> None:
    graph = api.load(name).graph
    path = tmp_path / "network.json"
    save_network(graph, path)
    again = load_network(path)
    assert again.nodes == graph.nodes
    assert again.types == graph.types
    assert (again.inputs, again.outputs) == (graph.inputs, graph.outputs)
    assert {n: c.type for n, c in again.constants.items()} == {
        n: c.type for n, c in graph.constants.items()
    }
    for key, constant in graph.constants.items():
        if constant.data is not None and constant.type.dtype == "int64":
            assert np.array_equal(again.constants[key].data, constant.data)
    assert path.stat().st_size < 1_000_000


def test_attributes_of_every_kind(tmp_path: Path) -> None:
    graph = api.load("four_convs").graph
    attributes = {
        "whole": 3,
        "real": 0.1,
        "text": "x",
        "many": (1, 2),
        "none": (),
        "opaque": Opaque(b"\x00\xff"),
    }
    node = replace(graph.nodes[0], attributes={**attributes, "array": np.arange(3.0)})
    changed = replace(graph, nodes=(node, *graph.nodes[1:]))
    save_network(changed, tmp_path / "n.json")
    found = dict(load_network(tmp_path / "n.json").nodes[0].attributes)
    assert np.array_equal(found.pop("array"), np.arange(3.0))
    assert found == attributes


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 9}', '{"version": 1, "name": "x"}'])
def test_damaged_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "network.json"
    path.write_text(text)
    with pytest.raises(ModelError, match=r"network\.json"):
        load_network(path)
    with pytest.raises(ModelError, match="cannot read"):
        load_network(tmp_path / "none.json")
