"""What operators may run as: units, tiles with their costs, sections, the best of them."""
