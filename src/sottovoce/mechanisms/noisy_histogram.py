"""The posterior of d probabilities given a noisy histogram: the true counts are unknown too.

All of this is post-processing of a release: it costs no privacy, and none rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.privacy.numbers import Floats, as_floats, whole
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.systems.distributions import Beta, Dirichlet, DirichletMixture, Distribution, Mixture
from sottovoce.systems.distributions.base import Size, check_level, frozen, positive

__all__ = ["NoisyHistogram"]

_NEGLIGIBLE = 40.0
"""e^-40 of the largest weight is dropped."""
_CELLS = 2**22
"""Entries that the laws of all partial sums of latent counts may take together."""
_TINY = 1e-300
_DRAWS = 1024
"""Latent histograms that stand for all of them where joint draws are asked for."""
_FEW = 16
"""Laws of a mixture that a search for a quantile begins with."""


@dataclass(frozen=True, eq=False)
class NoisyHistogram(Distribution):
    r"""What is known of d probabilities from counts ñ = c + noise of n records, prior Dirichlet(α).

    With θ summed out the counts are independent, weights Γ(α + c)/c! · Pr[noise = ñ - c], but for their sum, which
    is n. The laws of sums of them are convolutions: they give the law of every single count, and so the mean,
    the variance and the interval of every probability, without drawing. Joint draws go backwards from n through the
    laws of partial sums. Where the counts range too widely to tabulate, the draws are made on a coarser lattice, moved
    by Metropolis steps between pairs of categories, and stand for the marginals too.

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
        whole("n", self.n, 0, None)

    @property
    def _noise(self) -> IntegerNoise:
        return IntegerNoise(self.kind, self.scale)

    @cached_property
    def _table(self) -> _Table:
        return _tabulate(self.alpha, self.noisy, self.n, self._noise)

    @cached_property
    def _counts(self) -> tuple[Floats, Floats]:
        """The first count that each category may have, and the chances of that one and of those above it."""
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
            counts = _polished(self.alpha, self.noisy, counts, self.n, self._table.lattice, self._noise, rng)
        return DirichletMixture(Dirichlet(self.alpha + counts), np.full(draws, 1 / draws))

    def _shapes(self) -> tuple[Floats, Floats]:
        """Return the first shape of the Beta law of each probability for each count it may have, and their chances."""
        low, chances = self._counts
        return (self.alpha + low)[:, None] + np.arange(chances.shape[1]), chances

    @property
    def mean(self) -> Any:
        """The mean probabilities."""
        if self._table.lattice > 1:
            return self.joint.mean
        shapes, chances = self._shapes()
        return (shapes * chances).sum(axis=1) / (self.alpha.sum() + self.n)

    @property
    def variance(self) -> Any:
        """The variance of each probability."""
        if self._table.lattice > 1:
            return self.joint.variance
        shapes, chances = self._shapes()
        total = self.alpha.sum() + self.n
        share = shapes / total
        spread = share * (1 - share) / (total + 1) + (share - self.mean[:, None]) ** 2
        return (spread * chances).sum(axis=1)

    def marginal(self, category: int) -> Mixture:
        """Return the mixture of Beta distributions of one probability."""
        if self._table.lattice > 1:
            return self.joint.marginal(category)
        shapes, chances = self._shapes()
        some = chances[category] > 0
        first = shapes[category, some]
        return Mixture(Beta(first, self.alpha.sum() + self.n - first), chances[category, some])

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the equal-tailed interval of each probability."""
        level = check_level(level)
        if self._table.lattice > 1:
            return self.joint.interval(level)
        first, chances = self._counts
        total = float(self.alpha.sum()) + self.n
        low, high = _quantiles(self.alpha + first, total, chances, ((1 - level) / 2, (1 + level) / 2))
        return low, high

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
        rng = seeded_rng(0)
        shapes, chances = self._shapes()
        size, total = len(shapes), float(self.alpha.sum()) + self.n
        each = min(max(draws // size, 16), 512)
        levels = (np.arange(each) + rng.random((size, each))) / each  # evenly over each count's law
        pick = (np.cumsum(chances, axis=1)[:, None, :] < levels[..., None]).sum(axis=-1)
        some = np.take_along_axis(shapes, np.minimum(pick, shapes.shape[1] - 1), axis=1)
        x = np.clip(rng.beta(some, total - some), 1e-300, 1 - 1e-16)[..., None]
        with np.errstate(divide="ignore"):
            heights = np.log(chances) - np.where(chances > 0, special.betaln(shapes, total - shapes), 0.0)
        odds = np.log(x) - np.log1p(-x)  # what is common to the two densities is left out
        logs = np.where(chances > 0, shapes, 1.0)[:, None, :] * odds + heights[:, None, :]
        top = logs.max(axis=-1, keepdims=True)
        mixed = np.log(np.exp(logs - top).sum(axis=-1)) + top[..., 0]
        alpha = np.asarray(other.alpha)
        plain = alpha[:, None] * odds[..., 0] - special.betaln(alpha, total - alpha)[:, None]
        return float((1 - alpha / total) @ (mixed - plain).mean(axis=1))


@dataclass(frozen=True)
class _Table:
    """The weights of latent counts on a lattice, a row a category, tilted so that they expect the right sum.

    A tilt e^(ηc) leaves everything unchanged once the sum is fixed.
    """

    low: Floats
    lattice: float
    weights: Floats
    target: int
    period: int

    def marginals(self) -> tuple[Floats, Floats]:
        """Return where each category's counts begin, and the law of each count given the sum of all."""
        columns, fft = self.weights.shape[1], scipy.fft
        # The laws of the sum of all categories but one, block by block: a sum of d counts spreads as √d, and √d blocks
        # of √d categories keep the memory in proportion to d.
        blocks = np.array_split(self.weights, math.isqrt(len(self.weights)))
        outside = _others(np.array([fft.rfft(block, self.period).prod(axis=0) for block in blocks]))
        # others[k, (target - c) mod period] for c = 0, 1, …
        at = (self.target - np.arange(columns)) % self.period
        chances = np.concatenate(
            [
                block * np.maximum(fft.irfft(rest * _others(fft.rfft(block, self.period)), self.period)[:, at], 0.0)
                for block, rest in zip(blocks, outside, strict=True)
            ]
        )
        chances /= chances.sum(axis=1, keepdims=True)
        keep = chances > 1e-15
        first = keep.argmax(axis=1)
        wide = int((columns - keep[:, ::-1].argmax(axis=1) - first).max())
        index = first[:, None] + np.arange(wide)
        inside = index < columns
        kept = np.take_along_axis(chances, np.minimum(index, columns - 1), axis=1) * inside
        kept = np.where(kept > 1e-15, kept, 0.0)
        return self.low + first, kept / kept.sum(axis=1, keepdims=True)

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return independent histograms, a row each: exact on the lattice, however loud the noise."""
        partial = scipy.fft.irfft(_running_products(scipy.fft.rfft(self.weights, self.period)), self.period)
        size = self.weights.shape[0]
        steps = np.empty((draws, size))
        left = np.full(draws, self.target)
        for k in range(size - 1, 0, -1):
            some = np.flatnonzero(self.weights[k] > 0)
            mass = np.maximum(partial[k - 1], 0.0)[(left[:, None] - some) % self.period] * self.weights[k, some]
            below = np.cumsum(mass, axis=1)
            pick = np.sum(below < rng.random(draws)[:, None] * below[:, -1:], axis=1)
            steps[:, k] = some[np.minimum(pick, some.size - 1)]
            left = left - steps[:, k].astype(np.int64)
        steps[:, 0] = left
        return self.low + self.lattice * steps


def _others(spectra: Any) -> Any:
    """Return for each row the product of all the others, without dividing by what may be nothing."""
    others = np.ones_like(spectra)
    others[1:] = _running_products(spectra[:-1])
    others[:-1] *= _running_products(spectra[:0:-1])[::-1]
    return others


def _running_products(rows: Any) -> Any:
    """Return the product of each row and all before it; `cumprod` goes down one column at a time, which is slow."""
    out = np.array(rows)
    for k in range(1, len(out)):
        out[k] *= out[k - 1]
    return out


def _tabulate(alpha: Floats, noisy: Floats, n: int, noise: IntegerNoise) -> _Table:
    size = alpha.size
    inside = np.clip(noisy, 0, n)
    # Far enough out for the noise, and for all records that the noisy counts leave over.
    far = _NEGLIGIBLE if noise.kind == "laplace" else np.sqrt(2 * _NEGLIGIBLE)
    reach = np.ceil(far * noise.scale + 2 + abs(n - inside.sum()))
    low, high = np.maximum(np.floor(inside) - reach, 0.0), np.minimum(np.ceil(inside) + reach, n)
    wide = float((high - low).max())
    lattice = 1.0
    while True:
        columns = int(wide // lattice) + 1
        period = scipy.fft.next_fast_len(
            int(min(size * columns, 18 * np.sqrt(2 * size) * noise.scale / lattice + 3 * columns)), real=True
        )
        if size * period <= _CELLS and columns <= 2**13:
            break
        lattice *= 2
    counts = low[:, None] + lattice * np.arange(columns)
    target = round((n - low.sum()) / lattice)
    weights = _tilted(_log_weight(alpha, noisy, counts, lattice, noise), counts <= high[:, None], target)
    return _Table(low, lattice, weights, target, period)


def _log_weight(alpha: Floats, noisy: Floats, counts: Floats, lattice: float, noise: IntegerNoise) -> Floats:
    """Return the log-weights of latent counts, a row a category; of the lattice's cells where it is coarse."""
    middle = np.maximum(counts, 0.0) + (0.0 if lattice == 1 else (lattice - 1) / 2)
    body = special.gammaln(alpha[:, None] + middle) - special.gammaln(middle + 1)
    return np.asarray(body + noise.log_weight(noisy[:, None] - middle))


