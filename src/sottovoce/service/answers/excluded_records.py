"""How many records an answer leaves out, where that is more than noise explains: told by the released counts alone.

Most often values are missing; but facts that call them by other words than the file does leave them out as well, and
nothing else would say so: no record is looked at before it is paid for, and no message speaks of one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sottovoce.inference.cells.cell_mechanisms import Posterior
    from sottovoce.inference.cells.questions import Question

_SURE = 5.0
"""So many standard deviations noise reaches once in two thousand answers or less, if it is Laplace noise."""
_MANY = 0.2
"""From this part of the records on it is told that they are left out: few are, where only some values are missing."""
_FEW = 0.1
"""Of a condition it is told that perhaps no record meets it where no more than this part can."""

_NEARLY = 0.98


def left_out_note(posterior: Posterior) -> str | None:
    """Return what the released counts tell of records that are in no row, in words; None where there is nothing to say.

    >>> from sottovoce.service.answers import NoisyCells, Question
    >>> from sottovoce.records.facts import Category, Facts
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> question = Question("counts", ("ward",), Facts(ward=Category(["A", "B"])))
    >>> mechanism, records = NoisyCells(question, 1000, "gaussian", 3.0), {"ward": ["a"] * 400 + ["B"] * 600}
    >>> left_out_note(mechanism.release(records, seeded_rng(1)).value)  # doctest: +ELLIPSIS
    'about 400 of 1,000 records are in no row: ward is missing, or written otherwise than the facts say; if that is ...
    """
    question = posterior.question
    if not posterior.reading.counted or question.rows > 1:  # whose places persons with few rows leave empty
        return None
    noisy, noise, room = posterior.noisy_counts()
    inside, outside, item = float(noisy[:-1].sum()), float(noisy[-1]), math.sqrt(noise.variance)
    sd = item if room is not None else item * math.sqrt(len(noisy) - 1)
    if room is not None:
        inside = room - outside  # one count knows it better than the sum of many
    total = inside + outside
    if question.where is not None:
        if inside > 2 * sd or max(inside, 0.0) + _SURE * sd > _FEW * total:
            return None
        most = f"{_about(max(inside, 0.0) + 2 * sd)} of {_all(posterior, total)} at most"
        return (
            f"perhaps no record is meant, {most}: if that is a surprise, compare the words of the condition and of the "
            "facts with those in the data"
        )
    if outside - _SURE * item <= _MANY * (total + _SURE * sd):
        return None
    full = _all(posterior, total)
    part = f"nearly all of {full}" if outside >= _NEARLY * total else f"about {_about(outside)} of {full}"
    return (
        f"{part} are in no row: {_columns(question)} is missing, or written otherwise than the facts say; if that is a "
        "surprise, compare their words with those in the data"
    )


def _all(posterior: Posterior, total: float) -> str:
    units = "records" if posterior.question.facts.person is None else "persons"
    return f"{_about(total) if posterior.n is None else f'{posterior.n:,}'} {units}"


def _about(many: float) -> str:
    """Return a number with two digits that are not zeros: noise hides the others."""
    power = 10 ** max(math.floor(math.log10(max(many, 1.0))) - 1, 0)
    return f"{round(many / power) * power:,.0f}"


def _columns(question: Question) -> str:
    """Return the columns of which a value that the facts do not name leaves a record out."""
    named = [name for name in question.columns if name != question.facts.person]
    open_ones = [name for name in named if getattr(question.facts[name], "missing", None) is None]
    return " or ".join(open_ones or named)
