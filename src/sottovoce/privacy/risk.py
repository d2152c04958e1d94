r"""What a profile means for a person: how well anyone can do who guesses from a release.

All follow from the trade-off curve β(α): with a false-alarm rate of α, no test of "was it this data set or its
neighbour?" misses less often than β(α). Guessing who a record belongs to, what it says, or the whole of it, with a
chance of success α beforehand, is such a test (Kulynych et al. 2025), so it succeeds with at most 1 − β(α).
"""

from __future__ import annotations

import math
from typing import overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from sottovoce.privacy.concentrated import RenyiProfile, ZeroConcentratedProfile
from sottovoce.privacy.errors import IncompatibleNotions
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.numbers import Floats, as_floats, real
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import (
    ApproxDP,
    GaussianDP,
    MaxAdvantage,
    MaxSuccess,
    Promise,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
)
from sottovoce.privacy.pure import PureProfile

__all__ = [
    "advantage",
    "least_private",
    "predictive_value",
    "promised_advantage",
    "promised_success",
    "success",
    "trade_off",
]

_ONE = math.nextafter(1.0, 2.0)
"""Rates lie below this."""
_POINTS = 161
"""Tangents of the trade-off curve that are compared before the best one is refined."""


def advantage(profile: Profile) -> float:
    """Return the largest advantage over chance of any guess between two neighbours: δ(0).

    >>> from sottovoce.privacy.pure import PureProfile
    >>> round(advantage(PureProfile(1.0)), 4)
    0.4621
    """
    return min(1.0, float(profile.delta(0.0)))


@overload
def trade_off(profile: Profile, false_alarms: float) -> float: ...
@overload
def trade_off(profile: Profile, false_alarms: ArrayLike) -> Floats: ...
def trade_off(profile: Profile, false_alarms: ArrayLike) -> float | Floats:
    r"""Return β(α), below which no test with false-alarm rate α can bring its misses.

    .. math:: \beta(\alpha) = \max\Big(0,\ \sup_{\varepsilon \ge 0} 1 - \delta(\varepsilon) - e^{\varepsilon}\alpha,\
              \sup_{\varepsilon \ge 0} e^{-\varepsilon}\big(1 - \delta(\varepsilon) - \alpha\big)\Big)

    Every ε gives a true bound, so what is returned is never above the curve, however finely it is looked at.

    >>> from sottovoce.privacy.gaussian import GaussianProfile
    >>> round(trade_off(GaussianProfile(1.0), 0.05), 4)
    0.7405
    """
    alphas = as_floats("false_alarms", false_alarms, 0.0, below=_ONE)
    found = np.array([_at_most_one_less(_hits(profile, float(alpha))) for alpha in np.atleast_1d(alphas)])
    return float(found[0]) if alphas.ndim == 0 else found


def success(profile: Profile, baseline: float) -> float:
    """Return the largest chance of a guess that succeeds with probability `baseline` without the release.

    Whether it singles a person out, infers an attribute or reconstructs a record.

    >>> from sottovoce.privacy.gaussian import GaussianProfile
    >>> round(success(GaussianProfile(0.5), 0.01), 4)
    0.0339
    """
    return _hits(profile, real("baseline", baseline, below=_ONE))


def predictive_value(profile: Profile, prior: float, false_alarms: float) -> float:
    """Return how sure an alarm can be: Pr[in the data | alarm], for a prior and a false-alarm rate.

    >>> from sottovoce.privacy.pure import PureProfile
    >>> round(predictive_value(PureProfile(1.0), 0.5, 0.1), 4)
    0.7311
    """
    prior = real("prior", prior, below=1.0)
    false_alarms = real("false_alarms", false_alarms, below=_ONE)
    hits = _hits(profile, false_alarms)
    if prior == 0 or hits == 0:
        return prior
    return prior * hits / (prior * hits + (1 - prior) * false_alarms)


def promised_success(promise: Promise, baseline: float) -> float:
    """Return the largest chance that a promise leaves to a guess which succeeds with `baseline` beforehand.

    >>> round(promised_success(ApproxDP(1.0, 1e-6), 0.01), 6)
    0.027184
    """
    chance = float(as_floats("baseline", baseline, 0.0, below=1.0))
    match promise:
        case ApproxDP(epsilon, delta):
            many = math.exp(min(epsilon, 700.0)) * chance + delta
            return min(1.0, many, 1 - math.exp(-epsilon) * (1 - delta - chance))
        case MaxAdvantage(most):
            return min(1.0, chance + most)
        case MaxSuccess(most, known):
            # Hits grow with false alarms, in a concave curve that starts at 0 or above.
            return min(1.0, most * max(1.0, chance / known))
    return success(least_private(promise), chance)


def promised_advantage(promise: Promise) -> float:
    """Return the largest advantage over chance that a promise leaves to a guess between two neighbours.

    >>> round(promised_advantage(PureDP(1.0)), 4)
    0.4621
    """
    match promise:
        case ApproxDP(epsilon, delta):
            return min(1.0, math.tanh(epsilon / 2) + delta * (1 - math.tanh(epsilon / 2)))
        case MaxAdvantage(most):
            return most
        case MaxSuccess(most, known):
            return 1 - known / most  # where the line through the origin and the promise reaches certainty
    return advantage(least_private(promise))


def least_private(promise: Promise) -> Profile:
    """Return the profile of all that keeps a promise, as little of it as the promise allows."""
    match promise:
        case PureDP(epsilon):
            return PureProfile(epsilon)
        case GaussianDP(mu):
            return GaussianProfile(mu)
        case ZeroConcentratedDP(rho):
            return ZeroConcentratedProfile(rho)
        case RenyiDP(order, epsilon):
            return RenyiProfile((order,), (epsilon,))
    raise IncompatibleNotions(f"no curve goes with {promise}; ask what it leaves to a guess instead")


def _hits(profile: Profile, alpha: float) -> float:
    """Return 1 - β(α), the power of the best test; as a sum of positive terms, so that a small one keeps its digits."""
    if alpha >= 1:
        return 1.0

    def bounds(epsilon: Floats) -> Floats:
        delta = np.minimum(profile.delta(epsilon), 1.0)
        with np.errstate(over="ignore"):
            first = delta + (np.exp(epsilon + math.log(alpha)) if alpha > 0 else 0.0)
        second = -np.expm1(-epsilon) + np.exp(-epsilon) * (delta + alpha)
        return np.asarray(np.minimum(first, second))

    pure = profile.pure()
    top = min(pure if math.isfinite(pure) else 60.0, max(60.0, 2 * -math.log(max(alpha, 1e-300))))
    grid = np.concatenate([[0.0], np.geomspace(min(1e-6, top / 2) if top > 0 else 1e-6, max(top, 2e-6), _POINTS)])
    if math.isfinite(pure):
        grid = np.append(grid, pure)
    values = bounds(grid)
    best = int(np.argmin(values))
    least = float(values[best])
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    if high > low:
        found = optimize.minimize_scalar(
            lambda e: float(bounds(np.array([e]))[0]), bounds=(float(low), float(high)), method="bounded"
        )
        least = min(least, float(found.fun))
    # The exponent of a small α rounds by its size.
    lift = 1 + 4e-16 * (2 - math.log(alpha)) if alpha > 0 else 1 + 1e-15
    return min(max(least * lift, alpha), 1.0)


def _at_most_one_less(hits: float) -> float:
    """Return 1 - hits, rounded down."""
    rest = 1.0 - hits
    return rest if hits <= 1.0 - rest else math.nextafter(rest, 0.0)
