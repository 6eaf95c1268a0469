"""Half-open intervals and boxes, and what one interval of an output needs of an input."""
