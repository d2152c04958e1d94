r"""Releases by diffusion: let a number wander before it is shown.

A Brownian motion started at f(D) is Gaussian noise whose size grows with time. An Ornstein–Uhlenbeck process is pulled
towards zero as well, which costs bias and saves variance: for a value of bounded norm it is the more accurate of
the two at the same privacy (Balle, Barthe, Gaboardi and Geumlek 2019, section 5).

One path can be shown at several times: an early look for few eyes, later and more private looks for more. Who sees
a set of looks learns what the earliest of them tells and no more, for the rest of the path is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.exact_normals import exact_normals
from sottovoce.mechanisms.mechanism import Choices, Mechanism
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.json_values import mapping
from sottovoce.privacy.numbers import Floats, any_floats, as_floats, real
from sottovoce.privacy.promises import Promise
from sottovoce.records.readings import ClippedSum, Reading, Statistics


@dataclass(frozen=True)
class BoundedMean:
    """The mean of what a reading makes of records, measured from the middle of what it can be: a system of diffusions.

    Any reading of sums will do: a clipped sum is the mean of a number, a ball sum that of a vector.

    >>> from sottovoce.records.readings import ClippedSum
    >>> BoundedMean(ClippedSum(0, 1, integer=True)).sensitivity(n=100)
    0.01
    """

    word: ClassVar[str] = "bounded mean"
    parameter: ClassVar[str] = "mean"
    mechanisms: ClassVar[tuple[str, ...]] = ("Ornstein-Uhlenbeck diffusion",)
    reading: Reading

    def __post_init__(self) -> None:
        if not isinstance(self.reading, Reading):
            raise InvalidValue(f"a bounded mean is that of a reading. Got {type(self.reading).__name__}")

    @property
    def middle(self) -> Floats:
        """The middle, one number a coordinate."""
        return np.atleast_1d(np.asarray(self.reading.middle(), dtype=np.float64))

    def sensitivity(self, n: int) -> float:
        """Return how far one replaced record moves the mean, in Euclidean norm."""
        move = self.reading.movement(n)
        return math.sqrt(move.squares) * move.grid / n

    def norm(self, n: int) -> float:
        """Return how far from its middle the mean can lie: of a number or a ball half as far as records lie apart."""
        apart = self.sensitivity(n) * n
        return apart / 2 if self.reading.size == 1 or self.reading.vector else apart

    def statistics(self, records: object) -> Statistics:
        """Return n and the sum."""
        return self.reading.read(records)

    def value(self, seen: Statistics) -> Floats:
        """Return the mean from its middle, of statistics brought to what n records can have."""
        steps = self.reading.from_steps(seen.n, self.reading.steps(seen))
        return np.asarray(steps / seen.n - self.middle)

    def to_dict(self) -> dict[str, object]:
        """Return the system as plain values."""
        return {"system": self.word, "reading": self.reading.to_dict()}

    @staticmethod
    def from_dict(state: Mapping[str, object]) -> BoundedMean:
        """Read a system from `to_dict`'s form."""
        return BoundedMean(Reading.from_dict(mapping("bounded mean", state).get("reading") or {}))


