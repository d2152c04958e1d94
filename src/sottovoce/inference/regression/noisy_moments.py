r"""Noisy statistics of a generalized linear model: X'X and X'y once, then a whole Gaussian posterior for free.

On a bounded linear predictor the loss is close to a quadratic (Huggins, Adams and Broderick 2017),
ℓ(t, y) ≈ const − ỹt + κt²/2 with ỹ = a + by, so that X'X and X'ỹ are approximately sufficient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Self

import jax
import numpy as np
from scipy import optimize

from sottovoce.inference.regression.design import Design, check_design
from sottovoce.inference.regression.gaussian_posterior import GaussianPosterior
from sottovoce.inference.regression.kalman_filter import noisy_newton_step
from sottovoce.inference.regression.losses import Logistic, Loss, Squared, positive
from sottovoce.inference.regression.posterior import RegressionMechanism, prior_of
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.exact_normals import exact_normals
from sottovoce.mechanisms.jax_compilation import compiler_options
from sottovoce.mechanisms.mechanism import Choices
from sottovoce.privacy.errors import InvalidData
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, above_diagonal
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import Promise
from sottovoce.records.readings import Moments, Statistics
from sottovoce.records.readings.moments import joint_sensitivity


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

    >>> from sottovoce.inference.regression.losses import Logistic
    >>> fit = quadratic_fit(Logistic(), 2.0)
    >>> round(fit.slope, 6), round(fit.curvature, 3)
    (0.5, 0.216)
    """
    positive("reach", reach)
    points = reach * np.cos(np.pi * (np.arange(256) + 0.5) / 256)
    t, y = (a.ravel() for a in np.meshgrid(points, np.array(loss.labels)))
    with jax.enable_x64(True):
        values = np.asarray(jax.jit(loss.value, compiler_options=compiler_options(seldom=True))(t, y))
    basis = np.stack([np.ones_like(t), y, t, y * t, t * t / 2], axis=1)
    _, _, offset, slope, curvature = np.linalg.lstsq(basis, values, rcond=None)[0]
    return QuadraticFit(-float(offset), -float(slope), float(curvature))


@dataclass(frozen=True, eq=False)
class Perturbed:
    """X'X and X'ỹ with Gaussian noise: `noise` on the diagonal of X'X, noise/√2 off it, noise/balance on X'ỹ.

    Or those of several tables, along axes that come first.
    """

    gram: Floats
    moment: Floats
    noise: float
    balance: float


