"""Profiles that follow from the profile of one release: of a part of it, of the best of several, from further off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown
from sottovoce.privacy.profile import Basis, Profile


@dataclass(frozen=True)
class DerivedProfile(Profile):
    """What follows from the profile of `one`: about the same neighbours, and resting on nothing stronger.

    What a kind does not say is as it was of the one.
    """

    source: ClassVar[str]
    """What `one` is the profile of, for messages."""
    one: Profile

    def __post_init__(self) -> None:
        if not isinstance(self.one, Profile):
            raise InvalidValue(f"expected the profile of {self.source}. Got {shown(self.one)}")
        object.__setattr__(self, "relation", self.one.relation)
        object.__setattr__(self, "basis", Basis.weakest([self.one.basis, self.basis]))

    @property
    def has_own_delta(self) -> bool:  # type: ignore[override]
        """Whether δ(ε) is known of the one itself."""
        return self.one.has_own_delta

    @property
    def pole(self) -> float:
        """The order from which the Rényi curve of the one is infinite."""
        return self.one.pole

    def pure(self) -> float:
        """Return the pure ε of the one."""
        return self.one.pure()

    def zcdp(self) -> float:
        """Return the ρ of the one."""
        return self.one.zcdp()

    def gdp(self) -> float:
        """Return the μ of the one."""
        return self.one.gdp()
