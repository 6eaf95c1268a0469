"""What waits for an element, and what one waits for, against all pairs of elements of small
networks; also where less of a value counts, because its readers read other parts of it."""

from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from support.builder import GraphBuilder
from tilewright import api
from tilewright.geometry.interval import Interval
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.planning import prepared
from tilewright.search.bounds.bounds import bounds_of
from tilewright.search.bounds.flow import Flow
from tilewright.search.bounds.needs import ElementNeeds

Matrix = npt.NDArray[np.bool_]


def small_net(random: Random) -> Graph:
    """Images in which readers leave out rows, columns or channels, and others read all."""
    b = GraphBuilder(seed=random.randrange(99))
    x = b.input(1, random.choice((1, 2, 3)), random.randrange(3, 7), random.randrange(1, 7))
    values = [x]
    for _ in range(random.randrange(3, 8)):
        x = random.choice(values[-3:])
        channels, height, width = b.shape(x)[1:]
        kind = random.choice(
            ("conv", "conv", "half", "half", "add", "crop", "relu", "rows", "mean")
        )
        if kind in ("conv", "half"):
            kernel = random.choice((1, 1, 3))
            weight, pads = b.weight(random.choice((1, 3)), channels, kernel, kernel), kernel // 2
            stride = 2 if kind == "half" else 1
            x = b.add("Conv", x, weight, pads=[pads] * 4, strides=[stride, stride])
        elif kind == "add":
            same = [v for v in values if b.shape(v) == b.shape(x)]
            x = b.add("Add", x, random.choice(same))
        elif kind == "crop" and height > 2:
            axis = random.choice((1, 2)) if channels > 1 else 2
            start = random.randrange(b.shape(x)[axis] - 1)
            ends = (start, b.shape(x)[axis] - random.randrange(2), axis)
            x = b.add("Slice", x, *(b.constant([end], "int64") for end in ends))
        elif kind == "rows":
            seen = b.add("Reshape", x, b.constant([1, channels, width, height], "int64"))
            x = random.choice((seen, b.add("Transpose", seen, perm=[0, 1, 3, 2])))
        elif kind == "mean":
            x = b.add("Softmax", x, axis=random.choice((1, 3)))
        else:
            x = b.add("Relu", x)
        values.append(x)
    return b.graph()


def read(graph: Graph, needs: ElementNeeds, node: int, source: str) -> Matrix:
    """Which elements of an operand each element of a node's result reads."""
    known = needs.specs[node]
    assert known is not None
    target = graph.nodes[node].outputs[0]
    shape, there = graph.types[target].shape, graph.types[source].shape
    count, others = int(np.prod(shape)), int(np.prod(there))
    if graph.nodes[node].kind == "Reshape":
        return (
            np.eye(count, dtype=np.bool_)
            if source == graph.nodes[node].inputs[0]
            else (np.zeros((count, others), dtype=np.bool_))
        )
    access = known[0].access(known[1], 0)
    assert access is not None
    found = np.zeros((count, *there), dtype=np.bool_)
    for operand, name in enumerate(graph.nodes[node].inputs):
        rules = access.inputs[operand]
        if name != source or rules is None:
            continue
        for number, place in enumerate(np.ndindex(*shape)):
            spans = [
                rule.reach(
                    Interval(0, 0)
                    if rule.axis is None
                    else Interval(0, shape[rule.axis])
                    if access.grain[rule.axis] >= shape[rule.axis] > 1
                    else Interval(place[rule.axis], place[rule.axis] + 1)
                ).interval
                for rule in rules
            ]
            found[(number, *(slice(span.start, span.stop) for span in spans))] = True
    return found.reshape(count, others)


def dependence(graph: Graph, needs: ElementNeeds) -> dict[tuple[str, str], Matrix]:
    """For pairs of values: which elements of the later one depend on which of the earlier."""
    found: dict[tuple[str, str], Matrix] = {}
    for index, node in enumerate(graph.nodes):
        target = node.outputs[0]
        count = int(np.prod(graph.types[target].shape))
        found[target, target] = np.eye(count, dtype=np.bool_)
        for source in dict.fromkeys(node.inputs):
            own = read(graph, needs, index, source)
            pairs = {name: rows for (name, to), rows in found.items() if to == source}
            for name, rows in (pairs or {source: np.eye(own.shape[1], dtype=np.bool_)}).items():
                known = found.get((name, target), np.zeros((count, rows.shape[1]), dtype=np.bool_))
                found[name, target] = known | (own.astype(int) @ rows.astype(int) > 0)
    return found


