"""Faults of the looks of a regression: each sensitivity understated, weights left out, looks that nobody pays for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from audit.faults import Patch, fault
from sottovoce.inference.regression import adaptive_looks
from sottovoce.inference.regression import budget_allocation as shares
from sottovoce.inference.regression.adaptive_looks import AdaptiveLooks
from sottovoce.records.readings import Look, binary_families, families

MOVES, COST = "no record moves a look farther than its noise is made for", "looks cost together what is charged"


@fault("a score whose label may turn, but not its row", "looks", MOVES)
def _labels_only(patch: Patch) -> None:
    patch.setattr(binary_families._Binary, "apart", lambda self, near, far: self.bound(far))


def _understated(patch: Patch, part: str) -> None:
    honest = Look.joint

    def joint(self, scales):
        return honest(self, {name: scale * (math.sqrt(2) if name == part else 1) for name, scale in scales.items()})

    patch.setattr(Look, "joint", joint)


@fault("information as if a record came and none went", "looks", MOVES)
def _information(patch: Patch) -> None:
    _understated(patch, "information")


@fault("a score's variation as if a record came and none went", "looks", MOVES)
def _meat(patch: Patch) -> None:
    _understated(patch, "meat")


@fault("classes that never move apart", "looks", MOVES)
def _together(patch: Patch) -> None:
    honest = families.MultinomialFamily.reach

    def reach(self, predictors, norm):
        return np.minimum(honest(self, predictors, norm), honest(self, predictors[:1].repeat(len(predictors), 0), norm))

    patch.setattr(families.MultinomialFamily, "reach", reach)


@fault("long rows at full weight", "looks", MOVES)
def _unweighed(patch: Patch) -> None:
    honest = Look.contributions

    def contributions(self, rows, y):
        wide = replace(self, norm=100 * self.norm, bits=20)
        w, roots = honest(wide, rows, y)
        pull, lean = (a / b for a, b in zip(self.factors, wide.factors, strict=True))
        return np.rint(w * pull), [np.rint(u * lean) for u in roots]

    patch.setattr(Look, "contributions", contributions)


@fault("rows twice as long with the residuals of shorter ones", "looks", MOVES)
def _near(patch: Patch) -> None:
    patch.setattr(Look, "_far", property(lambda self: self.reach))


@fault("information as if no row were longer than the norm", "looks", MOVES)
def _short(patch: Patch) -> None:
    honest = Look.factors.fget

    def factors(self):
        pull, lean = honest(self)
        return pull, lean * math.sqrt(self.model.stretch)

    patch.setattr(Look, "factors", property(factors))


@fault("the least information of a score's length taken for the most", "looks", MOVES)
def _least(patch: Patch) -> None:
    honest = binary_families._Binary.information_ranges

    def ranges(self, far, edges):
        least, _ = honest(self, far, edges)
        return least, least

    patch.setattr(binary_families._Binary, "information_ranges", ranges)


@fault("rounding left out of a look's sensitivity", "looks", MOVES)
def _unrounded(patch: Patch) -> None:
    patch.setattr(Look, "_rounding", property(lambda self: 0.0))


@fault("what is cut off with the noise of half of it", "looks", MOVES)
def _half_beyond(patch: Patch) -> None:
    honest = families.LinearFamily.bound
    patch.setattr(families.LinearFamily, "bound", lambda self, reach: honest(self, reach) / (2 if self.beyond else 1))


@fault("every look at the price of all", "adaptive looks", COST)
def _whole_price(patch: Patch) -> None:
    honest = AdaptiveLooks.scales
    patch.setattr(AdaptiveLooks, "scales", lambda self, look, step: honest(self, look, (1.0, step[1])))


@fault("a second look that takes nothing from the last", "adaptive looks", COST)
def _twice(patch: Patch) -> None:
    honest = AdaptiveLooks.plan.func

    def plan(self):
        *first, (share, parts) = honest(self)
        return *first, (share + 0.15, parts)

    patch.setattr(AdaptiveLooks, "plan", property(plan))


@fault("a look at what is cut off that nobody pays for", "adaptive looks", COST)
def _unpaid_tails(patch: Patch) -> None:
    honest = shares.steps

    def steps(*given):
        *first, (share, parts) = honest(*given)
        return *first, (share + shares.TAILS[0] * (shares.TAILS in first), parts)

    patch.setattr(adaptive_looks, "steps", steps)


@fault("a look at how counts vary that nobody pays for", "adaptive looks", COST)
def _unpaid(patch: Patch) -> None:
    honest = shares.steps

    def steps(*given):
        *first, (_, parts) = honest(*given)
        return *first, (1 - sum(step[0] for step in first if "score" in step[1]), parts)

    patch.setattr(adaptive_looks, "steps", steps)
