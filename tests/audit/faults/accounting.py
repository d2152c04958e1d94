"""Faults of composition, conversion and filters."""

from __future__ import annotations

import math

import numpy as np

from audit.faults import Patch, fault
from sottovoce.privacy import composition
from sottovoce.privacy.composition import ComposedProfile
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.gaussian import GaussianProfile

COMPOSITION, FILTERS = "composition covers the joint law", "filters stop before the budget is broken"


@fault("Rényi curves not summed but the largest taken", "composition", COMPOSITION)
def _largest(patch: Patch) -> None:
    patch.setattr(ComposedProfile, "_renyi", lambda self, order: np.max([p._renyi(order) for p in self.parts], axis=0))


@fault("repetitions forgotten in the privacy-loss distribution", "composition", COMPOSITION)
def _once(patch: Patch) -> None:
    patch.setattr(ComposedProfile, "_each", lambda self: zip(self.parts, [1] * len(self.parts), strict=True))


@fault("μ of Gaussians averaged", "composition", COMPOSITION)
def _averaged(patch: Patch) -> None:
    honest = composition.compose

    def compose(profiles, counts=None):
        if all(isinstance(p, GaussianProfile) for p in profiles):
            return GaussianProfile(math.sqrt(sum(p.mu**2 for p in profiles) / len(profiles)))
        return honest(profiles, counts)

    patch.setattr(composition, "compose", compose)


@fault("δ of the budget counted twice", "filter", FILTERS)
def _delta_twice(patch: Patch) -> None:
    from sottovoce.privacy import filter as filters

    honest = filters.renyi_allowance
    patch.setattr(
        filters, "renyi_allowance", lambda budget, order: honest(budget, order) - math.log(budget.delta) / (order - 1)
    )


@fault("earlier releases forgotten", "filter", FILTERS)
def _forgetful(patch: Patch) -> None:
    honest = PrivacyFilter.fits
    patch.setattr(PrivacyFilter, "fits", lambda self, cost: honest(PrivacyFilter(self.budget, self.order), cost))


@fault("costs squared before they are added", "filter", FILTERS)
def _squared(patch: Patch) -> None:
    honest = PrivacyFilter.cost

    def cost(self, profile):
        return honest(self, profile) ** 2

    patch.setattr(PrivacyFilter, "cost", cost)
