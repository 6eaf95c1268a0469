"""Machines: cores, engines, memories and links, read from YAML files that carry their sources."""

from tilewright.machine.load import list_machines, load_machine
from tilewright.machine.machine import Core, Engine, Limits, Link, Machine, Memory, Route

__all__ = [
    "Core",
    "Engine",
    "Limits",
    "Link",
    "Machine",
    "Memory",
    "Route",
    "list_machines",
    "load_machine",
]
