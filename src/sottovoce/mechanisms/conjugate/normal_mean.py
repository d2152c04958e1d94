"""A mean with known variance: Normal records, Normal prior, on an interval or in a ball."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from sottovoce.mechanisms.conjugate.conjugate import Conjugate, check_weights
from sottovoce.mechanisms.conjugate.distributions import Normal, NormalVector
from sottovoce.mechanisms.conjugate.distributions.base import frozen, positive
from sottovoce.mechanisms.conjugate.distributions.truncated import Truncated
from sottovoce.mechanisms.conjugate.exact_posteriors import NormalLaw, exact_total
from sottovoce.mechanisms.conjugate.prior_parameters import Setting
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, as_floats, ceil_float, real, sqrt_up, whole
from sottovoce.privacy.profile import Profile
from sottovoce.records.facts import Column, Count, Number, Vector
from sottovoce.records.readings import BallSum, ClippedSum, Statistics
from sottovoce.records.readings.base import checked_n
from sottovoce.records.readings.grid import check_span


@dataclass(frozen=True, eq=False)
class NormalMean(Conjugate):
    r"""A mean θ with prior N(prior_mean, prior_variance), records N(θ, variance) clipped to public bounds.

    The posterior has precision P = v/τ² + wn/σ² whatever the data, so neighbours differ in the mean alone and one
    sample **is** μ-Gaussian private:

    .. math:: \mu = \frac{w\,D}{\sigma^2\sqrt{P}}, \qquad D = \text{high} - \text{low or } 2\,\text{radius}

    Parameters
    ----------
    variance
        σ², the known variance of a record.
    prior_variance, prior_mean
        τ² and the centre of the prior; for a ball `prior_mean` may be a vector.
    bounds
        (low, high) of a scalar record.
    radius, dimension
        Instead of `bounds`: records are vectors, projected onto the ball of this radius around the origin.

    Examples
    --------
    >>> system = NormalMean(variance=1, prior_variance=1, bounds=(-1, 1))
    >>> system.posterior(system.statistics([5.0, 0.5, 0.0]))
    Normal(centre=0.375, spread=0.25)
    >>> system.profile(n=3)
    GaussianProfile(basis=<Basis.EXACT: 'exact'>, mu=1.0)
    """

    word: ClassVar[str] = "normal-mean"
    title: ClassVar[str] = "a mean (normal)"
    settings: ClassVar[Mapping[str, Setting]] = {
        "variance": Setting("Variance of a record", 1e-15, 1e15),
        "prior_variance": Setting("Prior variance", 1e-15, 1e15),
        "prior_mean": Setting("Prior mean", -1e9, 1e9, several=True),
    }
    variance: float
    prior_variance: float
    prior_mean: Any = 0.0
    bounds: tuple[float, float] | None = None
    radius: float | None = None
    dimension: int | None = None

    def __post_init__(self) -> None:
        for name in ("variance", "prior_variance"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        centre = as_floats("prior_mean", self.prior_mean, -np.inf)
        if self.bounds is not None and self.radius is None and self.dimension is None:
            object.__setattr__(self, "bounds", _interval(self.bounds))
            ClippedSum(*self.bounds).check_sums(0)
            if centre.ndim:
                raise InvalidValue("prior_mean must be one number where records are numbers")
        elif self.bounds is None and self.radius is not None and self.dimension is not None:
            object.__setattr__(self, "radius", positive("radius", self.radius))
            check_span(0.0, self.radius, "the middle of the ball and its edge")
            object.__setattr__(self, "dimension", whole("dimension", self.dimension, 1))
            if centre.ndim > 1 or (centre.ndim and centre.size != self.dimension):
                raise InvalidValue(f"prior_mean must be one number or {self.dimension} of them")
            centre = np.broadcast_to(centre, (int(self.dimension),))
        else:
            raise InvalidValue("give bounds=(low, high) for numbers, or radius and dimension for vectors")
        object.__setattr__(self, "prior_mean", frozen(centre))

    @classmethod
    def usual(cls, column: Column | None) -> dict[str, Any] | None:
        """Return a record that spreads over a quarter of its bounds, and a prior over half of them."""
        if isinstance(column, Vector):
            spread = 2 * column.radius
            bounds: dict[str, object] = {"radius": column.radius, "dimension": len(column.of), "prior_mean": 0.0}
        elif isinstance(column, Number | Count):
            low, high = column.bounds
            spread = high - low
            bounds = {"bounds": (low, high), "prior_mean": low + spread / 2}
        else:
            return None
        return bounds | {"variance": (spread / 4) ** 2, "prior_variance": (spread / 2) ** 2}

    @property
    def coordinates(self) -> tuple[object, ...] | None:
        """The coordinates of a vector by their places."""
        return None if self.dimension is None else tuple(range(self.dimension))

    def new_record(self) -> Any:
        """Return what a new record is: a number, or a vector."""
        from sottovoce.mechanisms.conjugate.predictive import normal, vector  # noqa: PLC0415 - few ask for it

        sigma = float(np.sqrt(self.variance))
        return normal(sigma) if self.bounds is not None else vector(sigma)

    @property
    def reading(self) -> ClippedSum | BallSum:
        """Records clipped to the interval, or projected onto the ball."""
        if self.bounds is not None:
            return ClippedSum(*self.bounds)
        return BallSum(int(self.dimension or 0), float(self.radius or 0))

    @property
    def diameter(self) -> float:
        """How far two records can lie apart."""
        return check_span(*self.bounds) if self.bounds is not None else 2 * float(self.radius or 0)

    @property
    def origin(self) -> float:
        """Where the reading measures from: the lower bound, or the middle of the ball."""
        return self.bounds[0] if self.bounds is not None else 0.0

    def precision(self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0) -> float:
        """Return P = v/τ² + wn/σ², the same for every data set."""
        w, v = check_weights(data_weight, prior_weight)
        return v / self.prior_variance + w * n / self.variance

    def spread(self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0) -> float:
        """Return the posterior's standard deviation, the same for every data set and so public."""
        return 1 / math.sqrt(self.precision(n, data_weight, prior_weight))

    def _centre(self, n: int, totals: Any, data_weight: float, prior_weight: float) -> Any:
        pull = prior_weight * self.prior_mean / self.prior_variance + data_weight * totals / self.variance
        return pull / self.precision(n, data_weight, prior_weight)

    def posteriors(self, n: int, totals: Any, data_weight: float = 1.0, prior_weight: float = 1.0) -> Normal:
        """Return the posteriors of an array of totals of scalar records, side by side."""
        spread = 1 / self.precision(n, data_weight, prior_weight)
        return Normal(self._centre(n, totals, data_weight, prior_weight), np.broadcast_to(spread, np.shape(totals)))

    def posterior(
        self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0
    ) -> Normal | NormalVector:
        """Return the Gaussian with precision P and mean (v·prior_mean/τ² + wΣx/σ²)/P."""
        n, total = statistics.n, self.check(statistics).total
        if self.bounds is not None:
            return self.posteriors(n, float(total[0]), data_weight, prior_weight)
        spread = 1 / self.precision(n, data_weight, prior_weight)
        return NormalVector(self._centre(n, total, data_weight, prior_weight), spread)

    def law(self, statistics: Statistics, data_weight: float = 1.0, prior_weight: float = 1.0) -> Any:
        """Return the Gaussian posterior in fractions; of a vector, that of each coordinate."""
        w, v = map(Fraction, check_weights(data_weight, prior_weight))
        pull, push = v / Fraction(self.prior_variance), w / Fraction(self.variance)
        precision, spread = pull + push * statistics.n, self.spread(statistics.n, data_weight, prior_weight)
        priors = np.atleast_1d(self.prior_mean).tolist()
        totals = exact_total(self.check(statistics))
        laws = [
            NormalLaw((pull * Fraction(prior) + push * total) / precision, 1 / precision, spread=spread)
            for prior, total in zip(priors, totals, strict=True)
        ]
        return laws[0] if self.bounds is not None else laws

    def worst_pairs(self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0) -> tuple[tuple[Any, Any], ...]:
        """Return both orders of a pair whose one record sits at opposite ends of the bounds."""
        if checked_n(n) == 0:
            return ()
        if self.bounds is not None:
            ends = [Statistics(n, np.array([n * self.origin + step]), step) for step in (0.0, self.diameter)]
        else:
            first = np.eye(int(self.dimension or 0))[0] * float(self.radius or 0)
            ends = [Statistics(n, -first), Statistics(n, first)]
        p, q = (self.posterior(end, data_weight, prior_weight) for end in ends)
        return (p, q), (q, p)

    def _near_profile(self, n: int, step: float, data_weight: float, prior_weight: float) -> Profile:
        low, high = (0.0, 2 * self.radius) if self.radius is not None else self.bounds or (0.0, 0.0)
        share = min(step / (high - low), 1.0)
        return GaussianProfile(self._profile(n, data_weight, prior_weight).gdp() * share * (1 + 1e-15))

    def _profile(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        w, v, variance = Fraction(data_weight), Fraction(prior_weight), Fraction(self.variance)
        precision = v / Fraction(self.prior_variance) + w * n / variance
        return GaussianProfile(sqrt_up((w * Fraction(self.diameter) / variance) ** 2 / precision))

    def _with_prior(self, prior: Normal | NormalVector) -> Self:
        return replace(self, prior_mean=prior.centre, prior_variance=prior.spread)

    logarithmic: ClassVar[bool] = False

    def log_prior(self, u: Floats) -> Floats:
        """Return the logarithm of the prior density, up to a constant."""
        return np.asarray(-((u - self.prior_mean) ** 2) / (2 * self.prior_variance))

    def span(self) -> tuple[float, float]:
        """Return a range of the mean that holds every posterior of numbers."""
        low, high = self._ends
        reach = 12 * np.sqrt(self.prior_variance)
        return float(min(low, np.min(self.prior_mean)) - reach), float(max(high, np.max(self.prior_mean)) + reach)

    def clipped_moments(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the variance of a number clipped to the bounds, for each mean u."""
        spread = np.sqrt(self.variance)
        a, b = ((end - u) / spread for end in self._ends)
        below, above = special.ndtr(a), special.ndtr(-b)
        inner = np.where(a > 0, special.ndtr(-a) - above, special.ndtr(b) - below)
        at_a, at_b = _bell(a), _bell(b)
        first = a * below + b * above + at_a - at_b
        second = a * a * below + b * b * above + inner + a * at_a - b * at_b
        low, high = self._ends
        return np.clip(u + spread * first, low, high), self.variance * np.maximum(second - first**2, 0.0)

    def unclipped_spread(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the standard deviation σ of a number; a normal tail needs no more."""
        return np.full_like(u, np.sqrt(self.variance)), np.zeros_like(u)

    def clipped_chances(self, u: Floats) -> tuple[Floats, Floats]:
        """Return the chances that a number is clipped to the low and to the high bound."""
        low, high = self._ends
        spread = np.sqrt(self.variance)
        return special.ndtr((low - u) / spread), special.ndtr((u - high) / spread)

    def characteristic(self, u: Floats, t: Floats) -> Any:
        """Return E[e^(itx)] of a number x clipped to the bounds, for each mean u and t."""
        return clipped_normal_characteristic(u, np.sqrt(self.variance), self._ends, t)

    @property
    def _ends(self) -> tuple[float, float]:
        return self.bounds or (-float(self.radius or 0), float(self.radius or 0))

    def clipped_share(self, mean: Any = None) -> float:
        """Return the share of records that the bounds would change if the mean were this, the prior's own by default.

        A public number. Numbers on an interval are read through noise by the law of the clipped record, whatever the
        share. Vectors are not: their posterior speaks of the mean of the *projected* records, so choose a radius
        that leaves about one record in a hundred outside.

        >>> round(NormalMean(variance=1, prior_variance=1, radius=1.5, dimension=3).clipped_share(), 2)
        0.52
        """
        centre = as_floats("mean", self.prior_mean if mean is None else mean, -np.inf)
        if self.bounds is not None:
            return float(np.sum(self.clipped_chances(centre)))
        size = int(self.dimension or 0)
        length = float(np.sum(np.broadcast_to(centre, (size,)) ** 2))
        inside = special.chndtr(float(self.radius or 0) ** 2 / self.variance, float(size), length / self.variance)
        return float(1 - inside)

    def through_noise(self, n: int, total: Floats, noise_variance: float) -> NormalVector:
        """Return the posterior given a total of vectors that carries Gaussian noise: N(nθ, nσ² + s²), still conjugate.

        Records that the ball projects are taken at their word; see `clipped_share`.
        """
        gain = n / (n * self.variance + noise_variance) if n else 0.0
        precision = 1 / self.prior_variance + n * gain
        centre = (self.prior_mean / self.prior_variance + gain * total) / precision
        return NormalVector(np.broadcast_to(centre, total.shape), 1 / precision)

    def log_ratio_range(self, truncation: object) -> float:
        """Return the range of Dθ/σ² for θ in `truncation` = (low, high); records must be numbers."""
        low, high = map(Fraction, self.check_truncation(truncation))
        return ceil_float(Fraction(self.diameter) * (high - low) / Fraction(self.variance))

    def tempered(self, statistics: Statistics, temperature: float, truncation: object) -> Truncated:
        """Return the joint density to the power 1/T, truncated: a truncated Normal."""
        low, high = self.check_truncation(truncation)
        plain = self.posterior(statistics)
        return Truncated(Normal(plain.centre, plain.spread * temperature), low, high)

    def tempered_law(self, statistics: Statistics, temperature: float, truncation: object) -> NormalLaw:
        """Return the truncated Normal in fractions."""
        low, high = self.check_truncation(truncation)
        plain = self.law(statistics)
        spread = min(plain.spread * math.sqrt(temperature), high - low)
        hot = plain.variance * Fraction(temperature)
        return NormalLaw(plain.centre, hot, Fraction(low), Fraction(high), spread)

    def check_truncation(self, truncation: object = None) -> tuple[float, float]:
        """Return the interval (low, high) of the mean, by default the bounds of a record."""
        if self.bounds is None:
            raise InvalidValue("a tempered posterior of vectors is not offered; sample the Gaussian posterior itself")
        return self.bounds if truncation is None else _interval(truncation)


def _interval(value: Any) -> tuple[float, float]:
    try:
        low, high = (real("an end", end, -np.inf) for end in value)
    except (TypeError, ValueError):
        raise InvalidValue(f"expected a pair (low, high) of numbers. Got {value!r}") from None
    check_span(low, high, "a pair (low, high)")
    return low, high


def clipped_normal_characteristic(mean: Floats, spread: Any, bounds: tuple[float, float], t: Floats) -> Any:
    """Return E[e^(itx)] of x ~ N(mean, spread²) clipped to the bounds, a row for each mean, a column for each t."""
    mean, spread = np.asarray(mean)[:, None], np.broadcast_to(spread, np.shape(mean))[:, None]
    s = spread * t
    a, b = ((end - mean) / spread for end in bounds)
    low, high = (np.exp(1j * end * t) for end in bounds)
    # Where the mean lies within, the two tails leave the whole of the normal law between them.
    full = np.where((a < 0) & (b >= 0), np.exp(1j * mean * t - s * s / 2), 0.0)
    return low * (special.ndtr(a) + _tail(a, s)) + high * (special.ndtr(-b) - _tail(b, s)) + full


def _bell(z: Floats) -> Floats:
    return np.asarray(np.exp(-z * z / 2) / np.sqrt(2 * np.pi))


def _tail(x: Floats, s: Floats) -> Any:
    """Return e^(-isx) times the integral of e^(isz) over a standard normal z > x, less the whole of it where x < 0.

    By Faddeeva's function.
    """
    far = np.abs(x)
    upper = np.exp(-far * far / 2) / 2 * special.wofz((s + 1j * far) / np.sqrt(2))
    return np.where(x >= 0, upper, -np.conj(upper))
