"""Compiled steps over columns: from tasks in order to addresses and dependencies."""
