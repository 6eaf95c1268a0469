"""How units are divided into groups: downsets, dynamic programming, greedy merging, patterns."""
