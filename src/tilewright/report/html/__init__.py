"""The report of a run for a person: one file that opens in any browser, without a network."""

from tilewright.report.html.page import write_report

__all__ = ["write_report"]
