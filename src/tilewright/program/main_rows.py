"""Groups that run in the main memory: operators that cannot be cut, and movement by copies."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tilewright.cost.base import Copy
from tilewright.cost.dma import moved_bytes, start_cycles
from tilewright.cost.from_graph import workload_of
from tilewright.geometry.box import Box
from tilewright.graph.graph import Node
from tilewright.graph.ops import runs_whole
from tilewright.graph.ops.spec import Engine
from tilewright.machine.machine import Hop
from tilewright.program.columns import COMPUTE, WHOLE
from tilewright.program.faults import LoweringError
from tilewright.program.layout import part
from tilewright.program.rows import Access, GroupRows, Outside, Price, Row, Title
from tilewright.tiling.group import TiledOp, typed_group, whole_tile

if TYPE_CHECKING:
    from tilewright.program.context import Context, Lying

Lies = Callable[[str], "Lying"]


def main_rows(
    context: "Context", members: Sequence[int], names: Sequence[str], lies: Lies
) -> GroupRows:
    """The rows of a group that runs in the main memory."""
    graph = context.graph
    nodes = [graph.nodes[index] for index in members]
    made = GroupRows(outside=[Outside(value, -1) for value in range(len(names))])
    slots = {name: ~number for number, name in enumerate(names)}
    whole = next((node for node in nodes if runs_whole(graph, node)), None)
    if whole is not None:
        if len(nodes) > 1:
            raise LoweringError(needs_own_group(whole))
        made.rows.append(_whole(context, whole, slots, lies))
        return made
    for number, tiled in enumerate(typed_group(graph, members)):
        made.rows.append(_moved(context, number, tiled, slots, lies))
    return made


def needs_own_group(node: Node) -> str:
    """What a plan is told that puts an operator that runs whole anywhere else."""
    return f"'{node.name}' ({node.kind}) runs whole: give it a group of its own, place: main"


def _hop(context: "Context") -> Hop:
    """The first way out of the main memory: what passes it is timed on it."""
    main = context.machine.main_memory.name
    for link in context.machine.links:
        for route in link.routes:
            if route.source == main:
                return link, route
    raise LoweringError(f"machine {context.machine.name}: no link leads out of {main}")


def _whole(context: "Context", node: Node, slots: dict[str, int], lies: Lies) -> Row:
    """An operator as one task, costed from its bytes: whoever runs it, they pass the memory."""
    main = context.machine.main_memory
    link, route = _hop(context)
    read = [context.view(lies(name)) for name in (*node.inputs, *node.captures) if name]
    written = [context.view(lies(name)) for name in node.writes]
    copies = [Copy(*view.runs()) for view in (*read, *written)]
    energy = sum(view.bytes for view in read) * main.read_pj_per_byte
    energy += sum(view.bytes for view in written) * main.write_pj_per_byte

    def access(name: str) -> Access:
        return slots[name], 0, lies(name).layout

    price = Price(
        context.tables.engine_number[link.name],
        max(start_cycles(copy, link, route) for copy in copies),
        energy,
        sum(moved_bytes(copy, route) for copy in copies),
    )
    reads = [access(name) for name in (*node.inputs, *node.captures) if name]
    return Row(WHOLE, price, (0,), 0, reads, [access(name) for name in node.writes], Title.WHOLE)


def _moved(context: "Context", op: int, tiled: TiledOp, slots: dict[str, int], lies: Lies) -> Row:
    """Data movement by copies within the main memory."""
    if tiled.spec.engine is not Engine.MOVE:
        raise LoweringError(f"'{tiled.node.name}' ({tiled.node.kind}) has to run on a core")
    main = context.machine.main_memory
    link, route = _hop(context)
    tile = whole_tile(tiled)
    steps = tiled.spec.tile(tiled.op, tile)
    reads: list[Access] = []
    for operand in sorted({i for step in steps for i in step.inputs if isinstance(i, int)}):
        name = tiled.node.inputs[operand]
        box, view = tile.input_box(operand), context.view(lies(name))
        region = view if box is None else part(view, Box.whole(view.shape), box)
        layout = context.layout(name, region.shape, region.strides)
        reads.append((slots[name], region.offset - view.offset, layout))
    writes = [(slots[name], 0, lies(name).layout) for name in tiled.node.writes]
    copies = [Copy(*context.view(lies(name)).runs()) for name in tiled.node.writes]
    work = workload_of(tiled.spec, tiled.op, tile, context.dtype)
    engine = context.tables.engine_number[link.name]
    price = Price(
        engine,
        sum(start_cycles(copy, link, route) for copy in copies),
        sum(c.bytes for c in copies) * (main.read_pj_per_byte + main.write_pj_per_byte),
        2 * sum(moved_bytes(copy, route) for copy in copies),
    )
    number = context.tables.works.number(engine, work)
    return Row(COMPUTE, price, (op,), 0, reads, writes, Title.MOVE, number)
