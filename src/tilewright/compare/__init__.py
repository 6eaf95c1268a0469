"""Plans beside each other."""
