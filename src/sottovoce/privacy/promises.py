"""Promises: the privacy statements one can ask for, each about two data sets that are neighbours by its relation.

Unless a promise says otherwise, neighbours differ in one record replaced by another, and how many there are is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from sottovoce.privacy.budget_units import (
    GAUSSIAN,
    Counting,
    at_best_order,
    check_order,
    coins,
    divergences,
    gaussian_allowance,
    squares_of_mu,
)
from sottovoce.privacy.concentrated import RenyiProfile, ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidPromise, InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import ceil_float, floor_float
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promise import Promise, parse_promise
from sottovoce.privacy.pure import ApproxProfile, PureProfile
from sottovoce.privacy.risk import hits, rounded_chance, success
from sottovoce.privacy.rounding import log_down

__all__ = [
    "ApproxDP",
    "GaussianDP",
    "MaxAdvantage",
    "MaxSuccess",
    "Promise",
    "PureDP",
    "RenyiDP",
    "ZeroConcentratedDP",
    "parse_promise",
]


@dataclass(frozen=True)
class PureDP(Promise):
    """ε-differential privacy: no event's probability moves by more than a factor e^ε.

    >>> PureDP(0.5)
    PureDP(epsilon=0.5)
    >>> str(PureDP(0.5))
    'pure:0.5'
    """

    word: ClassVar[str] = "pure"
    epsilon: float

    def _excess(self, profile: Profile) -> float:
        return profile.pure() - self.epsilon

    def _counting(self, order: object = None) -> Counting:
        return Counting("pure ε", self.epsilon, lambda profile: profile.pure(), PureDP)

    def worst(self) -> Profile:
        """Return all that the promise says, as a curve."""
        return PureProfile(self.epsilon, relation=self.relation)

    def _leaves(self, chance: float) -> float:
        return hits(self.epsilon, 0.0, chance)


@dataclass(frozen=True)
class ApproxDP(Promise):
    """(ε, δ)-differential privacy: Pr[E] ≤ e^ε Pr'[E] + δ for every event E."""

    word: ClassVar[str] = "approx"
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta >= 1:
            raise InvalidPromise(f"delta must be < 1: a promise with delta >= 1 says nothing. Got {self.delta}")

    def _excess(self, profile: Profile) -> float:
        if self.delta == 0:
            return profile.pure() - self.epsilon
        # By logarithms, as δ may be too small for a double; what is δ itself keeps it in any case, and only rounding,
        # coarse where doubles end, can tell the two apart.
        over = profile.log_delta(self.epsilon) - float(log_down(self.delta))
        near = 0 < over < (1e-9 if self.delta > 1e-300 else 1.0)
        return 0.0 if near and profile.delta(self.epsilon) <= self.delta else over

    def _simplest(self) -> Promise:
        return self if self.delta else PureDP(self.epsilon, relation=self.relation)

    def _counting(self, order: object = None) -> Counting:
        if isinstance(order, str) and order == GAUSSIAN:
            return squares_of_mu(gaussian_allowance(self.epsilon, self.delta), GaussianDP, GAUSSIAN)
        return at_best_order(self, order, RenyiDP)

    def allowance(self, order: float) -> float:
        """Return the Rényi divergence that still implies the promise; may be negative.

        The inverse of δ = exp((λ-1)(R-ε))·(1-1/λ)^(λ-1)/λ (Canonne, Kamath and Steinke 2020), rounded down: δ grows
        λ - 1 times as fast as R.
        """
        if order == 1:
            raise InvalidValue("order must be > 1: a divergence at order 1 implies no (epsilon, delta)")
        remainder = order - 1
        terms = (self.epsilon, math.log(self.delta) / remainder, math.log(order) / remainder, math.log1p(1 / remainder))
        return math.fsum(terms) - 2.0**-48 * math.fsum(map(abs, terms))

    def worst(self) -> Profile:
        """Return all that the promise says, as a curve."""
        return ApproxProfile(self.epsilon, self.delta, relation=self.relation)

    def _leaves(self, chance: float) -> float:
        return hits(self.epsilon, self.delta, chance)


@dataclass(frozen=True)
class RenyiDP(Promise):
    """(λ, ε)-Rényi differential privacy: the order-λ divergence of neighbours is at most ε.

    Order 1 is the Kullback–Leibler limit.
    """

    word: ClassVar[str] = "renyi"
    order: float
    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_order(self.order, InvalidPromise)

    def _excess(self, profile: Profile) -> float:
        return profile.renyi(self.order) - self.epsilon

    def _counting(self, order: object = None) -> Counting:
        return divergences(self.order, self.epsilon, RenyiDP)

    def worst(self) -> Profile:
        """Return all that the promise says, as a curve."""
        return RenyiProfile((self.order,), (self.epsilon,), relation=self.relation)


