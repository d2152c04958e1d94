"""Faults of kernels, iterations, diffusions and conversions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from audit.faults import Patch, fault
from sottovoce.mechanisms import ChoiceChain
from sottovoce.privacy import concentrated
from sottovoce.privacy import renyi_conversion as convert
from sottovoce.privacy.laplace import DiscreteLaplaceProfile
from sottovoce.privacy.pure import BoundedRangeProfile, PureProfile
from sottovoce.theory.amplification import iteration, mixing
from sottovoce.theory.amplification.diffusion import OrnsteinUhlenbeck
from sottovoce.theory.amplification.kernels import FiniteKernel

KERNELS, COEFFICIENTS = (
    "what a kernel leaves covers the law behind it",
    "coefficients of a kernel are those of its rows",
)
LATER, DIFFUSIONS = "later steps hide no more than their law does", "a diffusion carries the noise that it claims"
CONVERTED, RESPONSES = "a converted claim covers the mechanism it is of", "windows and levels cover randomized response"
INTEGERS, CHAIN = "noise on the integers costs what its sum says", "a chain's steps weigh scores by their window"


@fault("the tilt of a coefficient by the square of δ", "amplification by mixing", KERNELS)
def _tilted(patch: Patch) -> None:
    honest = mixing.tilted
    patch.setattr(mixing, "tilted", lambda epsilon, log_delta: honest(epsilon, 2 * log_delta))


@fault("the mean of all pairs of rows, not the worst", "kernels", COEFFICIENTS, KERNELS)
def _mean_pair(patch: Patch) -> None:
    def spread(self, epsilon):
        scale = np.exp(np.ravel(epsilon))[:, None, None, None]
        gaps = np.maximum(self.matrix[:, None, :] - scale * self.matrix[None, :, :], 0.0).sum(axis=-1)
        return gaps.mean(axis=(1, 2)).reshape(np.shape(epsilon))

    patch.setattr(FiniteKernel, "spread", spread)


@fault("the part that all rows share taken two rows at a time", "kernels", COEFFICIENTS)
def _pairwise(patch: Patch) -> None:
    patch.setattr(FiniteKernel, "doeblin", property(lambda self: self.dobrushin))


@fault("a kernel's level in halves", "kernels", COEFFICIENTS, KERNELS)
def _half_level(patch: Patch) -> None:
    honest = FiniteKernel.level.func
    patch.setattr(FiniteKernel, "level", property(lambda self: honest(self) / 2))


@fault("steps that drive apart taken for steps that keep", "amplification by iteration", LATER)
def _apart(patch: Patch) -> None:
    honest = iteration.shift_mu
    patch.setattr(iteration, "shift_mu", lambda shift, L, noise, later: honest(shift, min(L, 1.0), noise, later))


@fault("every later step hides a share of its own", "amplification by iteration", LATER)
def _one_more(patch: Patch) -> None:
    honest = iteration.thesis_mu
    patch.setattr(iteration, "thesis_mu", lambda b, L, s, later: honest(b, L, s, 2 * np.asarray(later, dtype=float)))


@fault("the noise of a free path under a pull", "diffusions", DIFFUSIONS)
def _no_pull(patch: Patch) -> None:
    honest = OrnsteinUhlenbeck._law
    free = {"rate": 0.0}
    patch.setattr(
        OrnsteinUhlenbeck, "_law", lambda self, time: (honest(self, time)[0], honest(replace(self, **free), time)[1])
    )


@fault("a Rényi order's own factor squared", "conversions", CONVERTED)
def _squared_factor(patch: Patch) -> None:
    honest = convert._log_delta_at
    patch.setattr(convert, "_log_delta_at", lambda renyi, order, epsilon: honest(renyi, order, epsilon) - np.log(order))


@fault("ρ taken for the divergence at order 2", "conversions", CONVERTED)
def _half_rho(patch: Patch) -> None:
    patch.setattr(concentrated.ZeroConcentratedProfile, "_renyi", lambda self, order: order * self.rho / 2)


@fault("a window's ρ of a sixteenth of its square", "bounded range", RESPONSES)
def _sixteenth(patch: Patch) -> None:
    patch.setattr(BoundedRangeProfile, "zcdp", lambda self: self.width**2 / 16)


@fault("a window that lies about the middle", "bounded range", RESPONSES)
def _about_zero(patch: Patch) -> None:
    patch.setattr(
        BoundedRangeProfile, "_log_delta", lambda self, epsilon: PureProfile(self.width / 2)._log_delta(epsilon)
    )


@fault("a level's μ from its total variation's half", "pure profiles", RESPONSES)
def _half_margin(patch: Patch) -> None:
    honest = PureProfile.gdp
    patch.setattr(PureProfile, "gdp", lambda self: honest(self) / 2)


@fault("every count moves by one", "discrete Laplace", INTEGERS)
def _one_step(patch: Patch) -> None:
    honest = DiscreteLaplaceProfile._log_delta
    patch.setattr(
        DiscreteLaplaceProfile,
        "_log_delta",
        lambda self, epsilon: honest(DiscreteLaplaceProfile(self.scale, 1), epsilon),
    )


@fault("half the width of the scores", "chain of choices", CHAIN)
def _half_width(patch: Patch) -> None:
    honest = ChoiceChain._pick
    patch.setattr(
        ChoiceChain, "_pick", lambda self, places, total, window, rng: honest(self, places, total, 2 * window, rng)
    )
