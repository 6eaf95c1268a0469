"""The one error tree: what a user can cause and a user can mend."""


class TilewrightError(Exception):
    """A mistake in what the user gave; its text is one line and says what to do."""


class ModelError(TilewrightError):
    """The model file cannot be read or is not a usable network."""


class ShapeError(ModelError):
    """Dimensions are open and have to be given."""


class TilingError(TilewrightError):
    """The requested tiles or group do not exist."""


class BudgetError(TilewrightError):
    """No plan meets the memory budget."""


class OutputError(TilewrightError):
    """A result cannot be written."""


class VerificationError(TilewrightError):
    """A rewritten model does not give the original's numbers."""
