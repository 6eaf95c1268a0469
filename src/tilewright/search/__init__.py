"""Finds plans."""
