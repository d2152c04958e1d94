"""A mean with known variance: Normal records, Normal prior, on an interval or in a ball."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, as_floats, real, shown, whole
from sottovoce.privacy.profile import Profile
from sottovoce.systems.conjugate import Conjugate, check_count, check_weights
from sottovoce.systems.distributions import Normal, NormalVector
from sottovoce.systems.distributions.base import frozen, positive
from sottovoce.systems.distributions.truncated import Truncated
from sottovoce.systems.statistics import BallSum, ClippedSum, Statistics

__all__ = ["NormalMean"]


@dataclass(frozen=True, eq=False)
class NormalMean(Conjugate):
    r"""A mean θ with prior N(prior_mean, prior_variance), records N(θ, variance) clipped to public bounds.

    The posterior has precision P = v/τ² + wn/σ² whatever the data, so neighbours differ in the mean alone
    and one sample **is**
    μ-Gaussian private:

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
            if centre.ndim:
                raise InvalidValue("prior_mean must be one number where records are numbers")
        elif self.bounds is None and self.radius is not None and self.dimension is not None:
            object.__setattr__(self, "radius", positive("radius", self.radius))
            object.__setattr__(self, "dimension", whole("dimension", self.dimension, 1, 10**7, floats=True))
            if centre.ndim > 1 or (centre.ndim and centre.size != self.dimension):
                raise InvalidValue(f"prior_mean must be one number or {self.dimension} of them")
            centre = np.broadcast_to(centre, (int(self.dimension),))
        else:
            raise InvalidValue("give bounds=(low, high) for numbers, or radius and dimension for vectors")
        object.__setattr__(self, "prior_mean", frozen(centre))

    @property
    def reading(self) -> ClippedSum | BallSum:
        """Records clipped to the interval, or projected onto the ball."""
        if self.bounds is not None:
            return ClippedSum(*self.bounds)
        return BallSum(int(self.dimension or 0), float(self.radius or 0))

    @property
    def diameter(self) -> float:
        """How far two records can lie apart."""
        return self.bounds[1] - self.bounds[0] if self.bounds is not None else 2 * float(self.radius or 0)

    def precision(self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0) -> float:
        """Return P = v/τ² + wn/σ², the same for every data set."""
        w, v = check_weights(data_weight, prior_weight)
        return v / self.prior_variance + w * n / self.variance

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

    def worst_pairs(self, n: int, data_weight: float = 1.0, prior_weight: float = 1.0) -> tuple[tuple[Any, Any], ...]:
        """Return both orders of a pair whose one record sits at opposite ends of the bounds."""
        if check_count(n) == 0:
            return ()
        if self.bounds is not None:
            ends = [np.array([n * self.bounds[0] + step]) for step in (0.0, self.diameter)]
        else:
            first = np.eye(int(self.dimension or 0))[0] * float(self.radius or 0)
            ends = [-first, first]
        p, q = (self.posterior(Statistics(n, end), data_weight, prior_weight) for end in ends)
        return (p, q), (q, p)

    def _profile(self, n: int, data_weight: float, prior_weight: float) -> Profile:
        root = np.sqrt(self.precision(n, data_weight, prior_weight))
        return GaussianProfile(float(data_weight * self.diameter / (self.variance * root)))

    def _with_prior(self, prior: Normal | NormalVector) -> Self:
        return replace(self, prior_mean=prior.centre, prior_variance=prior.spread)

    def log_evidence(self, n: int, totals: Floats) -> Floats:
        """Return the logarithm of the density of each total under the prior, up to a constant."""
        spread = n * self.variance + n * n * self.prior_variance
        return np.asarray(-((totals - n * self.prior_mean) ** 2) / (2 * spread))

    def through_noise(self, n: int, total: Floats, noise_variance: float) -> Normal | NormalVector:
        """Return the posterior given a total that carries Gaussian noise: N(nθ, nσ² + s²), still
        conjugate.
        """
        gain = n / (n * self.variance + noise_variance) if n else 0.0
        precision = 1 / self.prior_variance + n * gain
        centre = (self.prior_mean / self.prior_variance + gain * total) / precision
        return Normal(float(centre[0]), 1 / precision) if self.bounds else NormalVector(centre, 1 / precision)

    def log_ratio_range(self, truncation: Any) -> float:
        """Return the range of Dθ/σ² for θ in `truncation` = (low, high); records must be numbers."""
        low, high = self.check_truncation(truncation)
        return self.diameter * (high - low) / self.variance

    def tempered(self, statistics: Statistics, temperature: float, truncation: Any) -> Truncated:
        """Return the joint density to the power 1/T, truncated: a truncated Normal."""
        low, high = self.check_truncation(truncation)
        plain = self.posterior(statistics)
        return Truncated(Normal(plain.centre, plain.spread * temperature), low, high)

    def check_truncation(self, truncation: Any = None) -> tuple[float, float]:
        """Return the interval (low, high) of the mean, by default the bounds of a record."""
        if self.bounds is None:
            raise InvalidValue("a tempered posterior of vectors is not offered; sample the Gaussian posterior itself")
        return self.bounds if truncation is None else _interval(truncation)


def _interval(value: Any) -> tuple[float, float]:
    try:
        low, high = (real("an end", end, -np.inf) for end in value)
    except (TypeError, ValueError):
        raise InvalidValue(f"expected a pair (low, high) of numbers. Got {shown(value)}") from None
    if not -np.inf < low < high < np.inf:
        raise InvalidValue(f"a pair (low, high) needs low < high, both finite. Got {value!r}")
    return low, high
