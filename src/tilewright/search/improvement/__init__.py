"""Moves on plans, and the loop that makes those that help on the simulator."""
