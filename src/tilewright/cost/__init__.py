"""What one tile of one operator, or one copy, costs on one engine."""

from tilewright.cost.base import Copy, Cost, CostModel, WorkKind, Workload
from tilewright.cost.models import CostModels, best_engine, copy_cost, model_for

__all__ = [
    "Copy",
    "Cost",
    "CostModel",
    "CostModels",
    "WorkKind",
    "Workload",
    "best_engine",
    "copy_cost",
    "model_for",
]
