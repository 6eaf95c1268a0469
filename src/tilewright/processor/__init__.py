"""Processors that operators are mapped on: GPUs, systolic arrays, tiles; described by files."""

from tilewright.processor.load import list_processors, load_processor
from tilewright.processor.schema import Processor

__all__ = ["Processor", "list_processors", "load_processor"]
