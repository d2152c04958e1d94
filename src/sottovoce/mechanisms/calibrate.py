"""Calibration, once for all mechanisms: the largest parameter that keeps the promise."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy import optimize

from sottovoce.privacy.errors import PromiseUnreachable
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import Promise

__all__ = ["largest_keeping"]

_FAR = 1e6
"""Stands in for an infinite excess, so that the root finder can subtract."""


def largest_keeping(
    profile_at: Callable[[float], Profile],
    target: Promise,
    *,
    high: float,
    low: float | None = None,
    name: str,
) -> float:
    """Return the largest parameter in [low, high] whose profile keeps `target`.

    Privacy must weaken as the parameter grows. The answer is within a relative 1e-12 of the supremum and
    on its private side: the profile at the very number returned has been seen to keep the promise.

    Parameters
    ----------
    profile_at
        The profile of the mechanism at a given parameter. Takes no data.
    target
        The promise to keep.
    high, low
        Where to look; `low` defaults to 1e-15 of `high`.
    name
        What the parameter is called, for the error.

    Raises
    ------
    PromiseUnreachable
        If not even `low` keeps the promise.
    """
    bottom = high * 1e-15 if low is None else low

    def excess(log_parameter: float) -> float:
        return min(profile_at(math.exp(log_parameter)).excess(target), _FAR)

    if profile_at(high).excess(target) <= 0:
        return high
    left, right = math.log(high), math.log(high)
    while excess(left) > 0:
        if math.exp(left) <= bottom:
            raise PromiseUnreachable(f"no {name} >= {bottom:.3g} keeps {target}: {_reason(profile_at(bottom), target)}")
        left, right = max(left - 2.0, math.log(bottom)), left
    root = optimize.brentq(excess, left, right, xtol=2e-13, rtol=8.9e-16)
    answer, step = math.exp(root), 1e-13
    while profile_at(answer).excess(target) > 0:
        answer, step = answer * (1 - step), 2 * step
    return answer


def _reason(profile: Profile, target: Promise) -> str:
    excess = profile.excess(target)
    if math.isinf(excess):
        return (
            "this mechanism never gives that kind of privacy (its curve is infinite); "
            "ask for another kind of promise or use another mechanism"
        )
    return f"there it is still {excess:.3g} over; loosen the promise or use another mechanism"
