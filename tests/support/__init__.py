"""Helpers of the tests: graphs built by hand, tiled runs compared, naive dependencies."""
