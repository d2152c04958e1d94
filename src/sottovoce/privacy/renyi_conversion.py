"""From a Rényi curve to (ε, δ): the best of every conversion that is known to hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.rounding import log_lifted

__all__ = ["renyi_epsilon", "renyi_log_delta"]

Curve = Callable[[Floats], Floats]

_LOG_STEPS = np.linspace(-9.0, 16.0, 126)  # orders 1 + e^-9 ... 1 + e^16 where the curve has no pole
_APPROACH = np.linspace(-12.0, 12.0, 121)  # logits of (order - 1) / (pole - 1) where it has one
_CLOSER = ((2, np.linspace(-1.0, 1.0, 129)), (4, np.linspace(-1.0, 1.0, 17)))
"""How often one looks closer about a minimum, and where: fewer calls for few, fewer orders for many, equally near."""


def renyi_log_delta(renyi: Curve, epsilon: Floats, pole: float = np.inf) -> Floats:
    r"""Return log δ(ε) implied by a Rényi curve R(λ), finite for 1 < λ < `pole`.

    For every order λ the following hold, so their minimum does; λ is optimised on a grid that reaches
    towards the pole and is refined around each minimum:

    .. math:: \delta \le e^{(\lambda-1)(R-\varepsilon)} (1-1/\lambda)^{\lambda-1} / \lambda, \qquad
              \delta \le \frac{e^{(\lambda-1)R}-1}{\lambda\,(e^{(\lambda-1)\varepsilon}-1)}, \qquad
              \delta \le \sqrt{1-e^{-R}}

    (Canonne, Kamath and Steinke 2020, Prop. 12; Asoodeh et al. 2021, Lemma 1; Bretagnolle and Huber 1979).
    """
    return np.minimum(_least(_log_delta_at, renyi, epsilon, pole, 0.0), 0.0)


def renyi_epsilon(renyi: Curve, log_delta: Floats, pole: float = np.inf) -> Floats:
    """Return ε(δ) implied by a Rényi curve: the same conversions as `renyi_log_delta`, solved for ε."""
    return np.maximum(_least(_epsilon_at, renyi, log_delta, pole, np.inf), 0.0)


def _least(
    at: Callable[[Floats, Floats, Floats], Floats], renyi: Curve, given: Floats, pole: float, worst: float
) -> Floats:
    """Return the minimum of `at(R(λ), λ, given)` over the orders below the pole."""
    if pole <= 1:
        return np.full(given.shape, worst)
    to_order: Curve
    if np.isfinite(pole):
        start, to_order = _APPROACH, lambda u: 1 + (pole - 1) / (1 + np.exp(-u))
    else:
        start, to_order = _LOG_STEPS, lambda u: 1 + np.exp(u)
    flat = given.ravel()[:, None]
    orders = to_order(start)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        grid = np.broadcast_to(start, (flat.size, start.size))
        values = at(renyi(orders)[None, :], orders[None, :], flat)
        spacing = start[1] - start[0]
        best = values.min(axis=1)
        rounds, closer = _CLOSER[flat.size > 4]
        for _ in range(rounds):
            centre = np.take_along_axis(grid, values.argmin(axis=1)[:, None], axis=1)
            grid = centre + spacing * closer
            orders = to_order(grid)
            values = at(renyi(orders), orders, flat)
            spacing = spacing * (closer[1] - closer[0])
            best = np.minimum(best, values.min(axis=1))
    return np.asarray(best.reshape(given.shape))


def _log_delta_at(renyi: Floats, order: Floats, epsilon: Floats) -> Floats:
    gap = order - 1
    tail = gap * (renyi - epsilon) + gap * np.log1p(-1 / order) - np.log(order)
    before, after = _log_expm1(gap * renyi), _log_expm1(gap * epsilon)
    moment = before - np.log(order) - after + 1e-15 * (np.abs(before) + np.abs(after))
    # What the large terms may lose in their difference is added back.
    lost = 1e-15 * (2 + np.log(order) + gap * (renyi + epsilon))
    best = np.fmin(np.fmin(tail, moment) + lost, _log_distance(renyi))
    return np.where(np.isfinite(renyi), best, 0.0)


def _epsilon_at(renyi: Floats, order: Floats, log_delta: Floats) -> Floats:
    gap = order - 1
    tail = renyi + np.log1p(-1 / order) - (log_delta + np.log(order)) / gap
    before = _log_expm1(gap * renyi)
    before = before + 1e-15 * np.abs(before)
    moment = np.logaddexp(0.0, before - np.log(order) - log_delta) / gap
    distance = np.where(_log_distance(renyi) <= log_delta, 0.0, np.inf)
    lost = 1e-15 * (renyi + (2 + np.log(order) + np.abs(log_delta)) / gap)
    best = np.fmin(np.fmin(tail, moment) + lost, distance)
    return np.where(np.isfinite(renyi), best, np.inf)


def _log_distance(renyi: Floats) -> Floats:
    """Return log of √(1 - e^-R)."""
    return log_lifted(0.5 * np.log(-np.expm1(-renyi)))


def _log_expm1(x: Floats) -> Floats:
    """Return log(e^x - 1); NaN, which claims nothing, where x may have lost digits to underflow."""
    return np.where(x > 30, x, np.log(np.expm1(np.where(x > 1e-300, np.minimum(x, 30.0), np.nan))))
