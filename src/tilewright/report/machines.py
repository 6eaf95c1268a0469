"""A machine as JSON."""

from typing import Any

from tilewright.machine.machine import Machine, Memory


def machine_json(machine: Machine) -> dict[str, Any]:
    """What a machine has, for a program to read."""
    return {
        "name": machine.name,
        "title": machine.title,
        "clock_hz": machine.clock_hz,
        "dtype": machine.dtype,
        "memories": [_memory(memory) for memory in machine.memories],
        "engines": [
            {
                "name": engine.name,
                "core": engine.core,
                "kind": engine.kind,
                "model": engine.model,
                "clock_hz": engine.clock_hz,
            }
            for engine in machine.engines
        ],
        "links": [
            {
                "name": link.name,
                "kind": link.kind,
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
        "limits": {key: getattr(machine.limits, key) for key in machine.limits.__slots__},
        "energy": {
            "mac_pj": dict(machine.energy.mac_pj),
            "vector_pj": machine.energy.vector_pj,
            "estimate": machine.energy.estimate,
        },
        "sources": dict(machine.sources),
    }


def _memory(memory: Memory) -> dict[str, Any]:
    return {
        "name": memory.name,
        "core": memory.core,
        "capacity_bytes": memory.capacity,
        "usable_bytes": memory.usable,
        "alignment": memory.alignment,
        "bytes_per_cycle": memory.bytes_per_cycle,
        "roles": list(memory.roles),
    }
