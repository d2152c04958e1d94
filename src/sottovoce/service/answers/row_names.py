"""What the rows of an answer are called, and which one is meant by a name."""

from __future__ import annotations

import re
from collections.abc import Hashable

from sottovoce.inference.cells.questions import Question
from sottovoce.privacy.errors import InvalidValue
from sottovoce.service.answers.display import shown

_NAMED = 12
"""So many rows are named to whoever names one that is not there."""


def row_name(label: object) -> str:
    """Return what a row is called.

    >>> row_name(("A", True)), row_name("A")
    ('A / yes', 'A')
    """
    return " / ".join(map(shown, _flat(label)))


def row_of(question: Question, label: object) -> int:
    """Return the place of the row that goes by a label: its groups in order, or as it is shown, ``"A / 2024-01"``.

    >>> from sottovoce.records.facts import Category, Facts, Flag
    >>> facts = Facts(ill=Flag(), ward=Category(["A", "B"]), old=Flag())
    >>> asked = Question("proportion", ("ill",), facts, by=("ward", "old"))
    >>> row_of(asked, ("B", True)), row_of(asked, "B / yes"), row_of(asked, "B, yes")
    (3, 3, 3)
    """
    labels = [tuple(map(shown, known)) for known in question.labels]
    wanted = tuple(map(shown, _flat(label)))
    if wanted in labels:
        return labels.index(wanted)
    text = [_plainly(row_name(known)) for known in labels]
    if text.count(name := _plainly(row_name(label))) == 1:
        return text.index(name)
    if labels == [()]:
        if row_name(label).strip() in (question.verb, question.parameter):
            return 0
        raise InvalidValue(f"this answer has one row, which is called {question.verb!r}. Got {row_name(label)!r}")
    rows = ", ".join(map(row_name, labels[:_NAMED]))
    more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
    raise InvalidValue(f"no row of this answer is called {row_name(label)!r}; there are {rows}{more}")


def _flat(label: object) -> tuple[Hashable, ...]:
    parts: list[Hashable] = []
    for part in label if isinstance(label, tuple | list) else (label,):
        parts.extend(_flat(part) if isinstance(part, tuple | list) else (part,))
    return tuple(parts)


def _plainly(name: str) -> str:
    """Return a name whatever stands between its groups: ``A / B``, ``A, B`` or ``A/B``."""
    return re.sub(r"\s*[/,]\s*", " / ", name.strip())
