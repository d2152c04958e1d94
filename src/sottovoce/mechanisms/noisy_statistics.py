"""Noisy statistics: a whole posterior from statistics with discrete noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.clipped_total import ClippedTotal
from sottovoce.mechanisms.forecast import Forecast, mean_width
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.mechanisms.mechanism import Mechanism, check_system
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
from sottovoce.readings import BallSum, CategoryCounts, ClippedSum, Reading, Statistics
from sottovoce.readings.base import Movement, checked_n
from sottovoce.systems.distributions import Distribution
from sottovoce.systems.system import ClippedSystem, System

__all__ = ["NoisyStatistics"]

_MOST_STEPS = 2.0**50
"""The most noise, in steps: sums and noise together then stay far inside 64 bits."""
_POINTS = 9
"""Gauss points of the noise that a forecast averages over."""
_IMAGINED = 8
"""Imagined releases of a vector that a forecast averages over."""
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
    choices: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "laplace": {"noise": "laplace"},
        "gaussian": {"noise": "gaussian"},
    }
    derived: ClassVar[tuple[str, ...]] = ("grid",)
    noise: NoiseKind
    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_system(self.system)
        if not isinstance(self.noise, str) or self.noise not in _KINDS:
            raise InvalidValue(f"noise must be 'laplace' or 'gaussian'. Got {self.noise!r}")
        if self.noise == "laplace" and self.reading.vector:
            raise InvalidValue("Laplace noise on vectors costs √d more than need be; use noise='gaussian'")
        object.__setattr__(self, "scale", real("scale", self.scale, above=0.0))
        if self.scale / self.grid > _MOST_STEPS:
            raise InvalidValue(f"scale must be at most 2**50 steps of {self.grid:g}. Got {self.scale!r}")

    @cached_property
    def grid(self) -> float:
        """The public grid step on which the statistic is released."""
        return self.reading.movement(self.n).grid

    @cached_property
    def profile(self) -> Profile:
        """What the release provably does: exact on counts, the proven ρ for Gaussian noise elsewhere."""
        return noise_profile(self.noise, self.scale / self.grid, self.reading.movement(self.n))

    @classmethod
    def calibrate(cls, system: System, n: int, target: Promise, noise: NoiseKind | None = None) -> Self:
        """Return the mechanism with the least noise that keeps the promise; of both kinds unless `noise`
        says which.
        """
        if noise is not None:
            return cls(system, n, noise, _least_scale(system.reading, checked_n(n), noise, target))
        found: list[Self] = []
        reasons: list[PromiseUnreachable] = []
        for kind in _KINDS:
            if kind == "laplace" and system.reading.vector:
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

    def outputs(self, seen: Statistics, rng: np.random.Generator, draws: int) -> Floats:
        """Return the noisy statistics of which releases are made."""
        return self.noisy_totals(seen, rng, draws)

    def log_ratio(self, pair: tuple[Statistics, Statistics]) -> Callable[[Any], Floats]:
        """Return log of the probability of noisy statistics under the first of a pair over that under the second."""
        centres = [self.reading.from_steps(self.n, self.reading.steps(seen)) / self.grid for seen in pair]

        def of_noise(outputs: Any) -> Floats:
            whole = np.asarray(outputs) / self.grid
            weights = [self._steps.log_weight(np.rint(whole - centre)).sum(axis=-1) for centre in centres]
            return np.asarray(weights[0] - weights[1])

        return of_noise

    def _value(self, statistics: Statistics, rng: np.random.Generator, draws: int) -> NoisyPosterior:
        del draws
        return self.posterior_from(self.noisy_totals(statistics, rng)[0], rng)

    def noisy_totals(self, statistics: Statistics, rng: np.random.Generator, draws: int = 1) -> Floats:
        """Return ΣS(x) with fresh noise `draws` times, a row each: all that releases let out, each at full cost."""
        counts = self.reading.steps(statistics)
        noisy = self._steps.add(np.tile(counts, draws), rng).reshape(draws, counts.size)
        return self.reading.from_steps(self.n, noisy)

    def posterior_from(self, noisy: Any, rng: np.random.Generator | None = None) -> NoisyPosterior:
        """Return the posterior that goes with a noisy statistic already released: post-processing, free of
        cost.
        """
        noisy = np.atleast_1d(np.asarray(noisy, dtype=np.float64))
        statistics = self.reading.statistics(self.n, self.reading.project(self.n, noisy))
        plug_in = self.system.posterior(statistics)
        aware = self._noise_aware(noisy, seeded_rng(0) if rng is None else rng) if self.n else plug_in
        return NoisyPosterior(noisy, statistics, aware, plug_in)

    def _noise_aware(self, noisy: Any, rng: np.random.Generator) -> Distribution:
        system: Any = self.system
        reading = system.reading
        if isinstance(reading, CategoryCounts):
            return latent_counts(system.alpha, noisy, n=self.n, noise=self._steps, rng=rng)
        if isinstance(reading, BallSum):
            aware: Distribution = system.through_noise(self.n, noisy, self._steps.variance * self.grid**2)
            return aware
        if isinstance(system, ClippedSystem):
            return self._clipped.posterior(float(noisy[0]))
        return latent_total(system, reading, self.n, float(noisy[0]), noise=self._steps, grid=self.grid)

    @cached_property
    def _clipped(self) -> ClippedTotal:
        system: Any = self.system
        return ClippedTotal(system, system.reading, self.n, self._steps, self.grid)

    def forecast(self, mean: Any, level: float = 0.95) -> Forecast:
        """Return what to expect if the records had this mean; reads no private data.

        The noise on one number is averaged over by Gauss points of its law. The noise on a histogram is averaged over
        eight imagined releases, each category's own noise laid evenly over its law in them.
        """
        statistics = self.reading.imagined(self.n, mean)
        system: Any = self.system
        if not self.n:
            exact = system.posterior(statistics)
            return Forecast(0.0, mean_width(exact.interval(level)), mean_width(exact.interval(level)), level)
        values: list[Any]
        reading = system.reading
        total = reading.from_steps(self.n, reading.steps(statistics))
        if isinstance(reading, ClippedSum) and isinstance(system, ClippedSystem):
            points, weights = self._steps.nodes(_POINTS)
            tables = self._clipped.posteriors(total[0] + points * self.grid)
            exact, values = self._clipped.without_noise(float(total[0]), tables), [*tables]
        elif isinstance(reading, ClippedSum):
            points, weights = self._steps.nodes(_POINTS)
            exact = system.posterior(statistics)
            values = [self._noise_aware(total + point * self.grid, seeded_rng(0)) for point in points]
        else:
            exact = system.posterior(statistics)
            noise = _evenly(self._steps, total.size, seeded_rng(0)) * self.grid
            weights = np.full(len(noise), 1 / len(noise))
            values = [self._noise_aware(total + row, seeded_rng(k)) for k, row in enumerate(noise)]
        return Forecast(
            expected_kl=float(weights @ [value.kl(exact) for value in values]),
            interval_width=float(weights @ [mean_width(value.interval(level)) for value in values]),
            exact_width=mean_width(exact.interval(level)),
            level=level,
        )

    def _parameters(self) -> dict[str, Any]:
        return {"noise": self.noise, "scale": self.scale, "grid": self.grid}


def _evenly(noise: IntegerNoise, size: int, rng: np.random.Generator) -> Floats:
    """Return imagined noise vectors, every coordinate's values spread evenly over the noise's law (a Latin square)."""
    k = np.arange(-int(40 * noise.scale) - 2, int(40 * noise.scale) + 3, max(1, int(noise.scale / 50)))
    weights = np.exp(noise.log_weight(k))
    below = np.cumsum(weights) / weights.sum()
    values = np.array([k[np.searchsorted(below, (i + 0.5) / _IMAGINED)] for i in range(_IMAGINED)], dtype=np.float64)
    spread = float(np.mean(values**2))
    values = values * np.sqrt(noise.variance / spread) if spread > 0 else values
    return np.array([rng.permutation(values) for _ in range(size)]).T


def noise_profile(noise: NoiseKind, steps: float, movement: Movement) -> Profile:
    """Return the profile of noise of a scale in grid steps on a total that moves so far: exact on counts."""
    if movement.cells and noise == "laplace":
        return movement.cells * DiscreteLaplaceProfile(steps, movement.width)
    if movement.cells and steps <= DiscreteGaussianProfile.most:
        return DiscreteGaussianProfile(steps, movement.width, movement.cells)
    return ZeroConcentratedProfile(movement.squares / (2 * steps**2))


def _least_scale(reading: Reading, n: int, noise: NoiseKind, target: Promise) -> float:
    """Return the least scale that keeps the promise, looking at 1/scale."""
    movement = reading.movement(n)
    counted = movement.cells == 2 and movement.width == 1

    def profile(inverse: float) -> Profile:
        if counted and noise == "laplace" and isinstance(target, ApproxDP):
            # Two counts that move by one tell no more than one count that moves by two: hockey sticks p²(1-e^(ε-2t))
            # and p(1-e^(ε-2t)), p = 1/(1+e^-t). Far quicker than to compose, and hardly looser where δ is small.
            return DiscreteLaplaceProfile(1 / inverse, 2, basis=Basis.BOUND)
        return noise_profile(noise, 1 / inverse / movement.grid, movement)

    return 1 / largest_keeping(profile, target, high=100 / reading.unit, name="1/scale")
