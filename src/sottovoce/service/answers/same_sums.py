"""What else the sums of a column tell: mean, total and standard deviation are of one release, and paid for once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.question_checks import OF_RECORDS
from sottovoce.privacy.errors import InvalidValue

if TYPE_CHECKING:
    from sottovoce.mechanisms.release import Release

_OF_SUMS = ("mean", "rate", *OF_RECORDS)


def of_same_sums(release: Release, verb: str) -> Release:
    """Return the release of a mean, a total, a standard deviation or a rate, with another of these asked of it."""
    posterior = release.value
    asked = posterior.question
    if not isinstance(posterior, CellsPosterior) or asked.verb not in _OF_SUMS or asked.exposure:
        raise InvalidValue(f"{verb} is made of one column's sums: a mean's, a total's, an sd's or a rate's of counts")
    pool = asked.pool and verb not in OF_RECORDS
    return replace(release, value=replace(posterior, question=replace(asked, verb=verb, pool=pool)))
