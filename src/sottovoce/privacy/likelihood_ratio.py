"""The exact profile of posteriors whose log-ratio is monotone in one scalar."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.pairs import Pairs, pairs_from_dict
from sottovoce.privacy.profile import Basis, Profile

__all__ = ["LikelihoodRatioProfile"]


@dataclass(frozen=True)
class LikelihoodRatioProfile(Profile):
    """The supremum over a finite set of worst neighbouring pairs, at every ε and every order.

    δ(ε) and the Rényi curve are rounded up. Pairs that are bounds only (fractions of records, or parameters at the edge
    of double precision) make the basis `BOUND`.

    Examples
    --------
    One posterior sample of a proportion, prior Beta(6, 12), n = 100 records:

    >>> from sottovoce.privacy.pairs import BetaPairs
    >>> profile = LikelihoodRatioProfile((BetaPairs(6, 12, step=1, others=99),))
    >>> print(f"{profile.delta(1.0):.10g} {profile.renyi(2):.10g} {profile.pole:g}")
    0.005116727392 0.1912902268 7
    """

    word: ClassVar[str] = "likelihood-ratio"
    pairs: tuple[Pairs, ...]
    basis: Basis = field(default=Basis.EXACT, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", tuple(self.pairs))
        if not self.pairs:
            raise InvalidValue("a likelihood-ratio profile needs at least one set of pairs")
        if not all(p.sharp for p in self.pairs):
            object.__setattr__(self, "basis", Basis.weakest([self.basis, Basis.BOUND]))

    @property
    def pole(self) -> float:
        """The order from which the Rényi curve is infinite."""
        return min(p.pole for p in self.pairs)

    def _log_delta(self, epsilon: Floats) -> Floats:
        values = np.max([p.log_delta(epsilon) for p in self.pairs], axis=0)
        # δ falls in ε; where it hardly does, the last digits need not, and the larger number is the safe one.
        falling = np.argsort(-epsilon, axis=None)
        values.ravel()[falling] = np.maximum.accumulate(values.ravel()[falling])
        return np.asarray(values)

    def _renyi(self, order: Floats) -> Floats:
        return np.asarray(np.max([p.renyi(order) for p in self.pairs], axis=0))

    def _state(self) -> dict[str, Any]:
        return {"pairs": [p.to_dict() for p in self.pairs]}

    @classmethod
    def _from_state(cls, state: dict[str, Any], basis: Basis) -> Self:
        return cls(tuple(pairs_from_dict(p) for p in state["pairs"]), basis=basis)
