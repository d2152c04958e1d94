"""What lies behind noisy counts, moved: array programs of random numbers drawn beforehand, for NumPy or to be compiled.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sottovoce.inference.latent.array_backend import ArrayBackend
from sottovoce.inference.latent.cell_likelihood import CellLikelihood

_LEAST = -690.0
"""The least logarithm of a probability: its exponential is a number above zero."""


def by_state(engine: ArrayBackend, likelihood: CellLikelihood, logs: Any, log_theta: Any) -> Any:
    """Return the log-likelihood of every cell in every state, (run, cell, state)."""
    xp, scan = engine
    fixed, ones = likelihood.fixed(logs[:, None]), xp.ones(log_theta.shape[-1])
    by_theta = xp.moveaxis(log_theta, 1, 0)[..., None]
    _, sums = scan(lambda _, theta: (None, ones @ likelihood(theta, fixed)), None, by_theta)
    return xp.moveaxis(sums, 0, -1)


def moved_sizes(
    engine: ArrayBackend,
    likelihood: CellLikelihood,
    logs: Any,
    log_theta: Any,
    states: Any,
    now: Any,
    tried: Any,
    allowed: Any,
    factor: Any,
    passing: Any,
) -> Any:
    """Return sizes after a move of each and one of all, kept where the likelihood loses no more than is let pass.

    `now` is the log-likelihood of each cell, or None.
    """
    xp = engine.xp
    fixed, ones = likelihood.fixed(_own(xp, log_theta, states)), xp.ones(log_theta.shape[-1])

    def by_cell(logs: Any) -> Any:
        return ones @ likelihood(logs[:, None], fixed)

    now = by_cell(logs) if now is None else now
    then = by_cell(tried)
    kept = now - then <= allowed
    logs, now = xp.where(kept, tried, logs), xp.where(kept, then, now)
    moved = logs + factor[:, None]
    lost = (now - by_cell(moved)).sum(axis=1)
    return xp.where((lost <= passing)[:, None], moved, logs)


def moved_probabilities(
    engine: ArrayBackend,
    likelihood: CellLikelihood,
    log_theta: Any,
    states: Any,
    logs: Any,
    alpha: Any,
    variances: Any,
    fresh: Any,
    rounds: tuple[Any, ...],
) -> Any:
    """Return θ after rounds of moves; where no cell is in a state, from what `fresh` has of the prior."""
    xp, scan = engine
    size, fixed = xp.exp(logs)[:, None], likelihood.fixed(logs[:, None])
    # 1 where a cell is in a state, (run, cell, state): by it, sums over cells are products.
    member = xp.asarray(states[..., None] == xp.arange(log_theta.shape[1]), dtype=xp.float64)
    log_theta = xp.where((member.sum(axis=1) > 0)[..., None], log_theta, fresh)
    squares, totals = (xp.swapaxes(part @ member, 1, 2) for part in (size**2, size))
    usual = squares / xp.maximum(totals, 1e-300)

    def summed(log_theta: object) -> Any:
        """Return the log-likelihood of every column, summed over the cells of each state."""
        return xp.swapaxes(likelihood(_own(xp, log_theta, states), fixed) @ member, 1, 2)

    def step(carry: Any, given: Any) -> Any:
        log_theta, now = carry
        left, right, place, scale, normal, coin, chance = given
        first, second = log_theta[..., left], log_theta[..., right]
        both = xp.logaddexp(first, second)
        noise, share = (variances[left] + variances[right]) / 2, xp.exp(both)
        news = 2 * share * share * squares / (noise + usual * share / 2)
        odds, log_jacobian = _step_odds(xp, first - second, 1 / xp.sqrt(news + 4), 2.0**scale * normal, coin)
        new_first, new_second = both - xp.logaddexp(0.0, -odds), both - xp.logaddexp(0.0, odds)
        proposed = xp.concatenate([new_first, new_second, log_theta], axis=-1)[..., place]
        then = summed(proposed)
        gain = then - now
        gain = gain[..., left] + gain[..., right] + log_jacobian
        gain = gain + (alpha[left] - 1) * (new_first - first) + (alpha[right] - 1) * (new_second - second)
        kept = (-chance <= gain) & (xp.minimum(new_first, new_second) > _LEAST)
        taken = xp.concatenate([kept, kept, xp.zeros(log_theta.shape, dtype=bool)], axis=-1)[..., place]
        return (xp.where(taken, proposed, log_theta), xp.where(taken, then, now)), None

    return scan(step, (log_theta, summed(log_theta)), rounds)[0][0]


def _own(xp: Any, log_theta: Any, states: Any) -> Any:
    """Return θ of each cell's state, (run, column, cell)."""
    if xp is np:
        return np.take_along_axis(np.swapaxes(log_theta, 1, 2), states[:, None], axis=2)
    here = log_theta[
        :, 0, :, None
    ]  # compiled, a choice is part of what is done with it, and a place in an array is not
    for state in range(1, log_theta.shape[1]):
        here = xp.where(states[:, None] == state, log_theta[:, state, :, None], here)
    return here


def _step_odds(xp: Any, odds: Any, reach: Any, step: Any, coin: Any) -> tuple[Any, Any]:
    """Return new log-odds of shares, and the log-ratio of the shares' densities that the kind of step asks for.

    Three in four steps are taken in the share itself, on scales about its reach; the others in its log-odds.
    """
    share = xp.exp(-xp.logaddexp(0.0, -odds)) + xp.minimum(reach, 0.5) * step
    inside = (share > 0) & (share < 1)
    share = xp.where(inside, share, 0.5)
    by_odds = coin < 0.25
    new = xp.where(by_odds, odds + step, xp.log(share) - xp.log1p(-share))
    # In log-odds a share p has the density p (1 - p) beside its own.
    jacobian = xp.where(by_odds, _log_spread(xp, new) - _log_spread(xp, odds), xp.where(inside, 0.0, -xp.inf))
    return new, jacobian


def _log_spread(xp: Any, odds: Any) -> Any:
    """Return log p(1 - p) of a share p with these log-odds."""
    size = xp.abs(odds)
    return -size - 2 * xp.log1p(xp.exp(-size))
