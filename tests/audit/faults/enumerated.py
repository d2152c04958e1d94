"""Faults of choices, chains, subsampling, slacks, families and declared sensitivities."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from audit.faults import Patch, fault
from sottovoce.mechanisms import ChoiceChain, ExponentialChoice
from sottovoce.mechanisms.conjugate.exponential_family import ExponentialFamily
from sottovoce.privacy import composition, subsampled
from sottovoce.privacy.approximate_sampling import SlackProfile
from sottovoce.privacy.subsampled import SubsampledProfile
from sottovoce.records.readings import functions

PARTS = "a part of the records costs its curve"


@fault("a window for the score alone, not for both ways", "exponential choice", "finite choices keep their window")
def _one_way(patch: Patch) -> None:
    honest = ExponentialChoice.log_weights
    patch.setattr(ExponentialChoice, "log_weights", lambda self, seen: [2 * w for w in honest(self, seen)])


@fault("subsampling by the linear rule", "subsampled profiles", PARTS)
def _linear(patch: Patch) -> None:
    patch.setattr(SubsampledProfile, "_before", lambda self, epsilon: epsilon / self.rate)
    patch.setattr(SubsampledProfile, "pure", lambda self: self.rate * self.one.pure())


@fault("the law of a record less taken for that of a record more", "composition", PARTS)
def _other_way_round(patch: Patch) -> None:
    honest = composition.discretise
    patch.setattr(composition, "discretise", lambda *args, back=False: honest(*args, back=True))


@fault("the integral of a curve ended half-way", "subsampled profiles", PARTS)
def _ended(patch: Patch) -> None:
    honest = subsampled.spaced_by_log_delta
    patch.setattr(subsampled, "spaced_by_log_delta", lambda log_delta, end: honest(log_delta, end / 2))
    patch.setattr(SubsampledProfile, "pure", lambda self: math.inf)
    patch.setattr(SubsampledProfile, "_log_beyond", lambda self, order, end: np.full(order.shape, -np.inf))


@fault("a part taken for half of what it is", "chain of choices", PARTS)
def _half_a_part(patch: Patch) -> None:
    honest = ChoiceChain._step
    smaller = property(lambda self: self.part / 2)
    patch.setattr(
        ChoiceChain, "_step", lambda self, window: replace(honest(self, window), rate=smaller.fget(self) / self.n)
    )


@fault("a slack charged to one of two laws", "approximate samplers", "a slack is charged to both laws")
def _one_slack(patch: Patch) -> None:
    def once(self, epsilon):
        return np.logaddexp(self.one._log_delta(epsilon), math.log(self.slack) + epsilon)

    patch.setattr(SlackProfile, "_sum", once)


@fault("the other records forgotten", "exponential families", "a proven search is never below brute force")
def _no_others(patch: Patch) -> None:
    honest = ExponentialFamily._search

    def search(self, n, data_weight, prior_weight):
        found = honest(self, n, data_weight, prior_weight)
        return replace(found, low=found.high)

    patch.setattr(ExponentialFamily, "_search", search)


@fault("declared sensitivities taken at their word", "functions of a table", "declared sensitivities are tried")
def _untried(patch: Patch) -> None:
    patch.setattr(functions, "spot_check", lambda reading, n, sensitivity, norm: None)
