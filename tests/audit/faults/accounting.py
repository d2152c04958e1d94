"""Faults of composition, conversion and filters."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from audit.faults import Patch, fault
from sottovoce.privacy import composition
from sottovoce.privacy import privacy_loss_distribution as losses
from sottovoce.privacy.composition import ComposedProfile
from sottovoce.privacy.discrete_gaussian import DiscreteGaussianProfile
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.pure import BoundedRangeProfile

COMPOSITION, FILTERS = "composition covers the joint law", "filters stop before the budget is broken"
TINY, ORDERS = "composed curves hold where δ is tiny", "Rényi curves never fall, at any order"
COSTS = "no cost gives budget back"


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
    patch.setattr(ComposedProfile, "of", staticmethod(compose))


@fault("δ of the budget counted twice", "filter", FILTERS)
def _delta_twice(patch: Patch) -> None:
    from sottovoce.privacy.promises import ApproxDP

    honest = ApproxDP.allowance
    patch.setattr(ApproxDP, "allowance", lambda self, order: honest(self, order) - math.log(self.delta) / (order - 1))


@fault("μ² turned into (ε, δ) by its mean loss alone", "filter", FILTERS)
def _mean_loss(patch: Patch) -> None:
    patch.setattr("sottovoce.privacy.promises.gaussian_allowance", lambda epsilon, delta: 2 * epsilon)


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


@fault("mass above the window of a transform forgotten", "composition", TINY)
def _cut(patch: Patch) -> None:
    honest = losses._window

    def window(parts, counts, step, tilt):
        first, length, _ = honest(parts, counts, step, tilt)
        return first, length, -math.inf

    patch.setattr(losses, "_TAIL", 2.0)
    patch.setattr(losses, "_window", window)


@fault("losses rounded down to the grid", "composition", TINY)
def _down(patch: Patch) -> None:
    honest = losses.discretise

    def discretise(profile, step, reach, *, back=False):
        part = honest(profile, step, reach, back=back)
        return losses.Losses(part.index - 1, part.log_mass, part.infinity)

    patch.setattr(composition, "discretise", discretise)


@fault("one shallow tilt, its error forgotten and its small masses cut", "composition", TINY)
def _shallow(patch: Patch) -> None:
    honest = losses._convolve

    def convolve(parts, counts, step, tilt, length):
        law, scale, _, rounding = honest(parts, counts, step, tilt, length)
        return np.where(law > 1e-9 * law.max(), law, 0.0), scale, 0.0, rounding

    patch.setattr(losses, "_DEPTHS", (0.5,))
    patch.setattr(losses, "_convolve", convolve)


@fault("bounded range: the place of the window lost to rounding", "Rényi curve", ORDERS)
def _window_lost(patch: Patch) -> None:
    def renyi(self, order):
        eta, gap = self.width, np.maximum(order - 1, 1e-12)
        u = np.clip(np.log(gap) - np.log1p(gap) + eta, 0.0, eta)
        share = -np.expm1(u - eta) / -np.expm1(-eta)
        with np.errstate(divide="ignore"):
            return np.maximum(np.logaddexp(np.log(share) + gap * u, np.log1p(-share) + gap * (u - eta)) / gap, 0.0)

    patch.setattr(BoundedRangeProfile, "_renyi", renyi)


@fault("discrete Gaussian: the dip divided by a gap it does not know", "Rényi curve", ORDERS)
def _dip(patch: Patch) -> None:
    def renyi(self, order):
        offset, k = ((order - 1) * self.sensitivity) % 1, np.arange(-20, 21)
        shifted = special.logsumexp(-((k - offset[..., None]) ** 2) / (2 * self.scale**2), axis=-1)
        dip = shifted - special.logsumexp(-(k**2) / (2 * self.scale**2))
        return order * self.zcdp() + dip / np.maximum(order - 1, 1e-300)

    patch.setattr(DiscreteGaussianProfile, "_renyi", renyi)


@fault("any order opens a budget", "promises", ORDERS)
def _any_order(patch: Patch) -> None:
    patch.setattr("sottovoce.privacy.promises.check_order", lambda order, error=None: None)


@fault("a negative cost taken by the filter", "filter", COSTS)
def _refund(patch: Patch) -> None:
    patch.setattr("sottovoce.privacy.filter.checked_cost", lambda cost: cost)


@fault("a negative cost taken by the ledger", "ledger", COSTS)
def _ledger_refund(patch: Patch) -> None:
    patch.setattr("sottovoce.service.ledger.charging.checked_cost", lambda cost: cost)
