"""The report of a run for a person: one file that opens in any browser, without a network."""

from tilewright.report.html.page import write_report
from tilewright.report.html.story import Bound, BoundaryReason, GroupNote, Rival, Story

__all__ = ["Bound", "BoundaryReason", "GroupNote", "Rival", "Story", "write_report"]