@dataclass(frozen=True, eq=False)
class OrnsteinUhlenbeck(Mechanism):
    r"""X_t of dX = −θX dt + √2·ρ dW from X_0 = f(D), a bounded mean: e^{−θt}f(D) plus Gaussian noise.

    .. math:: \mu = \frac{e^{-\theta t}\Delta}{s_t}, \qquad s_t^2 = \frac{\rho^2}{\theta}(1 - e^{-2\theta t})

    Attributes
    ----------
    system, n
        What f is, with Δ, how far one replaced record moves it in Euclidean norm; the number of records.
    time
        t, when the value is shown.
    rate
        θ, the pull towards the middle. Zero is a Brownian motion, with s_t² = 2ρ²t.
    diffusion
        ρ.

    Examples
    --------
    >>> from sottovoce.privacy.promises import GaussianDP
    >>> from sottovoce.records.readings import BallSum
    >>> system = BoundedMean(BallSum(3, 1.0))
    >>> free = calibrated_brownian(system, 10, GaussianDP(0.5))
    >>> pulled = OrnsteinUhlenbeck.calibrate(system, 10, GaussianDP(0.5))
    >>> round(free.mean_squared_error(1.0), 2), round(pulled.mean_squared_error(1.0), 2)
    (0.48, 0.32)
    """

    word: ClassVar[str] = "Ornstein-Uhlenbeck diffusion"
    choices: ClassVar[Choices] = {"ornstein-uhlenbeck": {}}
    forecasts: ClassVar[bool] = False
    system: BoundedMean
    time: float
    rate: float
    diffusion: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.system, BoundedMean):
            raise InvalidValue(f"a diffusion starts at a BoundedMean. Got {type(self.system).__name__}")
        super().__post_init__()
        if self.n < 1:
            raise InvalidValue(f"a mean needs records. Got n={self.n}")
        for name in ("time", "rate", "diffusion"):
            value = real(name, getattr(self, name))
            if value == 0 and name in ("time", "diffusion"):
                raise InvalidValue(f"{name} must be > 0: without it there is no noise. Got 0.0")
            object.__setattr__(self, name, value)

    @property
    def sensitivity(self) -> float:
        """Δ, with the last bits of the mean as a double: five roundings of it, in either data set."""
        rounding = 2.0**-49 * (self.system.norm(self.n) + 2 * float(np.linalg.norm(self.system.middle)))
        return self.system.sensitivity(self.n) + rounding

    def _law(self, time: float) -> tuple[float, float]:
        """Return how much is left of the start after `time`, and the standard deviation of the noise."""
        twice = 2 * self.rate * time
        stretch = -math.expm1(-twice) / twice if twice > 0 else 1.0
        return math.exp(-twice / 2), self.diffusion * math.sqrt(2 * time * stretch)

    @property
    def shrinkage(self) -> float:
        """e^{−θt}, what is left of f(D)."""
        return self._law(self.time)[0]

    @property
    def noise(self) -> float:
        """s_t, the standard deviation of the noise."""
        return self._law(self.time)[1]

    @property
    def profile(self) -> GaussianProfile:
        """What the value at `time` costs."""
        return self.profile_at(self.time)

    def profile_at(self, time: float) -> GaussianProfile:
        """Return what the path costs from `time` on, all later looks included."""
        if not time > 0:
            raise InvalidValue(f"a path shown at time {time} hides nothing; give a time > 0")
        remaining, noise = self._law(real("time", time))
        return GaussianProfile(remaining * self.sensitivity / noise * (1 + 2.0**-48))  # rounded up

    def mean_squared_error(self, norm: float) -> float:
        """Return the largest E‖X_t − f(D)‖² over values with ‖f(D)‖ ≤ `norm`."""
        return (1 - self.shrinkage) ** 2 * norm**2 + self.reading.size * self.noise**2

    @classmethod
    def calibrate(cls, system: BoundedMean, n: int, target: Promise, *, norm: float | None = None) -> Self:
        """Return the process at time 1 that keeps `target` with the least error over ‖f(D)‖ ≤ `norm`, a public bound.

        At a given μ the noise is s = aΔ/μ for what is left a, and (1−a)²R² + d·s² is least at a = R²/(R² + dΔ²/μ²).
        """
        built = cls(system, n, 1.0, 0.0)
        sensitivity, norm = built.sensitivity, system.norm(n) if norm is None else norm
        if not (norm > 0 and math.isfinite(norm)):
            raise InvalidValue(f"norm must be finite and > 0. Got {norm}")
        mu = largest_keeping(GaussianProfile, target, high=1e6, name="mu")
        variance = system.reading.size * (sensitivity / mu) ** 2
        remaining = norm**2 / (norm**2 + variance)
        rate = -math.log(remaining)
        stretch = math.sqrt(rate / -math.expm1(-2 * rate)) if rate > 0 else math.sqrt(0.5)
        built = replace(built, rate=rate, diffusion=remaining * sensitivity / mu * stretch)
        # The roundabout way through θ and ρ may have rounded the noise down.
        return built if built.profile.mu <= mu else replace(built, diffusion=built.diffusion * (1 + 4e-14))

    @classmethod
    def example(cls) -> Self:
        """Return the mean of four numbers from 0 to 1, pulled to its middle."""
        return cls(BoundedMean(ClippedSum(0.0, 1.0)), 4, 1.0, 0.8, 0.2)

    def _value(self, seen: Statistics, rng: np.random.Generator, draws: int) -> Floats:
        start = self.system.value(seen)
        return np.asarray(self.path(np.tile(start, (draws, 1)), [self.time], rng)[0] + self.system.middle)

    def log_ratio(self, pair: tuple[Any, Any]) -> Callable[[Any], Any]:
        """Return the log-ratio of two Gaussians of one width, up to a constant."""
        first, second = (self.system.value(seen) for seen in pair)
        slope = self.shrinkage * (first - second) / self.noise**2
        return lambda outputs: np.asarray(outputs) @ slope

    def path(self, value: ArrayLike, times: ArrayLike, rng: np.random.Generator) -> Floats:
        """Return one path at increasing times > 0, one row a time. All of it costs `profile_at(times[0])`.

        The first look is exactly rounded; what follows is made of it.
        """
        start = any_floats("the value to release", value)
        if not np.all(np.isfinite(start)):
            raise InvalidData("the value to release must be finite")
        clock = np.atleast_1d(as_floats("times", times, 0.0))
        gaps = np.diff(clock, prepend=0.0)
        if gaps.min() <= 0:
            raise InvalidValue(f"times must be > 0 and increasing. Got {clock.tolist()}")
        out, here = np.empty((clock.size, *start.shape)), start
        for k, gap in enumerate(gaps.tolist()):
            remaining, noise = self._law(gap)
            here = exact_normals(remaining * here, noise, rng)
            out[k] = here
        return out


def brownian(system: BoundedMean, n: int, time: float) -> OrnsteinUhlenbeck:
    """Return the standard Brownian motion shown at `time`: f(D) plus noise of variance t, no pull.

    >>> from sottovoce.records.readings import ClippedSum
    >>> round(brownian(BoundedMean(ClippedSum(0, 1, integer=True)), 1, 4.0).profile.mu, 12)
    0.5
    """
    return OrnsteinUhlenbeck(system, n, time, 0.0, math.sqrt(0.5))


def calibrated_brownian(system: BoundedMean, n: int, target: Promise) -> OrnsteinUhlenbeck:
    """Return the Brownian motion shown at the earliest time that keeps `target`."""
    mu = largest_keeping(GaussianProfile, target, high=1e6, name="mu")
    return brownian(system, n, (brownian(system, n, 1.0).sensitivity / mu) ** 2 * (1 + 4e-14))
