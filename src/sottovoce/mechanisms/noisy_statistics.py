"""Noisy statistics: a whole posterior from statistics with discrete noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.feasible import project, whole_counts
from sottovoce.mechanisms.forecast import Forecast, imagined, mean_width
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.noise_aware import latent_counts, latent_total
from sottovoce.mechanisms.noisy_posterior import NoisyPosterior
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.discrete_gaussian import DiscreteGaussianProfile
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.laplace import DiscreteLaplaceProfile
from sottovoce.privacy.numbers import Floats, real
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import ApproxDP, Promise
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.systems.conjugate import check_count, check_statistics
from sottovoce.systems.distributions import Distribution
from sottovoce.systems.normal_mean import NormalMean
from sottovoce.systems.statistics import BallSum, CategoryCounts, ClippedSum, Reading, Statistics
from sottovoce.systems.system import System

__all__ = ["NoisyStatistics"]

_FINE = 2.0**-20
"""Grid step of a sum of fractions, beside the width of a record."""
_KINDS: tuple[NoiseKind, ...] = ("laplace", "gaussian")


@dataclass(frozen=True, eq=False)
class NoisyStatistics(Mechanism):
    """Release ΣS(x) with discrete noise, as the posterior that knows of the noise.

    Whole statistics carry discrete Laplace or discrete Gaussian noise from OpenDP. Sums of fractions are
    rounded to a public grid
    first, fine beside the noise, coarse beside the error of a floating-point sum; its step is one part of the
    sensitivity. Both noises have exact profiles on counts. Gaussian noise on vectors and
    on finely gridded sums is claimed by what is proven of it, ρ = Δ²/2σ² (Canonne, Kamath and Steinke 2020),
    never by the curve of the continuous one.

    Parameters
    ----------
    system, n
        What is unknown, and how many records there are.
    noise
        ``"laplace"`` or ``"gaussian"``.
    scale
        b of the Laplace or σ of the Gaussian noise, in the statistic's own unit.

    Examples
    --------
    >>> from sottovoce.privacy.promises import PureDP
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> from sottovoce.systems import BetaBernoulli
    >>> mech = NoisyStatistics.calibrate(BetaBernoulli(1, 1), n=100, target=PureDP(0.5))
    >>> mech.noise, round(mech.scale, 9)
    ('laplace', 2.0)
    >>> posterior = mech.release([1] * 30 + [0] * 70, seeded_rng(1)).value
    >>> posterior.interval(0.95)[0] < 0.3 < posterior.interval(0.95)[1]
    True
    """

    word: ClassVar[str] = "noisy statistics"
    noise: NoiseKind
    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.noise, str) or self.noise not in _KINDS:
            raise InvalidValue(f"noise must be 'laplace' or 'gaussian'. Got {self.noise!r}")
        if self.noise == "laplace" and isinstance(self.system.reading, BallSum):
            raise InvalidValue("Laplace noise on vectors costs √d more than need be; use noise='gaussian'")
        object.__setattr__(self, "scale", real("scale", self.scale, above=0.0))

    @cached_property
    def grid(self) -> float:
        """The public grid step on which the statistic is released."""
        return _grid(self.system.reading, self.n)

    @cached_property
    def profile(self) -> Profile:
        """What the release provably does: exact on counts, the proven ρ for Gaussian noise elsewhere."""
        return _profile(self.system.reading, self.n, self.noise, self.scale)

    @classmethod
    def calibrate(cls, system: System, n: int, target: Promise, noise: NoiseKind | None = None) -> Self:
        """Return the mechanism with the least noise that keeps the promise; of both kinds unless `noise`
        says which.
        """
        if noise is not None:
            return cls(system, n, noise, _least_scale(system.reading, check_count(n), noise, target))
        found: list[Self] = []
        reasons: list[PromiseUnreachable] = []
        for kind in _KINDS:
            if kind == "laplace" and isinstance(system.reading, BallSum):
                continue
            try:
                found.append(cls.calibrate(system, n, target, kind))
            except PromiseUnreachable as error:
                reasons.append(error)
        if not found:
            raise reasons[0]
        return min(found, key=lambda mechanism: mechanism._steps.variance)

    @cached_property
    def _steps(self) -> IntegerNoise:
        return IntegerNoise(self.noise, self.scale / self.grid)

    def cost(self, draws: int = 1) -> Profile:
        """Return the profile: any number of samples of the released posterior is free."""
        del draws
        return self.profile

    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> NoisyPosterior:
        del draws
        return self.posterior_from(self.noisy_totals(statistics, rng)[0], rng)

    def noisy_totals(self, statistics: Statistics, rng: np.random.Generator, draws: int = 1) -> Floats:
        """Return ΣS(x) with fresh noise `draws` times, a row each: all that releases let out, each at full cost."""
        statistics = check_statistics(self.system.reading, statistics)
        counts = np.rint(statistics.total / self.grid).astype(np.int64)
        noisy = self._steps.add(np.tile(counts, draws), rng).reshape(draws, counts.size)
        return np.asarray(noisy * self.grid)

    def posterior_from(self, noisy: Any, rng: np.random.Generator | None = None) -> NoisyPosterior:
        """Return the posterior that goes with a noisy statistic already released: post-processing, free of
        cost.
        """
        reading = self.system.reading
        noisy = np.atleast_1d(np.asarray(noisy, dtype=np.float64))
        statistics = Statistics(self.n, project(reading, self.n, noisy))
        plug_in = self.system.posterior(statistics)
        aware = self._noise_aware(statistics, noisy, seeded_rng(0) if rng is None else rng) if self.n else plug_in
        return NoisyPosterior(noisy, statistics, aware, plug_in)

    def _noise_aware(self, statistics: Statistics, noisy: Any, rng: np.random.Generator) -> Distribution:
        system: Any = self.system
        reading = system.reading
        if isinstance(reading, CategoryCounts):
            start = whole_counts(statistics.total, self.n)
            return latent_counts(system.alpha, noisy, start=start, noise=self._steps, rng=rng)
        if isinstance(system, NormalMean) and self.noise == "gaussian":
            return system.through_noise(self.n, noisy, self._steps.variance * self.grid**2)
        return latent_total(system, reading, self.n, float(noisy[0]), noise=self._steps, grid=self.grid)

    def forecast(self, mean: Any, level: float = 0.95) -> Forecast:
        """Return what to expect if the records had this mean, averaged over draws of the noise; reads no
        private data.
        """
        statistics = imagined(self.system.reading, self.n, mean)
        exact: Any = self.system.posterior(statistics)
        rng = seeded_rng(0)
        counts = np.rint(statistics.total / self.grid).astype(np.int64)
        divergences, widths = [], []
        for _ in range(8 if isinstance(self.system.reading, CategoryCounts) else 32):
            value: Any = self.posterior_from(self._steps.add(counts, rng) * self.grid, rng)
            divergences.append(value.noise_aware.kl(exact))
            widths.append(mean_width(value.interval(level)))
        return Forecast(
            expected_kl=float(np.mean(divergences)),
            interval_width=float(np.mean(widths)),
            exact_width=mean_width(exact.interval(level)),
            level=level,
        )

    def _parameters(self) -> dict[str, Any]:
        return {"noise": self.noise, "scale": self.scale, "grid": self.grid}


def _grid(reading: Reading, n: int) -> float:
    """Return the grid step: 1 for whole statistics, else fine beside a record and far above the error of a
    sum.

    Pairwise or compensated sums of n numbers up to M err by less than 2⁻⁵³·2·log₂(n)·n·M; the step is 16
    times that or more.
    """
    match reading:
        case CategoryCounts() | ClippedSum(integer=True):
            return 1.0
        case ClippedSum(low, high):
            width, largest = high - low, max(abs(low), abs(high))
        case BallSum(_, radius):
            width, largest = 2 * radius, radius
    error = 2.0**-53 * 2 * math.log2(n + 2) * max(n, 1) * largest
    return 2.0 ** math.ceil(math.log2(max(width * _FINE, 16 * error)))


def _profile(reading: Reading, n: int, noise: NoiseKind, scale: float) -> Profile:
    """Return the profile of noise of this scale on the statistic that this reading gives."""
    grid = _grid(reading, n)
    steps = scale / grid
    match reading:
        case CategoryCounts():
            # One record less in one category, one more in another.
            squares, width, cells = 2.0, 1, 2
        case ClippedSum(low, high, integer):
            # Rounding to the grid keeps a distance of whole steps; one more step covers the error of the sum.
            width = round(high - low) if integer else math.ceil((high - low) / grid) + 1
            squares, cells = float(width) ** 2, 1
        case BallSum(dimension, radius):
            # Rounding moves each coordinate by at most half a step, and so does the error of the sum.
            squares, width, cells = (2 * radius / grid + 2 * math.sqrt(dimension)) ** 2, 0, 0
    if cells and noise == "laplace":
        return cells * DiscreteLaplaceProfile(steps, width)
    if cells and steps <= DiscreteGaussianProfile.most:
        return DiscreteGaussianProfile(steps, width, cells)
    return ZeroConcentratedProfile(squares / (2 * steps**2))


def _least_scale(reading: Reading, n: int, noise: NoiseKind, target: Promise) -> float:
    """Return the least scale that keeps the promise, looking at 1/scale."""
    match reading:
        case CategoryCounts():
            width = 1.0
        case ClippedSum(low, high):
            width = high - low
        case BallSum(_, radius):
            width = 2 * radius

    def profile(inverse: float) -> Profile:
        if isinstance(reading, CategoryCounts) and noise == "laplace" and isinstance(target, ApproxDP):
            # Two counts that move by one tell no more than one count that moves by two: hockey sticks p²(1-e^(ε-2t))
            # and p(1-e^(ε-2t)), p = 1/(1+e^-t). Far quicker than to compose, and hardly looser where δ is small.
            return DiscreteLaplaceProfile(1 / inverse, 2, basis=Basis.BOUND)
        return _profile(reading, n, noise, 1 / inverse)

    return 1 / largest_keeping(profile, target, high=100 / width, name="1/scale")
