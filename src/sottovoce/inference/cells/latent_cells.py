"""The true counts of public cells behind noise: draws that know of the noise, of zero, and of what the cells sum to.

All of this is post-processing of a release: it costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import gammaln

from sottovoce.inference.cells.moments import log_density
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats

__all__ = ["cell_draws", "log_prior", "lone_counts", "most_records"]

_REACH = {"gaussian": 9.0, "laplace": 40.0}
"""Beyond this many scales the noise has no weight that a draw could meet."""
_TAIL, _POINTS = {"gaussian": 6.0, "laplace": 12.0}, 512
"""So many scales, and so many values, tell what the noise on one count leaves uncertain."""
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
    noisy: Floats,
    noise: IntegerNoise,
    n: int | None,
    alpha: Floats,
    draws: int,
    rng: np.random.Generator,
    outside: tuple[float, float] | None = None,
) -> Floats:
    r"""Return draws of the true counts of cells that share n records, (draws, cells), given their noisy counts.

    .. math:: \Pr[k \mid \hat k] \propto \prod_c \frac{\Gamma(k_c + \alpha_c)}{k_c!}\Pr[\text{noise} = \hat k_c - k_c],
        \qquad \sum_c k_c = n.

    Where the last cell is `outside` of the others, its share has a Beta prior of its own (a, b) and they share the
    rest: with A the sum of their α, its factor is :math:`\Gamma(k + a)/k! \cdot \Gamma(n - k + b)/\Gamma(n - k + A)`.

    Conditioning on the sum is exact (sums of independent counts, forward and backward) on a lattice of at most some
    hundred places, wherever that is fine beside the noise; elsewhere each draw's gap is shared out by how uncertain
    the cells are (Matheron's rule), which is exact for Gaussian draws. Where n is None the sum is unknown too: it is
    drawn first, from its own law behind the noise, every number as likely as another beforehand.
    """
    noisy, alpha = np.asarray(noisy, dtype=np.float64), np.array(np.broadcast_to(alpha, np.shape(noisy)))
    if noisy.size == 1 and n is not None:
        return np.full((draws, 1), float(n))
    most = most_records(noisy, noise) if n is None else n
    prior = _Prior(most, alpha, outside)
    places = int(np.clip(_WORK / (draws * noisy.size), *_LATTICE))
    step = math.ceil(most / places) if most else 1
    if step == 1 or math.sqrt(noise.variance) >= 3 * step:
        return _conditioned(noisy, noise, prior, draws, rng, step, known=n is not None)
    if n is None:
        # Around what the noisy counts sum to, the prior of the sum is a slope that each cell has its part of.
        slope = (float(alpha.sum()) - 1.0) / max(float(noisy.sum()), float(alpha.sum()))
        return _apart(noisy, noise, replace(prior, slope=slope), draws, rng)
    return _summing_to(_apart(noisy, noise, prior, draws, rng), n)


@dataclass(frozen=True)
class _Prior:
    """What is known of the counts before their noisy ones: n, or the most there can be where n is a secret.

    Each record more of a cell is less likely by a factor e^slope.
    """

    n: int
    alpha: Floats
    outside: tuple[float, float] | None
    slope: float = 0.0

    def log(self, cell: int, nodes: Floats, step: float) -> Floats:
        """Return the log weight of counts of a cell, each of which stands for `step` of them."""
        last = self.outside is not None and cell == self.alpha.size - 1
        alpha = self.outside[0] if self.outside and last else float(self.alpha[cell])
        result = log_prior(nodes, alpha) - self.slope * nodes
        if step > 1 and not nodes[0]:  # the weight of few records changes too fast to be told by one count
            half = (step - 1) / 2
            result[0] = gammaln(half + 1 + alpha) - gammaln(half + 1) - math.log(alpha * step)
        if self.outside and last:
            inside = np.maximum(self.n - nodes, 0.0)
            result += gammaln(inside + self.outside[1]) - gammaln(inside + self.alpha[:-1].sum())
        return result


def _conditioned(
    noisy: Floats,
    noise: IntegerNoise,
    prior: _Prior,
    draws: int,
    rng: np.random.Generator,
    step: int,
    *,
    known: bool,
) -> Floats:
    """Return draws on the multiples of `step`, conditioned on their sum by convolution; the sum drawn where unknown."""
    last = round(prior.n / step)
    nodes: Floats = np.arange(last + 1, dtype=np.float64) * step
    log_weights = noise.log_weight(noisy[:, None] - nodes[None, :])
    log_weights += np.stack([prior.log(cell, nodes, step) for cell in range(noisy.size)])
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    order = np.argsort(-noisy)  # the large cells last drawn from: what is left for them is then what fits
    forward = [weights[order[0]]]
    for cell in order[1:-1]:
        both = np.convolve(forward[-1], weights[cell])[: last + 1]
        forward.append(both / both.max())
    remaining = np.full(draws, last)
    if not known:
        sums = np.convolve(forward[-1], weights[order[-1]])[: last + 1]
        log_sums = np.log(np.maximum(sums, 1e-300)) + log_prior_of_sum(nodes, prior.alpha)
        sums = np.where(sums > 0, np.exp(log_sums - log_sums.max()), 0.0)
        remaining = rng.choice(last + 1, draws, p=sums / sums.sum())
    result = np.empty((draws, noisy.size))
    for place in range(noisy.size - 1, 0, -1):
        cell, there = order[place], np.zeros(last + 1, dtype=bool)
        there[remaining] = True
        # One row for every total that is left to share, not one for every draw; what exceeds it has no weight.
        totals, back = np.flatnonzero(there), np.cumsum(there)[remaining] - 1
        remainder = np.concatenate([forward[place - 1][::-1], np.zeros(last)])
        table = sliding_window_view(remainder, last + 1)[last - totals]
        table *= weights[cell]
        # All rows end to end, each from its number to the next: one search for every draw.
        ends = np.cumsum(table, axis=1, out=table)
        ends /= ends[:, -1:].copy()
        ends += np.arange(totals.size)[:, None]
        taken = ends.ravel().searchsorted(back + rng.random(draws), side="right") - back * (last + 1)
        taken = np.clip(taken, 0, remaining)
        result[:, cell] = taken
        remaining = remaining - taken
    result[:, order[0]] = remaining
    if step == 1:
        return result
    # Between the places of the lattice any count is as likely as another; what that adds is taken off all alike.
    spread = np.abs(result * step + step * (rng.random(result.shape) - 0.5))
    return _summing_to(spread, prior.n) if known else spread


def _apart(noisy: Floats, noise: IntegerNoise, prior: _Prior, draws: int, rng: np.random.Generator) -> Floats:
    """Return draws of each count alone."""
    n = prior.n
    reach = _REACH[noise.kind] * noise.scale + 2
    low, high = np.clip(np.ceil(noisy - reach), 0, n), np.clip(np.floor(noisy + reach), 0, n)
    # A noisy count far below zero, or far above n, leaves the count at the end, and a little beside it.
    decay = min(reach, max(n, 1.0))
    high = np.where(noisy <= 0, np.minimum(np.maximum(high, decay), n), high)
    low = np.where(noisy >= n, np.maximum(np.minimum(low, n - decay), 0), low)
    step = np.maximum(1.0, np.ceil((high - low + 1) / _NODES))
    result = np.empty((draws, noisy.size))
    for cell in range(noisy.size):
        nodes = np.arange(low[cell], high[cell] + 1, step[cell])
        log_weights = noise.log_weight(noisy[cell] - nodes) + prior.log(cell, nodes, 1.0)
        cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
        picked = nodes[np.searchsorted(cumulative, rng.random(draws) * cumulative[-1], side="right")]
        result[:, cell] = np.minimum(picked + np.floor(rng.random(draws) * step[cell]), high[cell])
    return result


def lone_counts(
    noisy: Floats, noise: IntegerNoise, most: int, alpha: float, total: tuple[float, float] | None, draws: int
) -> Floats:
    """Return quantiles of each count, (draws, cells), as if nothing were known of the others but their noisy sum.

    Where noise is small beside all counts this is what `cell_draws` says of one cell. Where it is not, a prior over
    compositions draws counts towards each other, and those that lie apart are missed: here no other count is told to
    be above zero, nor to be like this one. `total` is the mean and the variance of what all counts add up to.
    """
    reach = math.ceil(_TAIL[noise.kind] * noise.scale) + 2  # whole, so that every node is a count
    low, high = np.clip(np.ceil(noisy - reach), 0, most), np.clip(np.floor(noisy + reach), 0, most)
    low, high = np.minimum(low, max(most - reach, 0)), np.maximum(high, min(reach, most))
    step = np.maximum(1.0, np.ceil((high - low + 1) / _POINTS))
    ranks = (np.arange(draws) + 0.5) / draws
    result = np.empty((draws, noisy.size))
    for cell, seen in enumerate(noisy):
        nodes = np.arange(low[cell], high[cell] + 1, step[cell])
        log = noise.log_weight(seen - nodes) + log_prior(nodes, alpha)
        if total is not None:  # the noise on the sum of the others: that on one of them, and on the rest as if normal
            remainder = np.array((noisy.size - 2) * noise.variance + total[1])
            log += log_density(total[0] - nodes - (noisy.sum() - seen), remainder, noise.variance, noise.kind)
        cumulative = np.cumsum(np.exp(log - log.max()))
        result[:, cell] = nodes[np.searchsorted(cumulative, ranks * cumulative[-1], side="right")]
    return result


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
