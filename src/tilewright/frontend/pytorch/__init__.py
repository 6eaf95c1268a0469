"""PyTorch networks: module graphs by FX, ATen graphs by torch.export, both as a Graph.

Only this package imports torch, and only when a torch network is asked for.
"""
