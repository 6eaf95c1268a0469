"""Plans: all that a search decides, and all that a person may write by hand."""
