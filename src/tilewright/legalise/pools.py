"""Pools beyond the array as cascades of smaller ones; what does not factorise stays whole."""

from tilewright.graph.graph import Attribute
from tilewright.graph.ops.spec import Pool
from tilewright.graph.ops.windows import FIRST_SPATIAL, WindowParameters, window_of
from tilewright.graph.rules import need, require
from tilewright.legalise.draft import Draft
from tilewright.legalise.limits import pool_window, too_long
from tilewright.machine.machine import Limits
from tilewright.units import by

# The first stage of a cascade. Averages of averages and maxima of maxima are exact.
_STAGE = {Pool.MAXIMUM: "MaxPool", Pool.AVERAGE: "AveragePool"}


def cascade_factors(draft: Draft, limits: Limits) -> str:
    """A pool without padding first pools blocks: 14x14 is 7x7 stride 7, then 2x2."""
    window, most = _too_large(draft, limits), need(limits.kernel)
    require(not any((*window.before, *window.after)) and set(window.dilations) <= {1})
    require(not draft.op.int_of("ceil_mode", 0))
    shape = draft.op.shape(0)
    longest = min(most, limits.stride or most)
    blocks: list[int] = []
    for a, kernel in enumerate(window.kernel):
        if kernel <= most:
            blocks.append(1)
            continue
        # A window that is all of its input takes no second step.
        stride = kernel if kernel == shape[FIRST_SPATIAL + a] else window.strides[a]
        fit = (f for f in range(longest, 1, -1) if kernel % f == 0 and stride % f == 0)
        blocks.append(need(next(fit, None)))
    require(_finishes(window, blocks, most, longest))
    stage = tuple(blocks)
    space = tuple(e // b for e, b in zip(shape[FIRST_SPATIAL:], stage, strict=True))
    first = draft.add(
        _STAGE[need(draft.spec.pool)],
        draft.old.inputs,
        (*shape[:FIRST_SPATIAL], *space),
        "pool",
        {"kernel_shape": stage, "strides": stage},
    )
    kernel = tuple(k // b for k, b in zip(window.kernel, stage, strict=True))
    attributes = dict(draft.op.attributes)
    attributes.pop("auto_pad", None)
    if window_of(draft.op) is not None:
        attributes["kernel_shape"] = kernel
        attributes["strides"] = tuple(
            s // b if s % b == 0 else 1 for s, b in zip(window.strides, stage, strict=True)
        )
    draft.last(draft.op.kind, [first], attributes)
    return f"{by(window.kernel)} pool as {by(stage)} stride {by(stage)}, then {by(kernel)}"


def cascade_maxima(draft: Draft, limits: Limits) -> str:
    """A large maximum is the maximum of smaller ones at every position: 13 is 7 after 7."""
    window = _too_large(draft, limits)
    require(draft.spec.pool is Pool.MAXIMUM and window_of(draft.op) is not None)
    require(set(window.dilations) <= {1} and not draft.op.int_of("storage_order", 0))
    result, shape = draft.op.result().shape, draft.op.shape(0)
    first: list[tuple[int, int, int]] = []  # kernel, pads of the first stage
    second: list[tuple[int, int, int]] = []
    for a, kernel in enumerate(window.kernel):
        axis = FIRST_SPATIAL + a
        before = window.before[a]
        covered = (result[axis] - 1) * window.strides[a] + kernel
        after = max(0, covered - before - shape[axis])  # ceil mode may reach further
        small = kernel // 2 + 1 if too_long(kernel, limits.kernel) else 1
        rest = kernel + 1 - small
        early = (min(before, small // 2), min(after, small // 2))
        late = (before - early[0], after - early[1])
        require(max(late) <= rest // 2)
        first.append((small, *early))
        second.append((rest, *late))
    space = tuple(
        e + b + a - k + 1 for e, (k, b, a) in zip(shape[FIRST_SPATIAL:], first, strict=True)
    )
    require(min(space) > 0)
    attributes = _window_attributes(first, (1,) * len(first))
    extents = (*shape[:FIRST_SPATIAL], *space)
    stage = draft.add("MaxPool", draft.old.inputs, extents, "pool", attributes)
    draft.last("MaxPool", [stage], _window_attributes(second, window.strides))
    kernels = [by(tuple(k for k, _, _ in part)) for part in (first, second)]
    return f"{by(window.kernel)} maximum as {kernels[0]}, then {kernels[1]}"


def _too_large(draft: Draft, limits: Limits) -> WindowParameters:
    """The window of a pool whose kernel is beyond the limit."""
    # A quantised one would round twice.
    require(draft.spec.pool in _STAGE and len(draft.old.outputs) == 1 and not draft.old.domain)
    window = need(pool_window(draft.op))
    require(any(too_long(k, limits.kernel) for k in window.kernel))
    return window


def _finishes(window: WindowParameters, blocks: list[int], most: int, longest: int) -> bool:
    """Whether what is left is legal, or has a factor that is: no cascade stops half way."""
    for kernel, block in zip(window.kernel, blocks, strict=True):
        rest = kernel // block
        while rest > most:
            factor = next((f for f in range(longest, 1, -1) if rest % f == 0), None)
            if factor is None:
                return False
            rest //= factor
    return True


def _window_attributes(
    stages: list[tuple[int, int, int]], strides: tuple[int, ...]
) -> dict[str, Attribute]:
    kernel, before, after = zip(*stages, strict=True)
    return {"kernel_shape": kernel, "strides": strides, "pads": (*before, *after)}