@dataclass(frozen=True, eq=False)
class NoisyMoments(RegressionMechanism):
    """Gaussian noise on X'X and X'y with their joint sensitivity, then the noise-aware Gaussian posterior.

    Attributes
    ----------
    system, n
        Loss, dimension and bounds; the number of records.
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
    >>> from sottovoce.inference.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> rng = seeded_rng(1)
    >>> X = rng.standard_normal((5000, 2)) / 3
    >>> y = np.where(X @ [3.0, -3.0] + rng.logistic(size=5000) > 0, 1.0, -1.0)
    >>> design = Design(Logistic(), dimension=2, data_norm=1.0)
    >>> mechanism = NoisyMoments.calibrate(design, 5000, ApproxDP(1.0, 1e-6), prior_precision=0.1)
    >>> mechanism.release((X, y), rng).value.mean.round(1).tolist()
    [2.5, -2.5]
    """

    word: ClassVar[str] = "noisy moments"
    choices: ClassVar[Choices] = {"noisy-moments": {}}
    mu: float
    prior_precision: float
    fit_reach: float = 2.0
    within_bounds: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reading.check_sums(self.n)
        for name in ("mu", "prior_precision", "fit_reach"):
            positive(name, getattr(self, name))
        positive(f"the response of {self.design.loss.name}", self.fit.largest(self.design.loss))

    @classmethod
    def calibrate(
        cls,
        design: Design,
        n: int,
        target: Promise,
        *,
        prior_precision: float | None = None,
        prior_scale: float | None = None,
        fit_reach: float = 2.0,
        within_bounds: bool = False,
    ) -> Self:
        """Return the mechanism with the least noise that keeps `target`."""
        check_design(design)
        mu = largest_keeping(GaussianProfile, target, high=1e6, name="mu")
        return cls(design, n, mu, prior_of(design, prior_precision, prior_scale), fit_reach, within_bounds)

    @property
    def reading(self) -> Moments:
        """The sums X'X, X'y, X'1 and y'y."""
        return self.design.moments

    @property
    def profile(self) -> GaussianProfile:
        """What the statistics cost, and with them the posterior and all its samples."""
        return GaussianProfile(self.mu, basis=Basis.BOUND)

    @cached_property
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

    @cached_property
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

    @cached_property
    def noise(self) -> float:
        """The standard deviation of the noise on the diagonal of X'X."""
        moved = joint_sensitivity(self.design.data_norm, self.fit.largest(self.design.loss), self.balance)
        return (moved + self.rounding) / self.mu * (1 + 2.0**-40)

    @property
    def rounding(self) -> float:
        """How much farther two neighbours lie apart as doubles: in every entry, the last bits of two sums.

        A record's part of a sum is off by at most 2⁻⁵⁰ of its bound, by its products and its whole steps; sums are
        exact, and become doubles, of size n times the bound, with three roundings on the way to a + by.
        """
        c, d, fit = self.design.data_norm, self.design.dimension, self.fit
        response = abs(fit.offset) + abs(fit.slope) * max(map(abs, self.design.loss.labels))
        return (2.0**-49 + self.known_n * 2.0**-50) * (d * c * c + self.balance * math.sqrt(d) * c * response)

    @classmethod
    def example(cls) -> Self:
        """Return the moments of four records."""
        return cls(Design(Logistic(), dimension=2, data_norm=1.0), 4, 1.0, 1.0)

    def cost(self, draws: int = 1) -> Profile:
        """Return the profile: any number of samples of the released posterior is free."""
        del draws
        return self.profile

    def _value(self, seen: Statistics, rng: np.random.Generator, draws: int) -> GaussianPosterior:
        del draws
        return self.posterior(self.perturbed(*self._moments(seen), rng))

    def _moments(self, seen: Statistics) -> tuple[Floats, Floats, Floats]:
        return self.reading.split(self.reading.check(seen).total)[:3]

    def _outputs(self, seen: Statistics, rng: np.random.Generator, draws: int) -> Floats:
        """Return the noisy X'X and X'ỹ of which releases are made, flat."""
        gram, moment, ones = self._moments(seen)
        response = self.fit.offset * ones + self.fit.slope * moment
        grams, responses = (np.broadcast_to(part, (draws, *part.shape)) for part in (gram, response))
        noisy = self._noised(grams, responses, rng)
        return np.concatenate([noisy.gram.reshape(draws, -1), noisy.moment], axis=1)

    def worst_pair(self) -> tuple[Statistics, Statistics]:
        """Return one record replaced by the one that moves (X'X, αX'ỹ) farthest."""
        low, high = self.design.loss.labels
        fit, largest = self.fit, self.fit.largest(self.design.loss)
        # Two labels of one sign of ỹ need rows that point apart, two of both signs rows that do not.
        turned = math.isclose(abs(fit.offset + fit.slope * low), abs(fit.offset + fit.slope * high))
        return self.reading.pair(self.n, self.balance * largest, 1.0 if turned else -1.0)

    def log_ratio(self, pair: tuple[Statistics, Statistics]) -> Callable[[Any], Any]:
        """Return the log-ratio of two Gaussians of one shape, up to a constant."""
        towards = []
        for seen in pair:
            gram, moment, ones = self._moments(seen)
            response = self.fit.offset * ones + self.fit.slope * moment
            towards.append(np.append(gram.ravel(), self.balance**2 * response))
        slope = (towards[0] - towards[1]) / self.noise**2
        return lambda outputs: np.asarray(outputs) @ slope

    def _parameters(self) -> dict[str, Any]:
        return self.numbers()

    def numbers(self) -> dict[str, Any]:
        """Return the public numbers beside design and n."""
        return {
            "mu": float(self.mu),
            "prior_precision": float(self.prior_precision),
            "fit_reach": float(self.fit_reach),
            "within_bounds": bool(self.within_bounds),
        }

    def perturbed(self, gram: Any, moment: Any, total: Any, rng: np.random.Generator) -> Perturbed:
        """Return X'X and X'ỹ with exactly rounded noise, of one table or of each of several; all that follows is free.

        The sums must be of rows within `data_norm` and labels in range: nothing here can check that.
        """
        d, fit = self.design.dimension, self.fit
        gram, moment = np.asarray(gram, dtype=np.float64), np.asarray(moment, dtype=np.float64)
        bare = total is None and abs(fit.offset) < 1e-12
        total = np.zeros(moment.shape) if bare else np.asarray(total, dtype=np.float64)
        if gram.shape != (*moment.shape, d) or moment.shape[-1:] != (d,) or total.shape != moment.shape:
            raise InvalidData(
                f"expected X'X, X'y and X'1 of {d} columns. Got shapes {gram.shape}, {moment.shape}, {total.shape}"
            )
        if not all(np.all(np.isfinite(part)) for part in (gram, moment, total)):
            raise InvalidData("X'X, X'y and X'1 must be finite; clip every row before they are summed")
        return self._noised(gram, fit.offset * total + fit.slope * moment, rng)

    def _noised(self, gram: Floats, response: Floats, rng: np.random.Generator) -> Perturbed:
        """Return X'X and X'ỹ with noise, every entry exactly rounded."""
        noise, up, places = self.noise, 1 + 2.0**-50, np.arange(self.design.dimension)
        i, j = above_diagonal(places.size)
        noisy = np.empty(gram.shape)
        noisy[..., places, places] = exact_normals(gram[..., places, places], noise, rng)
        noisy[..., i, j] = noisy[..., j, i] = exact_normals(gram[..., i, j], noise / math.sqrt(2) * up, rng)
        return Perturbed(noisy, exact_normals(response, noise / self.balance * up, rng), noise, self.balance)

    def posterior(self, moments: Perturbed) -> GaussianPosterior:
        """Return the Gaussian posterior that knows of the noise."""
        return GaussianPosterior(*self.fitted(moments), self.no_intervals)

    def fitted(self, moments: Perturbed) -> tuple[Floats, Floats]:
        r"""Return the mean and the covariance of that posterior, or of those of several tables.

        Given w the noisy score b̂ = X'ỹ + noise has mean Hw with H = κ·(noisy X'X)₊ and variance H + C·I: the
        records' own, and C = σ²/α² + κ²σ²‖w‖²/2 of the noise in both statistics. Hence the precision
        H(H+C)⁻¹H + m (`noisy_newton_step`).
        """
        values, vectors = np.linalg.eigh(moments.gram)
        H = np.maximum(self.fit.curvature * values, 0.0)
        score = np.einsum("...ij,...i->...j", vectors, moments.moment)
        fixed, grows = H + (moments.noise / moments.balance) ** 2, (moments.noise * self.fit.curvature) ** 2 / 2
        size = np.full(H.shape[:-1], self.design.dimension / self.prior_precision)
        gain, precision = noisy_newton_step(H, score, fixed, grows, self.prior_precision, size)
        covariance = (vectors / precision[..., None, :]) @ vectors.mT
        return np.einsum("...ij,...j->...i", vectors, gain * score), covariance