def _tilted(log_weights: Floats, allowed: Any, target: float) -> Floats:
    """Return the weights times e^(ηc), η such that they expect the right sum, by Newton's steps in a bracket."""
    log_weights = np.where(allowed, log_weights, -np.inf)
    columns = np.arange(log_weights.shape[1])
    low, high, tilt = -50.0, 50.0, 0.0
    for _ in range(60):
        tilted = log_weights + tilt * columns
        chances = np.exp(tilted - tilted.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        means = chances @ columns
        gap = float(means.sum() - target)
        slope = float((chances @ columns**2 - means**2).sum())
        low, high = (low, tilt) if gap > 0 else (tilt, high)
        if abs(gap) <= 1e-3 or high - low < 1e-12:
            break
        fresh = tilt - gap / slope if slope > 0 else np.nan
        tilt = fresh if low < fresh < high else (low + high) / 2
    return np.where(chances > 1e-14 * chances.max(axis=1, keepdims=True), chances, 0.0)


def _quantiles(first: Floats, total: float, weights: Floats, levels: Sequence[float]) -> list[Floats]:
    r"""Return quantiles of each row's mixture of the laws Beta(a, total - a), a = first, first + 1, ….

    One incomplete beta function a row and step: those of its neighbours follow by adding, for
    I_x(a, b) = I_x(a + 1, b - 1) + x · f(x; a, b) / a. Newton's steps inside a bracket; below the middle
    they are those of log F in log x, which a power law near zero makes exact.
    """
    last = weights.shape[1] - 1 - (weights[:, ::-1] > 0).argmax(axis=1)
    columns = np.arange(weights.shape[1])
    a = first[:, None] + np.minimum(columns, last[:, None])
    b = total - a
    norms = special.betaln(a, b)
    inside = columns < last[:, None]
    normal = _as_normals(weights, a / total, total)

    def evaluate(x: Floats, rows: Any) -> tuple[Floats, Floats]:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
            heights = a[rows] * np.log(x)[:, None] + (b[rows] - 1) * np.log1p(-x)[:, None] - norms[rows]
            dense = np.exp(heights)  # x times the density
        steps = np.where(inside[rows], dense / a[rows], 0.0)
        end = a[rows, -1]
        below = special.betainc(end, total - end, x)[:, None] + np.cumsum(steps[:, ::-1], axis=1)[:, ::-1]
        return (weights[rows] * below).sum(axis=1), (weights[rows] * dense).sum(axis=1)  # F(x), x·f(x)

    def quantile(q: float) -> Floats:
        x = np.clip(_normal_quantile(*normal, q), _TINY, 1 - 1e-16)
        low, high = np.zeros(len(first)), np.ones(len(first))
        todo = np.arange(len(first))
        for _ in range(200):
            at = x[todo]
            below, slope = evaluate(at, todo)
            with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
                gap = below * np.log(below / q) if q < 0.5 else below - q
                fresh = at * np.exp(-gap / slope) if q < 0.5 else at * (1 - gap / slope)
            low[todo] = np.where(below > q, low[todo], at)
            high[todo] = np.where(below > q, at, high[todo])
            middle = (
                np.sqrt(np.maximum(low[todo], _TINY)) * np.sqrt(high[todo]) if q < 0.5 else (low[todo] + high[todo]) / 2
            )
            there = np.abs(fresh - at) <= 1e-10 * fresh  # the last digit may lie on the bracket's other side
            fresh = np.where(there | ((fresh > low[todo]) & (fresh < high[todo])), fresh, middle)
            fresh = np.clip(fresh, _TINY, 1 - 1e-16)
            x[todo] = fresh
            todo = todo[np.abs(fresh - at) > 1e-10 * fresh]
            if not todo.size:
                break
        return np.where(x < 1 - 2e-16, x, 1.0)

    return [quantile(q) for q in levels]


def _as_normals(weights: Floats, centres: Floats, total: float) -> tuple[Floats, Floats, Floats]:
    """Return weights, means and deviations of a few normal laws a row that are about its mixture of Beta laws."""
    spreads = centres * (1 - centres) / (total + 1)
    starts = np.arange(0, weights.shape[1], -(-weights.shape[1] // _FEW))
    several = np.add.reduceat(weights, starts, axis=1)
    safe = np.maximum(several, _TINY)
    means = np.add.reduceat(weights * centres, starts, axis=1) / safe
    squares = np.add.reduceat(weights * (spreads + centres**2), starts, axis=1) / safe
    return several, means, np.sqrt(np.maximum(squares - means**2, 1e-30))


def _normal_quantile(weights: Floats, means: Floats, deviations: Floats, q: float) -> Floats:
    """Return a quantile of each row's mixture of normal laws: cheap, and close enough to begin with."""
    mean = (weights * means).sum(axis=1)
    spread = np.sqrt(np.maximum((weights * (deviations**2 + means**2)).sum(axis=1) - mean**2, 0.0))
    # Cantelli's inequality: no law has its quantile farther from its mean.
    low, high = np.maximum(mean - spread * np.sqrt(1 / q - 1), 0.0), np.minimum(mean + spread / np.sqrt(1 / q - 1), 1.0)
    for _ in range(8):
        x = (low + high) / 2
        above = (weights * special.ndtr((x[:, None] - means) / deviations)).sum(axis=1) > q
        low, high = np.where(above, low, x), np.where(above, x, high)
    return np.asarray((low + high) / 2)


def _polished(
    alpha: Floats, noisy: Floats, counts: Floats, n: int, lattice: float, noise: IntegerNoise, rng: np.random.Generator
) -> Floats:
    """Return coarse draws moved to whole counts that sum to n, by Metropolis steps between pairs of categories."""
    draws, size = counts.shape
    counts = np.clip(counts + np.floor(lattice * rng.random(counts.shape)), 0, n)
    short = n - counts.sum(axis=1)
    for k in np.argsort(-counts.mean(axis=0)):  # hand what is over or short to the largest categories first
        given = np.maximum(counts[:, k] + short, 0.0)
        short -= given - counts[:, k]
        counts[:, k] = given

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
