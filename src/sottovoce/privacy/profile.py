"""Profiles: what a mechanism provably does, as a whole curve."""

from __future__ import annotations

import enum
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.privacy.errors import IncompatibleNotions, InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats, decreasing_root, shown
from sottovoce.privacy.plain import json_object
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.registry import Registry

__all__ = ["PROFILES", "Basis", "Profile"]

PROFILES = Registry(
    "profile",
    {
        "gaussian": "sottovoce.privacy.gaussian:GaussianProfile",
        "pure": "sottovoce.privacy.pure:PureProfile",
        "bounded-range": "sottovoce.privacy.pure:BoundedRangeProfile",
        "zcdp": "sottovoce.privacy.concentrated:ZeroConcentratedProfile",
        "renyi": "sottovoce.privacy.concentrated:RenyiProfile",
        "laplace": "sottovoce.privacy.laplace:LaplaceProfile",
        "discrete-laplace": "sottovoce.privacy.laplace:DiscreteLaplaceProfile",
        "discrete-gaussian": "sottovoce.privacy.discrete_gaussian:DiscreteGaussianProfile",
        "likelihood-ratio": "sottovoce.privacy.pairs:LikelihoodRatioProfile",
        "composed": "sottovoce.privacy.composition:ComposedProfile",
        "best-of": "sottovoce.privacy.best_of:BestOfProfile",
        "subsampled": "sottovoce.privacy.subsampled:SubsampledProfile",
        "slack": "sottovoce.privacy.slack:SlackProfile",
        "least": "sottovoce.privacy.least:LeastProfile",
        "amplified": "sottovoce.amplification.mixing:AmplifiedProfile",
        "iterated-laplace": "sottovoce.amplification.coupling:IteratedLaplaceProfile",
    },
    "sottovoce.local",
)
"""Every kind of profile by its word."""


class Basis(enum.StrEnum):
    """What a profile rests on, strongest first; composition keeps the weakest."""

    EXACT = "exact"
    """The supremum over neighbouring data sets itself."""
    BOUND = "bound"
    """A proven upper bound on it."""
    CONVERGENCE = "convergence"
    """True only if a Markov chain has converged, which nobody can check."""

    @staticmethod
    def weakest(bases: Iterable[Basis]) -> Basis:
        """Return the weakest of several bases."""
        return max(bases, key=list(Basis).index)


