"""Operators that cannot be cut: one task on all that they read and write in the main memory."""

from collections.abc import Callable

from tilewright.cost.base import Copy
from tilewright.cost.dma import moved_bytes, start_cycles
from tilewright.graph.graph import Node
from tilewright.machine.machine import Machine
from tilewright.program.program import Task, View, Whole


def whole_task(
    node: Node, group: int, machine: Machine, source: Callable[[str], View], target: list[View]
) -> Task:
    """The operator as one task, costed from its bytes: whoever runs it, they pass the memory."""
    main = machine.main_memory
    link, route = next(machine.routes(main.name, machine.cores[0].memory.name))
    reads: list[View] = []

    def number(name: str) -> int:
        reads.append(source(name))
        return len(reads) - 1

    results = iter(range(len(target)))
    work = Whole(
        node.kind,
        node.domain,
        dict(node.attributes),
        tuple(number(name) if name else None for name in node.inputs),
        tuple(next(results) if name else None for name in node.outputs),
        tuple((name, number(name)) for name in node.captures),
        (main.name, main.name),
    )
    copies = [Copy(*view.runs()) for view in (*reads, *target)]
    energy = sum(view.bytes for view in reads) * main.read_pj_per_byte
    energy += sum(view.bytes for view in target) * main.write_pj_per_byte
    return Task(
        f"whole {node.name}",
        link.name,
        work,
        tuple(reads),
        tuple(target),
        max(start_cycles(copy, link, route) for copy in copies),
        sum(moved_bytes(copy, route) for copy in copies),
        energy,
        node=node.name,
        group=group,
    )
