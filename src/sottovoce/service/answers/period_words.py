"""Periods in words: which a question was charged to, what each has left, and that the promise is about one of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.privacy.relation import Relation
from sottovoce.privacy.shares import percent

_MOST_NAMES = 4
"""The most periods that a note names."""
_MOST_RUNS = 8
"""The most stretches of periods that a sentence names."""


def charged_note(mechanism: Mapping[str, Any]) -> str | None:
    """Return which periods an answer was charged to, where its data have any.

    >>> charged_note({"periods": {"by": "admitted: monthly", "charged": ["2024-01", "2024-02"], "of": 13}})
    'charged to 2 of 13 periods by admitted: monthly: 2024-01, 2024-02'
    """
    if (known := mechanism.get("periods")) is None:
        return None
    names = known["charged"]
    return f"charged to {len(names)} of {known['of']} periods by {known['by']}: {listed(names)}"


def listed(names: Sequence[str]) -> str:
    """Return the names of some periods, of many the first and the last.

    >>> listed(["2024-01", "2024-02", "2024-03", "2024-04", "no period"])
    '2024-01, 2024-02, …, no period'
    """
    return ", ".join(names) if len(names) <= _MOST_NAMES else f"{names[0]}, {names[1]}, …, {names[-1]}"


def within_one(relation: Relation, by: str, *, home: bool = False) -> str:
    """Return who is protected where each period has a budget of its own.

    >>> from sottovoce.privacy.relation import REPLACE_ONE
    >>> within_one(REPLACE_ONE, "admitted: monthly")
    'protected is a row, not a person, within one period (admitted: monthly): whoever has several is protected less'
    >>> within_one(REPLACE_ONE.of_person(), "enrolled: yearly", home=True)
    'protected are all rows of a person, which lie in one period, as the owner says (enrolled: yearly); it is public'
    """
    if relation.unit == "record":
        return f"protected is a row, not a person, within one period ({by}): whoever has several is protected less"
    if home:
        return f"protected are all rows of a person, which lie in one period, as the owner says ({by}); it is public"
    return f"protected are a person's rows within one period ({by}): whoever has rows in several is protected less"


def left_in_words(shares: Mapping[str, float]) -> str:
    """Return what each period has left, those side by side that have the same together.

    >>> left_in_words({"2024-01": 0.5, "2024-02": 1.0, "2024-03": 1.0, "no period": 1.0})
    'left: 50 % of 2024-01; 100 % of 2024-02 to no period'
    """
    texts = {name: percent(max(0.0, round(share, 9))) for name, share in shares.items()}
    runs = [(text, [name for name, _ in same]) for text, same in itertools.groupby(texts.items(), lambda item: item[1])]
    if len(runs) == 1:
        return f"{runs[0][0]} left of each period"
    if len(runs) > _MOST_RUNS:
        lowest, highest = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
        return f"left: from {texts[lowest]} of {lowest} to {texts[highest]} of {highest}"
    return "left: " + "; ".join(f"{text} of {_run(names)}" for text, names in runs)


def _run(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
