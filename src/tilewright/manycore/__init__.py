"""Accelerators of several different cores, as Stream and ZigZag users describe them: their files
read unchanged, tiles that flow between cores, and the allocation of layers to cores searched."""
