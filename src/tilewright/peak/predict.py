"""Predict the peak activation memory of one onnxruntime run: rewrite as it does, then walk."""

from dataclasses import dataclass
from typing import NamedTuple

from tilewright.graph.graph import Graph
from tilewright.peak import few_bits, fusion, layout, quantised, simplify
from tilewright.peak.buffers import Buffers
from tilewright.peak.network import Pass, RuntimeNetwork
from tilewright.peak.runtime import Runtime
from tilewright.peak.scratch import scratch_blocks

BASIC: tuple[Pass, ...] = (
    simplify.fold_constants,
    simplify.drop_no_ops,
    quantised.propagate,
    simplify.merge_duplicates,
    simplify.slices_to_split,
    simplify.cancel_transposes,
    simplify.fuse_pads,
    simplify.fuse_conv_constants,
    simplify.fuse_matmul_add,
    quantised.one_for_each,
)
EXTENDED: tuple[Pass, ...] = (
    quantised.make_unsigned,
    quantised.fuse_quantised,
    few_bits.fuse_packed_weights,
    fusion.fuse_layer_norm,
    fusion.fuse_gelu,
    fusion.fuse_gemm_activations,
    fusion.fuse_conv_activations,
    fusion.fuse_silu,
    fusion.fuse_skip_layer_norm,
    fusion.fuse_matmul_neighbours,
)
ALL: tuple[Pass, ...] = (
    layout.block_layout,
    quantised.quantised_channels_last,
    fusion.fuse_conv_sums,
)


class Moment(NamedTuple):
    """Bytes in use while a kernel runs, and the value of the graph that it makes."""

    value: str
    bytes: int


class Live(NamedTuple):
    """A value of the graph that is in memory."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Prediction:
    """Peak bytes of a run beyond weights and inputs, once the session has run before.

    `at` is the value that is made at the peak, `live` what is in memory then (largest first, with
    that value), `scratch` what its kernel needs for itself. `trace` has one moment per kernel in
    the order they run.
    """

    peak: int
    at: str
    trace: tuple[Moment, ...]
    live: tuple[Live, ...]
    scratch: int


def predict_peak(
    graph: Graph, runtime: Runtime | None = None, *, tile_of: Graph | None = None
) -> Prediction:
    """Peak activation memory of one run of the network in onnxruntime. A tile is predicted as it
    runs within the network it is of, whose constants all tiles read."""
    return _walk(lower(graph, runtime or Runtime(), tile_of))


def lower(graph: Graph, runtime: Runtime, tile_of: Graph | None = None) -> RuntimeNetwork:
    """The kernels that onnxruntime makes of the graph."""
    network = RuntimeNetwork(graph, runtime, tile_of)
    passes = BASIC
    if runtime.extended:
        passes += EXTENDED
        if runtime.block > 1:
            passes += ALL
    for rewrite in passes:
        rewrite(network)
    return network


def _walk(network: RuntimeNetwork) -> Prediction:
    """Run the kernels in order: outputs come, scratch comes and goes, what is read last goes."""
    kernels = network.in_order()
    buffers = Buffers(network, kernels)
    trace: list[Moment] = []
    peak, peak_position, peak_scratch = 0, 0, 0
    for position, kernel in enumerate(kernels):
        buffers.make(kernel, position)
        scratch = scratch_blocks(kernel, network.types)
        level = buffers.level(scratch)
        name = next(filter(None, kernel.outputs), "")
        trace.append(Moment(network.origin.get(name, name), level))
        if level > peak:
            peak, peak_position, peak_scratch = level, position, sum(scratch)
        buffers.release(kernel, position)
    live = tuple(
        Live(network.origin.get(name, name), size) for name, size in buffers.at(peak_position)
    )
    at = trace[peak_position].value if trace else ""
    return Prediction(peak, at, tuple(trace), live, peak_scratch)