@dataclass(frozen=True)
class Profile(ABC):
    """What a mechanism provably does to any two neighbouring data sets.

    A kind of profile implements `_log_delta` and `_renyi`, and improves on the rest where it has a closed form. All
    public methods take numbers or arrays. They are infinite where the truth is infinite.
    """

    word: ClassVar[str]
    has_own_delta: ClassVar[bool] = True
    """False where δ(ε) is only known through the Rényi curve."""
    basis: Basis = field(default=Basis.BOUND, kw_only=True)

    # What a kind implements.

    @abstractmethod
    def _log_delta(self, epsilon: Floats) -> Floats:
        """Return log δ(ε)."""

    @abstractmethod
    def _renyi(self, order: Floats) -> Floats:
        """Return the Rényi curve at orders >= 1."""

    def _epsilon(self, log_delta: Floats) -> Floats:
        """Return the smallest ε with log δ(ε) <= log_delta; -inf asks for pure privacy."""
        out = np.zeros(log_delta.shape)
        open_ = self._log_delta(out) > log_delta
        pure = self.pure()
        top = np.full(log_delta.shape, 1.0 if np.isinf(pure) else pure)
        asks_pure = np.isneginf(log_delta)
        out = np.where(open_ & asks_pure, pure, out)
        todo = open_ & ~asks_pure
        if np.isinf(pure):
            for _ in range(60):
                short = todo & (self._log_delta(top) > log_delta)
                if not short.any():
                    break
                top = np.where(short, 4 * top, top)
            else:
                out, todo = np.where(short, np.inf, out), todo & ~short
        if todo.any():
            high = top[todo]
            out[todo] = decreasing_root(self._log_delta, log_delta[todo], np.zeros(high.shape), high)
        return out

    def pure(self) -> float:
        """Return the smallest ε of pure differential privacy; infinite where there is none."""
        return np.inf

    def zcdp(self) -> float:
        """Return the smallest known ρ of zero-concentrated privacy; infinite where none is known."""
        return np.inf

    def gdp(self) -> float:
        """Return the smallest known μ of Gaussian privacy; infinite where none is known."""
        return np.inf

    @property
    def pole(self) -> float:
        """The order from which the Rényi curve is infinite."""
        return np.inf

    # What a user calls.

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: ArrayLike) -> Floats: ...
    def delta(self, epsilon: ArrayLike) -> float | Floats:
        """Return the smallest δ known to go with each ε >= 0."""
        array = as_floats("epsilon", epsilon, 0.0)
        return _same_shape(np.exp(self._log_delta(np.atleast_1d(array))), array)

    @overload
    def log_delta(self, epsilon: float) -> float: ...
    @overload
    def log_delta(self, epsilon: ArrayLike) -> Floats: ...
    def log_delta(self, epsilon: ArrayLike) -> float | Floats:
        """Return log δ(ε), which does not underflow."""
        array = as_floats("epsilon", epsilon, 0.0)
        return _same_shape(self._log_delta(np.atleast_1d(array)), array)

    @overload
    def epsilon(self, delta: float) -> float: ...
    @overload
    def epsilon(self, delta: ArrayLike) -> Floats: ...
    def epsilon(self, delta: float | ArrayLike) -> float | Floats:
        """Return the smallest ε known to go with each δ in [0, 1); δ = 0 asks for pure privacy."""
        if isinstance(delta, float) and 0.0 < delta < 1.0:  # the common case, without the price of the general one
            return float(self._epsilon(np.array([math.log(delta)]))[0])
        array = as_floats("delta", delta, 0.0, below=1.0)
        with np.errstate(divide="ignore"):
            return _same_shape(self._epsilon(np.log(np.atleast_1d(array))), array)

    @overload
    def renyi(self, order: float) -> float: ...
    @overload
    def renyi(self, order: ArrayLike) -> Floats: ...
    def renyi(self, order: ArrayLike) -> float | Floats:
        """Return the Rényi divergence bound at each order >= 1; order 1 is Kullback–Leibler."""
        array = as_floats("order", order, 1.0)
        return _same_shape(self._renyi(np.atleast_1d(array)), array)

    def satisfies(self, promise: Promise) -> bool:
        """Say whether this profile keeps the promise."""
        return self.excess(promise) <= 0

    def excess(self, promise: Promise) -> float:
        """Return how far the profile is over the promise, in the promise's own number; <= 0 keeps it."""
        if not isinstance(promise, Promise):
            raise IncompatibleNotions(f"expected a promise such as PureDP(1.0). Got {shown(promise)}")
        return promise._excess(self)

    def __add__(self, other: object) -> Profile:
        from sottovoce.privacy.composition import compose  # noqa: PLC0415 - a sum may be of any kinds

        if not isinstance(other, Profile):
            raise IncompatibleNotions(f"a profile composes with profiles only. Got {shown(other)}")
        return compose([self, other])

    def __mul__(self, count: object) -> Profile:
        from sottovoce.privacy.composition import compose  # noqa: PLC0415

        if isinstance(count, bool) or not isinstance(count, int | np.integer):
            raise IncompatibleNotions(f"a profile repeats a whole number of times. Got {shown(count)}")
        return compose([self], [int(count)])

    __rmul__ = __mul__

    # JSON: the kind's word, its fields and its basis.

    def _state(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "basis"}

    @classmethod
    def _from_state(cls, state: dict[str, Any], basis: Basis) -> Self:
        return cls(**state, basis=basis)

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as a plain dictionary; `from_dict` reads back the same numbers."""
        return {"profile": self.word, "basis": str(self.basis)} | self._state()

    def to_json(self) -> str:
        """Return the profile as JSON; `from_json` reads back the same numbers."""
        return json.dumps(self.to_dict())

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> Profile:
        """Read a profile from `to_dict`'s form."""
        if not isinstance(state, Mapping):
            raise InvalidValue(f"a profile is read from a dictionary. Got {shown(state)}")
        rest = dict(state)
        word, basis = rest.pop("profile", None), rest.pop("basis", None)
        kind = PROFILES[word]
        try:
            profile: Profile = kind._from_state(rest, Basis(basis))
        except (TypeError, KeyError, ValueError) as error:
            raise InvalidValue(f"cannot read a {word} profile: {error}") from None
        return profile

    @staticmethod
    def from_json(text: str) -> Profile:
        """Read a profile from `to_json`'s form."""
        return Profile.from_dict(json_object(text, "a profile"))


def _same_shape(values: Floats, like: Floats) -> float | Floats:
    return float(values[0]) if like.ndim == 0 else values
