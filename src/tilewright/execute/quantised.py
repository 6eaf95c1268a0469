"""Quantised networks against the original: by steps, operator by operator.

A result that lies between two quantisation steps goes to either, depending on the last bits of
a float; later operators then see other numbers. So outputs alone decide nothing. What is shown
instead: the program gives exactly what the planned network gives, and every operator of the planned
network, on the original's own numbers, gives the original's result, at most one step away.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilewright.errors import ModelError
from tilewright.execute.compare import Comparison, compared, faulty
from tilewright.graph.graph import Array, Graph, Node
from tilewright.graph.kernels import run_step, supports
from tilewright.graph.ops import spec_of
from tilewright.graph.types import QUANTISED

Arrays = Mapping[str, Array]
# The original's values of these names, those that it has.
Reference = Callable[[tuple[str, ...]], Arrays]
# Results of an operator that has no kernel here, from what it reads by name.
RunNode = Callable[[Node, Arrays], Sequence[Array]]


def judged(
    graph: Graph,
    expected: Arrays,
    actual: Arrays,
    tolerance: float,
    *,
    inputs: Arrays,
    weights: Arrays,
    reference: Reference,
    run_node: RunNode | None = None,
) -> Comparison:
    """Compare an execution of a planned network with the original.

    Where the outputs are not equal and the network is quantised, its operators are looked at one
    by one; `reference` is asked for the original's quantised values only then.
    """
    first = compared(expected, actual, tolerance)
    made = (name for node in graph.nodes for name in node.writes if name in graph.types)
    names = tuple(name for name in made if graph.types[name].dtype in QUANTISED)
    if first.same or not names:
        return first
    given = {**inputs, **weights}
    known = reference((*names, *graph.outputs))
    checked = _step_by_step(graph, given, known, tolerance, run_node)
    if not checked.same:
        return checked
    own = _values(graph, given, {}, run_node)
    exact = compared({name: own[name] for name in graph.outputs}, actual, tolerance)
    if exact.failure is not None:
        cause = "the program does not compute the network that was planned"
        return replace(exact, failure=replace(exact.failure, cause=cause))
    return replace(checked, difference=first.difference)


def _step_by_step(
    graph: Graph, given: Arrays, known: Arrays, tolerance: float, run_node: RunNode | None
) -> Comparison:
    """Every operator on the original's own values, as far as they are known."""
    made = _values(graph, given, known, run_node)
    elements = rounded = 0
    for node in graph.nodes:
        for name in node.writes:
            if name not in known or graph.types[name].dtype not in QUANTISED:
                continue
            steps = np.abs(made[name].astype(np.int64) - known[name].astype(np.int64))
            elements += steps.size
            rounded += int(np.count_nonzero(steps))
            if steps.max(initial=0) > 1:
                return _apart(node, name, known[name], made[name], steps)
    outputs = {name: known[name] for name in graph.outputs if name in known}
    real = {n: v for n, v in outputs.items() if np.issubdtype(v.dtype, np.floating)}
    found = compared(real, made, tolerance)
    return replace(found, rounded=rounded, elements=elements)


def _apart(node: Node, name: str, expected: Array, actual: Array, steps: Array) -> Comparison:
    fault = f"'{name}' is {int(steps.max())} quantisation steps from the original's"
    cause = f"'{node.name}' ({node.kind}) computes something else on equal operands"
    return faulty(name, expected, actual, steps, fault, cause)


def _values(
    graph: Graph, given: Arrays, known: Arrays, run_node: RunNode | None
) -> dict[str, Array]:
    """What every operator makes, of values that are known, or else made before."""
    made: dict[str, Array] = dict(given)
    for node in graph.nodes:
        read = {name: known[name] if name in known else made[name] for name in node.reads}
        if spec_of(graph, node) is not None and supports(node.kind):
            operands = [read[name] if name else None for name in node.inputs]
            results: Sequence[Array] = run_step(
                node.kind, node.attributes, operands, graph.opset, len(node.outputs)
            )
        elif run_node is not None:
            results = run_node(node, read)
        else:
            raise ModelError(f"there is no kernel for operator {node.kind}")
        if len(results) == len(node.outputs):
            made |= {n: array for n, array in zip(node.outputs, results, strict=True) if n}
        else:  # a runtime gives only those that are wanted
            made |= dict(zip(node.writes, results, strict=True))
    return made
