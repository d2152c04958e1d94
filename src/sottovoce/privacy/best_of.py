r"""The best of a random, secret number of tries costs little more than two (Papernot and Steinke 2022).

A try releases something and a score of it. Run K independent tries, K drawn from a public law, and release the try with
the best score alone: neither K nor the other tries. With K truncated negative binomial of shape η and parameter γ, and
tries of Rényi curve R, for every order λ > 1 and every λ̂ ≥ 1

.. math:: R'(\lambda) \le R(\lambda) + (1+\eta)\Big(\big(1-\tfrac{1}{\hat\lambda}\big) R(\hat\lambda)
          + \tfrac{\log(1/\gamma)}{\hat\lambda}\Big) + \frac{\log \mathrm{E}K}{\lambda-1}

(their Theorem 2); pure ε becomes (2+η)ε. Had K been fixed, or known, K tries would cost K times as much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.derived_profile import DerivedProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, real, shown
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.renyi_conversion import renyi_epsilon, renyi_log_delta

TRIES = {"logarithmic": 0.0, "geometric": 1.0}
"""The laws of the number of tries, by name: η."""
_ORDERS = 1 + np.exp(np.linspace(-9.0, 16.0, 2001))
_ROUND_UP = 1 + 1e-12
_LIFT = 1 + 1e-9
"""More than rounding, and the terms of a series that are left out, can take from log E[K]."""
_HARDLY = 1e-11
"""How much above one a mean must be for its root to be sought: below, its first term is the whole."""


@dataclass(frozen=True)
class RandomStopping:
    """How many tries: a law of the whole numbers from 1 on, with a public `mean`.

    ``logarithmic`` has P(K = k) ∝ (1−γ)^k/k, which is cheaper and more often says 1; ``geometric`` γ(1−γ)^{k−1}.

    >>> RandomStopping(10.0).shape, round(RandomStopping(10.0, "geometric").gamma, 3)
    (0.0, 0.1)
    """

    mean: float
    law: str = "logarithmic"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", real("mean", self.mean, 1.0))
        if not self.mean <= 1e6:
            raise InvalidValue(f"the mean number of tries must lie between 1 and 1e6. Got {self.mean:g}")
        if not isinstance(self.law, str) or self.law not in TRIES:
            raise InvalidValue(f"law must be one of {', '.join(TRIES)}. Got {self.law!r}")

    @property
    def shape(self) -> float:
        """η of the truncated negative binomial law."""
        return TRIES[self.law]

    @cached_property
    def gamma(self) -> float:
        """γ, the parameter that gives the mean."""
        if self.mean == 1:
            return 1.0
        if self.law == "geometric":
            return 1 / self.mean
        if self.mean - 1 < _HARDLY:  # (1/γ − 1)/log(1/γ) = 1 + u/2 + …
            return math.exp(-2 * (self.mean - 1))
        from scipy import optimize  # noqa: PLC0415 - most commands need none of it

        # (1/γ − 1)/log(1/γ) = mean, in u = log(1/γ).
        root = optimize.brentq(lambda u: math.log(math.expm1(u) / u) - math.log(self.mean), 1e-12, 60.0, xtol=1e-13)
        return math.exp(-float(root))

    @cached_property
    def log_mean(self) -> float:
        """Log E[K] of the law with this very γ, rounded up; `mean` is what it was made for, but for its last digits."""
        u = -math.log(self.gamma)
        if self.law == "geometric" or not u:
            return u * _LIFT
        return (math.log1p(u / 2 + u * u / 6) if u < 1e-5 else math.log(math.expm1(u) / u)) * _LIFT

    def probability(self, k: Floats) -> Floats:
        """Return P(K = k)."""
        k, gamma = np.asarray(k, dtype=np.float64), self.gamma
        if gamma == 1:
            return np.where(k == 1, 1.0, 0.0)
        if self.law == "geometric":
            return np.asarray(gamma * (1 - gamma) ** (k - 1))
        return np.asarray((1 - gamma) ** k / (k * -math.log(gamma)))


@dataclass(frozen=True)
class BestOfProfile(DerivedProfile):
    """What the best of a random number of tries costs, each of them what `one` costs.

    >>> from sottovoce.privacy.gaussian import GaussianProfile
    >>> round(BestOfProfile(GaussianProfile(1 / 7.0), RandomStopping(10.0)).epsilon(1e-5), 2)
    1.0
    >>> BestOfProfile(GaussianProfile(0.3), RandomStopping(1.0)).renyi(2.0) == GaussianProfile(0.3).renyi(2.0)
    True
    """

    word: ClassVar[str] = "best-of"
    source: ClassVar[str] = "one try"
    has_own_delta: ClassVar[bool] = False
    tries: RandomStopping

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.tries, RandomStopping):
            raise InvalidValue(f"expected how many tries, a RandomStopping. Got {shown(self.tries)}")

    @property
    def _single(self) -> bool:
        return self.tries.gamma == 1

    def _log_delta(self, epsilon: Floats) -> Floats:
        if self._single:
            return self.one._log_delta(epsilon)
        result = renyi_log_delta(self._renyi, epsilon, self.pole)
        return np.where(epsilon >= self.pure(), -np.inf, result)

    def _epsilon(self, log_delta: Floats) -> Floats:
        if self._single:
            return self.one._epsilon(log_delta)
        with np.errstate(invalid="ignore"):
            result = renyi_epsilon(self._renyi, log_delta, self.pole)
        return np.minimum(np.where(log_delta == -np.inf, np.inf, result), self.pure())

    @cached_property
    def _selection(self) -> float:
        """The least (1+η)((1 − 1/λ̂)R(λ̂) + log(1/γ)/λ̂); any λ̂ is allowed."""
        less = -math.log(self.tries.gamma)
        with np.errstate(invalid="ignore"):
            result = np.fmin.reduce((1 - 1 / _ORDERS) * self.one._renyi(_ORDERS) + less / _ORDERS)
        return (1 + self.tries.shape) * min(float(result), less, self.one.pure())

    @cached_property
    def _later(self) -> Floats:
        """The least of R(λ) + log E[K]/(λ−1) at each of the orders or above it."""
        values = self.one._renyi(_ORDERS) + self.tries.log_mean / (_ORDERS - 1)
        return np.minimum.accumulate(values[::-1])[::-1]

    def _renyi(self, order: Floats) -> Floats:
        if self._single:
            return self.one._renyi(order)
        with np.errstate(divide="ignore", invalid="ignore"):
            here = self.one._renyi(order) + self.tries.log_mean / (order - 1)
        # A Rényi curve never falls: what holds at a later order holds here.
        place = np.searchsorted(_ORDERS, order)
        later = np.append(self._later, np.inf)[place]
        best = (np.fmin(here, later) + self._selection) * _ROUND_UP
        best = np.where(order < self.pole, best, np.inf)
        return np.minimum(best, self.pure())

    def pure(self) -> float:
        """Return (2 + η)ε."""
        return self.one.pure() if self._single else (2 + self.tries.shape) * self.one.pure() * _ROUND_UP

    def _state(self) -> dict[str, object]:
        return {"one": self.one.to_dict(), "mean": self.tries.mean, "law": self.tries.law}

    @classmethod
    def _from_state(cls, state: dict[str, Any], basis: Basis) -> Self:
        return cls(Profile.from_dict(state["one"]), RandomStopping(state["mean"], state["law"]), basis=basis)
