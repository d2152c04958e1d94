"""What an entry notes of a question beside what is asked."""

from __future__ import annotations

from typing import Any

from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.ledger.hash_chain import canonical

_LONGEST_PURPOSE = 300


def told_of(about: Any) -> dict[str, Any]:
    """Return more of a question, if it can be written down."""
    try:
        shown: dict[str, Any] | None = dict(about or {})
        canonical(shown)
    except (TypeError, ValueError, RecursionError):
        shown = None
    if shown is None or not all(isinstance(name, str) for name in shown):
        raise InvalidValue(f"about= is a mapping from texts to plain values. Got a {type(about).__name__}")
    return shown


def purpose_of(given: str | None) -> dict[str, str]:
    """Return what an entry notes of the purpose of a question: nothing, where nobody stated one."""
    if given is None or (isinstance(given, str) and given == ""):
        return {}
    if not isinstance(given, str) or len(given) > _LONGEST_PURPOSE or not given.isprintable():
        raise InvalidValue(f"a purpose is one line of text, of at most {_LONGEST_PURPOSE} characters")
    return {"purpose": given}
