"""The least of several claims that all hold of one release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, shown
from sottovoce.privacy.profile import Basis, Profile, shared_relation


@dataclass(frozen=True)
class LeastProfile(Profile):
    """What is known of a release for which several profiles hold: at every place the least of them.

    >>> from sottovoce.privacy.gaussian import GaussianProfile
    >>> from sottovoce.privacy.pure import PureProfile
    >>> both = LeastProfile((GaussianProfile(1.0), PureProfile(3.0)))
    >>> both.pure(), both.gdp(), both.delta(1.0) == GaussianProfile(1.0).delta(1.0)
    (3.0, 1.0, True)
    """

    word: ClassVar[str] = "least"
    claims: tuple[Profile, ...]

    def __post_init__(self) -> None:
        claims = tuple(self.claims)
        if not claims or not all(isinstance(claim, Profile) for claim in claims):
            raise InvalidValue(f"expected at least one profile. Got {shown(self.claims)}")
        object.__setattr__(self, "claims", claims)
        object.__setattr__(self, "relation", shared_relation(claims))
        object.__setattr__(self, "basis", Basis.weakest([*(claim.basis for claim in claims), self.basis]))

    @property
    def has_own_delta(self) -> bool:  # type: ignore[override]
        """Whether one of the claims has one."""
        return any(claim.has_own_delta for claim in self.claims)

    def _log_delta(self, epsilon: Floats) -> Floats:
        return np.asarray(np.min([claim._log_delta(epsilon) for claim in self.claims], axis=0))

    def _epsilon(self, log_delta: Floats) -> Floats:
        return np.asarray(np.min([claim._epsilon(log_delta) for claim in self.claims], axis=0))

    def _renyi(self, order: Floats) -> Floats:
        return np.asarray(np.min([claim._renyi(order) for claim in self.claims], axis=0))

    def pure(self) -> float:
        """Return the least pure ε."""
        return min(claim.pure() for claim in self.claims)

    def zcdp(self) -> float:
        """Return the least ρ."""
        return min(claim.zcdp() for claim in self.claims)

    def gdp(self) -> float:
        """Return the least μ."""
        return min(claim.gdp() for claim in self.claims)

    @property
    def pole(self) -> float:
        """The largest pole: one finite claim is enough."""
        return max(claim.pole for claim in self.claims)
