"""The posterior given a noisy statistic: the true statistic is one more unknown.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sottovoce.mechanisms.conjugate.distributions import Mixture, ScalarDistribution
from sottovoce.mechanisms.conjugate.system import NoiseAwareSystem
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings import ClippedSum

_NEGLIGIBLE = 40.0
"""e^-40 of the largest weight is dropped."""
_RULE = 10
"""Points that stand for the totals of one panel."""


def latent_total(
    system: NoiseAwareSystem, reading: ClippedSum, n: int, noisy: float, noise: IntegerNoise, grid: float
) -> Mixture:
    r"""Return Σ_s w_s · posterior(s), w_s ∝ Pr[s] · Pr[noise = ŝ - s], over every total s that can happen.

    Totals that are many are summed by panels: within one, short beside the noise, beside a posterior's own width and
    beside the way to the ends, ten Gauss points for a sum over whole numbers (an integral for fractions) are
    exact to about 1e-11. The panels meet at the noisy total, where Laplace noise has its edge. No loop over
    records: n may be in the millions.
    """
    posteriors, (weights,) = latent_totals(system, reading, n, np.array([noisy]), noise, grid)
    return Mixture(posteriors, weights)


def latent_totals(
    system: NoiseAwareSystem,
    reading: ClippedSum,
    n: int,
    noisy: Floats,
    noise: IntegerNoise,
    grid: float,
    negligible: float = _NEGLIGIBLE,
) -> tuple[ScalarDistribution, Floats]:
    """Return posteriors of totals side by side, and their weights, a row for each noisy total: one law for them all."""
    ends = (n * reading.low, n * reading.high)
    peaks = np.unique(np.clip(noisy, *ends))
    peaks = np.unique(np.floor(peaks)) if reading.integer else peaks

    def log_weights(totals: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            logs = system.log_evidence(n, totals) + noise.log_weight((noisy[:, None] - totals) / grid)
        return np.asarray(logs - np.nanmax(logs, axis=1, keepdims=True))

    low, high = ends
    while True:
        probe = np.unique(np.append(np.linspace(low, high, 257), peaks))
        keep = np.flatnonzero((log_weights(probe) > -negligible).any(axis=0))
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
        relative = np.sqrt(laws.variance) / (np.abs(moved.mean - laws.mean) / step)
    gauss = noise.scale * grid * (2.0 if noise.kind == "gaussian" else 3.0)
    width = np.minimum(1.5 * relative, gauss)
    nodes, heights = [], []
    middles = np.clip(peaks, low, high)
    ways = [(middles[0], low, -1)]  # outwards from the first of them, then onwards from each
    ways += [(m + 1 if reading.integer else m, to, 1) for m, to in zip(middles, [*middles[1:], high], strict=True)]
    for start, stop, sign in ways:
        for a, b in _panels(start, stop, ends, lambda x: float(np.interp(x, at, width)), sign, whole=reading.integer):
            points, weights = _rule(int(b - a) + 1) if reading.integer else _legendre()
            nodes.append(a + (points if reading.integer else points * (b - a)))
            heights.append(weights if reading.integer else weights * (b - a))
    totals, counted = np.concatenate(nodes), np.concatenate(heights)
    logs = log_weights(totals) + np.log(counted)
    logs -= logs.max(axis=1, keepdims=True)
    keep = np.flatnonzero((logs > -negligible).any(axis=0))
    weights = np.exp(logs[:, keep])
    return system.posteriors(n, totals[keep]), weights / weights.sum(axis=1, keepdims=True)


def _panels(
    start: float, stop: float, ends: tuple[float, float], width: Any, sign: int, *, whole: bool
) -> list[tuple[float, float]]:
    """Return panels (first, last) from `start` outwards to `stop`, none longer than the law there allows."""
    result, at = [], start
    least = float(_RULE) if whole else (ends[1] - ends[0]) * 2.0**-30
    while (stop - at) * sign > 0 or (whole and at == stop):
        # Weights may rise without bound towards the ends: panels halve their way there.
        room = abs((ends[0] if sign < 0 else ends[1]) - at)
        back = abs(at - (ends[1] if sign < 0 else ends[0]))
        length = max(min(width(at), max(room / 2, 0.0), max(back / 2, least)), least)
        length = float(np.floor(length)) - 1 if whole else length
        to = at + sign * min(length, abs(stop - at))
        result.append((min(at, to), max(at, to)))
        at = to + sign if whole else to
    return result


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
