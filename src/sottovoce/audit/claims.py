"""Claims: what an audit holds a mechanism to, as a profile and as a trade-off curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sottovoce.privacy.concentrated import RenyiProfile, ZeroConcentratedProfile
from sottovoce.privacy.errors import IncompatibleNotions
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import ApproxDP, GaussianDP, PureDP, RenyiDP, ZeroConcentratedDP
from sottovoce.privacy.pure import PureProfile

__all__ = ["ApproxProfile", "claim_of"]


@dataclass(frozen=True)
class ApproxProfile(Profile):
    r"""All that one pair (ε, δ) says of the other pairs.

    .. math:: \delta(\varepsilon') = \delta + (1-\delta)\frac{(e^\varepsilon - e^{\varepsilon'})_+}{1+e^\varepsilon}

    (Kairouz, Oh and Viswanath 2015, Theorem 3.3: the worst pair reveals the record with probability δ and is
    randomized response otherwise).

    >>> round(ApproxProfile(1.0, 1e-3).delta(0.0), 6)
    0.462655
    """

    word: ClassVar[str] = "approx"
    level: float
    slack: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", real("level", self.level))
        object.__setattr__(self, "slack", real("slack", self.slack, below=1.0))

    def _log_delta(self, epsilon: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            inside = np.exp(PureProfile(self.level)._log_delta(epsilon))
            return np.asarray(np.log(self.slack + (1 - self.slack) * inside))

    def _renyi(self, order: Floats) -> Floats:
        return PureProfile(self.level)._renyi(order) if self.slack == 0 else np.full(order.shape, np.inf)

    def pure(self) -> float:
        """Return ε where δ = 0, else infinity."""
        return self.level if self.slack == 0 else np.inf


def claim_of(claim: Any) -> Profile:
    """Return a claim as a profile: a profile itself, or all that follows from a promise."""
    match claim:
        case Profile():
            return claim
        case PureDP(epsilon):
            return PureProfile(epsilon)
        case ApproxDP(epsilon, delta):
            return ApproxProfile(epsilon, delta)
        case RenyiDP(order, epsilon):
            return RenyiProfile((order,), (epsilon,))
        case ZeroConcentratedDP(rho):
            return ZeroConcentratedProfile(rho)
        case GaussianDP(mu):
            return GaussianProfile(mu)
        case _:
            raise IncompatibleNotions(
                f"an audit holds a mechanism to a promise such as ApproxDP(1.0, 1e-3) or to a profile. Got {claim!r}"
            )
