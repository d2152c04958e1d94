"""The true counts of public cells behind noise: draws that know of the noise, of zero, and of what the cells sum to.

All of this is post-processing of a release: it costs no privacy.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats

__all__ = ["cell_draws", "log_prior", "most_records"]

_REACH = {"gaussian": 9.0, "laplace": 40.0}
"""Beyond this many scales the noise has no weight that a draw could meet."""
_NODES = 2048
"""At most this many values a cell are weighed one by one; where more could be, each stands for its neighbours."""
_WORK = 2e8
"""At most so many numbers are weighed to condition the counts on their sum exactly."""
_LATTICE = (64, 640)
"""The fewest and the most places of a lattice on which counts are conditioned on their sum."""


def log_prior(counts: Floats, alpha: Floats | float) -> Floats:
    """Return log of Γ(k + α)/k!: a Dirichlet prior of the shares, with the shares integrated out."""
    return np.asarray(gammaln(counts + alpha) - gammaln(counts + 1.0))


def most_records(noisy: Floats, noise: IntegerNoise) -> int:
    """Return more records than there can be, by their noisy counts: where n is a secret, where to stop looking."""
    counts = np.asarray(noisy, dtype=np.float64)
    reach = math.sqrt(noise.variance) * (4 + math.sqrt(counts.size)) + noise.scale
    return int(np.maximum(counts, 0.0).sum() + 9 * reach) + 16


def log_prior_of_sum(sums: Floats, alpha: Floats) -> Floats:
    r"""Return log of k!/Γ(k + Σα): with it beside `log_prior`, every number of records is as likely as another.

    Without it, a prior of each cell alone would expect the more records the more cells there are.
    """
    return np.asarray(gammaln(sums + 1.0) - gammaln(sums + float(np.sum(alpha))))


def cell_draws(
    noisy: Floats, noise: IntegerNoise, n: int | None, alpha: Floats, draws: int, rng: np.random.Generator
) -> Floats:
    r"""Return draws of the true counts of cells that share n records, (draws, cells), given their noisy counts.

    .. math:: \Pr[k \mid \hat k] \propto \prod_c \frac{\Gamma(k_c + \alpha_c)}{k_c!}\Pr[\text{noise} = \hat k_c - k_c],
        \qquad \sum_c k_c = n.

    Conditioning on the sum is exact (sums of independent counts, forward and backward) on a lattice of at most some
    hundred places, wherever that is fine beside the noise; elsewhere each draw's gap is shared out by how uncertain
    the cells are (Matheron's rule), which is exact for Gaussian draws. Where n is None the sum is unknown too: it is
    drawn first, from its own law behind the noise, every number as likely as another beforehand.
    """
    noisy, alpha = np.asarray(noisy, dtype=np.float64), np.broadcast_to(alpha, np.shape(noisy))
    if noisy.size == 1 and n is not None:
        return np.full((draws, 1), float(n))
    most = most_records(noisy, noise) if n is None else n
    places = int(np.clip(_WORK / (draws * noisy.size), *_LATTICE))
    step = math.ceil(most / places) if most else 1
    if step == 1 or math.sqrt(noise.variance) >= 3 * step:
        return _conditioned(noisy, noise, n, alpha, draws, rng, step)
    if n is None:
        # Around what the noisy counts sum to, the prior of the sum is a slope that each cell has its part of.
        slope = (float(alpha.sum()) - 1.0) / max(float(noisy.sum()), float(alpha.sum()))
        return _apart(noisy, noise, most, alpha, draws, rng, slope)
    return _summing_to(_apart(noisy, noise, n, alpha, draws, rng), n)


def _conditioned(
    noisy: Floats, noise: IntegerNoise, n: int | None, alpha: Floats, draws: int, rng: np.random.Generator, step: int
) -> Floats:
    """Return draws on the multiples of `step`, conditioned on their sum by convolution; the sum drawn where unknown."""
    last = round((most_records(noisy, noise) if n is None else n) / step)
    nodes: Floats = np.arange(last + 1, dtype=np.float64) * step
    log_weights = noise.log_weight(noisy[:, None] - nodes[None, :]) + log_prior(nodes[None, :], alpha[:, None])
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    order = np.argsort(-noisy)  # the large cells last drawn from: what is left for them is then what fits
    forward = [weights[order[0]]]
    for cell in order[1:-1]:
        both = np.convolve(forward[-1], weights[cell])[: last + 1]
        forward.append(both / both.max())
    left = np.full(draws, last)
    if n is None:
        sums = np.convolve(forward[-1], weights[order[-1]])[: last + 1]
        log_sums = np.log(np.maximum(sums, 1e-300)) + log_prior_of_sum(nodes, alpha)
        sums = np.where(sums > 0, np.exp(log_sums - log_sums.max()), 0.0)
        left = rng.choice(last + 1, draws, p=sums / sums.sum())
    found = np.empty((draws, noisy.size))
    columns = np.arange(last + 1)
    for place in range(noisy.size - 1, 0, -1):
        cell, before = order[place], np.concatenate([forward[place - 1], np.zeros(last + 1)])
        totals, back = np.unique(left, return_inverse=True)
        # One row for every total that is left to share, not one for every draw; what exceeds it has no weight.
        rest = totals[:, None] - columns
        table = weights[cell] * np.where(rest >= 0, before[np.maximum(rest, 0)], 0.0)
        cumulative = np.cumsum(table, axis=1)
        goal = rng.random(draws) * cumulative[back, -1]
        taken = np.array([cumulative[i].searchsorted(g, side="right") for i, g in zip(back, goal, strict=True)])
        taken = np.minimum(taken, left)
        found[:, cell] = taken
        left = left - taken
    found[:, order[0]] = left
    if step == 1:
        return found
    # Between the places of the lattice any count is as likely as another; what that adds is taken off all alike.
    spread = np.maximum(found * step + step * (rng.random(found.shape) - 0.5), 0.0)
    return spread if n is None else _summing_to(spread, n)


def _apart(
    noisy: Floats,
    noise: IntegerNoise,
    n: int,
    alpha: Floats,
    draws: int,
    rng: np.random.Generator,
    slope: float = 0.0,
) -> Floats:
    """Return draws of each count alone, of which each record more is less likely by a factor e^slope."""
    reach = _REACH[noise.kind] * noise.scale + 2
    low, high = np.clip(np.ceil(noisy - reach), 0, n), np.clip(np.floor(noisy + reach), 0, n)
    # A noisy count far below zero, or far above n, leaves the count at the end, and a little beside it.
    decay = min(reach, max(n, 1.0))
    high = np.where(noisy <= 0, np.minimum(np.maximum(high, decay), n), high)
    low = np.where(noisy >= n, np.maximum(np.minimum(low, n - decay), 0), low)
    step = np.maximum(1.0, np.ceil((high - low + 1) / _NODES))
    found = np.empty((draws, noisy.size))
    for cell in range(noisy.size):
        nodes = np.arange(low[cell], high[cell] + 1, step[cell])
        log_weights = noise.log_weight(noisy[cell] - nodes) + log_prior(nodes, alpha[cell]) - slope * nodes
        cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
        picked = nodes[np.searchsorted(cumulative, rng.random(draws) * cumulative[-1], side="right")]
        found[:, cell] = np.minimum(picked + np.floor(rng.random(draws) * step[cell]), high[cell])
    return found


def _summing_to(counts: Floats, total: float) -> Floats:
    """Return draws moved to their known sum, each cell in proportion to how uncertain it is, none below zero."""
    share = np.maximum(counts.var(axis=0), 1e-12)
    for _ in range(60):
        gap = total - counts.sum(axis=1)
        if np.max(np.abs(gap)) < 0.5:
            break
        weight = share * ((counts > 0) | (gap[:, None] > 0))
        counts = np.maximum(counts + gap[:, None] * weight / weight.sum(axis=1, keepdims=True), 0.0)
    return counts
