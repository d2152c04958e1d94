"""Subjects: what can be audited, which is anything that can be drawn from under two neighbouring data sets."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sottovoce.audit.events import Claimed
from sottovoce.mechanisms import Mechanism, Release
from sottovoce.mechanisms.noisy_posterior import NoisyPosterior
from sottovoce.privacy.errors import IncompatibleNotions, InvalidData, InvalidValue, SottovoceError
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise

__all__ = ["CallableDraws", "MechanismDraws", "Subject", "check_pair", "claim_of", "subject_of"]

Draw = Callable[[int, int, np.random.Generator], Any]


@dataclass(frozen=True, eq=False)
class Subject:
    """How to draw from either of two neighbouring data sets, and what is claimed.

    Attributes
    ----------
    name
        What the report calls it.
    draw
        ``draw(side, count, rng)`` returns `count` independent outputs for data set `side` (0 or 1), as an array with
        draws first. It must pickle when an audit uses several processes.
    claim
        What the mechanism is held to.
    log_ratio
        log of the density of an output under data set 0 over that under data set 1, up to a constant; where unknown,
        None.
    block
        How many draws are made at a time.
    strange
        Whether a function of someone's own makes many draws in one call.
    """

    name: str
    draw: Draw = field(repr=False)
    claim: Profile
    log_ratio: Callable[[Any], Any] | None = field(default=None, repr=False)
    block: int = 1 << 16
    strange: bool = False

    @cached_property
    def claimed(self) -> Claimed:
        """The claim as plans ask for it."""
        return Claimed(self.claim)


@dataclass(frozen=True, eq=False)
class MechanismDraws:
    """Draws of one of our mechanisms on a pair of data sets."""

    mechanism: Mechanism
    pair: tuple[Any, Any]

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        """Return `count` releases, or the noisy statistics of which releases are made."""
        return self.mechanism.outputs(self._seen[side], rng, count)

    @cached_property
    def _seen(self) -> tuple[object, object]:
        """What is seen of each, however many blocks are drawn."""
        first, second = (self.mechanism.see(item) for item in self.pair)
        return first, second


@dataclass(frozen=True, eq=False)
class CallableDraws:
    """Draws of a function ``(data, rng) -> value``, one by one, or all at once where it takes ``draws=``."""

    function: Callable[..., Any]
    pair: tuple[Any, Any]
    batch: bool

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        """Return `count` values."""
        try:
            if self.batch:
                return _numbers(self.function(self.pair[side], rng, draws=count))
            values = [_numbers(self.function(self.pair[side], rng)) for _ in range(count)]
        except SottovoceError:
            raise
        except Exception as error:
            raise InvalidData(
                f"the mechanism failed on data set {side + 1}: {type(error).__name__}: {error}. "
                "It is called as mechanism(data, rng)"
            ) from error
        try:
            return np.array(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidData("the mechanism's values must be numbers or arrays of one shape") from None


def _numbers(value: object) -> Any:
    if isinstance(value, Release):
        value = value.value
    return value.noisy if isinstance(value, NoisyPosterior) else value


def subject_of(
    mechanism: object, pair: tuple[object, object] | None = None, claim: object = None, *, name: str | None = None
) -> Subject:
    """Return the subject of a mechanism of ours, or of a function ``(data, rng) -> value``.

    Examples
    --------
    >>> from sottovoce.mechanisms import DirectPosterior
    >>> from sottovoce.mechanisms.conjugate import BetaBernoulli
    >>> subject = subject_of(DirectPosterior(BetaBernoulli(6, 12), n=100))
    >>> subject.name, [data.total.tolist() for data in subject.draw.pair]
    ('direct posterior of beta-bernoulli, n=100', [[0.0], [1.0]])
    """
    if isinstance(mechanism, Subject):
        if pair is not None or claim is not None:
            raise InvalidValue("a subject has its own pair and claim; give neither")
        return mechanism
    if isinstance(mechanism, Mechanism):
        chosen = _worst_pair(mechanism) if pair is None else check_pair(mechanism, pair)
        profile = mechanism.profile if claim is None else claim_of(claim)
        draws = MechanismDraws(mechanism, chosen)
        return Subject(name or mechanism.describe(), draws, profile, mechanism.log_ratio(chosen))
    if not callable(mechanism):
        raise InvalidValue(f"an audit takes a mechanism or a function (data, rng) -> value. Got {mechanism!r}")
    if pair is None or claim is None:
        raise InvalidValue("an audit of a function needs pair=(data, neighbour) and claim=, such as PureDP(1.0)")
    batch = _takes_draws(mechanism)
    word = name or str(getattr(mechanism, "__name__", type(mechanism).__name__))
    draws_of = CallableDraws(mechanism, check_pair(None, pair), batch)
    return Subject(word, draws_of, claim_of(claim), block=1 << 16 if batch else 1 << 11, strange=batch)


def _worst_pair(mechanism: Mechanism) -> tuple[object, object]:
    if mechanism.n == 0:
        raise InvalidValue("a mechanism for n=0 records has no neighbouring data sets to audit with")
    return mechanism.worst_pair()


def _takes_draws(function: Callable[..., Any]) -> bool:
    try:
        return "draws" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return False


def check_pair(mechanism: Mechanism | None, pair: Any) -> tuple[object, object]:
    """Return a pair of data sets if they can be neighbours, else raise `InvalidData`."""
    try:
        first, second = pair
    except (TypeError, ValueError):
        raise InvalidData("pair must be two data sets, (data, neighbour)") from None
    if mechanism is not None:
        first, second = mechanism.see(first), mechanism.see(second)  # also says where n is wrong
        if not mechanism.reading.neighbours(first, second, mechanism.relation):
            raise InvalidData("neighbouring data sets differ in one record. These statistics lie farther apart")
        return first, second
    try:
        sizes = len(first), len(second)
    except TypeError:
        return first, second  # a data set of the user's own kind
    if sizes[0] != sizes[1]:
        raise InvalidData(
            "neighbouring data sets have the same number of records, one of them replaced. "
            f"Got {sizes[0]} and {sizes[1]}"
        )
    changed = _changed(first, second)
    if changed is not None and changed > 1:
        raise InvalidData(f"neighbouring data sets differ in one record. These differ in {changed}")
    return first, second


def _changed(first: object, second: object) -> int | None:
    """Return in how many places two columns of records differ; None where that cannot be told."""
    try:
        a, b = np.asarray(first), np.asarray(second)
        if a.ndim == 0 or a.shape != b.shape or object in (a.dtype, b.dtype):
            return None
        return int(np.count_nonzero((a != b).reshape(len(a), -1).any(axis=1)))
    except (TypeError, ValueError):
        return None


def claim_of(claim: object) -> Profile:
    """Return a claim as a profile: a profile itself, or all that follows from a promise."""
    if isinstance(claim, Profile):
        return claim
    if not isinstance(claim, Promise):
        raise IncompatibleNotions(
            f"an audit holds a mechanism to a promise such as ApproxDP(1.0, 1e-3) or to a profile. Got {claim!r}"
        )
    return claim.worst()
