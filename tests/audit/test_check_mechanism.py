"""Every registered kind has an example that passes, and a kind that breaks one rule is caught by that rule."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.audit import check_mechanism, check_reading
from sottovoce.audit.check_mechanism import read_elsewhere
from sottovoce.mechanisms import DirectPosterior, Release
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.mechanisms.mechanism import MECHANISMS, Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.pure import PureProfile
from sottovoce.records.readings import (
    READINGS,
    BallSum,
    CategoryCounts,
    ClippedSum,
    CrossCounts,
    Joint,
    Sensitivity,
    Statistics,
)


def _failed(results):
    return {result.name: result.evidence for result in results if not result.passed}


@pytest.mark.parametrize("word", MECHANISMS.kinds)
def test_every_registered_mechanism_has_an_example_that_passes(word):
    example = MECHANISMS[word].example()
    assert isinstance(example, MECHANISMS[word])
    # Without the audit: `test_against_the_sentence` attacks the same examples.
    assert _failed(check_mechanism(example, draws=None, fresh=False)) == {}


@pytest.mark.parametrize("word", MECHANISMS.kinds)
def test_no_draws_are_refused_before_any_record_is_looked_at(word):
    """By those too whose one release serves for as many draws as anybody likes."""
    with pytest.raises(InvalidValue, match="Got 0"):
        MECHANISMS[word].example().release(None, draws=0, accept_unproven=True)


def test_a_process_that_imported_nothing_reads_every_mechanism():
    states = [json.loads(json.dumps(MECHANISMS[word].example().to_dict())) for word in MECHANISMS.kinds]
    assert read_elsewhere(states) == states


@pytest.mark.parametrize("word", READINGS.kinds)
def test_every_registered_reading_has_an_example_that_passes(word):
    assert _failed(check_reading(READINGS[word].example())) == {}


@pytest.mark.parametrize(
    "reading",
    [
        ClippedSum(1e9, 1e9 + 1),
        ClippedSum(-1e-300, 1e-300),
        ClippedSum(-(10**6), 10**6, integer=True),
        ClippedSum(-1e100, 1e100),
        BallSum(1, 1e-12),
        BallSum(3, 1e9),
        CategoryCounts((0, 1)),
        CategoryCounts(tuple(range(50))),
        CrossCounts(((1, 2),), ((0,),), (-1,)),
        Joint((BallSum(2, 1.0), ClippedSum(0.0, 1.0))),
    ],
    ids=str,
)
def test_readings_with_extreme_bounds_pass(reading):
    assert _failed(check_reading(reading)) == {}


@dataclass(frozen=True)
class _Narrow(ClippedSum):
    def movement(self, n: int) -> Sensitivity:
        return replace(super().movement(n), width=1, squares=1.0)


@dataclass(frozen=True)
class _Fussy(ClippedSum):
    def read(self, records: Any, missing: Any = None, *, public: bool = False) -> Statistics:
        return super().read([float(x) for x in records], missing)


@dataclass(frozen=True)
class _Weighted(ClippedSum):
    def read(self, records: Any, missing: Any = None, *, public: bool = False) -> Statistics:
        seen = super().read(records, missing)
        first = super().read([records[0]], missing)
        return Statistics(seen.n, (seen.total + first.total) / 2, (seen.above + first.above) / 2)


MOVES, FAILS = "no record moves it farther than it says", "no record makes it fail"


@pytest.mark.parametrize(
    ("reading", "rule"),
    [
        (_Narrow(0.0, 2.0), MOVES),
        (_Fussy(0.0, 2.0), FAILS),
        (_Weighted(0.0, 2.0), "the order of records does not matter"),
    ],
)
def test_a_reading_that_breaks_a_rule_is_caught_by_it(reading, rule):
    assert rule in _failed(check_reading(reading))


def _direct() -> DirectPosterior:
    return DirectPosterior(BetaBernoulli(6, 12), 4)


class _Bold(DirectPosterior):
    """Claims a tenth of what it costs."""

    profile = property(lambda self: PureProfile(0.05))  # type: ignore[assignment]


class _Counting(DirectPosterior):
    """Says more where more is known."""

    def _value(self, seen: Any, rng: Any, draws: int) -> Any:
        value = super()._value(seen, rng, draws)
        return np.atleast_1d(value) if seen.total[0] % 2 else value


class _Forgetful(DirectPosterior):
    """Takes whatever comes."""

    def see(self, records: Any) -> Any:
        seen = records.look(self.reading) if hasattr(records, "look") else records
        return replace(seen, n=self.n) if hasattr(seen, "n") else super().see(records)


class _Unmarked(DirectPosterior):
    """Hides its seed."""

    def release(self, *arguments: Any, **options: Any) -> Release:
        return replace(super().release(*arguments, **options), reproducible=False)


class _Peeking(DirectPosterior):
    """Shows two data sets that differ in every record."""

    def worst_pair(self) -> Any:
        return Statistics(self.n, np.zeros(1)), Statistics(self.n, np.full(1, float(self.n)))


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (_Counting, FAILS),
        (_Forgetful, "it takes n records and no others"),
        (_Unmarked, "releases say how they were drawn"),
        (_Peeking, "its worst pair are neighbours"),
    ],
)
def test_a_mechanism_that_breaks_a_rule_is_caught_by_it(kind, rule):
    assert rule in _failed(check_mechanism(kind(BetaBernoulli(6, 12), 4), draws=None, fresh=False))


def test_a_mechanism_that_claims_too_little_is_caught_by_a_short_audit():
    assert "a short audit finds nothing" in _failed(check_mechanism(_Bold(BetaBernoulli(6, 12), 4), fresh=False))


def test_a_mechanism_that_is_paid_for_too_late_is_caught(monkeypatch):
    honest = sv.Curator.reserve

    def reserve(self, mechanism, column, **options):
        self._table.read(mechanism.reading, column)
        return honest(self, mechanism, column, **options)

    monkeypatch.setattr(sv.Curator, "reserve", reserve)
    failed = _failed(check_mechanism(_direct(), draws=None, fresh=False))
    assert failed == {"a curator charges it before it reads": "records were read before the release was paid for"}


@dataclass(frozen=True, eq=False)
class _Strange(Mechanism):
    """A coin that tells a share of the truth: randomized response of one record."""

    word: ClassVar[str] = "coin of a stranger"
    epsilon: float

    @property
    def profile(self):
        return PureProfile(self.epsilon, basis=Basis.EXACT)

    def _value(self, seen, rng, draws):
        lie = 1 / (1 + np.exp(self.epsilon))
        answers = np.where(rng.random(draws) < lie, 1 - seen.total[0], seen.total[0])
        return float(answers[0]) if draws == 1 else answers

    def _parameters(self):
        return {"epsilon": self.epsilon}

    @classmethod
    def example(cls):
        return cls(BetaBernoulli(1, 1), 1, 1.0)


def test_a_strangers_mechanism_is_checked_as_ours_are(monkeypatch):
    assert "its public numbers read back" in _failed(check_mechanism(_Strange.example(), draws=None, fresh=False))
    monkeypatch.setitem(MECHANISMS._found, _Strange.word, _Strange)
    results = check_mechanism(MECHANISMS[_Strange.word].example())
    assert _failed(results) == {}
    assert results[-1].evidence == "registered for this process only"


def test_a_kind_without_an_example_says_so():
    with pytest.raises(InvalidValue, match="has no example"):
        Mechanism.example()
    with pytest.raises(InvalidValue, match="has no example"):
        READINGS["joint"].__mro__[1].example()
    with pytest.raises(InvalidValue, match="expected a mechanism"):
        check_mechanism(3)  # type: ignore[arg-type]
