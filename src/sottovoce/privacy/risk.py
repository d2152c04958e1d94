r"""What a profile means for a person: how well anyone can do who guesses from a release.

All follow from the trade-off curve β(α): with a false-alarm rate of α, no test of "was it this data set or its
neighbour?" misses less often than β(α). Guessing who a record belongs to, what it says, or the whole of it, with a
chance of success α beforehand, is such a test (Kulynych et al. 2025), so it succeeds with at most 1 − β(α).

Every function takes a profile, for what a mechanism or several together do, or a promise, for the worst that keeps it.
"""

from __future__ import annotations

import functools
import math
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from sottovoce.privacy.budget_units import coins
from sottovoce.privacy.numbers import Floats, as_floats, real, whole
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promise import Promise
from sottovoce.privacy.rounding import LEAST, lifted

__all__ = [
    "advantage",
    "hits",
    "how_sure",
    "inferred",
    "predictive_value",
    "reconstructed",
    "rounded_chance",
    "singled_out",
    "success",
    "trade_off",
]

Claim = Profile | Promise

_ONE = math.nextafter(1.0, 2.0)
"""Rates lie below this."""
_POINTS = 65
"""Tangents of the trade-off curve that are compared before the best one is refined."""
_KEPT = 64
"""Sets of them that are kept with a profile."""
_FINER = np.linspace(0.0, 1.0, 13)
_ROUNDS = 7
"""Each leaves a sixth of where the best tangent may lie."""
_ORDERS = 1 + np.geomspace(1e-3, 1e4, 43)
"""Rényi orders at which a test is held to the curve, where δ(ε) is known through the curve alone."""
_SIXTEENTHS = np.arange(16) / 16
"""Of where a coin may lie: four halvings for hardly more than one."""
_LIFT = 1 + 1e-15
"""More than the rounding of the few operations that make up a chance."""


def advantage(claim: Claim) -> float:
    """Return the largest advantage over chance of any guess between two neighbours: δ(0).

    >>> from sottovoce.privacy.pure import PureProfile
    >>> round(advantage(PureProfile(1.0)), 4)
    0.4621
    """
    if not isinstance(claim, Promise):
        return min(1.0, float(claim.delta(0.0)))
    closed_form = claim._tells()
    return advantage(claim.worst()) if closed_form is None else closed_form


@overload
def trade_off(claim: Claim, false_alarms: float) -> float: ...
@overload
def trade_off(claim: Claim, false_alarms: ArrayLike) -> Floats: ...
def trade_off(claim: Claim, false_alarms: ArrayLike) -> float | Floats:
    r"""Return β(α), below which no test with false-alarm rate α can bring its misses.

    .. math:: \beta(\alpha) = \max\Big(0,\ \sup_{\varepsilon \ge 0} 1 - \delta(\varepsilon) - e^{\varepsilon}\alpha,\
              \sup_{\varepsilon \ge 0} e^{-\varepsilon}\big(1 - \delta(\varepsilon) - \alpha\big)\Big)

    Every ε gives a true bound, so what is returned is never above the curve, however finely it is looked at.

    >>> from sottovoce.privacy.gaussian import GaussianProfile
    >>> round(trade_off(GaussianProfile(1.0), 0.05), 4)
    0.7405
    """
    alphas = as_floats("false_alarms", false_alarms, 0.0, below=_ONE)
    flat = alphas.ravel()
    if isinstance(claim, Promise):
        result = np.array([_left(claim, float(alpha)) for alpha in flat])
    else:
        result = _hits(claim, flat)
    missed = 1.0 - result
    missed = np.where(result <= 1.0 - missed, missed, np.nextafter(missed, 0.0))  # rounded down
    return float(missed[0]) if alphas.ndim == 0 else np.asarray(missed.reshape(alphas.shape))


def success(claim: Claim, baseline: float) -> float:
    """Return the largest chance of a guess that succeeds with probability `baseline` without the release.

    Whether it singles a person out, infers an attribute or reconstructs a record.

    >>> from sottovoce.privacy.gaussian import GaussianProfile
    >>> round(success(GaussianProfile(0.5), 0.01), 4)
    0.0339
    """
    chance = real("baseline", baseline, below=_ONE)
    return _left(claim, chance) if isinstance(claim, Promise) else float(_hits(claim, np.array([chance]))[0])


