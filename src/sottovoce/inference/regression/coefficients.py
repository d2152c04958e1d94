"""What a regression releases: the posterior of its coefficients, in the units of the columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.formula_kinds import read_formula
from sottovoce.inference.regression.learned_rows import LearnedRows
from sottovoce.inference.regression.look_posterior import LookPosterior
from sottovoce.inference.regression.released_look import ReleasedLook, read_looks
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.json_values import restoring
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.randomness import secure_rng

_MOST = 48
"""Components kept: those that weigh least are merged into one."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """A mixture of normal laws over the coefficients; reading it costs nothing more.

    Attributes
    ----------
    formula
        What was asked.
    weights, means, covariances
        The mixture: one component a spread of the groups, or one alone.
    plain_sd
        The standard deviations that would be left without noise; NaN where noise hides a column, and with it that.
    cut
        Where the last look cut residuals of a linear regression, in the units of the response, or the counts of a
        Poisson one; None where it cut none.
    misses
        How far the formula seems to be off, along the coordinate where that is most, as a part of how far responses
        vary about it; None where that was not asked.
    full
        Which part of counts is as large as their public bound, or would be larger, or of all that is counted would lie
        beyond it where that is more, as far as was learned; None of other regressions.
    dispersion
        Of counts a mean, a deviation and a shape that tell of α (`overdispersion`); None where it is not told.
    looks
        The noisy looks it was concluded from, for any inference to come; none where an earlier version released it.
    rows
        What the looks tell of the records; None where the last look alone was read, or an earlier version released it.

    Examples
    --------
    >>> from sottovoce.records.facts import Facts, Flag, Number
    >>> formula = Formula("y ~ a", Facts(y=Flag(), a=Number(-1, 1)))
    >>> found = Coefficients(formula, np.ones(1), np.zeros((1, 2)), np.eye(2)[None], np.ones(2))
    >>> found.interval(0.95).round(2).tolist()
    [[-1.96, 1.96], [-1.96, 1.96]]
    """

    formula: Formula
    weights: Floats
    means: Floats
    covariances: Floats
    plain_sd: Floats
    cut: float | None = None
    misses: float | None = None
    full: float | None = None
    looks: tuple[ReleasedLook, ...] = ()
    dispersion: tuple[float, float, float] | None = None
    rows: LearnedRows | None = None

    @classmethod
    def from_belief(
        cls,
        formula: Formula,
        belief: LookPosterior,
        plain_sd: Floats,
        cut: float | None = None,
        misses: float | None = None,
        full: float | None = None,
        looks: tuple[ReleasedLook, ...] = (),
    ) -> Coefficients:
        """Return a belief with few components."""
        order = np.argsort(belief.weights)[::-1]
        kept = order[:_MOST] if len(order) > _MOST else order
        remainder = order[len(kept) - 1 :] if len(order) > _MOST else order[:0]
        weights, means, covariances = belief.weights[kept], belief.means[kept], belief.covariances[kept]
        if remainder.size and belief.weights[remainder].sum() > 0:
            merged = LookPosterior(
                belief.weights[remainder] / belief.weights[remainder].sum(),
                belief.means[remainder],
                belief.covariances[remainder],
            )
            weights[-1], means[-1], covariances[-1] = belief.weights[remainder].sum(), merged.mean, merged.covariance
        subset = weights > 1e-6
        shown = (plain_sd, cut, misses, full, looks)
        return cls(formula, weights[subset] / weights[subset].sum(), means[subset], covariances[subset], *shown)

    @property
    def terms(self) -> list[str]:
        """What the coefficients are called."""
        return self.formula.terms

    @property
    def belief(self) -> LookPosterior:
        """The mixture."""
        return LookPosterior(self.weights, self.means, self.covariances)

    @property
    def mean(self) -> Floats:
        """The mean of each coefficient."""
        return self.belief.mean

    @property
    def median(self) -> Floats:
        """The median of each coefficient."""
        sds = np.sqrt(np.maximum(np.diagonal(self.covariances, axis1=1, axis2=2), 0.0))
        return np.asarray(_quantiles([0.5], self.weights, self.means, sds)[0])

    @property
    def covariance(self) -> Floats:
        """The covariance of the coefficients."""
        return self.belief.covariance

    @property
    def sd(self) -> Floats:
        """The standard deviation of each coefficient."""
        return np.sqrt(np.diag(self.covariance))

    def interval(self, level: float = 0.95, near: float = 0.0) -> Floats:
        """Return the equal-tailed interval of each coefficient, (low, high) a row; `near` is a part of its width."""
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
            raise InvalidValue(f"level must lie between 0 and 1. Got {level!r}")
        sds = np.sqrt(np.maximum(np.diagonal(self.covariances, axis1=1, axis2=2), 0.0))
        return _quantiles(_ends(level), self.weights, self.means, sds, near).T

    def overdispersion(self, level: float = 0.95) -> tuple[float, float, float] | None:
        """Return the median and the interval of α, with which counts of mean μ vary by μ + αμ² (negative binomial).

        α is 0 where they vary as a Poisson law's. None where all looks could not be told by one likelihood.
        """
        if self.dispersion is None:
            return None
        mean, sd, shape = self.dispersion
        u = mean + sd * special.ndtri([0.5, *_ends(level)])
        median, low, high = np.expm1(-special.log_ndtr(-u) / shape).tolist()
        return median, low, high

    def combined(self, weights: Floats, level: float = 0.95) -> tuple[float, float, float, float]:
        """Return the median, the sd and the ends of the interval of Σ weights·coefficients.

        The mean of a mixture may lie outside of its intervals, where a part of it that weighs little is far off.
        """
        means = self.means @ weights
        sds = np.sqrt(np.maximum(np.einsum("i,kij,j->k", weights, self.covariances, weights), 0.0))
        mean = float(self.weights @ means)
        sd = math.sqrt(max(float(self.weights @ (sds**2 + (means - mean) ** 2)), 0.0))
        low, median, high = map(float, _quantiles([*_ends(level), 0.5], self.weights, means, sds)[[0, 2, 1]])
        return median, sd, low, high

    def probability_positive(self, weights: Floats) -> float:
        """Return how likely it is that Σ weights·coefficients is above zero."""
        means = self.means @ weights
        sds = np.sqrt(np.maximum(np.einsum("i,kij,j->k", weights, self.covariances, weights), 0.0))
        return float(self.weights @ special.ndtr(means / np.maximum(sds, 1e-300)))

    def sample(self, draws: int, rng: np.random.Generator | None = None) -> Floats:
        """Return draws of the coefficients, one row each."""
        generator, draws = secure_rng() if rng is None else rng, whole("draws", draws)
        picked = np.searchsorted(np.cumsum(self.weights), generator.random(draws) * (1 - 1e-12))
        noise = generator.standard_normal((draws, self.mean.size))
        out = np.empty_like(noise)
        for k in np.unique(picked):
            values, vectors = np.linalg.eigh(self.covariances[k])
            subset = picked == k
            out[subset] = self.means[k] + noise[subset] @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        return out

    def summary(self) -> str:
        """Return the posterior in one line."""
        shown = ", ".join(
            f"{t} {m:.3g} ± {s:.2g}" for t, m, s in zip(self.terms[:4], self.median, self.sd, strict=False)
        )
        return f"{self.formula.describe()}: {shown}{', …' if len(self.terms) > 4 else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return the posterior as plain values; `from_dict` reads it back."""
        arrays: dict[str, Any] = {name: getattr(self, name).tolist() for name in ("weights", "means", "covariances")}
        arrays["plain_sd"] = [None if math.isnan(sd) else sd for sd in self.plain_sd.tolist()]
        shown = {"cut": self.cut, "misses": self.misses, "full": self.full}
        arrays |= {name: value for name, value in shown.items() if value is not None}
        arrays |= {"dispersion": list(self.dispersion)} if self.dispersion is not None else {}
        arrays |= {"rows": self.rows.to_dict()} if self.rows is not None else {}
        arrays |= {"looks": [look.to_dict() for look in self.looks]} if self.looks else {}
        return {"posterior": "coefficients", "formula": self.formula.to_dict(), "terms": self.terms} | arrays

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> Coefficients:
        """Read a posterior from `to_dict`'s form."""
        with restoring("coefficients"):
            names = ("weights", "means", "covariances", "plain_sd")
            arrays: dict[str, Any] = {name: np.asarray(state[name], dtype=np.float64) for name in names}
            arrays |= {name: float(state[name]) for name in ("cut", "misses", "full") if state.get(name) is not None}
            if (varied := state.get("dispersion")) is not None:
                mean, sd, shape = map(float, varied)
                arrays["dispersion"] = mean, sd, shape
            if (rows := state.get("rows")) is not None:
                arrays["rows"] = LearnedRows.from_dict(rows)
            formula = read_formula(state["formula"])
            return Coefficients(formula, **arrays, looks=read_looks(state.get("looks", ()), formula))


def _ends(level: float) -> list[float]:
    return [(1 - level) / 2, (1 + level) / 2]


def _quantiles(asked: list[float], weights: Floats, means: Floats, sds: Floats, near: float = 0.0) -> Floats:
    """Return quantiles of a mixture of normal laws, or of one for each column of means, by bisection.

    A quantile of a mixture lies between those of its laws. `near` is a part of the way from the first to the last.
    """
    q = np.array(asked).reshape(-1, *[1] * means.ndim)
    each = means + special.ndtri(q) * sds
    low, high = each.min(axis=1), each.max(axis=1)
    for _ in range(64):  # down to the last digit
        middle = (low + high) / 2
        if np.all((middle == low) | (middle == high) | (high - low <= near * (low[-1] - high[0]))):
            break
        chances = special.ndtr((middle[:, None] - means) / np.maximum(sds, 1e-300))
        below = np.einsum("k,qk...->q...", weights, chances) < q[:, 0]
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)
