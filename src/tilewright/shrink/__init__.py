"""Less memory on a real runtime: which groups to cut, and in how many tiles."""
