"""Numpy kernels: what the virtual machine executes a step of a tile with.

They are written from the ONNX standard and share nothing with the access relations of
`graph/ops`, so that neither can hide a mistake of the other.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.errors import ModelError
from tilewright.graph.graph import Array, Attribute
from tilewright.graph.kernels import (
    convolution,
    elementwise,
    layout,
    matmul,
    pooling,
    reduction,
    resample,
)
from tilewright.graph.kernels.call import Call, Kernel
from tilewright.graph.kernels.qlinear import qlinear_kernels

_FLOAT: Mapping[str, Kernel] = {
    kind: kernel
    for family in (convolution, pooling, elementwise, matmul, reduction, layout, resample)
    for kind, kernel in family.KERNELS.items()
}
KERNELS: Mapping[str, Kernel] = {**_FLOAT, **qlinear_kernels(_FLOAT)}


def supports(kind: str) -> bool:
    """Whether steps of this kind can be executed."""
    return kind in KERNELS


def run_step(
    kind: str,
    attributes: Mapping[str, Attribute],
    inputs: Sequence[Array | None],
    opset: int,
    outputs: int = 1,
) -> tuple[Array, ...]:
    """The results of one operator: as many as `outputs` asks for.

    Inputs may be views with any strides; they are never written to, and no result shares memory
    with them.
    """
    kernel = KERNELS.get(kind)
    if kernel is None:
        raise ModelError(f"there is no kernel for operator {kind}")
    with np.errstate(all="ignore"):
        made = kernel(Call(kind, attributes, tuple(inputs), opset, outputs))
    results = made if isinstance(made, tuple) else (made,)
    if len(results) < outputs:
        raise ModelError(f"{kind} makes {len(results)} results here, {outputs} are wanted")
    given = [array for array in inputs if array is not None]
    return tuple(_own(np.asarray(result), given) for result in results[:outputs])


def _own(result: Array, given: list[Array]) -> Array:
    """The result in memory of its own."""
    shared = any(np.may_share_memory(result, array) for array in given)
    return result.copy() if shared or not result.flags.writeable else result
