r"""Releases by diffusion: let a number wander before it is shown.

A Brownian motion started at f(D) is Gaussian noise whose size grows with time. An Ornstein–Uhlenbeck process is pulled
towards zero as well, which costs bias and saves variance: for a value of bounded norm it is the more accurate of
the two at the same privacy (Balle, Barthe, Gaboardi and Geumlek 2019, section 5).

One path can be shown at several times: an early look for few eyes, later and more private looks for more. Who sees
a set of looks learns what the earliest of them tells and no more, for the rest of the path is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, any_floats, as_floats, real
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.randomness import is_secure, secure_rng

__all__ = ["OrnsteinUhlenbeck", "brownian", "calibrated_brownian"]


@dataclass(frozen=True)
class OrnsteinUhlenbeck:
    r"""X_t of dX = −θX dt + √2·ρ dW from X_0 = f(D): e^{−θt}f(D) plus Gaussian noise.

    .. math:: \mu = \frac{e^{-\theta t}\Delta}{s_t}, \qquad s_t^2 = \frac{\rho^2}{\theta}(1 - e^{-2\theta t})

    Attributes
    ----------
    sensitivity
        Δ, how far one replaced record moves f(D) in Euclidean norm. Your claim; the privacy rests on it.
    time
        t, when the value is shown.
    rate
        θ, the pull towards zero. Zero is a Brownian motion, with s_t² = 2ρ²t.
    diffusion
        ρ.

    Examples
    --------
    >>> from sottovoce.privacy.promises import GaussianDP
    >>> free = calibrated_brownian(GaussianDP(0.5), sensitivity=1.0)
    >>> pulled = OrnsteinUhlenbeck.calibrate(GaussianDP(0.5), sensitivity=1.0, norm=2.0, dimension=3)
    >>> round(free.mean_squared_error(2.0, 3), 3), round(pulled.mean_squared_error(2.0, 3), 3)
    (12.0, 3.0)
    """

    sensitivity: float
    time: float
    rate: float
    diffusion: float = 1.0

    def __post_init__(self) -> None:
        for name in ("sensitivity", "time", "rate", "diffusion"):
            value = real(name, getattr(self, name))
            if value == 0 and name in ("time", "diffusion"):
                raise InvalidValue(f"{name} must be > 0: without it there is no noise. Got 0.0")
            object.__setattr__(self, name, value)

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
        left, noise = self._law(real("time", time))
        return GaussianProfile(left * self.sensitivity / noise)

    def mean_squared_error(self, norm: float, dimension: int) -> float:
        """Return the largest E‖X_t − f(D)‖² over values with ‖f(D)‖ ≤ `norm`."""
        return (1 - self.shrinkage) ** 2 * norm**2 + dimension * self.noise**2

    @classmethod
    def calibrate(cls, target: Promise, *, sensitivity: float, norm: float, dimension: int) -> Self:
        """Return the process at time 1 that keeps `target` with the least error over ‖f(D)‖ ≤ `norm`, a public bound.

        At a given μ the noise is s = aΔ/μ for what is left a, and (1−a)²R² + d·s² is least at a = R²/(R² + dΔ²/μ²).
        """
        if not (norm > 0 and math.isfinite(norm) and sensitivity > 0):
            raise InvalidValue(f"norm and sensitivity must be finite and > 0. Got {norm} and {sensitivity}")
        mu = largest_keeping(GaussianProfile, target, high=1e6, name="mu")
        variance = dimension * (sensitivity / mu) ** 2
        left = norm**2 / (norm**2 + variance)
        rate = -math.log(left)
        made = cls(sensitivity, 1.0, rate, left * sensitivity / mu * math.sqrt(rate / -math.expm1(-2 * rate)))
        # The roundabout way through θ and ρ may have rounded the noise down.
        return made if made.profile.mu <= mu else cls(sensitivity, 1.0, rate, made.diffusion * (1 + 1e-14))

    def release(self, value: ArrayLike, rng: np.random.Generator | None = None) -> Release:
        """Return X_t for f(D) = `value`, a number or a vector."""
        generator = secure_rng() if rng is None else rng
        shown = self.path(value, [self.time], generator)[0]
        return Release(shown, self.profile, self.describe(), "value", not is_secure(generator))

    def path(self, value: ArrayLike, times: ArrayLike, rng: np.random.Generator) -> Floats:
        """Return one path at increasing times > 0, one row a time. All of it costs `profile_at(times[0])`.

        Values are rounded to a millionth of the first noise.
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
            left, noise = self._law(gap)
            here = left * here + noise * rng.standard_normal(start.shape)
            out[k] = here
        # The low bits of a floating-point sum are not those of a real number (Mironov 2012); round them off.
        grid = 2.0 ** (math.floor(math.log2(self._law(clock[0])[1])) - 20)
        return np.asarray(np.round(out / grid) * grid)

    def describe(self) -> dict[str, Any]:
        """Return the mechanism in plain words and public numbers."""
        return {
            "mechanism": "Ornstein-Uhlenbeck diffusion" if self.rate else "Brownian diffusion",
            "sensitivity": self.sensitivity,
            "time": self.time,
            "rate": self.rate,
            "diffusion": self.diffusion,
        }


def brownian(sensitivity: float, time: float) -> OrnsteinUhlenbeck:
    """Return the standard Brownian motion shown at `time`: f(D) plus noise of variance t, no pull.

    >>> round(brownian(1.0, 4.0).profile.mu, 12)
    0.5
    """
    return OrnsteinUhlenbeck(sensitivity, time, 0.0, math.sqrt(0.5))


def calibrated_brownian(target: Promise, *, sensitivity: float) -> OrnsteinUhlenbeck:
    """Return the Brownian motion shown at the earliest time that keeps `target`."""
    mu = largest_keeping(GaussianProfile, target, high=1e6, name="mu")
    return brownian(sensitivity, (sensitivity / mu) ** 2 * (1 + 1e-14))
