"""Tempered Gibbs updates: each one an exponential mechanism, drawn exactly, and what they cost together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate.distributions.truncated_dirichlet import TruncatedDirichlet
from sottovoce.mechanisms.conjugate.exact_posteriors import DirichletLaw, tempered_power
from sottovoce.mechanisms.exact_sampling import released, samples
from sottovoce.privacy.composition import compose
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats, ceil_float, log_up, whole
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import ApproxDP, Promise
from sottovoce.privacy.pure import BoundedRangeProfile
from sottovoce.privacy.random_scan import RandomScanProfile
from sottovoce.privacy.randomness import is_secure


@dataclass(frozen=True)
class TemperedUpdates:
    r"""The cost of Gibbs sweeps in which every update samples its conditional law to the power 1/T.

    If replacing one record moves the joint log-density by at most B_u in update u, whatever value is drawn, the update
    has privacy loss in a window of width 2B_u/T (Geumlek 2020, §4.4.1). As bounded range, k sweeps cost

    .. math:: \rho = k\sum_u \frac{(2B_u/T)^2}{8} = \frac{k}{2T^2}\sum_u B_u^2

    of zero-concentrated privacy, against the additive ε = k·Σ 2B_u/T. The chain need not have converged: every state
    it visits may be published.

    Parameters
    ----------
    bounds
        B_u of each update of a sweep.
    sweeps
        How many sweeps.
    temperature
        T >= 1.
    chance
        The probability that the last update meets the record, where it redraws a random part of the latents: their old
        values are public, so its pure ε stays what it is (`RandomScanProfile`).

    Examples
    --------
    >>> updates = TemperedUpdates((1.5, 0.5), sweeps=200, temperature=20.0)
    >>> round(updates.profile.zcdp(), 6), round(updates.additive_epsilon, 6)
    (0.625, 40.0)
    >>> round(updates.profile.epsilon(1e-6), 2) < updates.additive_epsilon
    True
    """

    bounds: tuple[float, ...]
    sweeps: int = 1
    temperature: float = 1.0
    chance: float = 1.0

    def __post_init__(self) -> None:
        bounds = np.atleast_1d(as_floats("bounds", self.bounds, 0.0))
        if bounds.ndim != 1 or not bounds.size:
            raise InvalidValue("bounds must be a list of numbers, one for each update of a sweep")
        object.__setattr__(self, "bounds", tuple(bounds.tolist()))
        object.__setattr__(self, "sweeps", whole("sweeps", self.sweeps, 1))
        object.__setattr__(self, "temperature", float(self.temperature))
        if not 1 <= self.temperature < math.inf:
            raise InvalidValue(f"temperature must be >= 1 and finite. Got {self.temperature!r}")

    @cached_property
    def profile(self) -> Profile:
        """What all the sweeps together provably do."""
        windows = [ceil_float(2 * Fraction(b) / Fraction(self.temperature)) for b in self.bounds]
        updates: list[Profile] = [BoundedRangeProfile(window) for window in windows]
        if self.chance != 1:
            updates[-1] = RandomScanProfile(updates[-1], self.chance)
        return compose(updates, self._counts)

    @property
    def _counts(self) -> list[int]:
        return [int(self.sweeps)] * len(self.bounds)

    @property
    def additive_epsilon(self) -> float:
        """The sum of the updates' ε, as the thesis counts them."""
        return self.sweeps * math.fsum(2 * b / self.temperature for b in self.bounds)

    @classmethod
    def calibrate(cls, bounds: Sequence[float], sweeps: int, target: Promise) -> Self:
        """Return the updates at the lowest temperature that keeps the promise.

        For an (ε, δ) promise the search goes through ρ, which hundreds of sweeps lose nothing by.
        """
        at_one = cls(tuple(bounds), sweeps)
        rough = isinstance(target, ApproxDP) and target.delta > 0 and sweeps * len(at_one.bounds) > 1

        def profile(coldness: float) -> Profile:
            updates = cls(at_one.bounds, sweeps, 1 / coldness)
            return ZeroConcentratedProfile(updates.profile.zcdp()) if rough else updates.profile

        coldness = largest_keeping(profile, target, high=1.0, name="1/temperature")
        return cls(at_one.bounds, sweeps, 1 / coldness)


def check_floor(floor: float | None, size: int) -> float:
    """Return a₀, the least probability of each of `size` categories; 0.02/size where None.

    >>> check_floor(None, 4)
    0.005
    """
    if size < 2:
        raise InvalidValue(f"a floor is for at least 2 categories. Got {size}")
    least = 0.02 / size if floor is None else float(floor)
    if not 0 < least < 1 / size:
        raise InvalidValue(f"floor must lie between 0 and 1/{size}, for {size} categories. Got {floor!r}")
    return least


