"""A robust least-squares fit of cost forms, in plain numpy.

Coefficients are fitted as logarithms, so they cannot be negative and the form stays monotone; the
residual is the logarithm of predicted over given cycles, so that small and large work count alike;
a soft absolute value keeps outliers of the data from pulling the fit.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
SHARPNESS = 3.0  # of the soft maximum; stands in the machine file
_SOFT = 0.1  # residuals below this count squared, above it as they are
_LOWEST = -14.0


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients of a form: constant, of what adds up, of what is limited by the largest."""

    overhead: float
    sums: tuple[float, ...]
    limits: tuple[float, ...]


def fit_form(sums: Floats, limits: Floats | None, cycles: Floats) -> Fit:
    """Coefficients for terms of shape (modes, rows, terms); the best mode counts for each row."""
    sum_scale = _scales(sums, cycles)
    scaled_sums = sums / sum_scale
    limit_scale = _scales(limits, cycles) if limits is not None else np.ones(0)
    scaled_limits = limits / limit_scale if limits is not None else None
    count = sums.shape[2]
    start = np.concatenate(
        [[np.log(cycles.min() / 2)], np.full(count, -3.0), np.full(len(limit_scale), -1.0)]
    )
    if limits is None:
        start[1] = -0.5
    else:
        start[1 + count] = -0.1

    def residuals(logs: Floats) -> Floats:
        values = np.exp(logs)
        predicted = values[0] + scaled_sums @ values[1 : 1 + count]
        if scaled_limits is not None:
            weighted = (scaled_limits * values[1 + count :]) ** SHARPNESS
            predicted = predicted + weighted.sum(axis=2) ** (1 / SHARPNESS)
        return np.log(predicted.min(axis=0)) - np.log(cycles)

    values = np.exp(_minimise(residuals, start))
    return Fit(
        float(values[0]),
        tuple(map(float, values[1 : 1 + count] / sum_scale)),
        tuple(map(float, values[1 + count :] / limit_scale)),
    )


def _scales(terms: Floats, cycles: Floats) -> Floats:
    """What makes a coefficient of 1 explain the typical row by that term alone."""
    return np.median(terms / cycles[None, :, None], axis=(0, 1))


def _minimise(residuals: Callable[[Floats], Floats], start: Floats) -> Floats:
    """Levenberg-Marquardt on soft-absolute residuals."""
    point, damping = start, 1e-2
    here = residuals(point)
    best = _loss(here)
    for _ in range(400):
        weights = (1 + (here / _SOFT) ** 2) ** -0.25
        jacobian = np.empty((len(here), len(point)))
        for column in range(len(point)):
            moved = point.copy()
            moved[column] += 1e-5
            jacobian[:, column] = (residuals(moved) - here) / 1e-5
        left, right = jacobian * weights[:, None], here * weights
        normal, gradient = left.T @ left, left.T @ right
        improved = False
        while damping < 1e8:
            scaled = normal + damping * (np.diag(np.diag(normal)) + 1e-9 * np.eye(len(point)))
            step = np.clip(np.linalg.solve(scaled, gradient), -1.0, 1.0)
            trial = np.maximum(point - step, _LOWEST)
            there = residuals(trial)
            loss = _loss(there)
            if loss < best:
                improved = best - loss > 1e-9 * best
                point, here, best, damping = trial, there, loss, max(damping / 5, 1e-9)
                break
            damping *= 4
        if not improved:
            break
    return point


def _loss(residual: Floats) -> float:
    return float((np.sqrt(1 + (residual / _SOFT) ** 2) - 1).sum())
