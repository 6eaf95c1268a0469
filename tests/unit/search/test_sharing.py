"""Values that pass through a memory which the cores share."""

from dataclasses import replace

import yaml

from tilewright import api
from tilewright.machine.load import load_machine
from tilewright.plan.plan import plan_text
from tilewright.plan.read import plan_of
from tilewright.planning import prepared
from tilewright.search.candidates.layers import layer_by_layer
from tilewright.search.candidates.network import Network
from tilewright.search.sharing import sharing_one_more, sharing_plans


def test_a_plan_that_shares_more_is_the_same_from_its_file() -> None:
    """A memory is named once, with all its values."""
    machine = load_machine("eight-core-l2")
    graph = prepared(api.load("four_convs@16x16").graph, machine, machine.dtype).graph
    plan = replace(
        layer_by_layer(graph, machine, machine.dtype, "net"), shared=(("l2", ("conv1",)),)
    )
    network = Network(graph, machine, machine.dtype)
    found = list(sharing_plans(network, lambda _: True, plan, "l2"))
    assert {name for _, names in found[0].shared for name in names} > {"conv1"}
    for other in found:
        assert [memory for memory, _ in other.shared] == ["l2"]
        assert plan_of(yaml.safe_load(plan_text(other))).shared == other.shared


def test_values_are_shared_one_by_one_on_top_of_what_is_best() -> None:
    """A value that is kept in the main memory beside others is tried again by itself."""
    machine = load_machine("eight-core-l2")
    graph = prepared(api.load("four_convs@16x16").graph, machine, machine.dtype).graph
    network = Network(graph, machine, machine.dtype)
    best = [layer_by_layer(graph, machine, machine.dtype, "net")]
    tried: list[str] = []
    for plan in sharing_one_more(network, lambda _: True, "l2", lambda: best[-1]):
        ((_, names),) = plan.shared
        tried.append(names[-1])
        if len(tried) != 2:  # the second is no better
            best.append(plan)
    sizes = [graph.types[name].bytes for name in tried]
    assert len(tried) == 3 == len(set(tried)) and sizes == sorted(sizes, reverse=True)
    assert best[-1].shared == (("l2", (tried[0], tried[2])),)
