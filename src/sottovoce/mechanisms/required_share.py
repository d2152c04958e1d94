"""The inverse question: which share of a budget an accuracy needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from sottovoce.mechanisms.expected_error import expected
from sottovoce.mechanisms.mechanism_choice import build_mechanism, width_of
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.numbers import real
from sottovoce.privacy.promises import Promise

_LEAST, _CLOSE = 1e-5, 0.01
"""The least share looked at, and how close the answer comes, relative to it."""
_MANY = 10**9
"""The most records that are imagined."""


@dataclass(frozen=True)
class Needed:
    """What share of a budget a mechanism needs for an accuracy: None where the whole does not do.

    `width` is what is to be expected at that share, or of the whole budget: half of the 95 % interval, or 1.96 times
    the expected error where that is more, as it is of a mechanism that leans on its prior.
    """

    name: str
    share: float | None
    width: float | None

    def to_dict(self) -> dict[str, object]:
        """Return what is needed as plain values."""
        return asdict(self)


def shares_needed(
    system: object, n: int, budget: Promise | PrivacyFilter, width: float, mean: object, names: list[str]
) -> list[Needed]:
    """Return what share of a budget each mechanism needs for an answer known to ± `width`; the least first.

    >>> from sottovoce.privacy.promises import ApproxDP
    >>> from sottovoce.mechanisms.conjugate import BetaBernoulli
    >>> first = shares_needed(BetaBernoulli(1, 1), 10_000, ApproxDP(1.0, 1e-6), 0.02, 0.3, ["gaussian"])[0]
    >>> 0.001 < first.share < 0.1, first.width <= 0.02
    (True, True)
    """
    wanted = real("width", width)
    if not wanted > 0:
        raise InvalidValue(f"width must be > 0. Got {wanted:g}")
    purse = budget if isinstance(budget, PrivacyFilter) else PrivacyFilter(budget)

    def half(name: str, share: float) -> float:
        return _half(name, system, n, purse.share(share), mean)

    result = [_needed(name, wanted, partial(half, name)) for name in names]
    return sorted(result, key=lambda one: (one.share is None, one.share or 0.0, one.width or math.inf))


def records_needed(system: object, n: int, budget: Promise, width: float, mean: object, name: str) -> int | None:
    """Return about how many records the whole budget needs for ± `width`, more than n; None where a billion do not."""
    few, enough, target = n, _MANY, PrivacyFilter(budget).share(1.0)
    if not _half(name, system, enough, target, mean) <= width:
        return None
    while enough > 1.1 * few:
        middle = math.isqrt(few * enough)
        few, enough = (few, middle) if _half(name, system, middle, target, mean) <= width else (middle, enough)
    return enough


def _half(name: str, system: Any, n: int, target: Promise, mean: Any) -> float:
    """Return half of the width to expect of a mechanism."""
    try:
        mechanism = build_mechanism(name, system, n, target)
        width = width_of(mechanism, mean)
    except SottovoceError:
        return math.inf
    if width is None:
        return math.inf
    shown = expected(mechanism, [*system.reading.plausible(), mean])
    return max(width / 2, 0.0 if shown is None else 1.96 * shown.error)


def _needed(name: str, wanted: float, half: Callable[[float], float]) -> Needed:
    full = half(1.0)
    if not full <= wanted:
        return Needed(name, None, full if math.isfinite(full) else None)
    low, high, best = math.log(_LEAST), 0.0, full
    if (least := half(_LEAST)) <= wanted:
        return Needed(name, _LEAST, least)
    while high - low > _CLOSE:
        middle = (low + high) / 2
        if (at := half(math.exp(middle))) <= wanted:
            high, best = middle, at
        else:
            low = middle
    return Needed(name, math.exp(high), best)
