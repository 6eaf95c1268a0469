"""Fits the few parameters that nobody published, on the rows of the ladder marked for it."""

from itertools import product

from tilewright.kernel.assess import NestModel
from tilewright.kernel.ladder import RUNGS, measured_kernels
from tilewright.kernel.target import Calibration, CoreTarget, calibration, target_of
from tilewright.machine.machine import Machine

FITTED = ("packet", "kept_share")


def fit_error(target: CoreTarget) -> float:
    """The sum of squared relative errors on the fitted rows."""
    total = 0.0
    for row in measured_kernels():
        if row.fit:
            nest = RUNGS[row.rung](row.problem, target)
            us = NestModel(row.problem, target).assess(nest).seconds * 1e6
            total += (us / row.low - 1) ** 2
    return total


def fit(machine: Machine, rounds: int = 9) -> Calibration:
    """The parameters of least squared relative error: a grid, made finer around its best point."""
    found = calibration()
    centre, reach = (100e-9, 0.2), (90e-9, 0.19)
    for _ in range(rounds):
        steps = [[c + r * k / 2 for k in range(-2, 3)] for c, r in zip(centre, reach, strict=True)]
        centre = min(
            ((packet, share) for packet, share in product(*steps)),
            key=lambda point: fit_error(
                target_of(machine, found.with_values(packet=point[0], kept_share=point[1]))
            ),
        )
        reach = (reach[0] / 2, reach[1] / 2)
    return found.with_values(packet=round(centre[0], 10), kept_share=round(centre[1], 4))
