"""The refined posterior: flatten the rows, take their noisy statistics, then sample near them."""

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
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.randomness import is_secure, secure_rng
from sottovoce.regression.design import Design, check_design
from sottovoce.regression.localised import check_phases, plan_phases, run_phases, total_mu
from sottovoce.regression.losses import ComplementaryLogLog, Poisson, positive
from sottovoce.regression.noisy_quadratic import NoisyQuadratic
from sottovoce.regression.posterior import DiffusePosterior, default_precision
from sottovoce.regression.row_maps import Flattening, RowMap, shape_by
from sottovoce.regression.rows import Placement

__all__ = ["RefinedPosterior", "mapped", "public_scales"]

_FLATTEN, _STATISTICS = 0.05, 0.4
_FAR_FROM_QUADRATIC = (Poisson, ComplementaryLogLog)
"""Losses that grow exponentially: their quadratic statistics lead astray."""


def public_scales(n: int, dimension: int, mu: float, *, statistics: bool) -> tuple[float, ...]:
    """Return the prior scales of the phases, by n, d and μ alone; they were tuned on public data sets.

    After statistics the posterior is near: one narrow phase, two where few coordinates leave little sampling noise.
    Without them it may be anywhere, and the farther the records can show the way (n·μ/d), the wider the first look.
    """
    if statistics:
        return (5.0, 2.5) if dimension < 32 else (2.5,)
    widest = min(max(16 * math.sqrt(n * mu / dimension), 5.0), 40.0)
    return (widest, widest / 2)


def mapped(design: Design) -> Design:
    """Return the design of the mapped rows: of norm at most 1; a ball keeps the same reach of the linear predictor."""
    return replace(design, data_norm=1.0, radius=design.radius * design.data_norm)


@dataclass(frozen=True)
class RefinedPosterior:
    r"""Three private looks at the records, each from where the one before it led.

    1. `Flattening` shrinks the direction that all rows share (a share `flatten` of μ²).
    2. `NoisyQuadratic` on the flattened rows gives a first Gaussian posterior (a share `statistics`; none where
       d is too large for X'X to rise above its noise).
    3. Diffuse posteriors, certified Langevin chains, in coordinates in which that posterior is round, centred at its
       mean, with ever narrower priors (the rest of μ²).

    Each look is μᵢ-GDP given the ones before it, so that the whole is √(Σμᵢ²)-GDP by adaptive composition.

    Examples
    --------
    >>> from sottovoce.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> design = Design(Logistic(), n=10_000, dimension=20, data_norm=1.0)
    >>> mechanism = RefinedPosterior.calibrate(design, ApproxDP(1.0, 1e-5))
    >>> mechanism.profile.satisfies(ApproxDP(1.0, 1e-5)), mechanism.statistics is None
    (True, False)
    """

    design: Design
    flattening: Flattening
    statistics: NoisyQuadratic | None
    phases: tuple[DiffusePosterior, ...]
    samples: int = 1

    def __post_init__(self) -> None:
        check_design(self.design)
        if not isinstance(self.flattening, Flattening) or self.flattening.design != self.design:
            raise InvalidValue(f"the flattening must have this very design, {self.design}")
        # Their noise is for rows of norm 1, which is what the map hands them: another bound would claim too much.
        unit = mapped(self.design)
        if self.statistics is not None and not (
            isinstance(self.statistics, NoisyQuadratic) and self.statistics.design == unit
        ):
            raise InvalidValue(f"the statistics must have the design of the mapped rows, {unit}")
        check_phases(unit, self.phases, self.samples)

    @classmethod
    def calibrate(
        cls,
        design: Design,
        target: Promise,
        *,
        samples: int = 1,
        prior_scale: float = 30.0,
        scales: Sequence[float] | None = None,
        flatten: float = _FLATTEN,
        statistics: float | None = None,
        n_steps: int | None = None,
    ) -> Self:
        """Return the mechanism that keeps `target`; the shares and scales come from n, d and the promise alone.

        Statistics are taken when 2n·μ ≥ d^{3/2}: an average direction's part n/d of X'X is then a fair part of
        the norm √(2d)·√2/μ of the noise. (Not for losses that grow exponentially, which no quadratic follows.)
        """
        mu = largest_keeping(GaussianProfile, target, high=1e6, name="mu") * (1 - 1e-12)
        if statistics is None:
            seen = 2 * design.n * mu >= design.dimension**1.5 and not isinstance(design.loss, _FAR_FROM_QUADRATIC)
            statistics = _STATISTICS if seen else 0.0
        if not (flatten > 0 and statistics >= 0 and flatten + statistics < 1):
            raise InvalidValue(f"shares must be > 0, >= 0 and sum below 1. Got {flatten} and {statistics}")
        positive("prior_scale", prior_scale)
        unit = mapped(design)
        first = None
        if statistics:
            precision = default_precision(unit, prior_scale)
            first = NoisyQuadratic(unit, mu * math.sqrt(statistics), precision)
        scales = tuple(scales or ()) or public_scales(design.n, design.dimension, mu, statistics=statistics > 0)
        rest = mu * math.sqrt(1 - flatten - statistics)
        phases = plan_phases(unit, rest, scales, samples, n_steps)
        return cls(design, Flattening(design, mu * math.sqrt(flatten)), first, phases, samples)

    @property
    def profile(self) -> GaussianProfile:
        """What all the looks cost together."""
        looks = [self.flattening.mu, total_mu(self.phases, self.samples)]
        looks += [self.statistics.mu] if self.statistics else []
        return GaussianProfile(math.hypot(*looks) * (1 + 1e-13), basis=Basis.BOUND)

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
        maps = [self.flattening.learn(X, generator)]
        rows = maps[0].rows(self.design.clipped(X))
        centre = np.zeros((1, self.design.dimension))
        if self.statistics:
            rows, centre = self._look(self.statistics, rows, y, maps, generator)
        starts = np.repeat(centre, self.samples, axis=0)
        draws = run_phases(self.phases, rows, y, starts, generator, placement=placement, progress=progress)
        for step in reversed(maps):
            draws = step.parameters(draws)
        return Release(draws, profile, self.describe(), "w", not is_secure(generator))

    def _look(
        self, first: NoisyQuadratic, rows: Floats, y: Any, maps: list[RowMap], rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """Take the statistics, add their map to `maps`, and return the new rows and where to start."""
        labels = self.design.responses(y)
        moments = first.noisy_moments(rows.T @ rows, rows.T @ labels, rows.sum(axis=0), rng)
        posterior = first.posterior(moments)
        shape = shape_by(posterior, moments, self.design.n)
        maps.append(shape)
        centre = shape.inverse(posterior.mean[None, :])
        reach = self.phases[0].design.radius
        norm = float(np.linalg.norm(centre))
        return shape.rows(rows), centre * (reach / norm) if norm > reach else centre

    def describe(self) -> dict[str, Any]:
        """Return the mechanism in plain words and public numbers."""
        return {
            "mechanism": "refined posterior",
            "loss": self.design.loss.name,
            "n": int(self.design.n),
            "dimension": int(self.design.dimension),
            "data_norm": self.design.data_norm,
            "flattening_mu": self.flattening.mu,
            "statistics_mu": self.statistics.mu if self.statistics else 0.0,
            "phases": [phase.describe() for phase in self.phases],
            "samples": self.samples,
        }