def log_ratio_bound(size: int, floor: float) -> float:
    """Return B = log((1 - (d-1)a₀)/a₀), the most by which one record's log-probability differs from another's.

    >>> round(log_ratio_bound(2, 0.1), 6)
    2.197225
    """
    least = check_floor(floor, size)
    return log_up(1 - (size - 1) * Fraction(least), Fraction(least))


def floored_bounds(sizes: Sequence[int], floor: float) -> tuple[float, ...]:
    """Return B of columns of so many categories, of which each is at least `floor` of an even share.

    >>> [round(bound, 3) for bound in floored_bounds([2, 4], 0.1)]
    [2.944, 3.611]
    """
    if not isinstance(floor, int | float) or not 0 < floor < 1:
        raise InvalidValue(f"floor must lie between 0 and 1. Got {floor!r}")
    return tuple(log_ratio_bound(size, floor / size) for size in sizes)


def draw_tempered(
    counts: ArrayLike, prior: ArrayLike, temperature: float, floor: float, rng: np.random.Generator
) -> Floats:
    """Return θ drawn exactly from the joint density of counts and prior to the power 1/T, every θ_k >= a₀.

    The categories are the last axis; every row of the others is one Dirichlet.

    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> theta = draw_tempered([[3, 90], [50, 0]], 1.0, temperature=4.0, floor=0.05, rng=seeded_rng(1))
    >>> theta.shape, bool(theta.min() >= 0.05)
    ((2, 2), True)
    """
    counts, prior = np.asarray(counts, dtype=np.float64), np.asarray(prior, dtype=np.float64)
    if not is_secure(rng):
        return _quick((counts + prior - 1) / temperature + 1, floor, rng)
    both = np.broadcast_arrays(counts, prior)
    return _each(both, lambda c, a: tempered_power(Fraction(c) + Fraction(a), temperature), floor, rng)


def draw_floored_dirichlet(
    prior: ArrayLike, weight: float, counts: Floats, floor: float, rng: np.random.Generator
) -> Floats:
    """Draw from Dirichlet(prior + weight·counts) given that every probability is at least `floor` (categories last).

    Draws are exactly rounded, as every sample that is released; they keep to the floor and to its ceiling, on which the
    bound of the next update rests.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> theta = draw_floored_dirichlet(0.5, 0.25, np.array([[5.0, 3.0], [900.0, 1.0]]), 0.05, seeded_rng(1))
    >>> theta.shape, bool(theta.min() >= 0.05)
    ((2, 2), True)
    """
    counts, prior = np.asarray(counts, dtype=np.float64), np.asarray(prior, dtype=np.float64)
    if not is_secure(rng):
        return _quick(prior + weight * counts, floor, rng)
    both = np.broadcast_arrays(counts, prior)
    return _each(both, lambda c, a: Fraction(a) + Fraction(weight) * Fraction(c), floor, rng)


def _quick(alpha: Floats, floor: float, rng: np.random.Generator) -> Floats:
    """Draw seeded tables at once, in doubles: for experiments."""
    law = DirichletLaw((Fraction(1),) * alpha.shape[-1], Fraction(floor))
    return np.asarray(released(law, lambda size: TruncatedDirichlet(alpha, floor).sample(size, rng), 1, rng))


def _each(both: Any, power: Callable[[float, float], Fraction], floor: float, rng: np.random.Generator) -> Floats:
    """Draw every table, exactly rounded; those of one law at once."""
    size = both[0].shape[-1]
    rows, places = np.unique(
        np.concatenate([part.reshape(-1, size) for part in both], axis=1), axis=0, return_inverse=True
    )
    out = np.empty((places.size, size))
    for k, row in enumerate(rows.tolist()):
        law = DirichletLaw(tuple(map(power, row[:size], row[size:])), Fraction(floor))
        here = places.ravel() == k
        out[here] = samples(law, int(here.sum()), rng)
    return out.reshape(both[0].shape)


def released_tables(counts: ArrayLike, prior: float, temperature: float, floor: float, rng: np.random.Generator) -> Any:
    """Return tempered probabilities of counts (categories last), each at least floor/K, exactly rounded."""
    counts = np.asarray(counts)
    least = check_floor(floor / counts.shape[-1], counts.shape[-1])
    theta = draw_tempered(counts, prior, temperature, least, rng)
    return np.asarray(theta / theta.sum(axis=-1, keepdims=True))
