"""A machine as JSON."""

from typing import Any

from tilewright.machine.machine import Machine, Memory
from tilewright.tables import picked


def machine_json(machine: Machine) -> dict[str, Any]:
    """What a machine has, for a program to read."""
    return {
        **picked(machine, "name", "title", "clock_hz", "dtype"),
        "memories": [_memory(memory) for memory in machine.memories],
        "engines": [
            picked(engine, "name", "core", "kind", "model", "clock_hz")
            for engine in machine.engines
        ],
        "links": [
            {
                **picked(link, "name", "kind"),
                "routes": [
                    {
                        "from": route.source,
                        "to": route.destination,
                        "latency_cycles": route.latency,
                        "bytes_per_cycle": machine.alone_bytes_per_cycle(route),
                        "shares": list(route.groups),
                    }
                    for route in link.routes
                ],
            }
            for link in machine.links
        ],
        "limits": picked(machine.limits, *machine.limits.__slots__),
        "energy": {
            "mac_pj": dict(machine.energy.mac_pj),
            **picked(machine.energy, "vector_pj", "estimate"),
        },
        "sources": dict(machine.sources),
    }


def _memory(memory: Memory) -> dict[str, Any]:
    sizes = {"capacity_bytes": memory.capacity, "usable_bytes": memory.usable}
    others = picked(memory, "alignment", "bytes_per_cycle")
    return {**picked(memory, "name", "core"), **sizes, **others, "roles": list(memory.roles)}
