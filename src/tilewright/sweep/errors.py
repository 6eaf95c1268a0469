"""What can be wrong with a sweep: its space, or its store."""

from tilewright.errors import TilewrightError


class SpaceError(TilewrightError):
    """A space file cannot be used; the text names the file and the key."""


class SweepStoreError(TilewrightError):
    """A store cannot be read or written; what is in it is left as it is."""


class EngineError(TilewrightError):
    """The processes or the cluster that plan the points cannot be used."""
