"""Matrix products with a longer reduction than the array counts: partial products, added."""

from collections.abc import Sequence

from tilewright.legalise.convolutions import reduction_parts
from tilewright.legalise.draft import Draft, part_of
from tilewright.machine.machine import Limits


def split_reduction(draft: Draft, limits: Limits) -> str | None:
    """A dense layer of 25,088 inputs becomes a sum of layers of at most 8,192."""
    op = draft.op
    if op.kind not in ("Gemm", "MatMul") or limits.dimension is None:
        return None
    left, right = op.shape(0), op.shape(1)
    if op.kind == "Gemm":
        left_axis = 0 if op.int_of("transA", 0) else 1
        right_axis = 1 if op.int_of("transB", 0) else 0
    else:
        left_axis, right_axis = len(left) - 1, max(0, len(right) - 2)
    inner = left[left_axis]
    if inner <= limits.dimension:
        return None
    cuts = reduction_parts(inner, limits)
    results: list[str] = []
    for number, cut in enumerate(cuts):
        inputs = [
            _part(draft, draft.node.inputs[0], left_axis, (cut.start, cut.stop)),
            _part(draft, draft.node.inputs[1], right_axis, (cut.start, cut.stop)),
            *(draft.node.inputs[2:] if number == 0 else ()),
        ]
        shape = op.result().shape
        results.append(draft.add(op.kind, inputs, shape, "part", op.attributes))
    draft.sum(results)
    lengths: Sequence[int] = sorted({cut.length for cut in cuts}, reverse=True)
    sizes = " and ".join(map(str, lengths))
    return f"reduction of {inner} as a sum over {len(cuts)} parts of {sizes}"


def _part(draft: Draft, value: str, axis: int, cut: tuple[int, int]) -> str:
    constant = draft.graph.constants.get(value)
    if constant is not None:
        return draft.weight("weight", part_of(constant, {axis: cut}))
    return draft.slice(value, {axis: (*cut, 1)})
