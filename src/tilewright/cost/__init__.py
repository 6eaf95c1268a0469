"""What one tile of one operator, or one copy, costs on one engine."""
