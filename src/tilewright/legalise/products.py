"""Matrix products with a longer reduction than the array counts: partial products, added."""

from tilewright.geometry.access import AxisRule, Whole
from tilewright.graph.rules import need, require
from tilewright.legalise.convolutions import reduction_parts
from tilewright.legalise.draft import Draft
from tilewright.machine.machine import Limits


def split_reduction(draft: Draft, limits: Limits) -> str:
    """A dense layer of 25,088 inputs becomes a sum of layers of at most 8,192."""
    spec, op = draft.spec, draft.op
    require(spec.filter is None and spec.adds_up)
    access = need(spec.access(op, 0))
    left_axis, right_axis = (_reduced(rules) for rules in access.inputs[:2])
    inner = op.shape(0)[left_axis]
    require(inner > need(limits.dimension))
    cuts = reduction_parts(inner, limits)
    draft.sum_over(cuts, left_axis, right_axis)
    sizes = " and ".join(map(str, sorted({cut.length for cut in cuts}, reverse=True)))
    return f"reduction of {inner} as a sum over {len(cuts)} parts of {sizes}"


def _reduced(rules: tuple[AxisRule, ...] | None) -> int:
    """The axis of an operand that is summed over: the last that runs whole."""
    return max(axis for axis, rule in enumerate(need(rules)) if isinstance(rule, Whole))
