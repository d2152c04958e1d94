"""Calibration, once for all mechanisms: the largest parameter that keeps the promise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from sottovoce.privacy.errors import IncompatibleNotions, PromiseUnreachable
from sottovoce.privacy.numbers import shown
from sottovoce.privacy.profile import Profile
from sottovoce.privacy.promises import ApproxDP, MaxSuccess, Promise

__all__ = ["largest_keeping", "quietest"]


class _Noisy(Protocol):
    @property
    def variance(self) -> float: ...
    @property
    def profile(self) -> Profile: ...


K = TypeVar("K")
M = TypeVar("M", bound=_Noisy)

_CLOSE = 1e-12
"""How near the crossing the search ends, relative to the parameter."""


def largest_keeping(
    profile_at: Callable[[float], Profile],
    target: Promise,
    *,
    high: float,
    low: float | None = None,
    name: str,
) -> float:
    """Return the largest parameter in [low, high] whose profile keeps `target`.

    Privacy must weaken as the parameter grows. The answer is within a relative 1e-11 of the supremum and
    on its private side: the profile at the very number returned has been seen to keep the promise. The search runs over
    the logarithm of the parameter, on a scale where most curves are nearly straight lines, by secants kept
    inside a bracket.

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

    Examples
    --------
    >>> from sottovoce.privacy.gaussian import GaussianProfile
    >>> from sottovoce.privacy.promises import GaussianDP
    >>> round(largest_keeping(lambda w: GaussianProfile(3 * w), GaussianDP(0.6), high=1.0, name="w"), 9)
    0.2
    """
    if not isinstance(target, Promise):
        raise IncompatibleNotions(f"the target is a promise such as ApproxDP(1.0, 1e-6). Got {shown(target)}")
    gap = _gap_of(target)
    at_high = gap(profile_at(high).excess(target))
    if at_high <= 0:
        return high
    bottom = high * 1e-15 if low is None else low
    span = math.log(high / bottom)

    def height(t: float) -> float:
        return gap(profile_at(high * math.exp(-t)).excess(target))

    # t = log(high / parameter): 0 breaks the promise; look for a t that keeps it, on a slope of two at first.
    broken, above = 0.0, at_high
    step = min(max(at_high / 2 * 1.1, 1e-3), 20.0) if math.isfinite(at_high) else 1.0
    while True:
        if broken >= span:
            raise PromiseUnreachable(f"no {name} >= {bottom:.3g} keeps {target}: {_reason(profile_at(bottom), target)}")
        kept = min(broken + step, span)
        below = height(kept)
        if below <= 0:
            break
        broken, above, step = kept, below, 2 * step
    root, back = _crossing(height, broken, above, kept, below), _CLOSE
    while True:
        answer = high * math.exp(-root - back)
        if profile_at(answer).excess(target) <= 0:
            return answer
        back *= 4


def quietest(kinds: Iterable[K], calibrated: Callable[[K], M], price: Callable[[Profile], float] | None) -> M:
    """Return the mechanism of the kind of noise that gets most out of a promise, of those that can keep it.

    Without a price that is the one with the least variance; with it, the one with the least at an equal price, for
    variance falls as a price grows. Where none can keep the promise, the first says why.
    """
    mechanisms: list[M] = []
    reasons: list[PromiseUnreachable] = []
    for kind in kinds:
        try:
            mechanisms.append(calibrated(kind))
        except PromiseUnreachable as error:
            reasons.append(error)
    if not mechanisms:
        raise reasons[0]
    if len(mechanisms) == 1:
        return mechanisms[0]
    return min(mechanisms, key=lambda item: item.variance * (1.0 if price is None else price(item.profile)))


def _crossing(height: Callable[[float], float], broken: float, above: float, kept: float, below: float) -> float:
    """Return the root between `broken` and `kept` by secants; a step that leaves the bracket becomes a bisection."""
    last, value, before, earlier = kept, below, broken, above
    while kept - broken > _CLOSE:
        with_secant = math.isfinite(value) and math.isfinite(earlier) and value != earlier
        t = last - value * (last - before) / (value - earlier) if with_secant else math.inf
        if not broken < t < kept:
            t = (broken + kept) / 2
        before, earlier = last, value
        last, value = t, height(t)
        if value > 0:
            broken = t
        else:
            kept = t
        # Secants gain more than half as many digits again with every step: the next one would change nothing.
        if (abs(last - before) < 1e-8 and with_secant) or abs(value) < 1e-14:
            break
    return last


def _gap_of(target: Promise) -> Callable[[float], float]:
    """Return a rising function of the excess with the same sign, nearly straight in the log of the parameter.

    A divergence grows like a power of the parameter; log δ(ε) falls like a power of its inverse.
    """
    if isinstance(target, ApproxDP) and target.delta > 0:
        top = -math.log(target.delta)
        return lambda excess: -math.log1p(-excess / top) if excess < top else math.inf
    if isinstance(target, MaxSuccess):
        number = target.success - target.baseline
    else:
        number = getattr(target, "epsilon" if isinstance(target, ApproxDP) else target.numbers()[-1])
    if number <= 0:
        return lambda excess: excess
    return lambda excess: math.log1p(excess / number) if excess > -number else -math.inf


def _reason(profile: Profile, target: Promise) -> str:
    if math.isinf(profile.excess(target)):
        return (
            "this mechanism never gives that kind of privacy (its curve is infinite); "
            "ask for another kind of promise or use another mechanism"
        )
    return (
        "this asks for more privacy than the mechanism gives at any setting; "
        "spend more (a looser promise, a larger share) or use another mechanism"
    )
