"""Facts about operators stand in their specs: nothing else tells operators apart by name."""

import ast
from pathlib import Path

import pytest

import tilewright
from support.builder import GraphBuilder
from tilewright.graph.ops import SPECS, spec_of
from tilewright.graph.ops.spec import Pool, Strides

ROOT = Path(tilewright.__file__).parent
# The front end reads what others write and knows idioms by name; peak knows another runtime.
FREE = ("graph", "frontend", "peak")


def compared_names(tree: ast.AST) -> list[tuple[int, str]]:
    """Names of operators that stand in a comparison, a set, the keys of a table or a pattern."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        within: list[ast.AST | None] = []
        if isinstance(node, ast.Compare):
            within = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            within = list(node.keys)
        elif isinstance(node, ast.Set | ast.MatchValue):
            within = [node]
        for part in within:
            for leaf in ast.walk(part) if part is not None else ():
                if isinstance(leaf, ast.Constant) and leaf.value in SPECS:
                    found.append((leaf.lineno, leaf.value))
    return found


def test_nothing_outside_the_specs_compares_names_of_operators() -> None:
    seen: list[str] = []
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT)
        if place.parts[0] not in FREE:
            names = compared_names(ast.parse(path.read_text()))
            seen += [f"{place}:{line}: {name}" for line, name in names]
    assert seen == []


def test_the_check_sees_comparisons_sets_tables_and_patterns() -> None:
    text = 'a == "Conv"\nb in ("Add", x)\nc = {"Relu"}\nd = {"Concat": 1}\nadd("Slice")\n'
    text += 'match e:\n  case "Pad":\n    pass\n'
    assert [name for _, name in sorted(compared_names(ast.parse(text)))] == [
        *("Conv", "Add", "Relu", "Concat", "Pad")
    ]


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes", "expected"),
    [
        ("Relu", [(2, 3)], {}, (0,)),
        ("Add", [(2, 3), (2, 3)], {}, (0, 1)),
        ("Add", [(2, 3), (3,)], {}, (0,)),
        ("Add", [(1, 3), (2, 1)], {}, ()),
        ("Softmax", [(2, 3)], {}, (0,)),  # reads a row before it writes one
        ("LRN", [(1, 4, 2, 2)], {"size": 3}, ()),  # reads what is beside
        ("Transpose", [(3, 3)], {"perm": (1, 0)}, ()),
        ("MatMul", [(3, 3), (3, 3)], {}, ()),
        ("Cast", [(2, 3)], {"to": 10}, ()),  # another element size
        ("MaxPool", [(1, 2, 4, 4)], {"kernel_shape": (1, 1)}, ()),
    ],
)
def test_results_take_over_inputs_read_element_by_element(
    kind: str,
    shapes: list[tuple[int, ...]],
    attributes: dict[str, object],
    expected: tuple[int, ...],
) -> None:
    b = GraphBuilder()
    graph = b.graph(b.add(kind, *(b.input(*shape) for shape in shapes), **attributes))
    known = spec_of(graph, graph.nodes[0])
    assert known is not None
    access = known[0].access(known[1], 0)
    assert access is None or known[0].in_place(known[1], access) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Softmax", "softmax"),
        ("LayerNormalization", "norm"),
        ("ReduceMean", "reduce"),
        ("Resize", "copy"),
        ("Abs", "add"),
        ("Sqrt", "exp"),
        ("HardSwish", "swish"),
    ],
)
def test_vector_classes(kind: str, expected: str) -> None:
    assert SPECS[kind].vector_class == expected


def test_pools_and_filters_say_what_their_windows_are_for() -> None:
    pools = {spec.kind for spec in SPECS.values() if spec.pool is Pool.MAXIMUM}
    assert pools == {"MaxPool", "GlobalMaxPool"}
    filters = {spec.kind: spec.filter.weight for spec in SPECS.values() if spec.filter is not None}
    assert filters == {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3, "ConvTranspose": 1}


def test_parts_of_a_concat_lie_inside_its_result() -> None:
    b = GraphBuilder()
    graph = b.graph(b.add("Concat", b.input(2, 3), b.input(2, 5), axis=1))
    known = spec_of(graph, graph.nodes[0])
    assert known is not None and known[0].parts is not None
    assert known[0].parts(known[1], Strides(64, (2, 8), (16, 2), 2)) == (
        Strides(64, (2, 3), (16, 2), 2),
        Strides(70, (2, 5), (16, 2), 2),
    )
