"""Divergences by quadrature of log-densities, knowing nothing of any closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from scipy import special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng


@dataclass(frozen=True, eq=False)
class Nodes:
    """Points of the parameter, and the logarithm of the volume that each stands for."""

    points: Any
    log_volume: Floats

    def log_density(self, distribution: Any) -> Floats:
        """Return the log-probability that a distribution gives to each node."""
        with np.errstate(divide="ignore"):
            return np.asarray(distribution.log_density(self.points) + self.log_volume)


def nodes(first: Any, second: Any) -> Nodes:
    """Return nodes on which both distributions, of one family, are integrated well: by where they live.

    Trapezoids in an unbounded coordinate (the logit or the logarithm of θ) converge faster than any power of the step.
    """
    if not hasattr(first, "log_density"):
        raise InvalidValue(f"no quadrature is known for {type(first).__name__}")
    if not hasattr(first, "ppf"):
        shares = np.allclose(first.sample(8, seeded_rng(0)).sum(axis=1), 1.0, atol=1e-9)
        return _simplex(len(first.mean)) if shares else _box(first, second)
    low, high = float(first.ppf(0.0)), float(first.ppf(1.0))
    if np.isfinite(low) and np.isfinite(high):
        return _logit_line(low, high)
    if np.isfinite(low):
        return _log_line(low)
    low, high = _reach(first, second, 14.0)
    points, step = np.linspace(float(low), float(high), 3001, retstep=True)
    return Nodes(points, np.full(points.shape, np.log(step)))


def _box(first: object, second: object) -> Nodes:
    low, high = _reach(first, second, 9.0)
    axes = np.linspace(low, high, 121, axis=1)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    return Nodes(points, np.full(len(points), np.sum(np.log((high - low) / 120))))


def _reach(first: Any, second: Any, sds: float) -> tuple[Any, Any]:
    ends = [(d.mean - sds * np.sqrt(d.variance), d.mean + sds * np.sqrt(d.variance)) for d in (first, second)]
    return np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])


@lru_cache
def _logit_line(low: float, high: float) -> Nodes:
    t = np.arange(-60.0, 60.0, 0.04)
    volume = special.log_expit(t) + special.log_expit(-t) + np.log(0.04)
    return Nodes(low + (high - low) * special.expit(t), volume + np.log(high - low))


@lru_cache
def _log_line(low: float) -> Nodes:
    t = np.arange(-60.0, 12.0, 0.02)
    return Nodes(low + np.exp(t), t + np.log(0.02))


@cache
def _simplex(size: int) -> Nodes:
    """Three probabilities by their two log-ratios to the third; the volume element is their product."""
    if size != 3:
        raise InvalidValue(f"the simplex is integrated for three categories. Got {size}")
    axis = np.arange(-18.0, 18.0, 0.2)
    t = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    logs = np.column_stack([t, np.zeros(len(t))])
    logs -= special.logsumexp(logs, axis=1, keepdims=True)
    return Nodes(np.exp(logs), logs.sum(axis=1) + 2 * np.log(0.2))


def renyi(log_p: Floats, log_q: Floats, order: float) -> float:
    """Return the Rényi divergence of two log-probabilities on the same nodes.

    >>> round(renyi(np.log([0.5, 0.5]), np.log([0.25, 0.75]), 2.0), 6)  # log(1 + 1/3)
    0.287682
    """
    with np.errstate(invalid="ignore"):
        terms = np.where(log_p == -np.inf, -np.inf, order * log_p + (1 - order) * log_q)
        top = terms.max()
        return float(top + np.log(np.exp(terms - top).sum())) / (order - 1)


def hockey_stick(log_p: Floats, log_q: Floats, epsilons: Sequence[float]) -> Floats:
    """Return δ(ε) = Σ (P - e^ε Q)₊, at each ε, of two log-probabilities on the same nodes.

    >>> hockey_stick(np.log([0.5, 0.5]), np.log([0.25, 0.75]), [0.0, 0.1]).round(6).tolist()
    [0.25, 0.223707]
    """
    p, q = np.exp(log_p), np.exp(log_q)
    return np.array([np.maximum(p - math.exp(epsilon) * q, 0.0).sum() for epsilon in epsilons])
