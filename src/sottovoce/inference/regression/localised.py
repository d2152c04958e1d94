"""Posteriors in phases: each prior is centred at the private sample before it, and narrower."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.regression.design import Design, check_design
from sottovoce.inference.regression.device_placement import current
from sottovoce.inference.regression.losses import Logistic
from sottovoce.inference.regression.posterior import DiffusedRegression, RegressionMechanism, check_precision
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate.named_systems import system_from
from sottovoce.mechanisms.mechanism import Choices
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, whole
from sottovoce.privacy.promises import GaussianDP, Promise
from sottovoce.privacy.rounding import root_of_squares
from sottovoce.records.readings import Rows


def plan_phases(
    design: Design, n: int, mu: float, scales: Sequence[float], draws: int, n_steps: int | None, precision: str
) -> tuple[DiffusedRegression, ...]:
    """Return one diffused posterior a phase, of prior scale R, R', …; μ² is shared equally by phases and draws."""
    if not scales:
        raise InvalidValue("give at least one prior scale, such as (20, 10, 5)")
    share = GaussianDP(mu / math.sqrt(len(scales) * draws))
    return tuple(
        DiffusedRegression.calibrate(design, n, share, prior_scale=R, n_steps=n_steps, precision=precision, stride=1.0)
        for R in scales
    )


def phases_from(design: Design, n: int, states: Sequence[Mapping[str, Any]], precision: str) -> tuple[Any, ...]:
    """Read the phases from their chains' numbers."""
    return tuple(DiffusedRegression(design, n, **state, precision=precision) for state in states)


def run_phases(
    phases: Sequence[DiffusedRegression], X: Any, y: Any, centre: Floats, rng: np.random.Generator
) -> Floats:
    """Return the last phase's samples, one chain for each row of `centre`, each its own line of phases."""
    placement, progress = current()
    work = np.cumsum([0, *(phase.chain.n_steps for phase in phases)]) / sum(p.chain.n_steps for p in phases)
    for phase, done, end in zip(phases, work[:-1], work[1:], strict=True):

        def advance(fraction: float, done: float = done, end: float = end) -> None:
            if progress:
                progress(float(done + fraction * (end - done)))

        place = replace(placement, precision=phase.precision)
        centre = phase.draw(X, y, centre, rng, placement=place, progress=advance if progress else None)
    return centre


def total_mu(phases: Sequence[DiffusedRegression], draws: int) -> float:
    """Return the μ of all phases of all draws: adaptive Gaussian composition."""
    return root_of_squares((draws, phase.chain.mu) for phase in phases)


def check_phases(design: Design, n: int, phases: Sequence[DiffusedRegression], draws: int) -> None:
    """Raise `InvalidValue` unless the phases are diffused posteriors of these very records, one sample each."""
    whole("draws", draws, 1)
    if not phases or not all(isinstance(phase, DiffusedRegression) for phase in phases):
        raise InvalidValue("phases must be at least one DiffusedRegression")
    for phase in phases:
        if phase.design != design or phase.n != n or phase.precision != phases[0].precision:
            raise InvalidValue(f"every phase must have the design of its rows, {design}, n={n}. Got {phase.design}")
        if phase.draws != 1:
            raise InvalidValue(f"a phase draws one sample a chain; ask for several here. Got draws={phase.draws}")


@dataclass(frozen=True, eq=False)
class LocalisedRegression(RegressionMechanism):
    """k diffused posteriors in a row, the prior of each N(previous sample, R²/d) with R from a public schedule.

    It removes most of the price of a wide prior: the first phase looks everywhere and sees little, the last sees
    much of a small neighbourhood. What comes out costs √(Σμ²) by adaptive composition, converged or not.

    Examples
    --------
    >>> from sottovoce.inference.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> design = Design(Logistic(), dimension=20, data_norm=1.0)
    >>> mechanism = LocalisedRegression.calibrate(design, 10_000, ApproxDP(1.0, 1e-5), scales=(20, 10, 5))
    >>> [round(phase.data_weight, 3) for phase in mechanism.phases]
    [0.018, 0.036, 0.073]
    """

    word: ClassVar[str] = "localised regression"
    choices: ClassVar[Choices] = {"localised": {}}
    phases: tuple[DiffusedRegression, ...]
    draws: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_phases(self.design, self.n, self.phases, self.draws)

    @classmethod
    def calibrate(
        cls,
        design: Design,
        n: int,
        target: Promise,
        *,
        scales: Sequence[float] | None = None,
        draws: int = 1,
        n_steps: int | None = None,
        precision: str = "float64",
    ) -> Self:
        """Return the mechanism whose phases together keep `target`; scales are 20, 10 and 5 over data_norm if None."""
        check_design(design)
        scales = [R / design.data_norm for R in (20.0, 10.0, 5.0)] if scales is None else scales
        mu = largest_keeping(GaussianProfile, target, high=1e6, name="mu")
        return cls(design, n, plan_phases(design, n, mu * (1 - 1e-12), scales, draws, n_steps, precision), draws)

    @property
    def profile(self) -> GaussianProfile:
        """What all phases and draws cost."""
        return GaussianProfile(total_mu(self.phases, self.draws), basis=check_precision(self.phases[0].precision))

    @classmethod
    def example(cls) -> Self:
        """Return two phases of a logistic regression of four records."""
        phase = DiffusedRegression(Design(Logistic(), dimension=2, data_norm=1.0), 4, 4.0, 0.4, n_steps=12)
        return cls(phase.design, 4, (phase, phase))

    def check_numbers(self) -> None:
        """Raise `InvalidValue` where the numbers cannot hold a phase."""
        for phase in self.phases:
            phase.check_numbers()

    def _value(self, seen: Rows, rng: np.random.Generator, draws: int) -> Floats:
        start = np.zeros((draws * self.draws, self.design.dimension))
        return run_phases(self.phases, seen.X, seen.y, start, rng)

    def _parameters(self) -> dict[str, Any]:
        numbers = {"phases": [phase.numbers() for phase in self.phases], "draws": int(self.draws)}
        return numbers | {"precision": self.phases[0].precision}

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        design, n = system_from(state["system"]), state["n"]
        return cls(design, n, phases_from(design, n, state["phases"], state["precision"]), state["draws"])
