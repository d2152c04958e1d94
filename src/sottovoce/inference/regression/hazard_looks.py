"""Adaptive looks at hazards: three noisy looks at score and information, each where the one before it points to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.inference.regression.adaptive_newton import Shown
from sottovoce.inference.regression.budget_allocation import Step
from sottovoce.inference.regression.coefficients import Coefficients
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.hazard_formula import HazardFormula
from sottovoce.inference.regression.hazard_posterior import HazardGlance, HazardPrior, followed
from sottovoce.inference.regression.look_posterior import LookPosterior
from sottovoce.inference.regression.released_look import ReleasedHazardLook
from sottovoce.mechanisms.single_threaded import one_thread
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import Promise
from sottovoce.records.facts import Facts, Flag, Number
from sottovoce.records.readings import HazardLook

__all__ = ["HazardLooks", "looks_of"]

_PLAN: tuple[Step, ...] = (
    (0.15, {"score": 0.6, "information": 0.4}),
    (0.25, {"score": 0.6, "information": 0.4}),
    (0.60, {"score": 0.7, "information": 0.3}),
)
"""Each look's share of ρ, and how it is split: as of regressions whose mean bends (`budget_allocation`)."""
_LIMITS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
"""Where follow-up may end, as the centre's cumulative hazard: later keeps more events and costs noise."""
_LONGEST, _LESS = 6.0, 0.3
"""A norm is no more than so many times the average row, and how much less noise the next look has."""
_UNLEARNED = 0.25
"""Where more of a wide prior's variance than this is left, the looks told next to nothing."""
_STARTS = 2048
_SIGNS = 1.0
"""g: a log hazard counts as much as a coordinate of z."""


