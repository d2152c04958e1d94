"""Limited-memory BFGS for many smooth problems of one shape at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sottovoce.privacy.numbers import Floats, Integers

__all__ = ["Metric", "minimise"]

_MEMORY = 12
"""Pairs of steps that the curvature is known by (Nocedal and Wright 2006, §7.2, advise 3 to 20)."""
_ARMIJO, _CUTS = 1e-4, 30
"""The part of the foreseen descent that a step must reach, and how often it is halved."""

_NOTHING = 1e-300
"""Curvature below this is none."""

Rows = Integers
Objective = Callable[[Floats, Rows], tuple[Floats, Floats]]
Metric = Callable[[Floats], Floats]
_Pair = tuple[Floats, Floats, Floats]


def minimise(objective: Objective, start: Floats, metric: Metric, steps: int, tolerance: float) -> Floats:
    """Return the minimisers of convex functions, a row each, by L-BFGS with halved steps.

    Parameters
    ----------
    objective
        The values (rows,) and gradients (rows, coordinates) at points (rows, coordinates), given which rows these are.
    start
        Where to begin, (rows, coordinates).
    metric
        Multiplies gradients, (rows, coordinates), with about the inverse of the curvature.
    steps
        How many steps at most.
    tolerance
        A row is done when gradient · metric · gradient, twice the descent to be had, is below this.

    Examples
    --------
    >>> curvature = np.array([1.0, 100.0])
    >>> def bowl(x, rows):
    ...     return 0.5 * (curvature * (x - 3) ** 2).sum(axis=1), curvature * (x - 3)
    >>> minimise(bowl, np.zeros((2, 2)), lambda g: g / curvature, 50, 1e-12).round(6).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    result = np.array(start, dtype=np.float64)
    rows = np.arange(len(result))
    x, (value, gradient) = result.copy(), objective(result, rows)
    pairs: list[_Pair] = []
    for _ in range(steps):
        step = -_direction(gradient, pairs, metric)
        slope = (gradient * step).sum(axis=1)
        lost = ~(slope < 0)
        step[lost] = -metric(gradient[lost])  # curvature that rounding has spoilt: down the plain slope
        slope[lost] = (gradient[lost] * step[lost]).sum(axis=1)
        active = -slope > tolerance
        result[rows] = x
        if not active.any():
            break
        if not active.all():
            rows, x, value, gradient, step, slope = (a[active] for a in (rows, x, value, gradient, step, slope))
            pairs = [(moved[active], bent[active], inverse[active]) for moved, bent, inverse in pairs]
        new, new_value, new_gradient = _searched(objective, rows, x, value, step, slope)
        moved, bent = new - x, new_gradient - gradient
        product = (moved * bent).sum(axis=1)
        usable = product > _NOTHING
        pairs.append((moved * usable[:, None], bent, usable / np.where(usable, product, 1.0)))
        del pairs[:-_MEMORY]
        x, value, gradient = new, new_value, new_gradient
    result[rows] = x
    return result


def _searched(
    objective: Objective, rows: Rows, x: Floats, value: Floats, step: Floats, slope: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return points along the steps that are low enough, each step halved until its own is."""
    new = x + step
    new_value, new_gradient = objective(new, rows)
    length = np.ones(len(x))
    for cut in range(_CUTS):
        high = np.flatnonzero(~(new_value <= value + _ARMIJO * length * slope + 1e-15 * np.abs(value)))
        if not high.size:
            break
        length[high] = 0.0 if cut + 1 == _CUTS else length[high] / 2
        new[high] = x[high] + length[high, None] * step[high]
        new_value[high], new_gradient[high] = objective(new[high], rows[high])
    return new, new_value, new_gradient


def _direction(gradient: Floats, pairs: list[_Pair], metric: Metric) -> Floats:
    """Return the inverse curvature times the gradient (the two-loop recursion)."""
    result, weights = gradient.copy(), []
    for moved, bent, inverse in reversed(pairs):
        weight = inverse * (moved * result).sum(axis=1)
        result -= weight[:, None] * bent
        weights.append(weight)
    result = metric(result)
    for (moved, bent, inverse), weight in zip(pairs, reversed(weights), strict=True):
        result += (weight - inverse * (bent * result).sum(axis=1))[:, None] * moved
    return result
