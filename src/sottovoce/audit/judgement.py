"""The judgement: a plan fixed on the pilot, a tally of the draws that count, and what the two together show."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sottovoce.audit.bounds import Counts, Epsilon, Excess, Measure, Mu, clopper_pearson, lower_bound
from sottovoce.audit.events import Pilot, Trial, accuse, choose
from sottovoce.audit.report import Band, Bound, Verdict
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile

__all__ = ["Judgement", "Plan", "Tally", "judge", "make_plan"]

_AUDITS = 200
"""An alarm is wrong so seldom that this many audits together keep the confidence."""
_THRESHOLDS = 48
"""Points of the trade-off band."""


@dataclass(frozen=True, eq=False)
class Plan:
    """All that is fixed before the draws that count: an event each for ε and μ, accusations, points of the curve."""

    epsilon: Trial
    mu: Trial
    accusations: tuple[Trial, ...]
    thresholds: Floats

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All events that are counted."""
        return self.epsilon, self.mu, *self.accusations


def make_plan(claim: Profile, pilot: Pilot, draws: int, delta: float, error: float) -> Plan:
    """Return the plan that a pilot suggests for `draws` more draws."""
    accusations = [accuse(claim, replace(pilot, exact=False))]
    if pilot.exact:
        accusations.append(accuse(claim, pilot))
    return Plan(
        choose(Epsilon(delta), pilot, draws, error),
        choose(Mu(), pilot, draws, error),
        tuple(accusations),
        pilot.thresholds(_THRESHOLDS),
    )


@dataclass(frozen=True, eq=False)
class Tally:
    """How often each event of a plan has happened so far."""

    draws: int
    counts: tuple[Counts, ...]
    below: Floats
    """For each data set, how many scores are at most each threshold of the curve."""

    @staticmethod
    def empty(plan: Plan) -> Tally:
        """Return the tally of no draws."""
        return Tally(0, tuple(Counts(0, 0, 0, 0) for _ in plan.trials), np.zeros((2, plan.thresholds.size)))

    def plus(self, plan: Plan, first: Floats, second: Floats) -> Tally:
        """Return the tally with the scores of more draws from both data sets."""
        counts = tuple(c + t.event.count(first, second) for c, t in zip(self.counts, plan.trials, strict=True))
        below = [np.searchsorted(np.sort(scores), plan.thresholds, side="right") for scores in (first, second)]
        return Tally(self.draws + first.size, counts, self.below + np.array(below))


@dataclass(frozen=True)
class Judgement:
    """The bounds, and whether one exceeds the claim beyond doubt."""

    epsilon: Bound
    mu: Bound
    accusation: Bound
    accused_at: float
    band: Band
    alarm: bool

    @property
    def verdict(self) -> Verdict:
        """Whether the claim survived."""
        if self.alarm:
            return Verdict.VIOLATED
        doubts = (self.epsilon.exceeded, self.mu.exceeded, self.accusation.exceeded)
        return Verdict.DOUBTFUL if any(doubts) else Verdict.HOLDS


@dataclass(frozen=True)
class _Held:
    """A trial with its counts, held against the claim."""

    trial: Trial
    counts: Counts
    claimed: float

    def at(self, error: float) -> Bound:
        bound = lower_bound(self.trial.measure, self.counts, error, self.trial.weights)
        return Bound(max(bound, 0.0), self.claimed)


def judge(plan: Plan, tally: Tally, claim: Profile, error: float) -> Judgement:
    """Return what the tally shows, each bound wrong with probability at most `error`.

    The alarm, which looks at all bounds at once, is wrong with probability at most `error` / 200.
    """
    held = [_Held(t, c, _claimed(claim, t.measure)) for t, c in zip(plan.trials, tally.counts, strict=True)]
    epsilon, mu, *accusations = held
    # The worst of several accusations is shown, so they share the error probability.
    share = error / len(accusations)
    worst = max(accusations, key=lambda each: each.at(share).lower - each.claimed)
    strict = error / (_AUDITS * len(held))
    return Judgement(
        epsilon.at(error),
        mu.at(error),
        worst.at(share),
        _accused_at(worst.trial.measure),
        _band(plan, tally, error),
        any(each.at(strict).exceeded for each in held),
    )


def _accused_at(measure: Measure) -> float:
    return measure.epsilon if isinstance(measure, Excess) else 0.0


def _claimed(claim: Profile, measure: Measure) -> float:
    match measure:
        case Epsilon(delta):
            return float(claim.epsilon(delta))
        case Excess(epsilon):
            return float(claim.delta(epsilon))
        case _:
            return float(claim.gdp())


def _band(plan: Plan, tally: Tally, error: float) -> Band:
    """Return Clopper–Pearson bounds at every threshold that hold together (Bonferroni)."""
    n, below = tally.draws, tally.below[:, ::-1]
    each = error / (4 * plan.thresholds.size)
    fnr_low, fnr_high = clopper_pearson(below[0], n, each)
    fpr_low, fpr_high = clopper_pearson(n - below[1], n, each)
    return Band((n - below[1]) / n, below[0] / n, fpr_low, fpr_high, fnr_low, fnr_high)
