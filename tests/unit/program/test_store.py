"""Stored values come back equal; files that are not what was stored are refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from tilewright import api
from tilewright.frontend.normalize import normalize
from tilewright.machine.load import list_machines, load_machine
from tilewright.machine.machine import Machine
from tilewright.program import store
from tilewright.program.lower import lowered
from tilewright.program.place import Placed
from tilewright.search.candidates.layers import layer_by_layer

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("name", list_machines())
def test_machines_come_back(name: str, tmp_path: Path) -> None:
    machine = load_machine(name)
    store.save(machine, tmp_path / "machine.json")
    assert store.load(Machine, tmp_path / "machine.json") == machine


@pytest.fixture(scope="module")
def placed() -> Placed:
    """A small network, placed."""
    machine = load_machine("mcu")
    graph = normalize(api.load("four_convs@16x16").graph)
    plan = layer_by_layer(graph, machine, "int8", "four_convs")
    return lowered(graph, machine, plan)


def test_placed_program_comes_back(placed: Placed, tmp_path: Path) -> None:
    path = tmp_path / "placed.json"
    store.save(placed, path)
    again = store.load(Placed, path)
    assert again.program == placed.program
    assert (again.address, again.highest) == (placed.address, placed.highest)
    assert again.problem.resources == placed.problem.resources
    for name in ("engine", "duration", "transfer", "priority", "need_start", "needs"):
        mine, theirs = getattr(placed.problem, name), getattr(again.problem, name)
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)
    assert np.array_equal(again.schedule.start, placed.schedule.start)
    store.save(again, tmp_path / "twice.json")
    assert (tmp_path / "twice.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: d.update(version=0), "is of version 0"),
        (lambda d: d["fields"]["Task"].pop(), "another version: 'Task'"),
        (lambda d: d["fields"].update(Bogus=[]), "another version: 'Bogus'"),
        (lambda d: d.update(content={"Nothing": []}), "is damaged"),
        (lambda d: d.update(content={"Task": [1]}), "is damaged"),
        (lambda d: d.update(content={"a": 1, "b": 2}), "is damaged"),
        (lambda d: d.update(content=3), "does not hold a Placed"),
    ],
)
def test_wrong_files_are_refused(change, complaint: str, placed: Placed, tmp_path: Path) -> None:
    path = tmp_path / "placed.json"
    store.save(placed, path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(store.StoreError, match=complaint):
        store.load(Placed, path)


@pytest.mark.parametrize("text", ["", "{", "[1]", "[" * 100000])
def test_what_is_not_json(text: str, tmp_path: Path) -> None:
    path = tmp_path / "placed.json"
    path.write_text(text)
    with pytest.raises(store.StoreError, match="is not"):
        store.load(Placed, path)
