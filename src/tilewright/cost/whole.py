"""What operators that run whole compute, beside the bytes that they move."""

from collections.abc import Sequence

from tilewright.cost.base import Cost, matrix_product
from tilewright.cost.models import CostModels
from tilewright.graph.ops.whole import Product
from tilewright.machine.machine import Core


def products_cost(models: CostModels, core: Core, products: Sequence[Product], dtype: str) -> Cost:
    """The matrix products inside an operator, one after the other on the best engine of a core.
    Products of a batch are one piece of work: engines take its positions as they come."""
    cycles, energy, useful = 0, 0.0, 0.0
    for product in products:
        work = matrix_product(
            product.rows, product.inner, product.columns, dtype, max(1, product.batch)
        )
        cost = models.best(core, work)[1]
        cycles += cost.cycles
        energy += cost.energy_pj
        useful += cost.cycles * cost.utilisation
    return Cost(cycles, energy, useful / cycles if cycles else 0.0)
