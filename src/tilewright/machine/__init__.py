"""Machines: cores, engines, memories and links, read from YAML files that carry their sources."""

from tilewright.machine.load import list_machines, load_machine
from tilewright.machine.machine import Engine, Limits, Machine

__all__ = ["Engine", "Limits", "Machine", "list_machines", "load_machine"]
