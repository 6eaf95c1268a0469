"""Legalisation: the machine's limits are met, or met by visible steps."""

from tilewright.legalise.limits import LimitCheck, array_limits, fits_limits
from tilewright.legalise.passes import legalise
from tilewright.legalise.steps import Legalised, LegalStep

__all__ = ["LegalStep", "Legalised", "LimitCheck", "array_limits", "fits_limits", "legalise"]
