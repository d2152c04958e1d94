"""The inverse question: which share of a budget an accuracy needs."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from sottovoce.mechanisms.choices import build_mechanism, forecast_of
from sottovoce.mechanisms.expected import expected, plausible_means
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.numbers import real
from sottovoce.privacy.promises import Promise

__all__ = ["Needed", "shares_needed"]

_LEAST, _CLOSE = 1e-5, 0.01
"""The least share looked at, and how close the answer comes, relative to it."""


@dataclass(frozen=True)
class Needed:
    """What share of a budget a mechanism needs for an accuracy: None where the whole does not do.

    `width` is what is to be expected at that share, or of the whole budget: half of the 95 % interval, or 1.96 times
    the expected error where that is more, as it is of a mechanism that leans on its prior.
    """

    name: str
    share: float | None
    width: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return what is needed as plain values."""
        return asdict(self)


def shares_needed(
    system: Any, n: int, budget: Promise | PrivacyFilter, width: float, mean: Any, names: list[str]
) -> list[Needed]:
    """Return what share of a budget each mechanism needs for an answer known to ± `width`; the least first.

    >>> from sottovoce.privacy.promises import ApproxDP
    >>> from sottovoce.systems import BetaBernoulli
    >>> first = shares_needed(BetaBernoulli(1, 1), 10_000, ApproxDP(1.0, 1e-6), 0.02, 0.3, ["gaussian"])[0]
    >>> 0.001 < first.share < 0.1, first.width <= 0.02
    (True, True)
    """
    wanted = real("width", width)
    if not wanted > 0:
        raise InvalidValue(f"width must be > 0. Got {wanted:g}")
    means = [] if mean is None else [*plausible_means(system), mean]
    purse = budget if isinstance(budget, PrivacyFilter) else PrivacyFilter(budget)

    def half(name: str, share: float) -> float:
        try:
            mechanism = build_mechanism(name, system, n, purse.share(share))
            forecast = forecast_of(mechanism, mean)
        except SottovoceError:
            return math.inf
        if forecast is None:
            return math.inf
        told = expected(mechanism, means)
        return max(forecast.interval_width / 2, 0.0 if told is None else 1.96 * told.error)

    found = [_needed(name, wanted, half) for name in names]
    return sorted(found, key=lambda one: (one.share is None, one.share or 0.0, one.width or math.inf))


def _needed(name: str, wanted: float, half: Any) -> Needed:
    whole = half(name, 1.0)
    if not whole <= wanted:
        return Needed(name, None, whole if math.isfinite(whole) else None)
    low, high, best = math.log(_LEAST), 0.0, whole
    if (least := half(name, _LEAST)) <= wanted:
        return Needed(name, _LEAST, least)
    while high - low > _CLOSE:
        middle = (low + high) / 2
        if (at := half(name, math.exp(middle))) <= wanted:
            high, best = middle, at
        else:
            low = middle
    return Needed(name, math.exp(high), best)
