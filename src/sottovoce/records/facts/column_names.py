"""Names of columns within a text: as they are where they read as one word, else in quotes."""

from __future__ import annotations

import re

from sottovoce.records.facts.derived_parser import FUNCTIONS

_IN_QUOTES = "|".join(f"{mark}(?>[^{mark}]++|{mark}{mark})++{mark}" for mark in "`'\"")
_INSIDE = rf"(?:[^()'\"`]|{_IN_QUOTES})"
for _ in range(6):  # so deep may parentheses be nested here
    _INSIDE = rf"(?:[^()'\"`]|{_IN_QUOTES}|\((?>{_INSIDE}*+)\))"
_CALL = rf"\b(?-i:{'|'.join(FUNCTIONS)})\((?>{_INSIDE}*+)\)"
NAME = rf"(?>{_IN_QUOTES}|{_CALL}|\b(?!and(?![\w.\-]))[^\W\d][\w.\-]*+)"
"""A name as it is written, for a pattern that ignores case: a quote within quotes stands twice. Or a derived column."""
_PLAIN = re.compile(rf"[^\W\d][\w.\-]*|{_CALL}")
_WORDS = frozenset({"and", "by", "each", "for", "in", "of", "per", "pooled", "where"})
"""What a question says between names."""


def quoted(name: str) -> str:
    """Return a name as a question writes it.

    >>> print(quoted("sbp"), quoted("blood pressure"), quoted("by"), quoted('5" pipe'))
    sbp "blood pressure" "by" '5" pipe'
    """
    if _PLAIN.fullmatch(name) and name.lower() not in _WORDS:
        return name
    mark = next((mark for mark in "\"'`" if mark not in name), '"')
    return f"{mark}{name.replace(mark, 2 * mark)}{mark}"


def unquoted(text: str) -> str:
    """Return a name without its quotes, and with what is said of it after them.

    >>> unquoted("`blood pressure`: 12 bands"), unquoted('"5"" pipe"'), unquoted("sbp")
    ('blood pressure: 12 bands', '5" pipe', 'sbp')
    """
    result = re.match(_IN_QUOTES, text)
    if result is None:
        return text
    mark = text[0]
    return result[0][1:-1].replace(2 * mark, mark) + text[result.end() :]
