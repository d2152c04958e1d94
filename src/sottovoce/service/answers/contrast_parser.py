"""A combination of coefficients in words: ``age=10, sex=1`` or ``ward[T.B] - ward[T.C]``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import shown

_LONGEST = 10_000
_WEIGHT = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


def parse_contrast(text: str, terms: Sequence[str]) -> dict[str, float]:
    """Return the weight of each term that a text names; commas, equal signs and dashes may stand in a term.

    >>> terms = ["Intercept", "age", "ward[T.B]", "ward[T.C, new]"]
    >>> parse_contrast("age=10, ward[T.B]", terms)
    {'age': 10.0, 'ward[T.B]': 1.0}
    >>> parse_contrast("ward[T.B] - ward[T.C, new]", terms)
    {'ward[T.B]': 1.0, 'ward[T.C, new]': -1.0}
    """
    if len(text) > _LONGEST:
        raise InvalidValue(f"a contrast in words may have {_LONGEST} characters. Got {len(text)}")
    names = "|".join(re.escape(term) for term in sorted(terms, key=len, reverse=True))
    if (pair := re.fullmatch(rf"\s*({names})\s+-\s+({names})\s*", text)) is not None and pair[1] != pair[2]:
        return {pair[1]: 1.0, pair[2]: -1.0}
    part = re.compile(rf"\s*({names})\s*(?:=\s*({_WEIGHT})\s*)?(?:,|$)")
    weights: dict[str, float] = {}
    place = 0
    while place < len(text) or not weights:
        result = part.match(text, place)
        if result is None:
            raise InvalidValue(
                f"a contrast reads like age=10, sex=1 or 'A - B', of the terms {', '.join(terms[:20])}. "
                f"Got {shown(text[place:].strip()[:80])}"
            )
        if result[1] in weights:
            raise InvalidValue(f"a contrast says the weight of a term once. Got {result[1]!r} twice")
        weights[result[1]] = float(result[2] or 1.0)
        place = result.end()
    return weights
