"""The command line."""

from tilewright.cli.main import main

__all__ = ["main"]
