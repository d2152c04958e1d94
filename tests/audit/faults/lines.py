"""Faults of minibatches, near neighbours, Gibbs posteriors, chains' distances, couplings and declared constants."""

from __future__ import annotations

from audit.faults import Patch, fault
from sottovoce.inference.regression import certified_distance as nearness
from sottovoce.inference.regression import gibbs_rules, potential
from sottovoce.mechanisms.conjugate import BetaBernoulli
from sottovoce.theory.amplification import convex_sets, densities
from sottovoce.theory.amplification.minibatch import MinibatchSGD
from sottovoce.theory.metric import approximate

MINIBATCHES, NEAR = "minibatches cost their curve", "near neighbours cost what is claimed"
GIBBS, CHAINS = "Gibbs posteriors cost what is claimed", "a chain is as near as it says"
COUPLINGS, WORD = "couplings of densities cover the divergence", "no projection or constant is taken at its word"


@fault("a record of a minibatch that comes, and none that goes", "minibatch SGD", MINIBATCHES)
def _half_mu(patch: Patch) -> None:
    honest = MinibatchSGD.mu.fget
    patch.setattr(MinibatchSGD, "mu", property(lambda self: honest(self) / 2))


@fault("gradients of a minibatch divided by all records in the claim", "minibatch SGD", MINIBATCHES)
def _all_records(patch: Patch) -> None:
    honest = MinibatchSGD.mu.fget
    patch.setattr(MinibatchSGD, "mu", property(lambda self: honest(self) * self.batch / self.n))


@fault("near shares hidden among records that are not there", "near neighbours", NEAR)
def _crowd(patch: Patch) -> None:
    honest = BetaBernoulli._near_profile
    patch.setattr(BetaBernoulli, "_near_profile", lambda self, n, *rest: honest(self, 100 * n, *rest))


@fault("a distance taken for its half", "near neighbours", NEAR)
def _half_way(patch: Patch) -> None:
    honest = approximate.profile_within
    patch.setattr(approximate, "profile_within", lambda system, n, distance: honest(system, n, distance / 2))


@fault("the slope of one record, not the difference of two", "Gibbs posteriors", GIBBS)
def _one_slope(patch: Patch) -> None:
    honest = gibbs_rules.gibbs_profile
    patch.setattr(gibbs_rules, "gibbs_profile", lambda b, L, m, **more: honest(b, L / 2, m, **more))


@fault("convexity of the loss counted twice", "Gibbs posteriors", GIBBS)
def _twice(patch: Patch) -> None:
    honest = gibbs_rules.gibbs_profile
    patch.setattr(gibbs_rules, "gibbs_profile", lambda b, L, m, *, n, **more: honest(b, L, m, n=2 * n, **more))


@fault("the smoothing of a kink forgotten", "distance of a chain", CHAINS)
def _no_gap(patch: Patch) -> None:
    honest = nearness.chain_distance
    patch.setattr(nearness, "chain_distance", lambda chain, d, pull, gap: honest(chain, d, pull))


@fault("a chain of any length taken for a converged one", "distance of a chain", CHAINS)
def _converged(patch: Patch) -> None:
    from dataclasses import replace

    honest = nearness.chain_distance
    patch.setattr(
        nearness, "chain_distance", lambda chain, *rest, **more: honest(replace(chain, n_steps=9**9), *rest, **more)
    )


@fault("every point coupled with itself", "couplings of densities", COUPLINGS)
def _stay(patch: Patch) -> None:
    # What it comes to, at once: nothing lies between a point and itself, and no box need be cut to see it.
    patch.setattr(densities._Coupling, "over", lambda self, a, b: (0.0, 0.0))


@fault("projections taken at their word", "convex sets", WORD)
def _any_map(patch: Patch) -> None:
    patch.setattr(convex_sets, "_spot_check", lambda own: 0.0)


@fault("constants of a loss taken at their word", "losses of one's own", WORD)
def _any_constant(patch: Patch) -> None:
    patch.setattr(potential, "_spot_check", lambda loss, dimension: None)
