"""The posterior of d probabilities given a noisy histogram: the true counts are unknown too.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.mechanisms.beta_quantiles import quantiles
from sottovoce.mechanisms.category_marginals import YES, lone_shares
from sottovoce.mechanisms.conjugate.distributions import Beta, Dirichlet, DirichletMixture, Distribution, Mixture
from sottovoce.mechanisms.conjugate.distributions.base import Size, check_level, frozen, positive
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.mechanisms.latent_histogram import CountLaws, LatentHistogram, polished, tabulate
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats, whole
from sottovoce.privacy.randomness import seeded_rng

_DRAWS = 1024
"""Latent histograms that stand for all of them where joint draws are asked for."""
_HARDLY = 6
"""Of counts below so many scales of the noise it matters what none is worth beforehand."""
_UNHEARD = 1e-10
"""Counts of so small a chance are left out of a divergence."""


@dataclass(frozen=True, eq=False)
class NoisyHistogram(Distribution):
    r"""What is known of d probabilities from counts ñ = c + noise of n records, prior Dirichlet(α).

    With θ summed out the counts are independent, weights Γ(α + c)/c! · Pr[noise = ñ - c], but for their sum, which
    is n. The laws of sums of them are convolutions: they give the law of every single count, and so the mean,
    the variance and the interval of every probability, without drawing. Joint draws go down from n through the
    laws of sums of half the counts, of a quarter of them, and so on. Where one count alone ranges too widely to
    tabulate, the draws are made on a coarser lattice, moved by Metropolis steps between pairs of categories, and stand
    for the marginals too.

    Attributes
    ----------
    alpha, noisy
        The prior, and the noisy counts.
    n
        What the counts sum to.
    kind, scale
        The noise.

    Examples
    --------
    >>> known = NoisyHistogram([0.5, 0.5], [70.0, 28.0], 100, "gaussian", 2.0)
    >>> low, high = known.interval(0.95)
    >>> bool(low[0] < 0.7 < high[0])
    True
    """

    word: ClassVar[str] = "noisy histogram"
    alpha: Any
    noisy: Any
    n: int
    kind: NoiseKind
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", positive("alpha", self.alpha))
        object.__setattr__(self, "noisy", frozen(as_floats("noisy", self.noisy, -np.inf)))
        if np.ndim(self.alpha) != 1 or self.alpha.size < 2 or self.noisy.shape != self.alpha.shape:
            shapes = f"{np.shape(self.alpha)} and {self.noisy.shape}"
            raise InvalidValue(
                f"a histogram has an alpha and a noisy count for each of two categories or more. Got {shapes}"
            )
        whole("n", self.n, 0, None)

    @property
    def _noise(self) -> IntegerNoise:
        return IntegerNoise(self.kind, self.scale)

    @cached_property
    def _table(self) -> LatentHistogram:
        return tabulate(self.alpha, self.noisy, self.n, self._noise)

    @cached_property
    def _counts(self) -> tuple[CountLaws, ...]:
        """The laws of the counts."""
        return self._table.marginals()

    @cached_property
    def joint(self) -> DirichletMixture:
        """A mixture over latent histograms drawn from their own posterior, with a fixed seed."""
        return self.mixture(_DRAWS)

    def mixture(self, draws: int) -> DirichletMixture:
        """Return the mixture over so many latent histograms."""
        rng = seeded_rng(0)
        counts = self._table.draw(draws, rng)
        if self._table.lattice > 1:
            counts = polished(self.alpha, self.noisy, counts, self.n, self._table.lattice, self._noise, rng)
        counts += self.alpha
        return DirichletMixture(Dirichlet(counts), np.full(draws, 1 / draws))

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """The means and the variances of the counts."""
        means, variances = np.empty(self.noisy.size), np.empty(self.noisy.size)
        for laws in self._counts:
            steps = np.arange(laws.chances.shape[1])
            above = laws.chances @ steps
            means[laws.places] = laws.low + above
            variances[laws.places] = np.maximum(laws.chances @ steps**2 - above**2, 0.0)
        return means, variances

    def _shapes(self, laws: CountLaws) -> Floats:
        """Return the first shape of the Beta law of each probability, for each count it may have."""
        return np.asarray((self.alpha[laws.places] + laws.low)[:, None] + np.arange(laws.chances.shape[1]))

    @property
    def mean(self) -> Any:
        """The mean probabilities."""
        if self._table.lattice > 1:
            return self.joint.mean
        return (self.alpha + self._moments[0]) / (self.alpha.sum() + self.n)

    @property
    def variance(self) -> Any:
        """The variance of each probability."""
        if self._table.lattice > 1:
            return self.joint.variance
        total = self.alpha.sum() + self.n
        spread = self._moments[1] / total**2
        return (self.mean * (1 - self.mean) - spread) / (total + 1) + spread

    def marginal(self, category: int) -> Mixture:
        """Return the mixture of Beta distributions of one probability."""
        if self._table.lattice > 1:
            return self.joint.marginal(category)
        every = np.arange(self.noisy.size)
        category = int(every[category])
        (laws,) = (item for item in self._counts if category in every[item.places])
        chances = laws.chances[every[laws.places] == category][0]
        first = self._shapes(laws)[every[laws.places] == category][0]
        subset = chances > 0
        return Mixture(Beta(first[subset], self.alpha.sum() + self.n - first[subset]), chances[subset])

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the equal-tailed interval of each probability, which reaches as far up as of a yes-or-no question.

        That is the interval under a prior in which yes, the category, is worth half a record, where it is worth less.
        """
        level = check_level(level)
        if self._table.lattice > 1:
            low, high = self.joint.interval(level)
            return low, np.maximum(high, self._drawn_as_asked((1 + level) / 2))
        total, ends = float(self.alpha.sum()) + self.n, np.empty((2, self.noisy.size))
        for laws in self._counts:
            ends[:, laws.places] = quantiles(
                self.alpha[laws.places] + laws.low, total, laws.chances, ((1 - level) / 2, (1 + level) / 2)
            )
        return ends[0], np.maximum(ends[1], self._as_asked((1 + level) / 2))

    def _drawn_as_asked(self, q: float) -> Floats:
        """Return about the same as `_as_asked`, where a count ranges too widely to tabulate: of those hardly seen."""
        sizes = np.full((4 * _DRAWS, 1), float(self.n))
        alone = lone_shares(self.noisy[None], self._noise, sizes, seeded_rng(0))[:, 0]
        few = (self.alpha < YES) & (self.noisy < _HARDLY * self.scale)
        return np.where(few, np.quantile(alone, q, axis=0), 0.0)

    def _as_asked(self, q: float) -> Floats:
        """Return a quantile of each probability where its category is worth half a record, if it is worth less."""
        result = np.zeros(self.noisy.size)
        for laws in self._counts:
            every, low = np.arange(self.noisy.size)[laws.places], np.broadcast_to(laws.low, len(laws.chances))
            for alpha in np.unique(self.alpha[every][self.alpha[every] < YES]):
                mine = self.alpha[every] == alpha
                counts = low[mine, None] + np.arange(laws.chances.shape[1])
                chances = laws.chances[mine] * np.exp(special.gammaln(counts + YES) - special.gammaln(counts + alpha))
                chances /= chances.sum(axis=1, keepdims=True)
                total = float(self.alpha.sum() - alpha) + YES + self.n
                result[every[mine]] = quantiles(low[mine] + YES, total, chances, (q,))[0]
        return result

    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one vector of probabilities, or an array of `size` of them (draws first)."""
        return self.joint.sample(size, rng)

    def log_density(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density at probabilities along the last axis."""
        return self.joint.log_density(x)

    def kl(self, other: Any, draws: int = 2048) -> float:
        r"""Return the Kullback–Leibler divergence from a Dirichlet of the same n, from draws with a fixed seed.

        It is Σ (1 - θ_k) times the divergence of the law of θ_k alone: exact for two categories, and for normal laws
        that a multinomial's noise has moved.
        """
        if self._table.lattice > 1 or not isinstance(other, Dirichlet):
            return self.joint.kl(other)
        rng, total = seeded_rng(0), float(self.alpha.sum()) + self.n
        each = min(max(draws // self.noisy.size, 16), 512)
        return sum(self._kl(laws, np.asarray(other.alpha)[laws.places], total, each, rng) for laws in self._counts)

    def _kl(self, laws: CountLaws, alpha: Floats, total: float, each: int, rng: np.random.Generator) -> float:
        heard = np.flatnonzero((laws.chances > _UNHEARD).any(axis=0))
        few = slice(heard[0], heard[-1] + 1)
        shapes, chances = self._shapes(laws)[:, few], laws.chances[:, few]
        levels = (np.arange(each) + rng.random((len(shapes), each))) / each  # evenly over each count's law
        pick = (np.cumsum(chances, axis=1)[:, None, :] < levels[..., None]).sum(axis=-1)
        subset = np.take_along_axis(shapes, np.minimum(pick, shapes.shape[1] - 1), axis=1)
        x = np.clip(rng.beta(subset, total - subset), 1e-300, 1 - 1e-16)[..., None]
        with np.errstate(divide="ignore"):
            heights = np.log(chances) - np.where(chances > 0, special.betaln(shapes, total - shapes), 0.0)
        odds = np.log(x) - np.log1p(-x)  # what is common to the two densities is left out
        logs = np.where(chances > 0, shapes, 1.0)[:, None, :] * odds + heights[:, None, :]
        top = logs.max(axis=-1, keepdims=True)
        mixed = np.log(np.exp(logs - top).sum(axis=-1)) + top[..., 0]
        plain = alpha[:, None] * odds[..., 0] - special.betaln(alpha, total - alpha)[:, None]
        return float((1 - alpha / total) @ (mixed - plain).mean(axis=1))
