"""The tempered posterior on a ball (one posterior sample): pure privacy, but only if the chain has converged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue, UnprovenPrivacy
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.pure import BoundedRangeProfile
from sottovoce.privacy.randomness import is_secure, secure_rng
from sottovoce.regression.design import Design, check_design
from sottovoce.regression.losses import positive
from sottovoce.regression.posterior import DiffusePosterior
from sottovoce.regression.rows import Placement

__all__ = ["TemperedGLM"]


@dataclass(frozen=True)
class TemperedGLM:
    r"""A sample of e^{−ρΣℓ − (m/2)‖w‖²} on the ball ‖w‖ ≤ R: 2ρ·(max ℓ − min ℓ)-private (Wang et al. 2015).

    For the logistic loss that is 2ρRc; with the papers' R = c/β it is half of their 4c²ρ/β. It holds for an exact
    sample only, and nobody can check that a chain has converged: the basis is `CONVERGENCE`. A baseline; the
    diffuse posterior needs no such trust.

    Examples
    --------
    >>> from sottovoce.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import PureDP
    >>> design = Design(Logistic(), n=10_000, dimension=20, data_norm=1.0, radius=5.0)
    >>> round(TemperedGLM.calibrate(design, PureDP(1.0), prior_precision=1.0).data_weight, 6)
    0.1
    """

    design: Design
    prior_precision: float
    data_weight: float
    n_steps: int | None = None

    def __post_init__(self) -> None:
        check_design(self.design)
        positive("prior_precision", self.prior_precision)
        positive("data_weight", self.data_weight)
        if not math.isfinite(self.design.constants.spread):
            raise InvalidValue("a tempered posterior needs a loss of finite spread: give a finite radius for ‖w‖")

    @classmethod
    def calibrate(cls, design: Design, target: Promise, *, prior_precision: float, n_steps: int | None = None) -> Self:
        """Return the mechanism with the largest ρ ≤ 1 that keeps `target`."""
        weight = largest_keeping(
            lambda rho: cls(design, prior_precision, rho, n_steps).profile, target, high=1.0, name="data_weight"
        )
        return cls(design, prior_precision, weight, n_steps)

    @property
    def profile(self) -> Profile:
        """What an exact sample costs."""
        width = 2 * self.data_weight * self.design.constants.spread
        return BoundedRangeProfile(width, basis=Basis.CONVERGENCE)

    def release(
        self,
        X: Any,
        y: Any,
        rng: np.random.Generator | None = None,
        *,
        accept_unproven: bool = False,
        placement: Placement = Placement(),  # noqa: B008 - a frozen value
        progress: Callable[[float], None] | None = None,
    ) -> Release:
        """Return one draw of w, shape (1, dimension); refused unless `accept_unproven`."""
        if not accept_unproven:
            raise UnprovenPrivacy(
                "this sample is private only if the Markov chain has converged, which nobody can check; use "
                "DiffusePosterior, which is certified at every step, or say accept_unproven=True"
            )
        generator = secure_rng() if rng is None else rng
        draws = self.draw(X, y, generator, placement=placement, progress=progress)
        described = self._chains.describe() | {"mechanism": "tempered posterior"}
        return Release(draws, self.profile, described, "w", not is_secure(generator))

    def draw(
        self,
        X: Any,
        y: Any,
        rng: np.random.Generator,
        *,
        chains: int = 1,
        placement: Placement = Placement(),  # noqa: B008
        progress: Callable[[float], None] | None = None,
    ) -> Floats:
        """Return the last iterates of as many chains, shape (chains, dimension); a release is that of one."""
        start = np.zeros((chains, self.design.dimension))
        return self._chains.draw(X, y, start, rng, placement=placement, progress=progress)

    @property
    def _chains(self) -> DiffusePosterior:
        return DiffusePosterior(self.design, self.prior_precision, self.data_weight, n_steps=self.n_steps)
