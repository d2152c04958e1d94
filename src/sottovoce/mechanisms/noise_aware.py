"""The posterior given a noisy statistic: the true statistic is one more unknown.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats
from sottovoce.systems.distributions import Dirichlet, DirichletMixture, Distribution, Mixture
from sottovoce.systems.statistics import ClippedSum
from sottovoce.systems.system import NoiseAwareSystem

__all__ = ["latent_counts", "latent_total"]

_NEGLIGIBLE = 45.0
"""e^-45 of the largest weight is dropped."""
_NODES = 4096
"""Beyond this many whole totals, evenly spaced ones stand for their neighbours."""


def latent_total(
    system: NoiseAwareSystem, reading: ClippedSum, n: int, noisy: float, *, noise: IntegerNoise, grid: float
) -> Distribution:
    r"""Return Σ_s w_s · posterior(s), w_s ∝ Pr[s] · Pr[noise = ŝ - s], over every total s that can happen.

    Exact for whole records (up to e^-45) where at most 4,096 totals carry weight; beyond that, and for
    fractions, the totals form a
    fine grid. No loop over records: the
    range of totals
    is narrowed to where the weight is before the terms are written out, so n may be in the millions.
    """
    low, high = n * reading.low, n * reading.high
    step = 1.0 if reading.integer else 0.0

    def log_weights(totals: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(system.log_evidence(n, totals) + noise.log_weight((noisy - totals) / grid))

    while True:
        exact = bool(step) and high - low < _NODES
        nodes = np.arange(low, high + 1) if exact else np.linspace(low, high, _NODES)
        if not exact:
            nodes = np.unique(np.append(np.round(nodes) if step else nodes, np.clip(noisy, low, high)))
        weights = log_weights(nodes)
        keep = np.flatnonzero(weights > weights.max() - _NEGLIGIBLE)
        first, last = max(keep[0] - 1, 0), min(keep[-1] + 1, nodes.size - 1)
        shrunk = nodes[last] - nodes[first] < 0.5 * (high - low)
        low, high = float(nodes[first]), float(nodes[last])
        if exact or not (shrunk or step):
            break
        if not shrunk:  # a wide posterior
            nodes = np.unique(np.append(np.round(np.linspace(low, high, _NODES)), np.clip(noisy, low, high)))
            weights = log_weights(nodes)
            break
    if not exact:
        weights = weights + np.log(np.gradient(nodes))
    keep = np.flatnonzero(weights > weights.max() - _NEGLIGIBLE)
    return Mixture(system.posteriors(n, nodes[keep]), np.exp(weights[keep] - weights.max()))


def latent_counts(
    alpha: Floats, noisy: Floats, *, start: Floats, noise: IntegerNoise, rng: np.random.Generator
) -> DirichletMixture:
    """Return the posterior of d probabilities as a mixture over latent counts that chains have visited.

    θ is summed out; each step moves some records between two categories, for random pairs of categories in
    all chains at
    once, and is accepted by Metropolis' rule. What remains is a mixture of Dirichlet posteriors.

    Parameters
    ----------
    alpha
        The prior.
    noisy, start
        The noisy counts, and whole counts that sum to n to start from.
    """
    size = alpha.size
    chains, sweeps, keep_every = max(16, min(256, 20_000 // size)), 400, 60
    counts = np.broadcast_to(start, (chains, size)).copy()
    reach = max(float(np.sqrt(noise.variance)), 1.0)
    kept: list[Floats] = []

    def log_weight(c: Floats, k: Any) -> Floats:
        inside = c >= 0
        c = np.where(inside, c, 0.0)
        body = special.gammaln(alpha[k] + c) - special.gammaln(c + 1) + noise.log_weight(noisy[k] - c)
        return np.where(inside, body, -np.inf)

    for sweep in range(1, sweeps + 1):
        order = rng.permutation(size)
        left, right = order[: size // 2], order[size // 2 : 2 * (size // 2)]
        scale = reach * 2.0 ** rng.uniform(-3, 1.5)
        move = np.rint(rng.normal(0, scale, (chains, left.size))) + rng.integers(-1, 2, (chains, left.size))
        old_left, old_right = counts[:, left], counts[:, right]
        gain = log_weight(old_left + move, left) + log_weight(old_right - move, right)
        gain -= log_weight(old_left, left) + log_weight(old_right, right)
        step = np.where(np.log(rng.random(move.shape)) < gain, move, 0.0)
        counts[:, left] = old_left + step
        counts[:, right] = old_right - step
        if sweep > sweeps // 2 and sweep % keep_every == 0:
            kept.append(counts.copy())
    components = alpha + np.concatenate(kept)
    return DirichletMixture(Dirichlet(components), np.full(len(components), 1 / len(components)))
