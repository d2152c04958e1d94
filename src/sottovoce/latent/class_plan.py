"""The private part of naive Bayes: noise on every table and every column's moments, planned without data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sottovoce.latent.bounded import moment_profile, moment_sensitivity
from sottovoce.latent.count_tables import CountTables
from sottovoce.latent.noisy_counts import NoisyCounts
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.mechanisms.integer_noise import IntegerNoise, NoiseKind
from sottovoce.privacy.composition import compose
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidValue, PromiseUnreachable
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import ApproxDP, Promise
from sottovoce.privacy.pure import PureProfile

__all__ = ["ClassPlan"]

_KINDS: tuple[NoiseKind, ...] = ("laplace", "gaussian")


@dataclass(frozen=True, eq=False)
class ClassPlan:
    """Noise on the count tables and on the moments of the numeric columns.

    Attributes
    ----------
    counts
        The mechanism for the tables.
    moments
        The noise on the sums of each numeric column, in grid steps.
    """

    counts: NoisyCounts
    moments: tuple[IntegerNoise, ...]

    @property
    def profile(self) -> Profile:
        """What tables and moments together provably do."""
        return compose([self.counts.profile, *map(moment_profile, self.moments)])

    @classmethod
    def calibrate(
        cls,
        tables: CountTables,
        numeric: tuple[str, ...],
        n: int,
        target: Promise,
        noise: NoiseKind | None,
        shares: Any,
    ) -> Self:
        """Return the plan with the least noise that keeps the promise.

        Parameters
        ----------
        tables, numeric
            The count tables and the names of the numeric columns.
        n, target, noise
            The number of records, the promise, and the kind of noise.
        shares
            Positive numbers by the name of a table's last field or of a numeric column; equal where None.
        """
        names = (*(table[-1] for table in tables.tables), *numeric)
        parts = _shares(names, shares)
        if not numeric:
            return cls(NoisyCounts.calibrate(tables, n, target, noise, None if shares is None else parts.tolist()), ())
        if noise is None:
            return cls._lighter(tables, numeric, n, target, shares)

        def profile(budget: float) -> Profile:
            if noise == "laplace" and isinstance(target, ApproxDP):
                return PureProfile(budget)  # what all the noises add up to; quicker than to compose them
            made = cls._at(tables, parts, n, noise, budget).profile
            return ZeroConcentratedProfile(made.zcdp()) if noise == "gaussian" else made

        found = largest_keeping(profile, target, high=500.0, name="budget")
        return cls._at(tables, parts, n, noise, found)

    @classmethod
    def _lighter(cls, tables: CountTables, numeric: tuple[str, ...], n: int, target: Promise, shares: Any) -> Self:
        """Return the plan of whichever noise is the smaller one on the moments."""
        plans: list[Self] = []
        reasons: list[PromiseUnreachable] = []
        for kind in _KINDS:
            try:
                plans.append(cls.calibrate(tables, numeric, n, target, kind, shares))
            except PromiseUnreachable as error:
                reasons.append(error)
        if not plans:
            raise reasons[0]
        return min(plans, key=lambda plan: sum(noise.variance for noise in plan.moments))

    @classmethod
    def _at(cls, tables: CountTables, parts: Floats, n: int, noise: NoiseKind, budget: float) -> Self:
        """Return the plan that spends ε (Laplace) or ρ (Gaussian) = `budget`, split by shares."""
        count = len(tables.tables)
        spent = budget * parts
        if noise == "laplace":
            scales, rest = 2 / spent[:count], moment_sensitivity(noise) / spent[count:]
        else:
            scales, rest = np.sqrt(1 / spent[:count]), np.sqrt(moment_sensitivity(noise) / (2 * spent[count:]))
        counts = NoisyCounts(tables, n, noise, scales.tolist())
        return cls(counts, tuple(IntegerNoise(noise, float(scale)) for scale in rest))


def _shares(names: tuple[str, ...], shares: Any) -> Floats:
    if shares is None:
        return np.full(len(names), 1 / len(names))
    if not isinstance(shares, Mapping) or set(shares) != set(names):
        raise InvalidValue(f"shares must map each of {', '.join(names)} to a positive number. Got {shares!r}")
    values = np.array([float(shares[name]) for name in names])
    if not np.all((values > 0) & np.isfinite(values)):
        raise InvalidValue(f"shares must be positive numbers. Got {shares!r}")
    return np.asarray(values / values.sum())
