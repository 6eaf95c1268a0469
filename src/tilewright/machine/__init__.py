"""Machines: cores, engines, memories and links, read from YAML files that carry their sources."""

from tilewright.machine.load import list_machines, load_machine
from tilewright.machine.machine import (
    ROLES,
    Core,
    Engine,
    Hop,
    Limits,
    Link,
    Machine,
    Memory,
    Role,
    Route,
)

__all__ = [
    "ROLES",
    "Core",
    "Engine",
    "Hop",
    "Limits",
    "Link",
    "Machine",
    "Memory",
    "Role",
    "Route",
    "list_machines",
    "load_machine",
]
