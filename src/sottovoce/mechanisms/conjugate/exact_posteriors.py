"""Posteriors in exact numbers: what a release is drawn from, to the last bit.

The distributions beside this file compute in doubles, which is fine for summaries. A promise is about the law of what
leaves, so that the parameters of that law are kept as fractions: vα + ws is then exactly that, for every data set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sottovoce.records.readings import Statistics


@dataclass(frozen=True)
class BetaLaw:
    """Beta(alpha, beta) given that it lies in [low, high]."""

    alpha: Fraction
    beta: Fraction
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(1)


@dataclass(frozen=True)
class GammaLaw:
    """Gamma(shape, rate) given that it lies in [low, high]; no end where `high` is None."""

    shape: Fraction
    rate: Fraction
    low: Fraction = Fraction(0)
    high: Fraction | None = None


@dataclass(frozen=True)
class NormalLaw:
    """N(centre, variance) given that it lies in [low, high]; no ends where they are None.

    `spread` is a *public* number beside which the cells of a release are small, such as the standard deviation where
    that is the same for every data set. Where it is None nothing public is known, and cells have 50 significant bits.
    """

    centre: Fraction
    variance: Fraction
    low: Fraction | None = None
    high: Fraction | None = None
    spread: float | None = None


@dataclass(frozen=True)
class DirichletLaw:
    """Dirichlet(alpha) given that every probability is at least `floor`."""

    alpha: tuple[Fraction, ...]
    floor: Fraction = Fraction(0)


Law = BetaLaw | GammaLaw | NormalLaw | DirichletLaw


def exact_total(statistics: Statistics) -> tuple[Fraction, ...]:
    """Return ΣS(x) in exact numbers: as it was added, or the very doubles where only those are known.

    >>> exact_total(Statistics(3, np.array([1.5])))
    (Fraction(3, 2),)
    """
    if statistics.exact is not None:
        return statistics.exact
    return tuple(Fraction(entry) for entry in statistics.total.tolist())


def tempered_power(parameter: Fraction, temperature: float) -> Fraction:
    """Return (a - 1)/T + 1: the parameter of a density raised to the power 1/T.

    >>> tempered_power(Fraction(9), 4.0)
    Fraction(3, 1)
    """
    return (parameter - 1) / Fraction(temperature) + 1


def law_of(distribution: object) -> Law | Sequence[Law] | None:
    """Return the law whose parameters are the very doubles of a distribution, one for each of several numbers.

    None where it is of no family that can be drawn exactly.

    >>> from sottovoce.mechanisms.conjugate.distributions import Beta
    >>> law_of(Beta(2, 0.5))
    BetaLaw(alpha=Fraction(2, 1), beta=Fraction(1, 2), low=Fraction(0, 1), high=Fraction(1, 1))
    """
    law: Law | Sequence[Law] | None = getattr(distribution, "law", None)
    return law


def cut(law: object, low: float, high: float) -> Any:
    """Return a law given that it lies in [low, high]; None where there is no law of one number."""
    if not isinstance(law, BetaLaw | GammaLaw | NormalLaw):
        return None
    ends: dict[str, Any] = {name: Fraction(end) for name, end in (("low", low), ("high", high)) if np.isfinite(end)}
    if law.low is not None and "low" in ends:
        ends["low"] = max(ends["low"], law.low)
    if law.high is not None and "high" in ends:
        ends["high"] = min(ends["high"], law.high)
    return replace(law, **ends)
