"""The audit: draw, choose a test, and bound what the mechanism leaks with draws that the choice never saw."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sottovoce.audit.drawing import DrawSource
from sottovoce.audit.events import Pilot
from sottovoce.audit.judgement import AuditPlan, Tally, alarming, judge, make_plan
from sottovoce.audit.report import AuditReport, Verdict
from sottovoce.audit.scores import TESTS, Score, best_score, exact_score, not_finite, rival_score
from sottovoce.audit.subject import Subject, subject_of
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats, whole

__all__ = ["FEWEST", "audit"]

FEWEST = 1000
"""Fewer draws than this say next to nothing."""
_PILOT = {True: 0.05, False: 0.5}
"""The share of draws spent on choosing: little where the likelihood ratio is known, half where a score is learned."""
_FIRST, _LOOKS = 0.02, ((1 / 16, 0.04), (1 / 4, 0.04), (1.0, 0.9))
"""When to look, as a share of the draws that count, and the share of the error probability each look may use; before
them comes a first look at part of the pilot.
"""


def audit(
    mechanism: object,
    pair: tuple[object, object] | None = None,
    claim: object = None,
    *,
    draws: int = 100_000,
    delta: float = 1e-3,
    confidence: float = 0.99,
    seed: int | None = 0,
    test: str = "auto",
    jobs: int = 1,
    early_stop: bool = True,
    progress: Callable[[float], None] | None = None,
    name: str | None = None,
) -> AuditReport:
    """Attack a mechanism and report a lower bound on what it leaks, beside what it claims.

    An output that is NaN or infinite is a verdict by itself: violated. Else part of the draws choose the test, and the
    rest are held to it. The bounds are valid whatever the score, the pair and the mechanism are: a better attack only
    raises them.

    Parameters
    ----------
    mechanism
        One of our mechanisms, a `Subject`, or a function ``(data, rng) -> value``; one that also takes ``draws=`` and
        returns that many values, draws first, is far quicker to audit.
    pair
        Two neighbouring data sets; of our mechanisms the worst pair by default.
    claim
        A promise or a profile; of our mechanisms their own profile by default.
    draws
        How many outputs of each data set, at most.
    delta
        The δ at which ε is bounded.
    confidence
        Of each bound. An alarm needs far more: see `Verdict`.
    seed
        None draws with secure randomness, as a release does; then no two audits are the same.
    test
        ``"exact"`` likelihood ratio, ``"learned"``, ``"scan"`` of the coordinates; ``"auto"`` takes the likelihood
        ratio where it is known, else the best of the others.
    jobs
        How many processes draw.
    early_stop
        End at the first clear violation.
    progress
        Called with the fraction done.
    name
        What the report calls the mechanism.

    Examples
    --------
    >>> from sottovoce.mechanisms import DirectPosterior
    >>> from sottovoce.mechanisms.conjugate import BetaBernoulli
    >>> report = audit(DirectPosterior(BetaBernoulli(6, 12), n=100), draws=50_000)
    >>> str(report.verdict), report.epsilon.lower < report.epsilon.claimed
    ('holds', True)

    A function that adds half the noise its promise needs:

    >>> from sottovoce.privacy.promises import PureDP
    >>> def noisy_sum(data, rng, draws):
    ...     return sum(data) + rng.laplace(scale=0.5, size=draws)
    >>> report = audit(noisy_sum, pair=([0, 1, 1], [0, 0, 1]), claim=PureDP(1.0), draws=20_000)
    >>> str(report.verdict), report.epsilon.lower > report.epsilon.claimed
    ('violated', True)
    """
    started = time.perf_counter()
    _check(draws, delta, confidence, seed, test, jobs)
    subject = subject_of(mechanism, pair, claim, name=name)
    if test == "exact" and subject.log_ratio is None:
        raise InvalidValue("no likelihood ratio is known of this mechanism; use test='learned' or 'scan'")
    request = _Request(subject, test, int(draws), delta, 1 - confidence, seed, early_stop, progress)
    with DrawSource(subject, seed, jobs) as source:
        source.check_fresh()
        result = _first_look(request, source)
        if result is None or not result.alarm:
            result = _attack(request, source, None if result is None else result.outputs)
    value = judge(result.plan, result.tally, result.error, result.alarm)
    return AuditReport(
        subject.name,
        subject.claim,
        result.test,
        result.draws,
        delta,
        confidence,
        seed,
        value.epsilon,
        value.mu,
        value.accusation,
        value.accused_at,
        value.band,
        Verdict.VIOLATED if result.broken else value.verdict,
        result.draws < draws,
        time.perf_counter() - started,
    )


def _check(draws: object, delta: float, confidence: float, seed: object, test: str, jobs: object) -> None:
    whole("draws", draws, FEWEST)
    as_floats("delta", delta, 0.0, below=1.0)
    if not 0.5 <= confidence < 1:
        raise InvalidValue(f"confidence must be >= 0.5 and < 1. Got {confidence!r}")
    if seed is not None:
        whole("seed", seed, 0, None)
    if test not in TESTS:
        raise InvalidValue(f"test must be one of {', '.join(TESTS)}. Got {test!r}")
    whole("jobs", jobs, 1)


Outputs = tuple[Floats, Floats]


@dataclass(frozen=True, eq=False)
class _Request:
    """What was asked for."""

    subject: Subject
    test: str
    draws: int
    delta: float
    error: float
    seed: int | None
    early_stop: bool
    progress: Callable[[float], None] | None

    @property
    def exact(self) -> bool:
        return self.subject.log_ratio is not None and self.test in ("auto", "exact")

    @property
    def pilot(self) -> int:
        return max(int(self.draws * _PILOT[self.exact]), FEWEST // 2)

    def prepare(self, outputs: Outputs, draws: int) -> tuple[Score, AuditPlan]:
        """Return the score and the plan that a pilot suggests for `draws` more draws."""
        if self.exact and self.subject.log_ratio is not None:
            score, exact = exact_score(self.subject.log_ratio), True
            scores = score(outputs[0]), score(outputs[1])
            rival = rival_score(scores, *outputs) if self.test == "auto" else None
            if rival is not None:
                score, exact, scores = rival, False, (rival(outputs[0]), rival(outputs[1]))
        else:
            score, exact = best_score(*outputs, self.test, self.seed or 0), False
            scores = score(outputs[0]), score(outputs[1])
        return score, make_plan(self.subject.claimed, Pilot(*scores, exact), draws, self.delta, self.error)

    def tell(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done / self.draws)


@dataclass(frozen=True, eq=False)
class _Result:
    """Where an attack ended: what was counted, at which error probability, after how many draws."""

    test: str
    plan: AuditPlan
    tally: Tally
    error: float
    draws: int
    alarm: bool
    outputs: Outputs
    broken: bool = False
    """Whether an output was NaN or infinite: then nothing else matters."""


def _first_look(request: _Request, source: DrawSource) -> _Result | None:
    """Return a small audit of a few draws, which then go on to the pilot; None where they are too few to tell."""
    size = request.pilot if request.exact else request.draws // 16
    if not request.early_stop or size < FEWEST:
        return None
    outputs = source.take(size)
    if _broken(*outputs):
        return _not_a_number(request, outputs, size)
    half = size // 2
    score, plan = request.prepare((outputs[0][:half], outputs[1][:half]), half)
    tally = Tally.empty(plan).plus(plan, score(outputs[0][half:]), score(outputs[1][half:]))
    error = _FIRST * request.error
    request.tell(size)
    return _Result(score.name, plan, tally, error, size, alarming(plan, tally, error), outputs)


def _attack(request: _Request, source: DrawSource, seen: Outputs | None) -> _Result:
    """Return the audit proper: the rest of the pilot, a plan, and draws held to it until a look says stop."""
    if seen is None:
        outputs = source.take(request.pilot)
    elif request.pilot > len(seen[0]):
        more = source.take(request.pilot - len(seen[0]))
        outputs = np.concatenate([seen[0], more[0]]), np.concatenate([seen[1], more[1]])
    else:
        outputs = seen
    if _broken(*outputs):
        return _not_a_number(request, outputs, request.pilot)
    _refuse_constant(*outputs)
    counted = request.draws - request.pilot
    score, plan = request.prepare(outputs, counted)
    request.tell(request.pilot)
    tally, error, alarm = Tally.empty(plan), 0.0, False
    for share, spend in _LOOKS:
        here = int(share * counted)
        if here < min(FEWEST // 2, counted):  # too few to tell; and a program compiled for so many is used once
            continue
        for x, y in source.blocks(here - tally.draws):
            if _broken(x, y):
                return _not_a_number(request, (x, y), request.pilot + tally.draws + len(x))
            tally = tally.plus(plan, score(x), score(y))
            request.tell(request.pilot + tally.draws)
        error = spend * request.error
        alarm = (request.early_stop or share == 1.0) and alarming(plan, tally, error)
        if alarm:
            break
    return _Result(score.name, plan, tally, error, request.pilot + tally.draws, alarm, outputs)


def _broken(first: Floats, second: Floats) -> bool:
    return not (np.all(np.isfinite(first)) and np.all(np.isfinite(second)))


def _not_a_number(request: _Request, outputs: Outputs, draws: int) -> _Result:
    """Return the end of an audit that met a NaN or an infinity: no promise covers such a release.

    The bounds are those of telling the data sets apart by it: which half of the draws chose is not counted.
    """
    first, second = (not_finite(part) for part in outputs)
    half = max(1, len(first) // 2)
    plan = make_plan(request.subject.claimed, Pilot(first[:half], second[:half]), half, request.delta, request.error)
    counted = slice(half if len(first) > half else 0, None)
    tally = Tally.empty(plan).plus(plan, first[counted], second[counted])
    return _Result("outputs that are no finite number", plan, tally, request.error, draws, True, outputs, True)


def _refuse_constant(first: Floats, second: Floats) -> None:
    if np.all(first == first[0]) and np.all(second == first[0]):
        raise InvalidData(
            f"the mechanism returned the same value in all {2 * len(first)} draws, whatever the data: there is nothing "
            "to audit. Does it use the data and the generator it is given?"
        )
