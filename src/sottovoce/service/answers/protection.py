"""Who is protected by what an answer cost: a person, or a row where the facts name nobody that rows belong to."""

from __future__ import annotations

from sottovoce.privacy.profile import Profile

__all__ = ["protection_note"]

_ROW = "protected is a row, not a person: whoever has several rows is protected less"


def protection_note(cost: Profile) -> str | None:
    """Return that a row is protected and not a person, where that is so.

    >>> from sottovoce.privacy.pure import PureProfile
    >>> from sottovoce.privacy.relation import REPLACE_ONE
    >>> protection_note(PureProfile(0.1))
    'protected is a row, not a person: whoever has several rows is protected less'
    >>> protection_note(PureProfile(0.1, relation=REPLACE_ONE.of_person()))
    """
    return _ROW if cost.relation.unit == "record" else None
