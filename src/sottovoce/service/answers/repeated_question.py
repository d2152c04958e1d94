"""What is said where the very same question was answered before: that earlier answer is free, and another is paid."""

from __future__ import annotations

from collections.abc import Collection


def repeat_note(entry: int | None, *, told_with: Collection[int] = ()) -> str | None:
    """Return which entry answered a question before, in words, and whether this is told of both; None where none did.

    >>> repeat_note(3)
    'entry 3 answered this very question before; again=True (--again) tells that answer, free'
    >>> repeat_note(3, told_with=[3, 7])
    'entry 3 answered this very question before, and what it knows is told here too, free: this is narrower than either'
    >>> repeat_note(None)
    """
    if entry is None:
        return None
    said = f"entry {entry} answered this very question before"
    if entry in told_with:
        return f"{said}, and what it knows is told here too, free: this is narrower than either"
    return f"{said}; again=True (--again) tells that answer, free"
