"""Matrix products: rows, columns and batch are free, the reduction runs whole."""

from functools import partial

from tilewright.geometry.access import Access, AxisRule, Same, Whole
from tilewright.geometry.box import Box
from tilewright.graph.ops.spec import Engine, Op, OpSpec, broadcast_rules, free, whole_rules


def _matmul_access(
    op: Op, output: int, right: int = 1, of_right: tuple[int, ...] = (3,)
) -> Access | None:
    """`of_right` are the right matrix's scale and zero point, which may be one per column."""
    a, b, result = op.shape(0), op.shape(right), op.result().shape
    rank = len(result)
    columns = len(b) > 1
    rows = len(a) > 1
    batch = result[: rank - int(rows) - int(columns)]
    row_axis, column_axis = len(batch), rank - 1
    a_rules: tuple[AxisRule, ...] = (Whole(a[-1]),)
    if rows:
        a_rules = (*broadcast_rules(a[:-2], batch), Same(row_axis), Whole(a[-1]))
    b_rules: tuple[AxisRule, ...] = (Whole(b[-1]),)
    if columns:
        b_rules = (*broadcast_rules(b[:-2], batch), Whole(b[-2]), Same(column_axis))
    rules: list[tuple[AxisRule, ...] | None] = []
    for index, operand in enumerate(op.inputs):
        if operand is None:
            rules.append(None)
        elif index == 0:
            rules.append(a_rules)
        elif index == right:
            rules.append(b_rules)
        elif operand.type.size == 1:
            rules.append(whole_rules(operand.type.shape))
        elif index in of_right and operand.type.shape == result[-1:] and columns:
            rules.append((Same(column_axis),))
        else:
            return None  # scales or zero points per row
    return Access(result, free(result), tuple(rules))


def _matmul_macs(op: Op, box: Box) -> int:
    return box.size * op.shape(0)[-1]


def _gemm_access(op: Op, output: int) -> Access | None:
    """Rows of the first matrix, columns of the second; either may be stored transposed."""
    a, b, result = op.shape(0), op.shape(1), op.result().shape
    a_rules: tuple[AxisRule, ...] = (Same(0), Whole(a[1]))
    if op.int_of("transA", 0):
        a_rules = (Whole(a[0]), Same(0))
    b_rules: tuple[AxisRule, ...] = (Whole(b[0]), Same(1))
    if op.int_of("transB", 0):
        b_rules = (Same(1), Whole(b[1]))
    bias = (broadcast_rules(op.shape(2), result),) if op.has(2) else ()
    return Access(result, free(result), (a_rules, b_rules, *bias))


def _gemm_macs(op: Op, box: Box) -> int:
    """The reduction, for every element."""
    return box.size * op.shape(0)[0 if op.int_of("transA", 0) else 1]


_product = partial(OpSpec, "matrix product", Engine.MATRIX)
_AXES = "batch, rows, columns"
_quantised_access = partial(_matmul_access, right=3, of_right=(4, 5))
SPECS = (
    _product("MatMul", _AXES, _matmul_access, macs=_matmul_macs, adds_up=True),
    _product("MatMulInteger", _AXES, _matmul_access, macs=_matmul_macs),
    _product("QLinearMatMul", _AXES, _quantised_access, macs=_matmul_macs),
    _product("Gemm", "rows, columns", _gemm_access, macs=_gemm_macs, adds_up=True),
)