def flat(needs: ElementNeeds, graph: Graph, name: str) -> Matrix:
    """The needed elements of a value in a row."""
    flags = np.zeros(graph.types[name].shape, dtype=np.bool_)
    flags[np.ix_(*needs.need[name])] = True
    return flags.ravel()


def check(graph: Graph, common: frozenset[str]) -> None:
    """All that is said of single elements holds of each of them."""
    needs = ElementNeeds(graph, common)
    values = [node.outputs[0] for node in graph.nodes]
    callers = [name for name in (*graph.inputs, *graph.constants) if name in needs.need]
    bit = {name: 1 << number for number, name in enumerate((*callers, *graph.outputs))}
    moving = {"Slice", "Reshape", "Transpose"}
    flow = Flow(graph, needs, bit, lambda index: graph.nodes[index].kind in moving)
    depends = dependence(graph, needs)
    wanted = {name: flat(needs, graph, name) for name in needs.need}
    required = flow.required({name: number for number, name in enumerate(values)})
    for number, name in enumerate(values):
        if name not in needs.need:
            continue
        for value, positions in required.items():
            if positions >> number & 1 and (value, name) in depends:
                rows = depends[value, name][wanted[name]]
                assert rows[:, wanted[value]].any(axis=0).all(), (value, name)
        done, waiting = flow.before(name, flow.least(name)), flow.after(name, flow.least(name))
        some = flow.after(name, flow.most(name))[1]
        for other, value in enumerate(values):
            if some >> other & 1:
                rows = depends[name, value][wanted[value]]
                assert rows[:, wanted[name]].any(axis=1).all(), (name, value)
            if waiting[1] >> other & 1:
                rows = depends[name, value][wanted[value]]
                assert rows[:, wanted[name]].all(), (name, value)
            if done[1] >> other & 1:
                rows = depends[value, name][wanted[name]]
                assert rows[:, wanted[value]].all(), (name, value)
        for value in callers:
            if done[0] & bit[value]:
                assert depends[value, name][wanted[name]][:, wanted[value]].all(), (name, value)
            if waiting[0] & bit[value]:
                readers = [n for n in graph.consumers[value] if (name, values[n]) in depends]
                for element in np.flatnonzero(wanted[name]):
                    late = [depends[name, values[n]][:, element] for n in readers]
                    used = [
                        read(graph, needs, n, value)[rows].any(axis=0)
                        for n, rows in zip(readers, late, strict=True)
                    ]
                    assert np.logical_or.reduce(used)[wanted[value]].all(), (name, value)


@pytest.mark.parametrize("seed", range(120))
def test_what_waits_for_an_element_does(seed: int) -> None:
    """With all that is needed, and with what the readers of a fork have in common."""
    graph = small_net(Random(seed))
    check(graph, frozenset())
    for name in ElementNeeds(graph).forks:
        check(graph, frozenset({name}))


def test_less_is_needed_of_what_only_some_read() -> None:
    """Rows and columns that a reader of every second one leaves out do not count."""
    b = GraphBuilder()
    x = b.add("Relu", b.input(1, 4, 8, 8))
    whole = b.add("Conv", x, b.weight(4, 4, 3, 3), pads=[1] * 4, strides=[2, 2])
    half = b.add("Conv", x, b.weight(4, 4, 1, 1), strides=[2, 2])
    b.add("Add", whole, half)
    graph = b.graph()
    needs = ElementNeeds(graph)
    assert needs.forks == [x]
    assert [axis.sum() for axis in needs.need[x]] == [1, 4, 8, 8]
    less = ElementNeeds(graph, frozenset(needs.forks)).need
    assert [axis.sum() for axis in less[x]] == [1, 4, 4, 4]


def test_weights_of_a_stage_wait_for_what_all_its_branches_read() -> None:
    """The last stage of ResNet-50 begins with 4 MB of weights for every second position."""
    machine = load_machine("npu-2.7")
    graph = prepared(api.load("resnet50").graph, machine, "fp16").graph
    bounds = bounds_of(graph, machine, "fp16")
    assert bounds.suffix >= 3_560_000  # 3,391,691 where these wait for no single element
