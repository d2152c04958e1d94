"""The posterior given a noisy statistic: the true statistic is one more unknown.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import fft, special

from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats
from sottovoce.readings import ClippedSum
from sottovoce.systems.distributions import Dirichlet, DirichletMixture, Distribution, Mixture
from sottovoce.systems.system import NoiseAwareSystem

__all__ = ["latent_counts", "latent_total"]

_NEGLIGIBLE = 40.0
"""e^-40 of the largest weight is dropped."""
_RULE = 10
"""Points that stand for the totals of one panel."""
_CELLS = 2**22
"""Entries that the laws of all partial sums of latent counts may take together."""
_DRAWS = 1024


def latent_total(
    system: NoiseAwareSystem, reading: ClippedSum, n: int, noisy: float, *, noise: IntegerNoise, grid: float
) -> Distribution:
    r"""Return Σ_s w_s · posterior(s), w_s ∝ Pr[s] · Pr[noise = ŝ - s], over every total s that can happen.

    Totals that are many are summed by panels: within one, short beside the noise, beside a posterior's own width and
    beside the way to the ends, ten Gauss points for a sum over whole numbers (an integral for fractions) are
    exact to about 1e-11. The panels meet at the noisy total, where Laplace noise has its edge. No loop over
    records: n may be in the millions.
    """
    ends = (n * reading.low, n * reading.high)
    peak = float(np.clip(noisy, *ends))
    peak = float(np.floor(peak)) if reading.integer else peak

    def log_weights(totals: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(system.log_evidence(n, totals) + noise.log_weight((noisy - totals) / grid))

    low, high = ends
    while True:
        probe = np.unique(np.append(np.linspace(low, high, 257), peak))
        weights = log_weights(probe)
        keep = np.flatnonzero(weights > np.nanmax(weights) - _NEGLIGIBLE)
        first, last = float(probe[max(keep[0] - 1, 0)]), float(probe[min(keep[-1] + 1, probe.size - 1)])
        if last - first > 0.5 * (high - low) or high - low < 64 * (1 if reading.integer else grid):
            break
        low, high = first, last
    low, high = (float(np.floor(low)), float(np.ceil(high))) if reading.integer else (low, high)
    at = np.linspace(low, high, 129)
    beside = np.clip(at, *ends)
    step = 1e-3 * max(high - low, 1e-9)
    laws, moved = (
        system.posteriors(n, beside),
        system.posteriors(n, np.where(beside + step <= ends[1], beside + step, beside - step)),
    )
    with np.errstate(divide="ignore"):
        own = np.sqrt(laws.variance) / (np.abs(moved.mean - laws.mean) / step)
    gauss = noise.scale * grid * (2.0 if noise.kind == "gaussian" else 3.0)
    width = np.minimum(1.5 * own, gauss)
    nodes, heights = [], []
    middle = float(np.clip(peak, low, high))
    for start, stop, sign in ((middle, low, -1), (middle + 1 if reading.integer else middle, high, 1)):
        for a, b in _panels(start, stop, ends, lambda x: float(np.interp(x, at, width)), sign, whole=reading.integer):
            points, weights = _rule(int(b - a) + 1) if reading.integer else _legendre()
            nodes.append(a + (points if reading.integer else points * (b - a)))
            heights.append(weights if reading.integer else weights * (b - a))
    totals, counted = np.concatenate(nodes), np.concatenate(heights)
    weights = log_weights(totals) + np.log(counted)
    keep = np.flatnonzero(weights > weights.max() - _NEGLIGIBLE)
    return Mixture(system.posteriors(n, totals[keep]), np.exp(weights[keep] - weights.max()))


def _panels(
    start: float, stop: float, ends: tuple[float, float], width: Any, sign: int, *, whole: bool
) -> list[tuple[float, float]]:
    """Return panels (first, last) from `start` outwards to `stop`, none longer than the law there allows."""
    found, at = [], start
    least = float(_RULE) if whole else (ends[1] - ends[0]) * 2.0**-30
    while (stop - at) * sign > 0 or (whole and at == stop):
        # Weights may rise without bound towards the ends: panels halve their way there.
        room = abs((ends[0] if sign < 0 else ends[1]) - at)
        back = abs(at - (ends[1] if sign < 0 else ends[0]))
        length = max(min(width(at), max(room / 2, 0.0), max(back / 2, least)), least)
        length = float(np.floor(length)) - 1 if whole else length
        to = at + sign * min(length, abs(stop - at))
        found.append((min(at, to), max(at, to)))
        at = to + sign if whole else to
    return found


@cache
def _legendre() -> tuple[Floats, Floats]:
    points, weights = np.polynomial.legendre.leggauss(_RULE)
    return (points + 1) / 2, weights / 2


@cache
def _rule(count: int) -> tuple[Floats, Floats]:
    """Return Gauss points and weights for a sum over 0, 1, …, count - 1 (Gram's polynomials), or all of them if few."""
    if count <= _RULE:
        return np.arange(float(count)), np.ones(count)
    j = np.arange(1.0, _RULE)
    off = np.sqrt(j * j * (float(count) ** 2 - j * j) / (4 * (4 * j * j - 1)))
    points, vectors = np.linalg.eigh(np.diag(off, 1) + np.diag(off, -1))
    return points + (count - 1) / 2, count * vectors[0] ** 2


def latent_counts(
    alpha: Floats, noisy: Floats, *, n: int, noise: IntegerNoise, rng: np.random.Generator, draws: int = _DRAWS
) -> DirichletMixture:
    """Return the posterior of d probabilities as a mixture over latent counts drawn from their own posterior.

    With θ summed out the counts are independent, weights Γ(α + c)/c! · Pr[noise = ñ - c], but for their sum, which
    is n. The laws of partial sums are convolutions; drawing backwards from n through them gives independent,
    exact draws, however loud the noise. Where the counts range too widely to tabulate, the draws are made on a
    coarser lattice and then moved by Metropolis steps between pairs of categories.

    Parameters
    ----------
    alpha, noisy
        The prior, and the noisy counts.
    n
        What the counts sum to.
    """
    size = alpha.size
    inside = np.clip(noisy, 0, n)
    # Far enough out for the noise, and for all records that the noisy counts leave over.
    reach = np.ceil(_NEGLIGIBLE * noise.scale + 2 + abs(n - inside.sum()))
    low, high = np.maximum(np.floor(inside) - reach, 0.0), np.minimum(np.ceil(inside) + reach, n)
    wide = float((high - low).max())
    lattice = 1.0
    while True:
        columns = int(wide // lattice) + 1
        period = fft.next_fast_len(
            int(min(size * columns, 18 * np.sqrt(2 * size) * noise.scale / lattice + 3 * columns))
        )
        if size * period <= _CELLS and columns <= 2**13:
            break
        lattice *= 2
    counts = low[:, None] + lattice * np.arange(columns)
    target = round((n - low.sum()) / lattice)
    weights = _tilted(_log_weight(alpha, noisy, counts, lattice, noise), counts <= high[:, None], target)
    partial = fft.irfft(np.cumprod(fft.rfft(weights, period), axis=0), period)
    steps = np.empty((draws, size))
    left = np.full(draws, target)
    for k in range(size - 1, 0, -1):
        some = np.flatnonzero(weights[k] > 0)
        mass = np.maximum(partial[k - 1], 0.0)[(left[:, None] - some) % period] * weights[k, some]
        below = np.cumsum(mass, axis=1)
        pick = np.sum(below < rng.random(draws)[:, None] * below[:, -1:], axis=1)
        steps[:, k] = some[np.minimum(pick, some.size - 1)]
        left = left - steps[:, k].astype(np.int64)
    steps[:, 0] = left
    drawn = low + lattice * steps
    if lattice > 1:
        drawn = _polished(alpha, noisy, drawn, n, lattice, noise, rng)
    return DirichletMixture(Dirichlet(alpha + drawn), np.full(draws, 1 / draws))


def _log_weight(alpha: Floats, noisy: Floats, counts: Floats, lattice: float, noise: IntegerNoise) -> Floats:
    """Return the log-weights of latent counts, a row a category; of the lattice's cells where it is coarse."""
    middle = np.maximum(counts, 0.0) + (0.0 if lattice == 1 else (lattice - 1) / 2)
    body = special.gammaln(alpha[:, None] + middle) - special.gammaln(middle + 1)
    return np.asarray(body + noise.log_weight(noisy[:, None] - middle))


def _tilted(log_weights: Floats, allowed: Any, target: float) -> Floats:
    """Return the weights times e^(ηc), η such that they expect the right sum: what a fixed sum leaves unchanged."""
    log_weights = np.where(allowed, log_weights, -np.inf)
    columns = np.arange(log_weights.shape[1])

    def weights(tilt: float) -> Floats:
        tilted = log_weights + tilt * columns
        chances = np.exp(tilted - tilted.max(axis=1, keepdims=True))
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    low, high = -50.0, 50.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if (weights(middle) @ columns).sum() < target else (low, middle)
    chances = weights((low + high) / 2)
    return np.where(chances > 1e-14 * chances.max(axis=1, keepdims=True), chances, 0.0)


def _polished(
    alpha: Floats, noisy: Floats, counts: Floats, n: int, lattice: float, noise: IntegerNoise, rng: np.random.Generator
) -> Floats:
    """Return coarse draws moved to whole counts that sum to n, by Metropolis steps between pairs of categories."""
    draws, size = counts.shape
    counts = np.clip(counts + np.floor(lattice * rng.random(counts.shape)), 0, n)
    for k in np.argsort(-counts.mean(axis=0)):  # hand what is over or short to the largest categories first
        counts[:, k] = np.maximum(counts[:, k] + n - counts.sum(axis=1), 0.0)

    def log_weight(c: Floats, k: Any) -> Floats:
        inside = c >= 0
        c = np.where(inside, c, 0.0)
        body = special.gammaln(alpha[k] + c) - special.gammaln(c + 1) + noise.log_weight(noisy[k] - c)
        return np.where(inside, body, -np.inf)

    for _ in range(100):
        order = rng.permutation(size)
        left, right = order[: size // 2], order[size // 2 : 2 * (size // 2)]
        scale = lattice * 2.0 ** rng.uniform(-3, 4)
        move = np.rint(rng.normal(0, scale, (draws, left.size))) + rng.integers(-1, 2, (draws, left.size))
        old_left, old_right = counts[:, left], counts[:, right]
        gain = log_weight(old_left + move, left) + log_weight(old_right - move, right)
        gain -= log_weight(old_left, left) + log_weight(old_right, right)
        step = np.where(np.log(rng.random(move.shape)) < gain, move, 0.0)
        counts[:, left] = old_left + step
        counts[:, right] = old_right - step
    return counts
