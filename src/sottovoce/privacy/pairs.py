r"""Worst neighbouring pairs of posteriors whose log-ratio is monotone in one scalar.

Where the log-ratio L of P and Q is monotone, the best test is a threshold, so the exact curve is

.. math:: \delta(\varepsilon) = P(L > \varepsilon) - e^\varepsilon Q(L > \varepsilon),

a difference of two incomplete beta or gamma functions. Where the two nearly cancel or underflow it is
integrated instead, with every term positive. The documentation page `Where the supremum sits` proves that
these pairs are the worst ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from sottovoce.privacy.beta_pairs import BetaPairs
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gamma_pairs import GammaRatePairs, GammaShapePairs, rate_renyi
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Basis, Profile

__all__ = [
    "BetaPairs",
    "GammaRatePairs",
    "GammaShapePairs",
    "LikelihoodRatioProfile",
    "Pairs",
    "pairs_from_dict",
    "rate_renyi",
]


class Pairs(Protocol):
    """A set of ordered neighbouring pairs, closed under swapping, with its exact curves."""

    @property
    def pole(self) -> float:
        """The order from which the Rényi divergence is infinite."""

    @property
    def sharp(self) -> bool:
        """Whether δ(ε) is the supremum itself, to a relative 1e-8; where it is not, it is an upper bound."""

    def log_delta(self, epsilon: Floats) -> Floats:
        """Return log δ(ε), the supremum over the pairs."""

    def renyi(self, order: Floats) -> Floats:
        """Return the Rényi divergence at each order >= 1, the supremum over the pairs."""

    def to_dict(self) -> dict[str, object]:
        """Return the pairs as a plain dictionary."""


_FAMILIES: dict[str, Callable[..., Pairs]] = {p.family: p for p in (BetaPairs, GammaShapePairs, GammaRatePairs)}


def pairs_from_dict(state: Mapping[str, object]) -> Pairs:
    """Read pairs from their `to_dict` form."""
    remainder = dict(state)
    family = remainder.pop("family", None)
    if family not in _FAMILIES:
        raise InvalidValue(f"no pairs are called {family!r}; known: {', '.join(_FAMILIES)}")
    return _FAMILIES[family](**remainder)


@dataclass(frozen=True)
class LikelihoodRatioProfile(Profile):
    """The supremum over a finite set of worst neighbouring pairs, at every ε and every order.

    δ(ε) and the Rényi curve are rounded up. Pairs that are bounds only (fractions of records, or parameters at the edge
    of double precision) make the basis `BOUND`.

    Examples
    --------
    One posterior sample of a proportion, prior Beta(6, 12), n = 100 records:

    >>> profile = LikelihoodRatioProfile((BetaPairs(6, 12, step=1, others=99),))
    >>> print(f"{profile.delta(1.0):.4g} {profile.renyi(2):.4g} {profile.pole:g}")
    0.005117 0.1913 7
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

    def _state(self) -> dict[str, object]:
        return {"pairs": [p.to_dict() for p in self.pairs]}

    @classmethod
    def _from_state(cls, state: dict[str, Any], basis: Basis) -> Self:
        return cls(tuple(pairs_from_dict(p) for p in state["pairs"]), basis=basis)
