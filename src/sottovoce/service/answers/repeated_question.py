"""What is said where the very same question was answered before: that earlier answer is free, and another is paid."""

from __future__ import annotations


def repeat_note(entry: int | None) -> str | None:
    """Return which entry answered a question before, in words; None where none did.

    >>> repeat_note(3)
    'entry 3 answered this very question before; again=True (--again) tells that answer, free'
    >>> repeat_note(None)
    """
    if entry is None:
        return None
    return f"entry {entry} answered this very question before; again=True (--again) tells that answer, free"
