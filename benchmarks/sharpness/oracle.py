r"""Oracles: how narrow an interval could be for one who knows what no private answer knows.

The oracle of a question knows every nuisance (spreads, centres, tails, correlations, where to cut) and spends the whole
budget ρ on the one number, with Gaussian noise. Its 95 % interval is 2·1.96·sd wide. Nothing here imports the library
that is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

__all__ = [
    "Moments",
    "Population",
    "Z",
    "coefficients",
    "gaussian",
    "given",
    "logistic",
    "mean",
    "plain_mean",
    "poisson",
    "quantile",
    "rho_of",
]

Array = npt.NDArray[np.float64]
Z = 1.959964
_NORMS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.97, 1.0)
"""Quantiles of the whitened rows' norm at which longer rows are weighed down; the best is the oracle's."""
_CUTS = 12
"""Cuts that are tried of a column's values, or of residuals."""


def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest ρ of which ρ-zCDP implies (ε, δ): Canonne, Kamath and Steinke (2020), proposition 7.

    >>> round(rho_of(1.0, 1e-6), 4)
    0.0244
    """

    def log_delta(rho: float) -> float:
        def at(log_more: float) -> float:  # the order is 1 + e^{log_more}
            more = math.exp(log_more)
            order = 1 + more
            return more * (order * rho - epsilon) + order * math.log1p(-1 / order) - log_more

        found = optimize.minimize_scalar(at, bounds=(-5.0, 12.0), method="bounded", options={"xatol": 1e-10})
        return float(found.fun)

    log_rho = optimize.brentq(lambda x: log_delta(math.exp(x)) - math.log(delta), math.log(1e-12), math.log(1e3))
    return math.exp(float(log_rho))


# Regressions.


@dataclass(frozen=True)
class Moments:
    """Of residuals cut at r, row by row: the slope of their mean in the predictor, their mean and their mean square."""

    cut: float
    slope: Array
    mean: Array
    square: Array


@dataclass(frozen=True)
class Population:
    """Rows that stand for a population, the information of each and its residual's moments, uncut and at every cut.

    Where it is not of a law that the oracle could know (`parametric` false: a real table, a formula that is bent), what
    is asked for are the ordinary coefficients: they have the sampling error they have without privacy, and noise as of
    the best cut score besides.
    """

    rows: Array
    information: Array
    variance: Array
    cuts: Sequence[Moments]
    parametric: bool = True


def gaussian(rows: Array, sd: float) -> Population:
    """Return the population of a linear regression with normal residuals."""
    n, cuts = len(rows), []
    for r in np.geomspace(0.5, 5.0, _CUTS) * sd:
        c = r / sd
        near = math.erf(c / math.sqrt(2))
        square = near - 2 * c * stats.norm.pdf(c) + c * c * (1 - near)
        cuts.append(Moments(float(r), np.full(n, near), np.zeros(n), np.full(n, square * sd**2)))
    return Population(rows, np.ones(n), np.full(n, sd**2), cuts)


def given(
    rows: Array, information: Array, residual: Array, widest: float | None = None, cut: bool = True
) -> Population:
    """Return a population whose residuals are those of its rows: of a real table, or of a formula that is bent."""
    size = np.abs(residual)
    levels = (
        np.unique(np.quantile(size, [*np.linspace(0.5, 0.98, 9), 0.99, 0.995, 0.999, 1.0])) if cut else [size.max()]
    )
    cuts = []
    for r in [float(level) for level in levels if level > 0]:
        kept = np.clip(residual, -r, r)
        inside = (size < r) if r < size.max() else np.ones(len(size), dtype=bool)
        cuts.append(Moments(r, information * inside, kept, kept**2))
    if widest is not None and not cut:
        cuts = [Moments(widest, cuts[0].slope, cuts[0].mean, cuts[0].square)]
    return Population(rows, information, residual**2, cuts, parametric=False)


def coefficients(population: Population, n: int, rho: float) -> tuple[Array, Array]:
    """Return the widths of the oracle and of no privacy: weighed whitened scores with their noise, solved for θ.

    Rows z = Tx, T = (n E[μ′xx′])^(−1/2), count v = min(1, c/‖z‖), residuals are cut at r. One record replaced moves
    the score by 2cr at most. cov = T′H⁻¹(J + (2cr)²/(2ρ) I)H⁻¹T, at the c and r of the least trace.
    """
    x = population.rows
    size, d = x.shape
    fisher = n * (x.T * population.information) @ x / size
    eigenvalues, vectors = np.linalg.eigh(fisher)
    whiten = (vectors / np.sqrt(eigenvalues)) @ vectors.T
    z = x @ whiten.T
    norms = np.linalg.norm(z, axis=1)
    back = np.linalg.inv(fisher)
    plain = n * back @ ((x.T * population.variance) @ x / size) @ back

    def solved(c: float, cut: Moments) -> tuple[float, Array]:
        """Return the trace that is made small, and the covariance of the whitened coefficients."""
        weighed = z * np.minimum(1.0, c / norms)[:, None]
        h = n * (weighed.T * cut.slope) @ z / size
        centre = weighed.T @ cut.mean / size
        j = n * ((weighed.T * cut.square) @ weighed / size - np.outer(centre, centre))
        noise = (2 * c * cut.cut) ** 2 / (2 * rho) * np.eye(d)
        try:
            inverse = np.linalg.inv(h)
        except np.linalg.LinAlgError:
            return math.inf, noise
        found = inverse @ ((j if population.parametric else 0.0) + noise) @ inverse.T
        loss = float(np.trace(found))
        return (loss if loss > 0 else math.inf), found

    lengths = np.unique(np.quantile(norms, _NORMS)).tolist()
    c = lengths[-1]
    for _ in range(2):  # the best cut for a length, the best length for the cut
        cut = min(population.cuts, key=lambda one: solved(c, one)[0])
        c = min(lengths, key=lambda one: solved(one, cut)[0])
    best = whiten.T @ solved(c, cut)[1] @ whiten
    covariance = best if population.parametric else best + plain
    return 2 * Z * np.sqrt(np.diag(covariance)), 2 * Z * np.sqrt(np.diag(plain))


def logistic(rows: Array, theta: Array, widest: float) -> Population:
    """Return the population of a logistic regression that is right; `widest` is the largest public residual."""
    mu = special.expit(rows @ theta)
    information = mu * (1 - mu)
    return Population(rows, information, information, [Moments(widest, information, np.zeros(len(mu)), information)])


def poisson(rows: Array, theta: Array, high: int) -> Population:
    """Return the population of a Poisson regression that is right, counts up to `high`; H is Cov(cut residual, y)."""
    mu = np.exp(np.minimum(rows @ theta, math.log(high)))
    counts = np.arange(high + 1)
    # The moments are smooth in the mean: they are taken on a grid of it.
    grid = np.geomspace(mu.min() * 0.999, mu.max() * 1.001, 60)
    law = stats.poisson.pmf(counts[None, :], grid[:, None])
    law /= law.sum(axis=1, keepdims=True)
    residual = counts[None, :] - grid[:, None]
    cuts = []
    for r in np.geomspace(max(0.5 * math.sqrt(np.median(mu)), 0.3), high, _CUTS):
        kept = np.clip(residual, -r, r)
        moments = ((law * kept * residual).sum(1), (law * kept).sum(1), (law * kept**2).sum(1))
        slope, centre, square = (np.interp(mu, grid, one) for one in moments)
        cuts.append(Moments(float(r), slope, centre, square))
    # A known centre of each row costs nothing: the variance about it is what counts.
    cuts = [Moments(one.cut, one.slope, np.zeros_like(mu), one.square - one.mean**2) for one in cuts]
    return Population(rows, mu, mu, cuts)


# Quantiles and means.


def quantile(values: Array, q: float, n: float, rho: float | None) -> float:
    """Return the width between the quantiles q ∓ 1.96 sd/n, sd² = nq(1 − q) + 1/(2ρ); without privacy for None."""
    sd = math.sqrt(n * q * (1 - q) + (0.0 if rho is None else 1 / (2 * rho)))
    ends = np.clip([q - Z * sd / n, q + Z * sd / n], 0.0, 1.0)
    low, high = np.quantile(values, ends, method="inverted_cdf")
    return float(high - low)


def mean(values: Array, low: float, n: float, rho: float) -> float:
    """Return the width for one who knows the law up to its scale, and cuts at the best c.

    var = κ²((c − low)²/(2ρn²) + Var(min(t, c))/n), κ = E[t − low]/E[(t − low)1(t < c)].
    """
    t = np.sort(np.asarray(values, dtype=float)) - low
    if t[-1] <= 0:
        return 0.0
    total, best = t.mean(), math.inf
    for c in np.unique(np.quantile(t, [*np.linspace(0.3, 0.95, 14), 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 1.0])):
        kept = t[t < c] if c < t[-1] else t
        if c <= 0 or kept.sum() <= 0:
            continue
        kappa = total * len(t) / kept.sum()
        best = min(best, kappa**2 * (c**2 / (2 * rho * n**2) + np.minimum(t, c).var() / n))
    return 2 * Z * math.sqrt(best)


def plain_mean(values: Array, n: float) -> float:
    """Return the width without privacy."""
    return 2 * Z * float(np.std(values)) / math.sqrt(n)
