from dataclasses import dataclass
from tilewright.graph.graph import Graph
from tilewright.graph.types import BITS
from tilewright.peak import _ort as o


@dataclass(frozen=True, slots=True)
class Moment:
    value: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Prediction:
    peak: int
    at: str
    trace: tuple[Moment, ...]
    live: tuple
    scratch: int = 0


def predict_peak(graph: Graph, runtime=o.Runtime()):
    vals = {n: o.Value(t.shape, max(1, BITS[t.dtype] // 8)) for n, t in graph.types.items()}
    nodes = [o.Node(n.kind, n.inputs, n.outputs, n.attributes, n.domain) for n in graph.nodes]
    g = o.Graph(nodes, vals, frozenset(graph.constants), graph.inputs, graph.outputs)
    program = o.lower(g, runtime)
    buffers, last = o._assign_buffers(program, runtime)
    by_end = {}
    for name, position in last.items():
        by_end.setdefault(position, []).append(name)
    heap = o._make_heap(runtime.malloc, program.largest_constant)
    live = {}
    trace = []
    best = (0, "", ())
    for position, kernel in enumerate(program.kernels):
        for name in kernel.node.outputs:
            if not name:
                continue
            b = buffers[name]
            if b.counted and b.name not in live and b.name == name:
                live[name] = b.bytes
                heap.allocate(name, b.bytes)
        s = o.scratch_bytes(kernel.node, kernel.input_values, kernel.output_values, runtime)
        if s:
            heap.allocate("/scratch", s)
        r = heap.resident()
        trace.append(Moment(next((x for x in kernel.node.outputs if x), "").split("/nchwc")[0], r))
        if r > best[0]:
            best = (
                r,
                kernel.node.outputs[0],
                tuple(o.Live(*x) for x in sorted(live.items(), key=lambda x: -x[1])[:5]),
            )
        if s:
            heap.free("/scratch")
        for name in by_end.get(position, ()):
            if name in live:
                del live[name]
                heap.free(name)
    return Prediction(best[0] + runtime.fixed_overhead, best[1], tuple(trace), best[2])