@functools.lru_cache  # every page of a server says what its budgets leave
def _left(promise: Promise, chance: float) -> float:
    closed_form = promise._leaves(chance)
    return success(promise.worst(), chance) if closed_form is None else closed_form


def singled_out(claim: Claim, people: int) -> float:
    """Return the largest chance to name whose record it is, of so many people who are all as likely.

    >>> from sottovoce.privacy.promises import PureDP
    >>> round(singled_out(PureDP(1.0), 1000), 6)
    0.002718
    """
    return success(claim, 1 / whole("people", people, 1))


def inferred(claim: Claim, values: int) -> float:
    """Return the largest chance to tell what a record says of an attribute with so many values, all as likely.

    >>> from sottovoce.privacy.promises import PureDP
    >>> round(inferred(PureDP(1.0), 2), 4)
    0.8161
    """
    return success(claim, 1 / whole("values", values, 1))


def reconstructed(claim: Claim, records: int) -> float:
    """Return the largest chance to write down a whole record, of so many that it could be, all as likely.

    >>> from sottovoce.privacy.promises import PureDP
    >>> round(reconstructed(PureDP(1.0), 10**6), 9)
    2.718e-06
    """
    return success(claim, 1 / whole("records", records, 1))


def predictive_value(claim: Claim, prior: float, false_alarms: float) -> float:
    """Return how sure an alarm can be: Pr[in the data | alarm], for a prior and a false-alarm rate.

    >>> from sottovoce.privacy.pure import PureProfile
    >>> round(predictive_value(PureProfile(1.0), 0.5, 0.1), 4)
    0.7311
    """
    prior = real("prior", prior, below=_ONE)
    false_alarms = real("false_alarms", false_alarms, below=_ONE)
    return how_sure(success(claim, false_alarms), prior, false_alarms)


def how_sure(found: float, prior: float, false_alarms: float) -> float:
    """Return how sure an alarm is that comes with probability `found` where it should; see `predictive_value`."""
    if prior in (0, 1) or found == 0:
        return prior
    # Divided by the hits first: nothing underflows to a nought over a nought.
    return rounded_chance(prior / (prior + (1 - prior) * (false_alarms / found)))


def rounded_chance(chance: float) -> float:
    """Return a chance made of a few operations, rounded up."""
    return min(1.0, chance * _LIFT + LEAST) if chance else 0.0


def hits(epsilon: float, delta: float, chance: float) -> float:
    """Return the hits that (ε, δ) leaves at a false-alarm rate, rounded up."""
    if chance == 0:
        return delta
    log = math.log(chance)
    odds = (math.exp(epsilon + log) if epsilon + log < 1 else math.inf) + delta
    most = -math.expm1(-epsilon) + math.exp(-epsilon) * (delta + chance)
    # The exponent rounds by the size of what it is made of.
    return min(1.0, max(min(odds, most) * (1 + 8e-16 * (4 + epsilon - log)) + LEAST, chance))


def _hits(profile: Profile, alphas: Floats) -> Floats:
    """Return 1 - β(α), the power of the best test; as a sum of positive terms, so that a small one keeps its digits.

    Each of the two families of tangents has one best ε, by convexity: the better family is looked at on a grid, then
    closer and closer by.
    """
    rates = alphas[:, None]
    with np.errstate(all="ignore"):
        logs = np.log(rates)

        def steep(epsilon: Floats, delta: Floats) -> Floats:
            return np.asarray(delta + np.exp(epsilon + logs))

        def flat(epsilon: Floats, delta: Floats) -> Floats:
            return np.asarray(-np.expm1(-epsilon) + np.exp(-epsilon) * (delta + rates))

        grid, known = _tangents(profile, float(np.min(alphas, initial=1.0)))
        first, second = steep(grid[None, :], known[None, :]), flat(grid[None, :], known[None, :])
        better = (first.min(axis=1) <= second.min(axis=1))[:, None]
        places, values = np.broadcast_to(grid, first.shape), np.where(better, first, second)
        least = np.ones(alphas.shape)
        for finer in range(_ROUNDS + 1):
            best = np.argmin(values, axis=1)[:, None]
            least = np.fmin(least, np.take_along_axis(values, best, axis=1)[:, 0])
            if finer < _ROUNDS:
                low = np.take_along_axis(places, np.maximum(best - 1, 0), axis=1)
                high = np.take_along_axis(places, np.minimum(best + 1, places.shape[1] - 1), axis=1)
                places = low + (high - low) * _FINER
                fine = _deltas(profile, places.ravel()).reshape(places.shape)
                values = np.where(better, steep(places, fine), flat(places, fine))
        # The exponent of a small α rounds by its size.
        lift = 1 + 4e-16 * (4 + np.where(alphas > 0, np.abs(logs[:, 0]), 0.0))
    if not profile.has_own_delta:
        least = np.fmin(least, _hits_by_orders(profile, alphas))
    return np.where(alphas >= 1, 1.0, np.clip(lifted(least, lift), alphas, 1.0))


