"""Profiles: what a mechanism provably does, as a whole curve."""

from __future__ import annotations

import enum
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.privacy.errors import IncompatibleNotions, InvalidValue
from sottovoce.privacy.json_values import canonical, json_object, restoring
from sottovoce.privacy.numbers import Floats, as_floats, shown
from sottovoce.privacy.promise import Promise
from sottovoce.privacy.registry import Registry
from sottovoce.privacy.relation import REPLACE_ONE, Relation, check_same, shown_with_relation
from sottovoce.privacy.root_finding import decreasing_root
from sottovoce.privacy.rounding import LEAST, lifted, log_down

PROFILES = Registry(
    "profile",
    {
        "gaussian": "sottovoce.privacy.gaussian:GaussianProfile",
        "pure": "sottovoce.privacy.pure:PureProfile",
        "approx": "sottovoce.privacy.pure:ApproxProfile",
        "bounded-range": "sottovoce.privacy.pure:BoundedRangeProfile",
        "zcdp": "sottovoce.privacy.concentrated:ZeroConcentratedProfile",
        "renyi": "sottovoce.privacy.concentrated:RenyiProfile",
        "laplace": "sottovoce.privacy.laplace:LaplaceProfile",
        "discrete-laplace": "sottovoce.privacy.laplace:DiscreteLaplaceProfile",
        "discrete-gaussian": "sottovoce.privacy.discrete_gaussian:DiscreteGaussianProfile",
        "likelihood-ratio": "sottovoce.privacy.pairs:LikelihoodRatioProfile",
        "composed": "sottovoce.privacy.composition:ComposedProfile",
        "best-of": "sottovoce.privacy.best_of:BestOfProfile",
        "group-of-two": "sottovoce.privacy.group_privacy:GroupOfTwo",
        "subsampled": "sottovoce.privacy.subsampled:SubsampledProfile",
        "random-scan": "sottovoce.privacy.random_scan:RandomScanProfile",
        "slack": "sottovoce.privacy.approximate_sampling:SlackProfile",
        "least": "sottovoce.privacy.minimum_profile:LeastProfile",
        "amplified": "sottovoce.theory.amplification.mixing:AmplifiedProfile",
        "iterated-laplace": "sottovoce.theory.amplification.coupling:IteratedLaplaceProfile",
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


_HAIR, _HAIRS, _LITTLE = 2.0**-52, 46, 1e-3
"""By what share of itself, and of a little, an ε is lifted where its δ is not reached; at most so often, doubled."""


@dataclass(frozen=True)
class Profile(ABC):
    """What a mechanism provably does to any two neighbouring data sets.

    A kind of profile implements `_log_delta` and `_renyi`, and improves on the rest where it has a closed form. All
    public methods take numbers or arrays. They are infinite where the truth is infinite. Its `relation` says which data
    sets are neighbours.
    """

    word: ClassVar[str]
    has_own_delta: ClassVar[bool] = True
    """False where δ(ε) is only known through the Rényi curve."""
    ordered: ClassVar[bool] = False
    """True where the two orders of a neighbouring pair have curves of their own: one record more, one record less."""
    basis: Basis = field(default=Basis.BOUND, kw_only=True)
    relation: Relation = field(default=REPLACE_ONE, kw_only=True)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.__repr__ = Profile.__repr__  # type: ignore[method-assign]  # else each dataclass makes its own

    def __repr__(self) -> str:
        return shown_with_relation(self)

    # What a kind implements.

    @abstractmethod
    def _log_delta(self, epsilon: Floats) -> Floats:
        """Return log δ(ε)."""

    @abstractmethod
    def _renyi(self, order: Floats) -> Floats:
        """Return the Rényi curve at orders >= 1."""

    def _log_delta_back(self, epsilon: Floats) -> Floats:
        """Return log δ(ε) of the order of a neighbouring pair whose curve is the smaller one, where it is known."""
        return self._log_delta(epsilon)

    def _delta(self, epsilon: Floats) -> Floats:
        """Return δ(ε); one too small for a double as the least there is: 0 would say that there is none."""
        log_delta = self._log_delta(epsilon)
        return np.where(log_delta == -np.inf, 0.0, np.minimum(lifted(np.maximum(np.exp(log_delta), LEAST)), 1.0))

    def _epsilon(self, log_delta: Floats) -> Floats:
        """Return the smallest ε with log δ(ε) <= log_delta; -inf asks for pure privacy."""
        out = np.zeros(log_delta.shape)
        none = self._log_delta(out)
        open_ = none > log_delta
        pure = self.pure()
        top = np.full(log_delta.shape, 1.0 if np.isinf(pure) else pure)
        asks_pure = log_delta == -np.inf
        out = np.where(open_ & asks_pure, pure, out)
        todo = open_ & ~asks_pure
        if np.isinf(pure):
            for _ in range(60):
                reached = self._log_delta(top)
                short = todo & (reached > log_delta)
                if not short.any():
                    break
                top = np.where(short, 4 * top, top)
            else:
                out, todo = np.where(short, np.inf, out), todo & ~short
        else:
            reached = self._log_delta(top)
        if todo.any():
            high, ends = top[todo], (none[todo], reached[todo])
            out[todo] = decreasing_root(self._log_delta, log_delta[todo], np.zeros(high.shape), high, ends=ends)
        return out

    def _of_delta(self, delta: Floats) -> Floats:
        """Return the smallest ε that goes with each δ itself, and no smaller than `log_delta` says."""
        log_delta = log_down(delta)
        return self._kept(self._epsilon(log_delta), log_delta)

    def _kept(self, epsilon: Floats, log_delta: Floats) -> Floats:
        """Return ε where log δ(ε) is as small as asked for; a hair more where two conversions disagree by a hair."""
        out, hair = np.array(epsilon), _HAIR
        for _ in range(_HAIRS):
            late = np.isfinite(out) & (out < self.pure())
            late[late] = self._log_delta(out[late]) > log_delta[late]
            if not late.any():
                break
            out[late] = np.minimum(epsilon[late] + hair * (epsilon[late] + _LITTLE), self.pure())
            hair *= 2
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
        """Return the smallest δ known to go with each ε >= 0; 0 only where there is none, however small it is."""
        array = as_floats("epsilon", epsilon, 0.0)
        return _same_shape(self._delta(np.atleast_1d(array)), array)

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
            return float(self._of_delta(np.array([delta]))[0])
        array = as_floats("delta", delta, 0.0, below=1.0)
        return _same_shape(self._of_delta(np.atleast_1d(array)), array)

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
        if self.relation != promise.relation:
            hint = "say promise.under(...), and n=None where the number of records is a secret"
            if self.relation.of_person() == promise.relation:
                name = "ADD_REMOVE" if self.relation.hides_n else "REPLACE_ONE"
                hint = f"a curator shows a mechanism one record a person: say promise.under(sv.{name})"
            raise IncompatibleNotions(
                f"a claim about {self.relation} keeps no promise about {promise.relation}; {hint}"
            )
        return promise._excess(self)

    # Neighbours.

    def about(self, relation: Relation) -> Profile:
        """Return the same curves as a claim about other neighbours, for who has shown that they hold there.

        It proves nothing: a mechanism says so of the sensitivity that it counted under that relation. For what
        follows by itself, see `replacing`.
        """
        if relation == self.relation:
            return self
        inner = {f.name: _about(getattr(self, f.name), relation) for f in fields(self) if f.init}
        return replace(self, **inner | {"relation": relation})

    def shown_to(self, relation: Relation) -> Profile:
        """Return the claim of a mechanism about its records where who shows them takes each to be of `relation`'s unit.

        Where that is a person, a mechanism is shown one record a person, so what it claims of a record it claims of a
        person. Any other claim stays what it is.
        """
        if relation.unit in (self.relation.unit, REPLACE_ONE.unit):
            return self
        return self.about(replace(self.relation, unit=relation.unit))

    def replacing(self) -> Profile:
        """Return what a claim about one record added or removed says of one replaced: a removal and an addition.

        That is group privacy of size two, not composition: twice the μ, not √2 times. Nothing is known the other way.

        >>> from sottovoce.privacy.gaussian import GaussianProfile
        >>> from sottovoce.privacy.relation import ADD_REMOVE
        >>> GaussianProfile(0.5, relation=ADD_REMOVE).replacing().gdp()
        1.0
        """
        if not self.relation.hides_n:
            raise IncompatibleNotions(
                f"a claim about {self.relation} says nothing of one more or one less; only the other way is known"
            )
        return self._twice().about(replace(self.relation, kind=REPLACE_ONE.kind))

    def _twice(self) -> Profile:
        """Return what holds at a distance of two neighbours."""
        group: Profile = PROFILES["group-of-two"](self)
        return group

    def __add__(self, other: object) -> Profile:
        if not isinstance(other, Profile):
            raise IncompatibleNotions(f"a profile composes with profiles only. Got {shown(other)}")
        together: Profile = PROFILES["composed"].of([self, other])
        return together

    def __mul__(self, count: object) -> Profile:
        if isinstance(count, bool) or not isinstance(count, int | np.integer):
            raise IncompatibleNotions(f"a profile repeats a whole number of times. Got {shown(count)}")
        together: Profile = PROFILES["composed"].of([self], [int(count)])
        return together

    __rmul__ = __mul__

    # JSON: the kind's word, its fields, its basis, and its relation where that is not the usual one.

    def _state(self) -> dict[str, object]:
        return {f.name: _written(getattr(self, f.name)) for f in fields(self) if f.name not in ("basis", "relation")}

    @classmethod
    def _from_state(cls, state: dict[str, object], basis: Basis) -> Self:
        return cls(**{name: _read(value) for name, value in state.items()}, basis=basis)

    def to_dict(self) -> dict[str, object]:
        """Return the profile as a plain dictionary; `from_dict` reads back the same numbers."""
        state = {"profile": self.word, "basis": str(self.basis)} | self._state()
        return state if self.relation == REPLACE_ONE else state | {"relation": str(self.relation)}

    @cached_property
    def text(self) -> str:
        """The one text of the profile, as `canonical` has it: made once, however often it is charged."""
        return canonical(self.to_dict())

    def to_json(self) -> str:
        """Return the profile as JSON; `from_json` reads back the same numbers."""
        return json.dumps(self.to_dict())

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> Profile:
        """Read a profile from `to_dict`'s form."""
        if not isinstance(state, Mapping):
            raise InvalidValue(f"a profile is read from a dictionary. Got {shown(state)}")
        remainder = dict(state)
        word, basis = remainder.pop("profile", None), remainder.pop("basis", None)
        kind, relation = PROFILES[word], Relation.parse(remainder.pop("relation", str(REPLACE_ONE)))
        with restoring(f"a {word} profile"):
            profile: Profile = kind._from_state(remainder, Basis(basis))
        if profile.relation not in (relation, REPLACE_ONE):
            raise InvalidValue(f"cannot read a {word} profile: its parts are about {profile.relation}, not {relation}")
        return profile if profile.relation == relation else profile.about(relation)

    @staticmethod
    def from_json(text: str) -> Profile:
        """Read a profile from `to_json`'s form."""
        return Profile.from_dict(json_object(text, "a profile"))


def shared_relation(profiles: Iterable[Profile]) -> Relation:
    """Return the relation that all of some profiles speak of, or raise `IncompatibleNotions`."""
    relations = [profile.relation for profile in profiles]
    for relation in relations:
        check_same(relations[0], relation, "profiles about different neighbours do not go together")
    return relations[0]


def _written(value: object) -> Any:
    """Return a field, a profile in it or several, as plain values."""
    if isinstance(value, tuple):
        return [_written(part) for part in value]
    return value.to_dict() if isinstance(value, Profile) else value


def _read(value: object) -> Any:
    """Read a field from `_written`'s form."""
    if isinstance(value, list | tuple):
        return tuple(_read(part) for part in value)
    return Profile.from_dict(value) if isinstance(value, Mapping) else value


def _about(value: object, relation: Relation) -> Any:
    """Return a profile, or several, about other neighbours; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(_about(part, relation) for part in value)
    return value.about(relation) if isinstance(value, Profile) else value


def _same_shape(values: Floats, like: Floats) -> float | Floats:
    return float(values[0]) if like.ndim == 0 else values
