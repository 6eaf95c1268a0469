"""Operator fusion: a network as kernels, counted, and mapped on processors."""
