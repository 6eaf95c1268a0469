"""Cycles that no plan can undercut."""
