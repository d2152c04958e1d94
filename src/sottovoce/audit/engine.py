"""The audit: draw, choose a test, and bound what the mechanism leaks with draws that the choice never saw."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sottovoce.audit.drawing import Source
from sottovoce.audit.events import Pilot
from sottovoce.audit.judgement import Tally, alarming, judge, make_plan
from sottovoce.audit.report import AuditReport
from sottovoce.audit.scores import TESTS, Score, best_score, exact_score
from sottovoce.audit.subject import Subject, subject_of
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats, as_floats

__all__ = ["FEWEST", "audit"]

FEWEST = 1000
"""Fewer draws than this say next to nothing."""
_PILOT = {True: 0.05, False: 0.5}
"""The share of draws spent on choosing: little where the likelihood ratio is known, half where a score is learned."""
_LOOKS = ((1 / 16, 0.05), (1 / 4, 0.05), (1.0, 0.9))
"""When to look, as a share of the draws that count, and the share of the error probability each look may use."""


def audit(
    mechanism: Any,
    pair: tuple[Any, Any] | None = None,
    claim: Any = None,
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

    Part of the draws choose the test; the rest are held to it. The bounds are valid whatever the score, the pair and
    the mechanism are: a better attack only raises them.

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
    >>> from sottovoce.systems import BetaBernoulli
    >>> report = audit(DirectPosterior(BetaBernoulli(6, 12), n=100), draws=50_000)
    >>> str(report.verdict), report.epsilon.lower < report.epsilon.claimed
    ('holds', True)

    A function that adds half the noise its promise needs:

    >>> from sottovoce.privacy.promises import PureDP
    >>> def noisy_sum(data, rng, draws):
    ...     return sum(data) + rng.laplace(scale=0.5, size=draws)
    >>> report = audit(noisy_sum, pair=([0, 1, 1], [0, 0, 1]), claim=PureDP(1.0), draws=20_000)
    >>> str(report.verdict), report.epsilon.lower > 1.5
    ('violated', True)
    """
    started = time.perf_counter()
    _check(draws, delta, confidence, seed, test, jobs)
    subject = subject_of(mechanism, pair, claim, name=name)
    if test == "exact" and subject.log_ratio is None:
        raise InvalidValue("no likelihood ratio is known of this mechanism; use test='learned' or 'scan'")
    exact = subject.log_ratio is not None and test in ("auto", "exact")
    chosen = max(int(draws * _PILOT[exact]), FEWEST // 2)
    tell = progress or (lambda fraction: None)
    with Source(subject, seed, jobs) as source:
        first, second = source.take(chosen)
        _refuse_constant(first, second)
        score = _score(subject, test, first, second, seed or 0)
        pilot = Pilot(score(first), score(second), exact)
        plan = make_plan(subject.claim, pilot, draws - chosen, delta, 1 - confidence)
        tell(chosen / draws)
        tally, looked = Tally.empty(plan), 0
        for share, spend in _LOOKS:
            upto = int(share * (draws - chosen))
            for x, y in source.blocks(upto - looked):
                tally = tally.plus(plan, score(x), score(y))
                tell((chosen + tally.draws) / draws)
            looked = upto
            if early_stop and share < 1 and alarming(plan, tally, spend * (1 - confidence)):
                break
        found = judge(plan, tally, spend * (1 - confidence))
    return AuditReport(
        subject.name,
        subject.claim,
        score.name,
        chosen + looked,
        delta,
        confidence,
        seed,
        found.epsilon,
        found.mu,
        found.accusation,
        found.accused_at,
        found.band,
        found.verdict,
        share < 1.0,
        time.perf_counter() - started,
    )


def _check(draws: Any, delta: float, confidence: float, seed: Any, test: str, jobs: Any) -> None:
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < FEWEST:
        raise InvalidValue(f"draws must be a whole number >= {FEWEST}: fewer show nothing. Got {draws!r}")
    as_floats("delta", delta, 0.0, below=1.0)
    if not 0.5 <= confidence < 1:
        raise InvalidValue(f"confidence must be >= 0.5 and < 1. Got {confidence!r}")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
        raise InvalidValue(f"seed must be a whole number >= 0, or None for secure randomness. Got {seed!r}")
    if test not in TESTS:
        raise InvalidValue(f"test must be one of {', '.join(TESTS)}. Got {test!r}")
    if isinstance(jobs, bool) or not isinstance(jobs, int | np.integer) or jobs < 1:
        raise InvalidValue(f"jobs must be a whole number >= 1. Got {jobs!r}")


def _refuse_constant(first: Floats, second: Floats) -> None:
    if np.all(first == first[0]) and np.all(second == first[0]):
        raise InvalidData(
            f"the mechanism returned the same value in all {2 * len(first)} draws, whatever the data: there is nothing "
            "to audit. Does it use the data and the generator it is given?"
        )


def _score(subject: Subject, test: str, first: Floats, second: Floats, seed: int) -> Score:
    if subject.log_ratio is not None and test in ("auto", "exact"):
        return exact_score(subject.log_ratio)
    return best_score(first, second, test, seed)
