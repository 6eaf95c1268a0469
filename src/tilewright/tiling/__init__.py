"""A group of operators and a grid: every tile of every node, and the tiled network."""
