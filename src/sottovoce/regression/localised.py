"""Posteriors in phases: each prior is centred at the private sample before it, and narrower."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.promises import GaussianDP, Promise
from sottovoce.privacy.randomness import is_secure, secure_rng
from sottovoce.regression.design import Design, check_design
from sottovoce.regression.posterior import DiffusePosterior
from sottovoce.regression.rows import Placement

__all__ = ["LocalisedPosterior", "check_phases", "plan_phases", "run_phases", "total_mu"]


def plan_phases(
    design: Design, mu: float, scales: Sequence[float], samples: int, n_steps: int | None = None
) -> tuple[DiffusePosterior, ...]:
    """Return one diffuse posterior a phase, of prior scale R, R', …; μ² is shared equally by phases and samples."""
    if not scales:
        raise InvalidValue("give at least one prior scale, such as (20, 10, 5)")
    share = GaussianDP(mu / math.sqrt(len(scales) * samples))
    return tuple(DiffusePosterior.calibrate(design, share, prior_scale=R, n_steps=n_steps) for R in scales)


def run_phases(
    phases: Sequence[DiffusePosterior],
    X: Any,
    y: Any,
    centre: Floats,
    rng: np.random.Generator,
    *,
    placement: Placement,
    progress: Callable[[float], None] | None,
) -> Floats:
    """Return the last phase's samples, one chain for each row of `centre`, each its own line of phases."""
    work = np.cumsum([0, *(phase.chain.n_steps for phase in phases)]) / sum(p.chain.n_steps for p in phases)
    for phase, done, end in zip(phases, work[:-1], work[1:], strict=True):

        def advance(fraction: float, done: float = done, end: float = end) -> None:
            if progress:
                progress(float(done + fraction * (end - done)))

        centre = phase.draw(X, y, centre, rng, placement=placement, progress=advance if progress else None)
    return centre


def total_mu(phases: Sequence[DiffusePosterior], samples: int) -> float:
    """Return the μ of all phases of all samples: adaptive Gaussian composition."""
    return math.sqrt(samples * sum(phase.chain.mu**2 for phase in phases))


def check_phases(design: Design, phases: Sequence[DiffusePosterior], samples: int) -> None:
    """Raise `InvalidValue` unless the phases are diffuse posteriors of this very design, one sample each."""
    whole("samples", samples, 1)
    if not phases or not all(isinstance(phase, DiffusePosterior) for phase in phases):
        raise InvalidValue("phases must be at least one DiffusePosterior")
    for phase in phases:
        if phase.design != design:
            raise InvalidValue(f"every phase must have the design of its rows, {design}. Got {phase.design}")
        if phase.samples != 1:
            raise InvalidValue(f"a phase draws one sample a chain; ask for several here. Got samples={phase.samples}")


@dataclass(frozen=True)
class LocalisedPosterior:
    """k diffuse posteriors in a row, the prior of each N(previous sample, R²/d) with R from a public schedule.

    It removes most of the price of a wide prior: the first phase looks everywhere and sees little, the last sees
    much of a small neighbourhood. What comes out costs √(Σμ²) by adaptive composition, converged or not.

    Examples
    --------
    >>> from sottovoce.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> design = Design(Logistic(), n=10_000, dimension=20, data_norm=1.0)
    >>> mechanism = LocalisedPosterior.calibrate(design, ApproxDP(1.0, 1e-5), scales=(20, 10, 5))
    >>> [round(phase.data_weight, 3) for phase in mechanism.phases]
    [0.018, 0.036, 0.073]
    """

    design: Design
    phases: tuple[DiffusePosterior, ...]
    samples: int = 1

    def __post_init__(self) -> None:
        check_design(self.design)
        check_phases(self.design, self.phases, self.samples)

    @classmethod
    def calibrate(
        cls,
        design: Design,
        target: Promise,
        *,
        scales: Sequence[float] = (20.0, 10.0, 5.0),
        samples: int = 1,
        n_steps: int | None = None,
    ) -> Self:
        """Return the mechanism whose phases together keep `target`."""
        mu = largest_keeping(GaussianProfile, target, high=1e6, name="mu")
        return cls(design, plan_phases(design, mu * (1 - 1e-12), scales, samples, n_steps), samples)

    @property
    def profile(self) -> GaussianProfile:
        """What all phases and samples cost."""
        return GaussianProfile(total_mu(self.phases, self.samples), basis=Basis.BOUND)

    def release(
        self,
        X: Any,
        y: Any,
        rng: np.random.Generator | None = None,
        *,
        placement: Placement = Placement(),  # noqa: B008 - a frozen value
        progress: Callable[[float], None] | None = None,
        accept_unproven: bool = False,
    ) -> Release:
        """Return `samples` draws of w, shape (samples, dimension).

        In single precision the claim is unproven, and the release refused unless `accept_unproven`.
        """
        profile = replace(self.profile, basis=placement.basis(accept_unproven))
        generator = secure_rng() if rng is None else rng
        start = np.zeros((self.samples, self.design.dimension))
        draws = run_phases(self.phases, X, y, start, generator, placement=placement, progress=progress)
        described = {"mechanism": "localised posterior", "phases": [phase.describe() for phase in self.phases]}
        return Release(draws, profile, described, "w", not is_secure(generator))