@dataclass(frozen=True, eq=False)
class HazardLooks(AdaptiveLooks):
    """Look at a low, even hazard, look where that points to, look again; then say what the last look tells.

    The first look is at a hazard so low that nobody's follow-up is cut: it tells the events and the person-time of each
    interval. Coordinates, norm and centre of the others are functions of what was released, so that the whole is
    Σρₖ-zCDP, as of `AdaptiveLooks`.

    Parameters
    ----------
    system, n
        The `HazardFormula`, and how many records there are; None where that is a secret.
    rho
        What all looks cost together.
    """

    word: ClassVar[str] = "hazard looks"
    system: HazardFormula

    def __post_init__(self) -> None:
        if not isinstance(self.system, HazardFormula):
            raise InvalidValue(f"hazard looks take a HazardFormula. Got a {type(self.system).__name__}")
        super().__post_init__()

    @cached_property
    def plan(self) -> tuple[Step, ...]:
        """Each look's share of ρ, and how it is split."""
        return _PLAN

    @cached_property
    def reading(self) -> HazardLook:  # type: ignore[override]
        """The first look."""
        system = self.system
        J, rows = system.baseline, system.encoding.samples(_STARTS)
        about = rows.mean(axis=0)
        values, vectors = np.linalg.eigh(np.cov(rows.T, bias=True).reshape(len(about), -1))
        values = np.maximum(values, 1e-6 * values[-1])
        shape = (vectors / np.sqrt(values)) @ vectors.T
        centre = np.r_[np.full(J, self._low), np.zeros(len(about))]
        return system.hazard_look(self.n, centre, shape, about, _SIGNS, math.sqrt(1 + len(about)), 1.0)

    @property
    def _low(self) -> float:
        """The log of a hazard at which nobody's follow-up to the last cut is cut."""
        return -math.log(self.system.cuts[-1]) - 1e-9

    @property
    def prior(self) -> HazardPrior:
        """What is believed beforehand: half of all have the event about the last cut, give or take."""
        return HazardPrior(self._low, self.system.slope_sd)

    @classmethod
    def example(cls) -> Self:
        """Return a hazard regression of eight records on a flag."""
        facts = Facts(days=Number(0, 10), died=Flag(), old=Flag())
        return cls(HazardFormula("days ~ old", facts, event="died", cuts=(5, 10)), 8, 0.5)

    # The looks.

    def walk_all(self, shown: Sequence[Shown]) -> list[Any]:
        """Take the looks of several releases."""
        with one_thread():
            return [self._walked(item) for item in shown]

    def _walked(self, shown: Shown) -> list[ReleasedHazardLook]:
        path: list[ReleasedHazardLook] = []
        look: Any = self.reading
        for place, step in enumerate(self.plan):
            if place:
                look = self._next([HazardGlance(item) for item in path], step)
            scales = self.scales(look, step)
            total = shown(look, scales)
            path.append(ReleasedHazardLook(look, dict(scales), self.paid(look, scales) / self.rho, np.asarray(total)))
        return path

    def _next(self, glances: Sequence[HazardGlance], step: Step) -> HazardLook:
        """Return the look where these point to, in coordinates in which the rows at risk are round."""
        glance, (mean, _) = glances[-1], followed(glances, self.prior)
        theta = glance.back @ mean
        held, means, within, _ = glance.known
        J, total = len(held), float(held.sum())
        old = np.array(glance.look.shape)
        values, vectors = np.linalg.eigh(within)
        shape = ((vectors / np.sqrt(values + glance.tau / total)) @ vectors.T) @ old
        about = np.clip(np.array(glance.look.about) + np.linalg.solve(old, held @ means / total), -1.0, 1.0)
        b = np.linalg.solve(shape.T, theta[J:])
        centre = np.r_[np.clip(theta[:J] + theta[J:] @ about, -600.0, 600.0), b]
        length = math.sqrt(_SIGNS**2 + len(b))
        events = float(glance.expected(mean - glance.centre)[1][:J, :J].trace()) / glance.look.constant**2
        look = self.system.hazard_look(self.n, centre, shape, about, _SIGNS, length, 1.0)
        options = [(self._badness(look.of_limit(limit), step, events), limit) for limit in _LIMITS]
        look = look.of_limit(min(options)[1])
        noise = self._noise(look, step) ** 2 / max(events, 1e-300)
        room = float(np.clip((_LESS * noise) ** -0.17, 1.0, _LONGEST)) if noise > 0 else _LONGEST
        return look.of_norm(length * room)

    def _noise(self, look: HazardLook, step: Step) -> float:
        scales: Mapping[str, float] = self.scales(look, step)  # type: ignore[arg-type]
        return scales["score"] / look.factors[0]

    def _badness(self, look: HazardLook, step: Step, events: float) -> float:
        """Return the variance of a slope if follow-up ends so: of the share who have the event some have it later."""
        share = 0.5 if self.n is None else min(events / max(self.n, 1), 1.0)
        kept = events * (1 - share * math.exp(-look.limit))
        return (kept + self._noise(look, step) ** 2) / max(kept, 1e-300) ** 2

    # What they tell.

    def conclude_all(self, paths: Sequence[Any], care: Any = None) -> list[Coefficients]:
        """Return what the looks of several releases tell."""
        del care
        with one_thread():
            return [self._concluded(path) for path in paths]

    def _concluded(self, path: list[ReleasedHazardLook]) -> Coefficients:
        system, glances = self.system, [HazardGlance(item) for item in path]
        glance = glances[-1]
        mean, covariance, plain = glance.told(self.prior, *followed(glances, self.prior))
        A, b = system.units
        to_terms = A @ glance.back
        belief = LookPosterior(np.ones(1), mean[None], covariance[None]).mapped(to_terms, b)
        remaining = np.sqrt(np.diag(to_terms @ plain @ to_terms.T))
        remaining = np.minimum(remaining, np.sqrt(np.diag(belief.covariance)))
        J = system.baseline
        spread = to_terms[J:, J:]
        unlearned = np.diag(belief.covariance)[J:] / self.prior.slope_sd**2
        numbers = np.diag(spread @ spread.T)  # how far a column's slope goes for each direction of the rows
        unlearned = unlearned / np.where(system.encoding.ones, 1.0, numbers)
        hidden = np.r_[np.zeros(J, dtype=bool), unlearned > _UNLEARNED]
        remaining = np.where(hidden, math.nan, remaining)
        return Coefficients.from_belief(system, belief, remaining, looks=tuple(path))


def looks_of(formula: Formula, n: int | None, promise: Promise) -> AdaptiveLooks:
    """Return the looks that answer a formula, with the least noise that keeps a promise."""
    kind = HazardLooks if isinstance(formula, HazardFormula) else AdaptiveLooks
    return kind.calibrate(formula, n, promise)
