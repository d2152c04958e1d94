"""Families of a regression: the mean of the response given t = x·θ, its slope, and how far one record can pull.

For every family Σ v(x)·x·(y − μ(t)) has mean zero at the truth, whatever the public weights v(x) are.
"""

from __future__ import annotations

import functools
from typing import Any

from sottovoce.privacy.errors import InvalidValue
from sottovoce.records.facts.columns import Column
from sottovoce.records.readings.binary_families import EDGE, HART, LogisticFamily, ProbitFamily, normal_cdf
from sottovoce.records.readings.family import FARTHEST, Family
from sottovoce.records.readings.linear_family import LinearFamily
from sottovoce.records.readings.multinomial_family import MultinomialFamily
from sottovoce.records.readings.poisson_family import MOST_COUNTED, PoissonFamily

__all__ = [
    "EDGE",
    "FAMILIES",
    "FARTHEST",
    "HART",
    "MOST_COUNTED",
    "Family",
    "LinearFamily",
    "PoissonFamily",
    "family_of",
    "normal_cdf",
]

_KINDS: tuple[type[Any], ...] = (LogisticFamily, ProbitFamily, LinearFamily, PoissonFamily, MultinomialFamily)
FAMILIES: dict[str, type[Any]] = {kind.word: kind for kind in _KINDS}
"""Every family by its word."""

_ELSEWHERE = {
    "binomial": "logistic",
    "logit": "logistic",
    "gaussian": "linear",
    "normal": "linear",
    "ols": "linear",
    "negative binomial": "poisson, whose notes tell how much counts vary beyond it",
    "negativebinomial": "poisson, whose notes tell how much counts vary beyond it",
    "quasipoisson": "poisson, which allows for how much counts vary beyond it",
    "polr": "ordinal",
    "cox": "event= for hazard ratios, and no family",
    "hazard": "event= for hazard ratios, and no family",
}
"""What other programs call a family, and what to say here."""


def family_of(
    word: object, response: Column, cap: float = 0, extra: float = 0.0, centred: bool = True, beyond: float = 0.0
) -> Family:
    """Return a family by its word, or raise `InvalidValue`.

    `cap` is where counts or residuals are cut, `extra` how much more counts vary than a Poisson law's; a response is
    `centred` where rows have a constant that can make up for it; `beyond` is from where on residuals count at all.
    """
    if not isinstance(word, str) or word not in FAMILIES:
        asked = _ELSEWHERE.get(word.lower(), "") if isinstance(word, str) else ""
        raise InvalidValue(
            f"family must be one of {', '.join(FAMILIES)} or ordinal. Got {word!r}{asked and f'; say {asked}'}"
        )
    return _family(word, response, cap, extra, centred, beyond)


@functools.lru_cache(maxsize=256)
def _family(word: str, response: Column, cap: float, extra: float, centred: bool, beyond: float) -> Family:
    """Return a family, made once: looks of other norms ask for the same sums of a law."""
    result: Family = FAMILIES[word].of(response, cap, extra, beyond)
    return result if centred else result.from_zero()
