"""The order in which onnxruntime runs nodes, as its profiles show it."""

import pytest

from support.builder import GraphBuilder
from tilewright.peak import execution_order

pytestmark = pytest.mark.quick


def test_a_chain_runs_as_it_stands() -> None:
    b = GraphBuilder()
    b.add("Relu", b.add("Sigmoid", b.add("Tanh", b.input(4))))
    assert execution_order(b.graph()) == (0, 1, 2)


def test_the_producer_later_in_the_file_runs_first() -> None:
    b = GraphBuilder()
    x = b.input(4)
    b.add("Add", b.add("Relu", x), b.add("Tanh", x))
    assert execution_order(b.graph()) == (1, 0, 2)


def test_the_order_of_inputs_does_not_matter() -> None:
    b = GraphBuilder()
    x = b.input(4)
    first, second = b.add("Relu", x), b.add("Tanh", x)
    b.add("Add", second, first)
    assert execution_order(b.graph()) == (1, 0, 2)


def test_the_last_leaf_runs_first_with_all_it_needs() -> None:
    b = GraphBuilder()
    x = b.input(4)
    b.add("Relu", b.add("Tanh", x))
    b.add("Abs", b.add("Exp", x))
    assert execution_order(b.graph()) == (2, 3, 0, 1)


def test_slices_written_first_run_right_before_their_reader() -> None:
    b = GraphBuilder()
    x = b.input(1, 8)
    bounds = [b.constant([v], "int64") for v in (0, 4, 8, 1)]
    left = b.add("Slice", x, bounds[0], bounds[1], bounds[3])
    right = b.add("Slice", x, bounds[1], bounds[2], bounds[3])
    b.add("Concat", b.add("Relu", left), b.add("Relu", right), axis=1)
    assert execution_order(b.graph()) == (1, 3, 0, 2, 4)


def test_a_value_read_twice_is_made_once() -> None:
    b = GraphBuilder()
    x = b.add("Relu", b.input(4))
    b.add("Mul", x, b.add("Add", x, x))
    assert execution_order(b.graph()) == (0, 1, 2)
