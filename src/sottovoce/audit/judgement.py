"""The judgement: a plan fixed on the pilot, a tally of the draws that count, and what the two together show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sottovoce.audit.bounds import Counts, Epsilon, Excess, Mu, clopper_pearson, counted, exceeded, lower_bound
from sottovoce.audit.events import Claimed, Pilot, Trial, accuse, choose
from sottovoce.audit.report import Band, Bound, Verdict
from sottovoce.privacy.numbers import Floats

_AUDITS = 200
"""An alarm is wrong so seldom that this many audits together keep the confidence."""
_THRESHOLDS = 48
"""Points of the trade-off band."""


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """All that is fixed before the draws that count: events to count, and points of the trade-off curve."""

    trials: tuple[Trial, ...]
    """The event for ε, the one for μ, and one or two accusations."""
    claimed: tuple[float, ...]
    """What is claimed of each: ε, μ, δ."""
    thresholds: Floats


def make_plan(claim: Claimed, pilot: Pilot, draws: int, delta: float, error: float) -> AuditPlan:
    """Return the plan that a pilot suggests for `draws` more draws."""
    ways = (True, False) if pilot.exact else (True,)
    accusations = [accuse(claim.points, pilot, counting=counting) for counting in ways]
    trials = choose(Epsilon(delta), pilot, draws, error), choose(Mu(), pilot, draws, error)
    return AuditPlan(
        (*trials, *(trial for trial, _ in accusations)),
        (claim.epsilon(delta), claim.mu, *(most for _, most in accusations)),
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
    def empty(plan: AuditPlan) -> Tally:
        """Return the tally of no draws."""
        return Tally(0, tuple(Counts(0, 0, 0, 0) for _ in plan.trials), np.zeros((2, plan.thresholds.size)))

    def plus(self, plan: AuditPlan, first: Floats, second: Floats) -> Tally:
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


def _bounds(plan: AuditPlan, tally: Tally, error: float, some: slice = slice(None)) -> list[Bound]:
    """Return the bound that each trial, or each of some, gives, wrong with probability at most `error`."""
    held = zip(plan.trials[some], tally.counts[some], plan.claimed[some], strict=True)
    return [Bound(max(float(lower_bound(t.measure, c, error, t.weights)), 0.0), most) for t, c, most in held]


def alarming(plan: AuditPlan, tally: Tally, error: float) -> bool:
    """Say whether any bound exceeds its claim beyond doubt; wrong with probability at most `error` / 200."""
    each = error / (_AUDITS * len(plan.trials))
    held = zip(plan.trials, tally.counts, plan.claimed, strict=True)
    # At so small an error no bound lies above what was counted: where that is within the claim, none is needed.
    return any(counted(t.measure, c) > most and exceeded(t.measure, c, each, t.weights, most) for t, c, most in held)


def judge(plan: AuditPlan, tally: Tally, error: float, alarm: bool) -> Judgement:
    """Return what the tally shows, each bound wrong with probability at most `error`, and whether it was `alarming`."""
    epsilon, mu = _bounds(plan, tally, error, slice(2))
    # The worst of several accusations is shown, so they share the error probability.
    accusations = _bounds(plan, tally, error / (len(plan.trials) - 2), slice(2, None))
    worst = max(range(len(accusations)), key=lambda k: accusations[k].lower - accusations[k].claimed)
    measure = plan.trials[2 + worst].measure
    accused_at = measure.epsilon if isinstance(measure, Excess) else 0.0
    return Judgement(epsilon, mu, accusations[worst], accused_at, _band(plan, tally, error), alarm)


def _band(plan: AuditPlan, tally: Tally, error: float) -> Band:
    """Return Clopper–Pearson bounds at every threshold that hold together (Bonferroni)."""
    n, below = tally.draws, tally.below[:, ::-1]
    each = error / (4 * plan.thresholds.size)
    fnr_low, fnr_high = clopper_pearson(below[0], n, each)
    fpr_low, fpr_high = clopper_pearson(n - below[1], n, each)
    return Band((n - below[1]) / n, below[0] / n, fpr_low, fpr_high, fnr_low, fnr_high)
