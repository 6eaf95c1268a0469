"""sweep.html: one page with all points of a sweep inside."""
