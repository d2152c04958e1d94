"""The bounds for likelihoods that are smooth for most parameters only, and why they are refused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from sottovoce.privacy.errors import InvalidValue, UnprovenPrivacy
from sottovoce.privacy.numbers import real
from sottovoce.theory.metric.posterior_pairs import ExponentialRate

_W = 1.2564312086261697
"""The positive solution of e^w = 2w + 1."""
_KAPPA = 2 * _W / (1 - math.exp(-_W)) ** 2
"""The constant of Theorem 1(ii), about 4.91081."""


@dataclass(frozen=True)
class Counterexample:
    """A case in which a published bound is smaller than the truth.

    Attributes
    ----------
    claim
        The bound, in words and symbols.
    case
        The prior, the likelihood and the two data sets.
    bound, truth
        What the claim allows, and what happens.
    """

    claim: str
    case: str
    bound: float
    truth: float


class RefutedClaim(UnprovenPrivacy):
    """A published bound that is wrong; `counterexamples` show where."""

    def __init__(self, message: str, counterexamples: tuple[Counterexample, ...]) -> None:
        super().__init__(message)
        self.counterexamples = counterexamples


def relaxed_counterexamples(concentration: float = 1.0) -> tuple[Counterexample, Counterexample]:
    """Return a case against Theorem 1(ii) and one against Theorem 2(ii), whatever the concentration c > 0.

    Exponential records with the prior θ ~ Exp(c) fulfil Assumption 2 to the letter: the log-likelihoods of two data
    sets differ by θ|Σx - Σy| <= θρ(x, y), and the prior puts 1 - e^(-cL) on θ <= L.

    >>> first, second = relaxed_counterexamples()
    >>> round(first.bound), round(first.truth)
    (491, 1049)
    """
    c = real("concentration", concentration)
    if c == 0:
        raise InvalidValue("concentration must be > 0. Got 0")
    family = ExponentialRate(rate=c)

    def moved(n: int, by: float) -> tuple[np.ndarray, np.ndarray]:
        here = np.zeros(n)
        there = here.copy()
        there[0] = by
        return here, there

    return (
        Counterexample(
            claim="D(ξ(·|x) ‖ ξ(·|y)) <= κ·ρ(x, y)/c",
            case=f"Exponential records, prior Exp({c:g}), x ten zeros, y the same with one record at {100 * c:g}",
            bound=_KAPPA * 100,
            truth=family.divergence(*moved(10, 100 * c)),
        ),
        Counterexample(
            claim="|ξ(B|x) - ξ(B|y)| <= sqrt(κ·ρ(x, y)/(2c))",
            case=f"Exponential records, prior Exp({c:g}), x ten thousand zeros, y the same with one at {c / 100:g}",
            bound=math.sqrt(_KAPPA / 200),
            truth=float(family.profile(*moved(10_000, c / 100)).delta(0.0)),
        ),
    )


def relaxed_metric_privacy(concentration: float) -> NoReturn:
    """Refuse the relaxed bounds of Dimitrakakis et al. 2014, Theorems 1(ii), 2(ii) and 3(ii).

    Their Assumption 2 asks that the **prior** puts at least 1 - e^(-cL) on the parameters whose likelihood has the
    Lipschitz constant L. The proofs then integrate over the prior where the posterior is meant, and the posterior may
    sit just where the likelihood is rough.

    Raises
    ------
    RefutedClaim
        Always, with the counterexamples.

    Examples
    --------
    >>> relaxed_metric_privacy(concentration=1.0)
    Traceback (most recent call last):
        ...
    sottovoce.theory.metric.relaxed_claims.RefutedClaim: no privacy follows from ...
    """
    shown = relaxed_counterexamples(concentration)
    first = shown[0]
    raise RefutedClaim(
        "no privacy follows from a prior that only concentrates on smooth likelihoods: "
        f"{first.claim} is false. {first.case}: the claim allows {first.bound:.4g} and the truth is {first.truth:.4g}. "
        "Bound the parameter, so that one Lipschitz constant holds for all of it (MetricDP), or compute the divergence "
        "itself (ExponentialRate, LaplaceScale, BinomialProportion, NormalPrecision)",
        shown,
    )
