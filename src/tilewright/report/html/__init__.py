"""The report of a run for a person: one file that opens in any browser, without a network."""
