"""Who is protected by what an answer cost: a person, or a row where the facts name nobody that rows belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sottovoce.privacy.profile import Profile
from sottovoce.records.facts import Facts
from sottovoce.service.answers.period_words import within_one

_ROW = "protected is a row, not a person: whoever has several rows is protected less"


def protection_note(cost: Profile, mechanism: Mapping[str, Any] | None = None) -> str | None:
    """Return that a row is protected and not a person, or within one period alone, where that is so.

    >>> from sottovoce.privacy.pure import PureProfile
    >>> from sottovoce.privacy.relation import REPLACE_ONE
    >>> protection_note(PureProfile(0.1))
    'protected is a row, not a person: whoever has several rows is protected less'
    >>> protection_note(PureProfile(0.1, relation=REPLACE_ONE.of_person()))
    """
    if (periods := (mechanism or {}).get("periods")) is not None:
        return within_one(cost.relation, periods["by"], home=periods.get("home", False))
    return _ROW if cost.relation.unit == "record" else None


def nobody_note(facts: Facts) -> str | None:
    """Return what becomes of rows that do not say whose they are; None where no column says it.

    >>> from sottovoce.records.facts import Flag, Person
    >>> nobody_note(Facts(smoker=Flag(), patient=Person()))
    "rows without a patient are nobody's and are left out"
    >>> nobody_note(Facts(smoker=Flag()))
    """
    return None if facts.person is None else f"rows without a {facts.person} are nobody's and are left out"
