"""Plain values: what goes into JSON and comes back."""

from __future__ import annotations

import json
from typing import Any

from sottovoce.privacy.errors import InvalidValue

__all__ = ["json_object"]


def json_object(text: str, what: str, error: type[InvalidValue] = InvalidValue) -> dict[str, Any]:
    """Return the JSON object in `text`, or raise `error` saying that it is none.

    >>> json_object('{"a": 1}', "a release")
    {'a': 1}
    """
    try:
        state = json.loads(text)
    except (json.JSONDecodeError, TypeError, UnicodeDecodeError, RecursionError, ValueError) as reason:
        raise error(f"{what} is read from JSON, and this is none: {reason}") from None
    if not isinstance(state, dict):
        raise error(f"{what} is a JSON object. Got {text!r}")
    return state
