"""The tempered posterior on a ball (one posterior sample): pure privacy, but only if the chain has converged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.regression.design import Design, check_design
from sottovoce.inference.regression.losses import Logistic, positive
from sottovoce.inference.regression.posterior import DiffusedRegression, RegressionMechanism, prior_of
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.mechanism import Choices
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.pure import BoundedRangeProfile
from sottovoce.records.readings import Rows


@dataclass(frozen=True, eq=False)
class TemperedRegression(RegressionMechanism):
    r"""A sample of e^{−ρΣℓ − (m/2)‖w‖²} on the ball ‖w‖ ≤ R: 2ρ·(max ℓ − min ℓ)-private (Wang et al. 2015).

    For the logistic loss that is 2ρRc; with the papers' R = c/β it is half of their 4c²ρ/β. It holds for an exact
    sample only, and nobody can check that a chain has converged: the basis is `CONVERGENCE`, and a release is refused
    unless accepted. A baseline; the diffused posterior needs no such trust.

    Examples
    --------
    >>> from sottovoce.inference.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import PureDP
    >>> design = Design(Logistic(), dimension=20, data_norm=1.0, radius=5.0)
    >>> round(TemperedRegression.calibrate(design, 10_000, PureDP(1.0), prior_precision=1.0).data_weight, 6)
    0.1
    """

    word: ClassVar[str] = "tempered regression"
    choices: ClassVar[Choices] = {"tempered": {}}
    prior_precision: float
    data_weight: float
    n_steps: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("prior_precision", self.prior_precision)
        positive("data_weight", self.data_weight)
        if not math.isfinite(self.design.constants.spread):
            raise InvalidValue("a tempered posterior needs a loss of finite spread: give a finite radius for ‖w‖")

    @classmethod
    def calibrate(
        cls,
        design: Design,
        n: int,
        target: Promise,
        *,
        prior_precision: float | None = None,
        prior_scale: float | None = None,
        n_steps: int | None = None,
    ) -> Self:
        """Return the mechanism with the largest ρ ≤ 1 that keeps `target`."""
        check_design(design)
        m = prior_of(design, prior_precision, prior_scale)
        weight = largest_keeping(
            lambda rho: cls(design, n, m, rho, n_steps).profile, target, high=1.0, name="data_weight"
        )
        return cls(design, n, m, weight, n_steps)

    @property
    def profile(self) -> Profile:
        """What an exact sample costs."""
        width = 2 * self.data_weight * self.design.constants.spread
        return BoundedRangeProfile(width, basis=Basis.CONVERGENCE)

    @classmethod
    def example(cls) -> Self:
        """Return forty steps on a ball, of four records."""
        design = Design(Logistic(), dimension=2, data_norm=1.0, radius=5.0)
        return cls(design, 4, 0.1, 0.1, n_steps=40)

    def check_numbers(self) -> None:
        """Raise `InvalidValue` where the numbers cannot hold the chain."""
        self._chains.check_numbers()

    def _value(self, seen: Rows, rng: np.random.Generator, draws: int) -> Floats:
        return self._chains._value(seen, rng, draws)

    def _parameters(self) -> dict[str, Any]:
        numbers = self._chains.numbers()
        return {name: numbers[name] for name in ("prior_precision", "data_weight", "n_steps")}

    @property
    def _chains(self) -> DiffusedRegression:
        return DiffusedRegression(self.design, self.n, self.prior_precision, self.data_weight, n_steps=self.n_steps)
