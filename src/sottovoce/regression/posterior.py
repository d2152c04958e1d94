"""Posterior samples of a generalized linear model with a Gaussian prior, weakened until a promise is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.randomness import is_secure, secure_rng
from sottovoce.regression.certificate import Chain, mixing_steps
from sottovoce.regression.design import Design, check_design
from sottovoce.regression.langevin import run_chains
from sottovoce.regression.losses import positive
from sottovoce.regression.rows import Placement

__all__ = ["ConcentratedGaussianPrior", "DiffusePosterior", "default_precision"]


def default_precision(design: Design, prior_scale: float) -> float:
    """Return m = d/R², the prior under which ‖w‖ ≈ R, a public guess.

    It balances the two parts of the excess risk, cd/(μn√m) and √m·R²c/(μn).
    """
    positive("prior_scale", prior_scale)
    return design.dimension / prior_scale**2


@dataclass(frozen=True)
class _Posterior:
    """Samples of e^{−U}, U(w) = ρΣℓ(w·xᵢ, yᵢ) + (m/2)‖w‖², by certified Langevin chains.

    Attributes
    ----------
    design
        Loss, n, dimension and bounds.
    prior_precision
        m; the papers write nβ.
    data_weight
        ρ, the power of the likelihood.
    samples
        How many; each comes from a chain of its own and they cost √samples·μ together.
    n_steps, step
        t and h; a mixing rule and 1/M where None.
    """

    word: ClassVar[str]
    design: Design
    prior_precision: float
    data_weight: float
    samples: int = 1
    n_steps: int | None = None
    step: float | None = None

    def __post_init__(self) -> None:
        check_design(self.design)
        positive("prior_precision", self.prior_precision)
        positive("data_weight", self.data_weight)
        object.__setattr__(self, "samples", whole("samples", self.samples, 1))
        _ = self.chain  # a step too long is refused here, not at the release

    @property
    def chain(self) -> Chain:
        """The public numbers of the chain."""
        m, rho = self.prior_precision, self.data_weight
        M = self.design.smoothness(rho, m)
        step = 1 / M if self.step is None else self.step
        steps = mixing_steps(m, step) if self.n_steps is None else self.n_steps
        return Chain(m, M, self.design.sensitivity(rho), step=step, n_steps=steps)

    @property
    def profile(self) -> GaussianProfile:
        """What all the samples together cost, whether the chains have converged or not."""
        return GaussianProfile(self.chain.mu * math.sqrt(self.samples), basis=Basis.BOUND)

    @property
    def exact_profile(self) -> GaussianProfile:
        """What exact samples would cost: μ = s/√m (Gopi, Lee and Liu 2022); the chains never cost more."""
        mu = self.design.sensitivity(self.data_weight) / math.sqrt(self.prior_precision)
        return GaussianProfile(mu * math.sqrt(self.samples), basis=Basis.BOUND)

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
        basis = placement.basis(accept_unproven)
        generator = secure_rng() if rng is None else rng
        centre = np.zeros((self.samples, self.design.dimension))
        draws = self.draw(X, y, centre, generator, placement=placement, progress=progress)
        return Release(
            draws,
            replace(self.profile, basis=basis),
            self.describe() | {"precision": placement.precision},
            "w",
            not is_secure(generator),
        )

    def draw(
        self,
        X: Any,
        y: Any,
        centre: Floats,
        rng: np.random.Generator,
        *,
        placement: Placement = Placement(),  # noqa: B008
        progress: Callable[[float], None] | None = None,
    ) -> Floats:
        """Return one draw for each row of `centre`, the prior means; they must not come from these records."""
        return run_chains(
            self.design,
            self.chain,
            X,
            y,
            data_weight=self.data_weight,
            centre=centre,
            rng=rng,
            placement=placement,
            progress=progress,
        )

    def describe(self) -> dict[str, Any]:
        """Return the mechanism in plain words and public numbers."""
        chain = self.chain
        return {
            "mechanism": self.word,
            "loss": self.design.loss.name,
            "n": int(self.design.n),
            "dimension": int(self.design.dimension),
            "data_norm": self.design.data_norm,
            "radius": self.design.radius if math.isfinite(self.design.radius) else None,
            "prior_precision": self.prior_precision,
            "data_weight": self.data_weight,
            "step": chain.step,
            "n_steps": chain.n_steps,
            "samples": self.samples,
        }


@dataclass(frozen=True)
class DiffusePosterior(_Posterior):
    r"""Raise the likelihood to the power ρ ≤ 1 until the promise is kept (Geumlek et al. 2017, Algorithm 5).

    An exact sample is μ-GDP with μ = 2ρBc/√m; the chain is certified at every step and costs no more.

    Examples
    --------
    >>> from sottovoce.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> design = Design(Logistic(), n=10_000, dimension=20, data_norm=1.0)
    >>> mechanism = DiffusePosterior.calibrate(design, ApproxDP(1.0, 1e-5), prior_precision=0.2)
    >>> round(mechanism.data_weight, 4), mechanism.profile.satisfies(ApproxDP(1.0, 1e-5))
    (0.063, True)
    """

    word: ClassVar[str] = "diffuse posterior"

    @classmethod
    def calibrate(
        cls,
        design: Design,
        target: Promise,
        *,
        prior_precision: float | None = None,
        prior_scale: float | None = None,
        samples: int = 1,
        n_steps: int | None = None,
        largest_weight: float = 1.0,
    ) -> Self:
        """Return the mechanism with the largest ρ ≤ `largest_weight` that keeps `target`.

        Give the prior as its precision m, or as the size ‖w‖ ≈ `prior_scale` it expects.
        """
        m = _precision(design, prior_precision, prior_scale)
        rho = largest_keeping(
            lambda weight: cls(design, m, weight, samples, n_steps).profile,
            target,
            high=largest_weight,
            name="data_weight",
        )
        return cls(design, m, rho, samples, n_steps)


@dataclass(frozen=True)
class ConcentratedGaussianPrior(_Posterior):
    r"""Narrow the prior, m ≥ m₀, until the promise is kept (Geumlek et al. 2017, Algorithm 4).

    Examples
    --------
    >>> from sottovoce.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import GaussianDP
    >>> design = Design(Logistic(), n=10_000, dimension=20, data_norm=1.0)
    >>> mechanism = ConcentratedGaussianPrior.calibrate(design, GaussianDP(0.5), prior_precision=0.2)
    >>> mechanism.data_weight, round(mechanism.prior_precision, 3)
    (1.0, 14.442)
    """

    word: ClassVar[str] = "concentrated Gaussian prior"

    @classmethod
    def calibrate(
        cls,
        design: Design,
        target: Promise,
        *,
        prior_precision: float | None = None,
        prior_scale: float | None = None,
        samples: int = 1,
        n_steps: int | None = None,
        data_weight: float = 1.0,
    ) -> Self:
        """Return the mechanism with the smallest precision m ≥ m₀ that keeps `target`."""
        least = _precision(design, prior_precision, prior_scale)
        variance = largest_keeping(
            lambda v: cls(design, 1 / v, data_weight, samples, n_steps).profile,
            target,
            high=1 / least,
            name="prior variance",
        )
        return cls(design, 1 / variance, data_weight, samples, n_steps)


def _precision(design: Design, precision: float | None, scale: float | None) -> float:
    if (precision is None) == (scale is None):
        raise InvalidValue("give the prior either as prior_precision (m) or as prior_scale (R, with m = d/R²)")
    return default_precision(design, scale) if scale is not None else float(precision or 0.0)
