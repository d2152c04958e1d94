"""Posterior samples of a generalized linear model with a Gaussian prior, weakened until a promise is kept."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.regression.certificate import Chain, mixing_steps
from sottovoce.inference.regression.design import Design, check_design
from sottovoce.inference.regression.device_placement import LOT, Placement, Progress, are_few, current
from sottovoce.inference.regression.langevin import check_range, run_chains
from sottovoce.inference.regression.legacy_json import renewed
from sottovoce.inference.regression.losses import Logistic, positive
from sottovoce.inference.regression.rounding import step_error
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.mechanism import Choices, Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.profile import Basis
from sottovoce.privacy.promises import Promise
from sottovoce.privacy.rounding import UP, root_of_squares
from sottovoce.records.readings import Rows

__all__ = ["ConcentratedRegression", "DiffusedRegression", "RegressionMechanism", "default_precision", "prior_of"]

_SLIGHT = 0.1
"""Single precision is proven where its rounding adds at most this much to the sensitivity."""
_LOTS = (64, 512, 4096)
"""Chains run at once for an attack: of one of these sizes, so that few compiled programs serve all."""


def default_precision(design: Design, prior_scale: float) -> float:
    """Return m = d/R², the prior under which ‖w‖ ≈ R, a public guess.

    It balances the two parts of the excess risk, cd/(μn√m) and √m·R²c/(μn).
    """
    positive("prior_scale", prior_scale)
    return design.dimension / prior_scale**2


def prior_of(design: Design, precision: float | None, scale: float | None) -> float:
    """Return the precision m, given as such, as a scale, or where neither is by ‖w‖ ≈ 30/data_norm."""
    if precision is not None and scale is not None:
        raise InvalidValue("give the prior either as prior_precision (m) or as prior_scale (R, with m = d/R²)")
    if precision is not None:
        return float(precision)
    return default_precision(design, 30.0 / design.data_norm if scale is None else scale)


@dataclass(frozen=True, eq=False)
class RegressionMechanism(Mechanism):
    """What the mechanisms of a regression share: the system is a `Design`, and chains see its rows."""

    forecasts: ClassVar[bool] = False
    many_classes: ClassVar[bool] = False
    """Whether it serves a softmax of several predictors."""
    any_loss: ClassVar[bool] = False
    """Whether it serves a loss of the parameters that is none of a linear predictor."""
    system: Design

    def __post_init__(self) -> None:
        check_design(self.system)
        if not self.many_classes and self.system.loss.word == "Softmax":
            raise InvalidValue(f"a {self.word} has two classes; for more use 'filtered'")
        if not self.any_loss and self.system.loss.word == "Potential":
            raise InvalidValue(f"a {self.word} needs a loss of a linear predictor; chains and SGD take any")
        whole("n", self.n, 1)
        super().__post_init__()

    @property
    def design(self) -> Design:
        """The public side: the system."""
        return self.system

    def see(self, records: Any) -> Any:
        """Return what the reading makes of the records, after a check that no record can make the numbers overflow."""
        self.check_numbers()
        return super().see(records)

    def check_numbers(self) -> None:
        """Raise `InvalidValue` where floating-point numbers could not hold a release, by public numbers alone."""

    def _statistics(self, records: Any) -> Any:
        return self.reading.read(records)

    @classmethod
    def _renewed(cls, state: dict[str, Any]) -> dict[str, Any]:
        return renewed(state)

    def _outputs(self, seen: Any, rng: np.random.Generator, draws: int) -> Any:
        """Return what so many independent releases let out, a row each."""
        lot = next((lot for lot in _LOTS if lot >= draws), _LOTS[-1])
        lots = [self._value(seen, rng, lot).reshape(lot, -1) for _ in range(-(-draws // lot))]
        return np.concatenate(lots)[:draws]


def check_precision(precision: Any) -> Basis:
    """Return what a certificate rests on at this precision, where rounding has not been bounded for a chain."""
    return Basis.BOUND if Placement(precision=precision).precision == "float64" else Basis.CONVERGENCE


@dataclass(frozen=True, eq=False)
class _Chains(RegressionMechanism):
    """Samples of e^{−U}, U(w) = ρΣℓ(w·xᵢ, yᵢ) + (m/2)‖w‖², by certified Langevin chains.

    Attributes
    ----------
    system, n
        Loss, dimension and bounds; the number of records.
    prior_precision
        m; the papers write nβ.
    data_weight
        ρ, the power of the likelihood.
    draws
        How many samples a release holds; each comes from a chain of its own and they cost √draws·μ together.
    n_steps, step
        t and h; a mixing rule and `stride`/M where None.
    stride
        How long a step is by default, beside 1/M. An unadjusted chain is wider than its target, up to 2/(2 − stride)
        times in variance, and piles mass on the sphere of a ball that is no longer than a step: a quarter where the
        sample is what was asked for, 1 where it is a way to a prediction.
    precision
        ``"float64"``, or ``"float32"`` for speed. What rounding can do is bounded and part of μ; in single precision
        that bound is of use for few records or a small ball only. Where it would add more than a tenth, the claim
        leaves it out and is unproven: a release is refused unless accepted.
    """

    any_loss: ClassVar[bool] = True
    prior_precision: float
    data_weight: float
    draws: int = 1
    n_steps: int | None = None
    step: float | None = None
    precision: str = "float64"
    stride: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("prior_precision", self.prior_precision)
        positive("stride", self.stride, high=1.0)
        positive("data_weight", self.data_weight)
        object.__setattr__(self, "draws", whole("draws", self.draws, 1))
        check_precision(self.precision)
        _ = self.chain  # a step too long is refused here, not at the release

    @classmethod
    def calibrate(
        cls,
        design: Design,
        n: int,
        target: Promise,
        *,
        prior_precision: float | None = None,
        prior_scale: float | None = None,
        draws: int = 1,
        n_steps: int | None = None,
        data_weight: float = 1.0,
        precision: str = "float64",
        stride: float = 0.25,
    ) -> Self:
        """Return the mechanism that keeps `target` and is weakened as little as it can be.

        Give the prior as its precision m, or as the size ‖w‖ ≈ `prior_scale` it expects; 30/data_norm where neither.
        """
        check_design(design)
        prior = prior_of(design, prior_precision, prior_scale)
        return cls(design, n, prior, data_weight, draws, n_steps, None, precision, stride)._weakened(target)

    @abstractmethod
    def _weakened(self, target: Promise) -> Self:
        """Return the mechanism with the least changed of its numbers that keeps a promise."""

    @cached_property
    def chain(self) -> Chain:
        """The public numbers of the chain."""
        m, rho = self.prior_precision, self.data_weight
        M = self.design.smoothness(self.n, rho, m)
        step = self.stride / M if self.step is None else self.step
        steps = mixing_steps(m, step) if self.n_steps is None else self.n_steps
        error = step_error(self.design, self.n, rho, m, step, self.precision)
        moved = self.design.sensitivity(rho)
        proven = self.precision == "float64" or 2 * error <= _SLIGHT * step * moved
        return Chain(m, M, moved, step=step, n_steps=steps, rounding=error if proven else 0.0)

    @property
    def profile(self) -> GaussianProfile:
        """What all the samples together cost, whether the chains have converged or not."""
        chain = self.chain
        basis = Basis.BOUND if chain.rounding else check_precision(self.precision)
        return GaussianProfile(root_of_squares([(self.draws, chain.mu)]), basis=basis)

    @property
    def exact_profile(self) -> GaussianProfile:
        """What exact samples would cost: μ = s/√m (Gopi, Lee and Liu 2022); the chains never cost more."""
        mu = self.design.sensitivity(self.data_weight) / math.sqrt(self.prior_precision) * UP
        return GaussianProfile(root_of_squares([(self.draws, mu)]), basis=Basis.BOUND)

    @classmethod
    def example(cls) -> Self:
        """Return twelve steps of a logistic regression of four records."""
        return cls(Design(Logistic(), dimension=2, data_norm=1.0), 4, 4.0, 0.7, n_steps=12)

    def check_numbers(self) -> None:
        """Raise `InvalidValue` where the numbers of this precision cannot hold the chain, whatever the records are."""
        check_range(self.design, self.n, self.chain, self.data_weight, np.dtype(self.precision))

    def _value(self, seen: Rows, rng: np.random.Generator, draws: int) -> Floats:
        centre = np.zeros((draws * self.draws, self.design.dimension))
        placement, progress = current()
        place = replace(placement, precision=self.precision)
        return self.draw(seen.X, seen.y, centre, rng, placement=place, progress=progress)

    def each(self, tables: Sequence[Rows], rng: np.random.Generator) -> list[Any]:
        """Return what a release of each of several tables lets out; chains of small tables run side by side."""
        if not are_few(len(tables), self.n * self.design.dimension):
            return super().each(tables, rng)
        result: list[Any] = []
        centre, place = np.zeros((LOT, self.draws, self.design.dimension)), Placement(precision=self.precision)
        for subset in (tables[done : done + LOT] for done in range(0, len(tables), LOT)):
            X, y = (
                np.resize(part, (LOT, *np.shape(part[0]))) for part in ([t.X for t in subset], [t.y for t in subset])
            )
            result += list(self.draw(X, y, centre, rng, placement=place)[: len(subset)])
        return result

    def draw(
        self,
        X: Any,
        y: Any,
        centre: Floats,
        rng: np.random.Generator,
        *,
        placement: Placement = Placement(),  # noqa: B008
        progress: Progress | None = None,
    ) -> Floats:
        """Return one draw for each row of `centre`, the prior means; they must not come from these records.

        X holds rows of `dimension` entries, the intercept's among them. With a placement that streams, it may be a
        memory map.
        """
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

    def _parameters(self) -> dict[str, Any]:
        return self.numbers() | {"draws": int(self.draws), "precision": self.precision}

    def describe(self) -> str:
        """Return the mechanism in one line, with how far its chain is from the posterior it samples."""
        result = f"{super().describe()}; converged, its variance is up to {self.chain.spread:.3g} times the posterior's"
        if math.isfinite(self.design.radius):
            part = math.sqrt(2 * self.chain.step * self.design.dimension) / self.design.radius
            result += f", and a step's noise is {part:.2g} of the ball's radius, on whose sphere what leaves it is put"
        return result

    def numbers(self) -> dict[str, Any]:
        """Return the numbers of one chain."""
        chain = self.chain
        return {
            "prior_precision": float(self.prior_precision),
            "data_weight": float(self.data_weight),
            "step": chain.step,
            "n_steps": int(chain.n_steps),
        }


@dataclass(frozen=True, eq=False)
class DiffusedRegression(_Chains):
    r"""Raise the likelihood to the power ρ ≤ 1 until the promise is kept (Geumlek et al. 2017, Algorithm 5).

    An exact sample is μ-GDP with μ = 2ρBc/√m; the chain is certified at every step and costs no more.

    Examples
    --------
    >>> from sottovoce.inference.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> design = Design(Logistic(), dimension=20, data_norm=1.0)
    >>> mechanism = DiffusedRegression.calibrate(design, 10_000, ApproxDP(1.0, 1e-5), prior_precision=0.2)
    >>> round(mechanism.data_weight, 4), mechanism.profile.satisfies(ApproxDP(1.0, 1e-5))
    (0.063, True)
    """

    word: ClassVar[str] = "diffused regression"
    choices: ClassVar[Choices] = {"diffused": {}}

    def _weakened(self, target: Promise) -> Self:
        weight = largest_keeping(
            lambda rho: replace(self, data_weight=rho).profile, target, high=self.data_weight, name="data_weight"
        )
        return replace(self, data_weight=weight)


@dataclass(frozen=True, eq=False)
class ConcentratedRegression(_Chains):
    r"""Narrow the prior, m ≥ m₀, until the promise is kept (Geumlek et al. 2017, Algorithm 4).

    Examples
    --------
    >>> from sottovoce.inference.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import GaussianDP
    >>> design = Design(Logistic(), dimension=20, data_norm=1.0)
    >>> mechanism = ConcentratedRegression.calibrate(design, 10_000, GaussianDP(0.5), prior_precision=0.2)
    >>> mechanism.data_weight, round(mechanism.prior_precision, 3)
    (1.0, 14.468)
    """

    word: ClassVar[str] = "concentrated regression"
    choices: ClassVar[Choices] = {"concentrated": {}}

    def _weakened(self, target: Promise) -> Self:
        variance = largest_keeping(
            lambda v: replace(self, prior_precision=1 / v).profile,
            target,
            high=1 / self.prior_precision,
            name="prior variance",
        )
        return replace(self, prior_precision=1 / variance)
