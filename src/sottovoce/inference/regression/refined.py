"""The refined posterior: flatten the rows, take their noisy statistics, then sample near them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.inference.regression.design import Design, check_design
from sottovoce.inference.regression.device_placement import LOT, are_few
from sottovoce.inference.regression.exact_sums import exact_moments
from sottovoce.inference.regression.localised import check_phases, phases_from, plan_phases, run_phases, total_mu
from sottovoce.inference.regression.losses import ComplementaryLogLog, Logistic, Poisson, positive
from sottovoce.inference.regression.noisy_moments import NoisyMoments
from sottovoce.inference.regression.posterior import (
    DiffusedRegression,
    RegressionMechanism,
    check_precision,
    default_precision,
)
from sottovoce.inference.regression.row_maps import Flattening, RowMap, shape_by
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.conjugate.named_systems import system_from
from sottovoce.mechanisms.mechanism import Choices
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.promises import GaussianDP, Promise
from sottovoce.records.readings import Rows

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


def _back(estimate: Floats, maps: Sequence[RowMap]) -> Floats:
    """Return parameters of mapped rows as those of the rows before they were mapped."""
    for step in reversed(maps):
        estimate = step.parameters(estimate)
    return estimate


def mapped(design: Design) -> Design:
    """Return the design of the mapped rows: of norm at most 1; a ball keeps the same reach of the linear predictor."""
    return Design(design.loss, design.dimension, 1.0, design.radius * design.data_norm)


@dataclass(frozen=True, eq=False)
class RefinedRegression(RegressionMechanism):
    r"""Three private looks at the records, each from where the one before it led.

    1. `Flattening` shrinks the direction that all rows share (a share `flatten` of μ²).
    2. `NoisyMoments` of the flattened rows give a first Gaussian posterior (a share `statistics`; none where
       d is too large for X'X to rise above its noise).
    3. Diffused posteriors, certified Langevin chains, in coordinates in which that posterior is round, centred at its
       mean, with ever narrower priors (the rest of μ²).

    Each look is μᵢ-GDP given the ones before it, so that the whole is √(Σμᵢ²)-GDP by adaptive composition.

    Examples
    --------
    >>> from sottovoce.inference.regression.losses import Logistic
    >>> from sottovoce.privacy.promises import ApproxDP
    >>> design = Design(Logistic(), dimension=20, data_norm=1.0)
    >>> mechanism = RefinedRegression.calibrate(design, 10_000, ApproxDP(1.0, 1e-5))
    >>> mechanism.profile.satisfies(ApproxDP(1.0, 1e-5)), mechanism.statistics is None
    (True, False)
    """

    word: ClassVar[str] = "refined regression"
    choices: ClassVar[Choices] = {"refined": {}}
    flattening: Flattening
    statistics: NoisyMoments | None
    phases: tuple[DiffusedRegression, ...]
    draws: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.flattening, Flattening) or self.flattening.design != self.design:
            raise InvalidValue(f"the flattening must have this very design, {self.design}")
        # Their noise is for rows of norm 1, which is what the map hands them: another bound would claim too much.
        unit, first = mapped(self.design), self.statistics
        if first is not None and not (isinstance(first, NoisyMoments) and (first.design, first.n) == (unit, self.n)):
            raise InvalidValue(f"the statistics must have the design of the mapped rows, {unit}")
        check_phases(unit, self.n, self.phases, self.draws)

    @classmethod
    def calibrate(
        cls,
        design: Design,
        n: int,
        target: Promise,
        *,
        draws: int = 1,
        prior_scale: float = 30.0,
        scales: Sequence[float] | None = None,
        flatten: float = _FLATTEN,
        statistics: float | None = None,
        n_steps: int | None = None,
        precision: str = "float64",
    ) -> Self:
        """Return the mechanism that keeps `target`; the shares and scales come from n, d and the promise alone.

        Statistics are taken when 2n·μ ≥ d^{3/2}: an average direction's part n/d of X'X is then a fair part of
        the norm √(2d)·√2/μ of the noise. (Not for losses that grow exponentially, which no quadratic follows.)
        `prior_scale` is a guess of ‖w‖·data_norm.
        """
        check_design(design)
        mu = largest_keeping(GaussianProfile, target, high=1e6, name="mu") * (1 - 1e-12)
        if statistics is None:
            seen = 2 * n * mu >= design.dimension**1.5 and not isinstance(design.loss, _FAR_FROM_QUADRATIC)
            statistics = _STATISTICS if seen else 0.0
        if not (flatten > 0 and statistics >= 0 and flatten + statistics < 1):
            raise InvalidValue(f"shares must be > 0, >= 0 and sum below 1. Got {flatten} and {statistics}")
        positive("prior_scale", prior_scale)
        unit = mapped(design)
        first = None
        if statistics:
            first = NoisyMoments(unit, n, mu * math.sqrt(statistics), default_precision(unit, prior_scale))
        scales = tuple(scales or ()) or public_scales(n, design.dimension, mu, statistics=statistics > 0)
        remainder = mu * math.sqrt(1 - flatten - statistics)
        phases = plan_phases(unit, n, remainder, scales, draws, n_steps, precision)
        return cls(design, n, Flattening(design, mu * math.sqrt(flatten)), first, phases, draws)

    @property
    def profile(self) -> GaussianProfile:
        """What all the looks cost together."""
        looks = [self.flattening.mu, total_mu(self.phases, self.draws)]
        looks += [self.statistics.mu] if self.statistics else []
        return GaussianProfile(math.hypot(*looks) * (1 + 1e-13), basis=check_precision(self.phases[0].precision))

    @classmethod
    def example(cls) -> Self:
        """Return three looks at twenty records."""
        shares: dict[str, Any] = {"scales": (2.0,), "statistics": 0.1, "n_steps": 4}
        return cls.calibrate(
            Design(Logistic(), dimension=2, data_norm=1.0), 20, GaussianDP(2.0), prior_scale=2.0, **shares
        )

    def check_numbers(self) -> None:
        """Raise `InvalidValue` where the numbers cannot hold a phase."""
        for phase in self.phases:
            phase.check_numbers()

    def _value(self, seen: Rows, rng: np.random.Generator, draws: int) -> Floats:
        # Samples of one release share its first looks; those of another take their own.
        rows, labels = self.design.clip(seen.X), self.design.responses(seen.y)
        few = are_few(draws, rows.size)
        lots = [min(LOT, draws - done) for done in range(0, draws, LOT)] if few else [1] * draws
        return np.concatenate([self._together(rows, labels, rng, lot) for lot in lots])

    def _outputs(self, seen: Rows, rng: np.random.Generator, draws: int) -> Floats:
        """Return what so many independent releases let out, a row each; each takes its own looks."""
        return self._value(seen, rng, draws).reshape(draws, -1)

    def _together(self, rows: Floats, labels: Floats, rng: np.random.Generator, lot: int) -> Floats:
        """Return the samples of so many releases, made side by side."""
        maps, X, centre = self._first_looks(rows, labels, rng, lot)
        centre = np.repeat(centre, self.draws, axis=1)
        if lot == 1:
            result = run_phases(self.phases, X[0], labels, centre[0], rng)[None]
        else:  # as many as a compiled program is for; what is too many is thrown away
            X, centre = np.resize(X, (LOT, *X.shape[1:])), np.resize(centre, (LOT, *centre.shape[1:]))
            result = run_phases(self.phases, X, labels, centre, rng)[:lot]
        return _back(result, maps).reshape(-1, self.design.dimension)

    def _first_looks(
        self, rows: Floats, labels: Floats, rng: np.random.Generator, lot: int
    ) -> tuple[list[RowMap], Floats, Floats]:
        """Return the maps that so many releases learn, the rows that each of them makes, and where chains start."""
        flat = self.flattening.learn(rows, rng, (lot,))
        rows, first = flat.rows(rows), self.statistics
        if first is None:
            return [flat], rows, np.zeros((lot, 1, self.design.dimension))
        moments = first.perturbed(*exact_moments(rows, labels, max(map(abs, self.design.loss.labels))), rng)
        mean, covariance = first.fitted(moments)
        shape = shape_by(covariance, moments.gram, self.n)
        return [flat, shape], shape.rows(rows), shape.inverse(mean[:, None])

    def _parameters(self) -> dict[str, Any]:
        first = self.statistics
        return {
            "flattening": {"mu": self.flattening.mu, "keep": self.flattening.keep},
            "statistics": None if first is None else first.numbers(),
            "phases": [phase.numbers() for phase in self.phases],
            "draws": int(self.draws),
            "precision": self.phases[0].precision,
        }

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        design, n, first = system_from(state["system"]), state["n"], state["statistics"]
        unit = mapped(design)
        return cls(
            design,
            n,
            Flattening(design, **state["flattening"]),
            None if first is None else NoisyMoments(unit, n, **first),
            phases_from(unit, n, state["phases"], state["precision"]),
            state["draws"],
        )
