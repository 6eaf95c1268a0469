"""Patterns of the user: read, matched, kept."""

from pathlib import Path

import pytest

from support.networks import attention, pair, residual
from support.refusals import assert_refused
from tilewright.frontend.normalize import normalize
from tilewright.graph.graph import Graph
from tilewright.machine.load import load_machine
from tilewright.search.effort import Effort
from tilewright.search.found import Found
from tilewright.search.fusion import Fusion
from tilewright.search.grouping.patterns import (
    Action,
    Pattern,
    PatternError,
    apart_edges,
    matches,
    pattern_of,
    pattern_row,
    read_patterns,
)

EXAMPLE = Path(__file__).parents[3] / "examples" / "patterns" / "attention.yaml"
FUSED = Pattern("attention", ("MatMul", "(Mul)", "Softmax", "MatMul"), Action.FUSE)
APART = Pattern("scores", ("MatMul", "Softmax"), Action.APART)


def search(graph: Graph, *patterns: Pattern, machine: str = "npu-2.7", kib: int = 0) -> Found:
    target = load_machine(machine)
    target = target.with_memory(kib * 1024) if kib else target
    return Fusion(normalize(graph), target, target.dtype, "net", patterns=patterns).run(Effort.LOW)


def test_the_example_reads_and_matches() -> None:
    (pattern,) = read_patterns(EXAMPLE)
    graph = attention()
    (match,) = matches(graph, pattern)
    assert [graph.nodes[i].name for i in match.nodes] == ["qk", "softmax", "av"]
    assert pattern_of(pattern_row(pattern), "here") == pattern


@pytest.mark.parametrize("machine", ["npu-2.7", "mcu"])
def test_what_is_fused_is_one_group(machine: str) -> None:
    found = search(attention(), FUSED, machine=machine)
    home = next(group for group in found.best.plan.groups if "qk" in group.nodes)
    assert {"qk", "softmax", "av"} <= set(home.nodes)
    assert "layer by layer" in [rival.name for rival in found.rivals]
    assert found.best.name != "layer by layer"


@pytest.mark.parametrize("machine", ["npu-2.7", "mcu"])
def test_what_is_kept_apart_shares_neither_group_nor_scratchpad(machine: str) -> None:
    plan = search(attention(), APART, machine=machine).best.plan
    home = {name: number for number, group in enumerate(plan.groups) for name in group.nodes}
    assert home["qk"] != home["softmax"]
    assert "qk" not in plan.resident


def test_patterns_make_no_plan_better() -> None:
    free = search(attention()).best.cycles
    assert free <= search(attention(), FUSED).best.cycles * 1.005
    assert free <= search(attention(), APART).best.cycles * 1.005


def test_fusing_around_a_branch_takes_in_what_lies_between() -> None:
    pattern = Pattern("block", ("Conv", "Add"), Action.FUSE)
    graph = residual()
    found = search(graph, pattern, machine="mcu")
    home = {name: n for n, group in enumerate(found.best.plan.groups) for name in group.nodes}
    match = next(iter(matches(graph, pattern)))
    names = [graph.nodes[i].name for i in match.nodes]
    assert len({home[name] for name in names}) == 1


def test_matches_do_not_share_nodes() -> None:
    pattern = Pattern("two", ("Conv", "Conv"), Action.FUSE)
    graph = pair(3, 16, 16)
    (group,) = search(graph, pattern, machine="mcu").best.plan.groups
    assert group.nodes == ("first", "second")


def test_a_pattern_that_does_not_fit_says_how_many_bytes_it_needs() -> None:
    with pytest.raises(PatternError, match=r"'attention' at 'qk' .. 'av'.*needs .*B.* has 6.1 kB"):
        search(attention(256), FUSED, kib=6)


def test_a_pattern_that_matches_nothing_is_noted() -> None:
    machine = load_machine("mcu")
    nothing = Pattern("none", ("Conv", "Softmax"), Action.FUSE)
    fusion = Fusion(attention(), machine, machine.dtype, "net", patterns=(nothing,))
    assert fusion.space.notes == ["pattern 'none' matches nothing in this network"]


def test_patterns_that_contradict_each_other_or_the_machine() -> None:
    with pytest.raises(PatternError, match="'scores' keeps it apart"):
        search(attention(), FUSED, APART)
    inside = Pattern("folded", ("Conv", "Relu"), Action.APART)
    with pytest.raises(PatternError, match="runs inside"):
        search(residual(), inside, machine="npu-2.7")


def test_edges_that_are_kept_apart() -> None:
    assert apart_edges(attention(), (APART, FUSED)) == {("qk", "softmax"): "scores"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{}", "is a list"),
        ("- 3", ":1: [0]: has to be a mapping"),
        ("- {name: a, operators: [Conv, Relu], fuse: true}", "[0].fuse: no such key"),
        ("- {operators: [Conv, Relu], action: fuse}", "[0].name"),
        ("- {name: a, operators: [Conv], action: fuse}", "[0].operators"),
        ("- {name: a, operators: [Conv, Relo], action: fuse}", "'Relo': did you mean 'Relu'?"),
        ("- {name: a, operators: [(Conv), Relu], action: fuse}", "cannot be optional"),
        ("- {name: a, operators: [Conv, Relu], action: join}", "[0].action: is fuse or keep apart"),
        ("a: [", "not YAML"),
    ],
)
def test_bad_files_name_file_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    assert_refused(read_patterns, PatternError, tmp_path / "patterns.yaml", text, complaint)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PatternError, match="cannot be read"):
        read_patterns(tmp_path / "none.yaml")
