"""The mode of the latents of a joint likelihood, and the Laplace approximation of their evidence about it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import linalg

from sottovoce.inference.regression.joint_likelihood import LONG, JointLikelihood, Quadratic
from sottovoce.inference.regression.sampler_settings import SamplerSettings
from sottovoce.privacy.numbers import Floats

__all__ = ["ROUGHLY", "SHORT_STEPS", "ModeSearch", "factored"]

_NEAR = 1.5e-3
ROUGHLY = 4.0 * _NEAR
"""The mode is reached where a step would gain less than this in log density for each latent, which moves them by .055
of their posterior deviations (root mean square); where rows are laid anew after it, where it gains four times that."""
_DAMPING, _FAILURES, _LITTLE = 0.03, 3, 1.0
"""The least damping after a step that gained nothing; and after how many of them in a row the search ends, where a step
promises to gain less than this in log density: from far away it takes more damping to gain anything."""
_AS_FORESEEN = 0.75
"""Damping is lowered where a step gains this part of what it promised (Nocedal & Wright, *Numerical Optimization*, ch.
4) and more: else every other step would fail."""
_LONGEST = 6.0
"""No step moves the latents by more than so many prior standard deviations."""
SHORT_STEPS = 2
"""Steps from one point of a grid to the next."""


class ModeSearch:
    """Damped Gauss–Newton steps to the mode, some latents held, at one ψ: what a misfit does to the scores."""

    def __init__(self, model: JointLikelihood, care: SamplerSettings) -> None:
        self.model, self.priors, self.care = model, model.priors, care
        self.misses = model.formula.misses or 0.0
        self.law = [place for place in range(model.size) if not model.eta.start <= place < model.eta.stop]
        self.long = model.d > LONG
        self.held = tuple(range(model.law.size)) if self.long else ()
        """Of long rows their law, which hardly moves with what lies on the grids of residuals, counts and groups."""
        self.psi: Floats = np.zeros((len(model.score), len(model.score)))
        self.combinations = max(care.combinations // (2 if self.long else 1), 1)

    def tau(self, u: float) -> float:
        """Return how far the formula misses, from a parameter that is standard normal before anything is seen."""
        return float(self.misses * np.exp(self.priors.misfit_log_mean + self.priors.misfit_log_sd * u))

    def mode(
        self,
        u: Floats,
        tau: float,
        fixed: Sequence[int] = (),
        steps: int = SHORT_STEPS,
        start: Quadratic | None = None,
        near: float = _NEAR,
    ) -> tuple[Floats, Quadratic]:
        """Return the mode near u, some latents held, by damped Gauss–Newton steps."""
        here, damping, failed, little = start or self.near(u, tau, fixed), 0.0, 0, near * len(u)
        for _ in range(steps):
            step, gain = self.step(here, fixed, damping)
            try:
                there = self.near(u + step, tau, fixed)
            except linalg.LinAlgError:
                there = None
            gained = -math.inf if there is None else here.height - here.logs - there.height + there.logs
            if there is not None and gained > 0:
                u, here, failed = u + step, there, 0
                if gained > _AS_FORESEEN * gain:
                    damping = damping / 10 if damping > 1e-3 else 0.0
            else:
                damping, failed = max(10 * damping, _DAMPING), failed + 1
            if gain < little or (failed > _FAILURES and gain < max(_LITTLE, little)):
                break
        return u, here

    def near(self, u: Floats, tau: float, fixed: Sequence[int]) -> Quadratic:
        """Return −log density near a place; where the law of rows is held it need not be known how that moves it."""
        held = bool(self.held) and set(self.held) <= set(fixed)
        return self.model.gauss_newton(u, self.psi, tau, self.model.moments(u, rows_held=held))

    def step(
        self, near: Quadratic, fixed: Sequence[int], damping: float = 0.0, moved: float = 0.0
    ) -> tuple[Floats, float]:
        """Return a step towards the mode, some latents held or the first of them `moved`, and what it gains."""
        free = np.setdiff1d(np.arange(self.model.size), fixed)
        metric, gradient = near.metric[np.ix_(free, free)], near.gradient[free]
        if moved:
            gradient = gradient + near.metric[free, fixed[0]] * moved
        part = -linalg.cho_solve(factored(metric, damping), gradient)
        step = np.zeros(self.model.size)
        if moved:
            step[fixed[0]] = moved
        step[free] = part * min(1.0, _LONGEST / max(float(np.linalg.norm(part)), 1e-300))
        return step, -float(gradient @ part) / 2

    def evidence(self, near: Quadratic, fixed: Sequence[int]) -> float:
        """Return the log of the Laplace approximation of the density of the latents that are held."""
        free = np.setdiff1d(np.arange(self.model.size), fixed)
        root, _ = factored(near.metric[np.ix_(free, free)])
        return near.logs - near.height - float(np.log(np.diag(root)).sum())

    def covariance(self, near: Quadratic) -> Floats:
        """Return the covariance of the latents that are not held."""
        free = np.setdiff1d(np.arange(self.model.size), self.held)
        covariance = np.zeros_like(near.metric)
        covariance[np.ix_(free, free)] = np.linalg.inv(near.metric[np.ix_(free, free)])
        return covariance


def factored(metric: Floats, damping: float = 0.0) -> tuple[Floats, bool]:
    """Return the Cholesky factor of a metric whose diagonal is damped."""
    damped = np.array(metric)
    damped[np.diag_indices(len(damped))] *= 1 + damping
    return linalg.cho_factor(damped, lower=True, overwrite_a=True)
