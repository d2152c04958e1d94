r"""Noisy statistics of a generalized linear model: X'X and X'y once, then a whole Gaussian posterior for free.

On a bounded linear predictor the loss is close to a quadratic (Huggins, Adams and Broderick 2017),
ℓ(t, y) ≈ const − ỹt + κt²/2 with ỹ = a + by, so that X'X and X'ỹ are approximately sufficient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.grid import to_grid
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.randomness import is_secure, secure_rng
from sottovoce.regression.design import Design, check_design
from sottovoce.regression.gaussian_posterior import GaussianPosterior
from sottovoce.regression.losses import Loss, Squared, positive

__all__ = ["NoisyMoments", "NoisyQuadratic", "QuadraticFit", "joint_sensitivity", "quadratic_fit"]


@dataclass(frozen=True)
class QuadraticFit:
    """ℓ(t, y) ≈ const − (a + b·y)·t + κt²/2 with a = `offset`, b = `slope`, κ = `curvature`."""

    offset: float
    slope: float
    curvature: float

    def largest(self, loss: Loss) -> float:
        """Return the largest |a + by| over the labels."""
        return max(abs(self.offset + self.slope * label) for label in loss.labels)


@cache
def quadratic_fit(loss: Loss, reach: float) -> QuadraticFit:
    """Return the least-squares fit over Chebyshev points of |t| ≤ `reach` and the two end labels.

    >>> from sottovoce.regression.losses import Logistic
    >>> fit = quadratic_fit(Logistic(), 2.0)
    >>> round(fit.slope, 6), round(fit.curvature, 3)
    (0.5, 0.216)
    """
    positive("reach", reach)
    points = reach * np.cos(np.pi * (np.arange(256) + 0.5) / 256)
    t, y = (a.ravel() for a in np.meshgrid(points, np.array(loss.labels)))
    with jax.enable_x64(True):
        values = np.asarray(loss.value(jnp.asarray(t), jnp.asarray(y)))
    basis = np.stack([np.ones_like(t), y, t, y * t, t * t / 2], axis=1)
    _, _, offset, slope, curvature = np.linalg.lstsq(basis, values, rcond=None)[0]
    return QuadraticFit(-float(offset), -float(slope), float(curvature))


def joint_sensitivity(data_norm: float, response: float, balance: float) -> float:
    r"""Return how far one replaced record moves (X'X, α·X'ỹ), X'X in Frobenius norm, for |ỹ| ≤ Y.

    With ‖x‖ = ‖z‖ = c and g = x·z the square is 2c⁴ − 2g² + 2α²Y²(c² + |g|), largest at |g| = min(α²Y²/2, c²).

    .. math:: \Delta = \sqrt2\,(c^2 + \alpha^2Y^2/2) \text{ if } \alpha Y \le \sqrt2 c,
              \text{ else } 2\alpha Yc
    """
    pull = balance * response
    if pull**2 <= 2 * data_norm**2:
        return math.sqrt(2) * (data_norm**2 + pull**2 / 2)
    return 2 * pull * data_norm


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """X'X and X'ỹ with Gaussian noise: `noise` on the diagonal of X'X, noise/√2 off it, noise/balance on X'ỹ."""

    gram: Floats
    moment: Floats
    noise: float
    balance: float


@dataclass(frozen=True)
class NoisyQuadratic:
    """Gaussian noise on X'X and X'y with their joint sensitivity, then the noise-aware Gaussian posterior.

    Attributes
    ----------
    design
        Loss, n, dimension and bounds.
    mu
        The cost, in μ of Gaussian privacy.
    prior_precision
        m of the Gaussian prior; used after the noise, so it may be changed freely.
    fit_reach
        The range |t| on which the loss is fitted by a quadratic. Public.
    within_bounds
        Say True if you know, not from the records, that no row is longer than `data_norm` and no response beyond its
        bound. Then nothing is clipped, and with the squared loss, whose model has unit noise, `interval` covers.
        Rows and responses are clipped all the same: the promise does not rest on it.

    Examples
    --------
    >>> from sottovoce.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> rng = seeded_rng(1)
    >>> X = rng.standard_normal((5000, 2)) / 3
    >>> y = np.where(X @ [3.0, -3.0] + rng.logistic(size=5000) > 0, 1.0, -1.0)
    >>> design = Design(Logistic(), n=5000, dimension=2, data_norm=1.0)
    >>> mechanism = NoisyQuadratic.calibrate(design, ApproxDP(1.0, 1e-6), prior_precision=0.1)
    >>> mechanism.release(X, y, rng).value.mean.round(1).tolist()
    [2.5, -2.4]
    """

    design: Design
    mu: float
    prior_precision: float
    fit_reach: float = 2.0
    within_bounds: bool = False

    def __post_init__(self) -> None:
        check_design(self.design)
        for name in ("mu", "prior_precision", "fit_reach"):
            positive(name, getattr(self, name))
        positive(f"the response of {self.design.loss.name}", self.fit.largest(self.design.loss))

    @classmethod
    def calibrate(
        cls,
        design: Design,
        target: Promise,
        *,
        prior_precision: float,
        fit_reach: float = 2.0,
        within_bounds: bool = False,
    ) -> Self:
        """Return the mechanism with the least noise that keeps `target`."""
        mu = largest_keeping(GaussianProfile, target, high=1e6, name="mu")
        return cls(design, mu, prior_precision, fit_reach, within_bounds)

    @property
    def profile(self) -> GaussianProfile:
        """What the statistics cost, and with them the posterior and all its samples."""
        return GaussianProfile(self.mu, basis=Basis.BOUND)

    @property
    def fit(self) -> QuadraticFit:
        """The quadratic that stands in for the loss."""
        return quadratic_fit(self.design.loss, self.fit_reach)

    @property
    def no_intervals(self) -> str | None:
        """Why the posterior has no intervals, or None where they cover: by public facts alone."""
        if not isinstance(self.design.loss, Squared):
            return (
                f"a quadratic stands in for the {self.design.loss.name} loss, and the interval would be of its "
                "minimum, which is not the parameter; it misses the more surely the more records there are"
            )
        if not self.within_bounds:
            return (
                "rows longer than data_norm and responses beyond their bound are clipped, which moves the answer; "
                "say within_bounds=True if you know, not from the records, that there are none"
            )
        return None

    @property
    def balance(self) -> float:
        """α, the weight of X'ỹ beside X'X that leaves the score X'ỹ − κX'Xw least noisy where ‖w‖² ≈ d/m."""
        c, response = self.design.data_norm, self.fit.largest(self.design.loss)
        size = self.design.dimension / self.prior_precision

        def noise(log_ratio: float) -> float:
            alpha = math.exp(log_ratio) * c / response
            score = 1 / alpha**2 + self.fit.curvature**2 * size / 2
            return joint_sensitivity(c, response, alpha) ** 2 * score

        best = optimize.minimize_scalar(noise, bounds=(-8.0, 1.0), method="bounded").x
        return math.exp(float(best)) * c / response

    def release(self, X: Any, y: Any, rng: np.random.Generator | None = None) -> Release:
        """Return the posterior of the records; rows are clipped to `data_norm`, labels to their range."""
        rows, labels = self.design.clipped(X), self.design.responses(y)
        return self.release_statistics(rows.T @ rows, rows.T @ labels, rows.sum(axis=0), rng)

    def release_statistics(
        self, gram: Any, moment: Any, total: Any = None, rng: np.random.Generator | None = None
    ) -> Release:
        """Return the posterior from X'X, X'y and, where the loss needs it, the column sums X'1.

        Any engine may compute them in one pass, from rows already clipped to `data_norm` and labels already in
        range: nothing here can check that, and the privacy rests on it.
        """
        generator = secure_rng() if rng is None else rng
        moments = self.noisy_moments(gram, moment, total, generator)
        described = {
            "mechanism": "noisy quadratic statistics",
            "loss": self.design.loss.name,
            "n": int(self.design.n),
            "dimension": int(self.design.dimension),
            "data_norm": self.design.data_norm,
            "mu": self.mu,
            "noise": moments.noise,
            "balance": moments.balance,
            "prior_precision": self.prior_precision,
        }
        return Release(self.posterior(moments), self.profile, described, "w", not is_secure(generator))

    def noisy_moments(self, gram: Any, moment: Any, total: Any, rng: np.random.Generator) -> NoisyMoments:
        """Return X'X and X'ỹ with noise, each on a public grid; all that follows is free."""
        d, fit = self.design.dimension, self.fit
        gram, moment = np.asarray(gram, dtype=np.float64), np.asarray(moment, dtype=np.float64)
        total = np.zeros(d) if total is None and abs(fit.offset) < 1e-12 else np.asarray(total, dtype=np.float64)
        if gram.shape != (d, d) or moment.shape != (d,) or total.shape != (d,):
            raise InvalidData(
                f"expected X'X, X'y and X'1 of {d} columns. Got shapes {gram.shape}, {moment.shape}, {total.shape}"
            )
        if not all(np.all(np.isfinite(part)) for part in (gram, moment, total)):
            raise InvalidData("X'X, X'y and X'1 must be finite; clip every row before they are summed")
        balance = self.balance
        noise = joint_sensitivity(self.design.data_norm, fit.largest(self.design.loss), balance) / self.mu
        upper = np.triu(rng.standard_normal((d, d)), 1) / math.sqrt(2)
        rough = upper + upper.T + np.diag(rng.standard_normal(d))
        response = fit.offset * total + fit.slope * moment
        noisy_response = response + noise / balance * rng.standard_normal(d)
        return NoisyMoments(
            to_grid(gram + noise * rough, noise), to_grid(noisy_response, noise / balance), noise, balance
        )

    def posterior(self, moments: NoisyMoments) -> GaussianPosterior:
        r"""Return the Gaussian posterior that knows of the noise.

        Given w the noisy score b̂ = X'ỹ + noise has mean Hw with H = κ·(noisy X'X)₊ and variance H + C·I: the
        records' own, and C = σ²/α² + κ²σ²‖w‖²/2 of the noise in both statistics. Hence the precision
        H(H+C)⁻¹H + m, with ‖w‖² found by iteration.
        """
        values, vectors = np.linalg.eigh(moments.gram)
        H = np.maximum(self.fit.curvature * values, 0.0)
        score = vectors.T @ moments.moment
        size = self.design.dimension / self.prior_precision
        for _ in range(60):
            C = moments.noise**2 * (1 / moments.balance**2 + self.fit.curvature**2 * size / 2)
            precision = H * H / (H + C) + self.prior_precision
            mean = H / (H + C) * score / precision
            size = (size + float(mean @ mean)) / 2
        return GaussianPosterior(vectors @ mean, (vectors / precision) @ vectors.T, self.no_intervals)