def _hits_by_orders(profile: Profile, alphas: Floats) -> Floats:
    """Return the power of the best test that a Rényi curve allows, rounded up.

    A test is an event, and what happens to its two chances is a coin: by data processing it lies no further from the
    other coin than the curve allows, at any order. Where δ(ε) comes from the curve, this is the shorter way.
    """
    inside = (alphas > 0) & (alphas < 1)
    exact_orders = [order for order in getattr(profile, "orders", ()) if order > 1]  # where the curve itself is known
    orders = np.unique(np.concatenate([_ORDERS, exact_orders]))
    orders = orders[np.isfinite(profile.renyi(orders))]
    out = np.ones(alphas.shape)
    if not orders.size or not inside.any():
        return out
    rates = alphas[inside][:, None]
    places = np.broadcast_to(np.log(orders - 1), (rates.size, orders.size))
    least = np.ones(rates.size)
    for finer in range(3):
        result = _heads(profile, rates, places)
        least = np.fmin(least, result.min(axis=1))
        if finer < 2:
            best = np.argmin(result, axis=1)[:, None]
            low = np.take_along_axis(places, np.maximum(best - 1, 0), axis=1)
            high = np.take_along_axis(places, np.minimum(best + 1, places.shape[1] - 1), axis=1)
            places = low + (high - low) * _FINER
    out[inside] = least
    return out


def _heads(profile: Profile, rates: Floats, places: Floats) -> Floats:
    """Return how often a coin may show heads beside one that does at a rate, at orders 1 + e^place; rounded up."""
    orders = 1 + np.exp(places)[:, :, None]
    most = profile.renyi(orders.ravel()).reshape(orders.shape) * (1 + 1e-9)
    chances = rates[:, :, None]
    low, high = np.zeros(orders.shape), np.broadcast_to(1 - chances, orders.shape)
    with np.errstate(all="ignore"):
        for _ in range(13):
            edges = np.concatenate([low + (high - low) * _SIXTEENTHS, high], axis=2)
            beyond = coins(chances, edges[:, :, 1:-1], orders) > most
            first = np.count_nonzero(~beyond, axis=2, keepdims=True)
            low, high = (np.take_along_axis(edges, first + side, axis=2) for side in (0, 1))
    return np.asarray((chances + high)[:, :, 0])


def _tangents(profile: Profile, least: float) -> tuple[Floats, Floats]:
    """Return where tangents are compared, from far below the advantage to where e^ε times the least rate is one, and δ.

    A profile is asked at one rate after the other.
    """
    pure = profile.pure()
    top = min(pure, max(60.0, -math.log(max(least, 1e-320))))
    return _compared(profile, top, least == 0 and math.isinf(pure))


@functools.lru_cache(maxsize=_KEPT)
def _compared(profile: Profile, top: float, endless: bool) -> tuple[Floats, Floats]:
    first = min(1e-6, max(float(profile.delta(0.0)), 1e-290), max(top / 2, LEAST))
    grid = np.concatenate([[0.0], np.geomspace(first, top, _POINTS)]) if top > 0 else np.zeros(1)
    grid = np.append(grid, [1e3, 1e6, 1e9, 1e12]) if endless else grid
    return grid, _deltas(profile, grid)


def _deltas(profile: Profile, epsilon: Floats) -> Floats:
    return np.fmin(np.exp(profile.log_delta(epsilon)), 1.0)