@dataclass(frozen=True)
class ZeroConcentratedDP(Promise):
    """ρ-zero-concentrated differential privacy: the order-λ divergence is at most ρλ, for all λ > 1."""

    word: ClassVar[str] = "zcdp"
    rho: float

    def _excess(self, profile: Profile) -> float:
        return profile.zcdp() - self.rho

    def _counting(self, order: object = None) -> Counting:
        words = "ρ of zero-concentrated privacy"
        return Counting(words, self.rho, lambda profile: profile.zcdp(), ZeroConcentratedDP)

    def worst(self) -> Profile:
        """Return all that the promise says, as a curve."""
        return ZeroConcentratedProfile(self.rho, relation=self.relation)


@dataclass(frozen=True)
class GaussianDP(Promise):
    """μ-Gaussian differential privacy: no easier to tell than N(0,1) from N(μ,1)."""

    word: ClassVar[str] = "gaussian"
    mu: float

    def _excess(self, profile: Profile) -> float:
        return profile.gdp() - self.mu

    def _counting(self, order: object = None) -> Counting:
        return squares_of_mu(floor_float(Fraction(self.mu) ** 2), GaussianDP, own=self.mu)

    def worst(self) -> Profile:
        """Return all that the promise says, as a curve."""
        return GaussianProfile(self.mu, relation=self.relation)


@dataclass(frozen=True)
class MaxAdvantage(Promise):
    """No guess between two neighbouring data sets beats chance by more than this: its hits less its false alarms.

    The same as (0, advantage)-differential privacy, and asked for in words.

    >>> str(MaxAdvantage(0.1))
    'advantage:0.1'
    """

    word: ClassVar[str] = "advantage"
    advantage: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.advantage < 1:
            raise InvalidPromise(f"advantage must lie between 0 and 1. Got {self.advantage:g}")

    def _excess(self, profile: Profile) -> float:
        return profile.delta(0.0) - self.advantage

    def _counting(self, order: object = None) -> Counting:
        return at_best_order(self, order, RenyiDP)

    def allowance(self, order: float) -> float:
        """Return the divergence of the two coins that just break the promise, the closest there are."""
        chance = np.linspace(0.0, (1 - self.advantage) / 2, 2001)[1:]  # the others are these with heads for tails
        return float(np.min(coins(chance, self.advantage, order))) * (1 - 1e-5)

    def worst(self) -> Profile:
        """Return all that the promise says, as a curve."""
        return ApproxProfile(0.0, self.advantage, relation=self.relation)

    def _leaves(self, chance: float) -> float:
        return rounded_chance(chance + self.advantage)

    def _tells(self) -> float:
        return self.advantage


@dataclass(frozen=True)
class MaxSuccess(Promise):
    """No guess about a person that succeeds with `baseline` beforehand succeeds more often than `success` afterwards.

    Whether it singles the person out, infers an attribute or reconstructs the record.

    >>> str(MaxSuccess(0.05, baseline=0.01))
    'success:0.05,0.01'
    """

    word: ClassVar[str] = "success"
    success: float
    baseline: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.baseline < self.success < 1:
            raise InvalidPromise(
                "baseline must be above 0, success above baseline and below 1. "
                f"Got success {self.success:g} and baseline {self.baseline:g}"
            )

    def _excess(self, profile: Profile) -> float:
        return success(profile, self.baseline) - self.success

    def _counting(self, order: object = None) -> Counting:
        return at_best_order(self, order, RenyiDP)

    def allowance(self, order: float) -> float:
        """Return the divergence of the two coins that just break the promise."""
        return float(coins(np.array([self.baseline]), self.success - self.baseline, order)[0]) * (1 - 1e-9)

    def _leaves(self, chance: float) -> float:
        # The curve of hits is concave and its own mirror image about "hits = 1 - false alarms". Between the
        # promised point and its image it lies below that of a pure promise, outside below that of an advantage.
        ends = self.baseline, 1 - self.success
        if min(ends) < chance < max(ends):
            return hits(self._steepness, 0.0, chance)
        return rounded_chance(chance + (self.success - self.baseline))

    def _tells(self) -> float:
        # tanh of half the steepness: of two chances that nearly agree the logarithm has lost its digits.
        high, low = Fraction(self.success), Fraction(self.baseline)
        return ceil_float((high - low) / min(high + low, 2 - high - low))

    @property
    def _steepness(self) -> float:
        """The ε of the pure promise whose curve of hits passes through the promised point."""
        if self.success + self.baseline <= 1:
            return math.log(self.success / self.baseline)
        return math.log((1 - self.baseline) / (1 - self.success))
