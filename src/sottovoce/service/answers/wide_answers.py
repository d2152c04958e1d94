"""What would make an answer narrower, each with the width that it would give: told by the answer itself, free."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.privacy.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sottovoce.mechanisms.release import Release

_POOLED_VERBS = ("proportion", "mean", "rate", "counts")
_OF_SIZES = ("proportion", "mean", "rate", "sd", "quantiles")
"""Verbs whose noise is divided by how many records a group has: of twice as many it does half as much."""
MOSTLY = 2 / 3
"""Advice is given where noise has at least this part of a width, which it then makes three times as wide."""
_FEWEST, _MOST = 3, 24
"""Groups that are pooled to say what it would do. How unlike they are is learned from their spread, which of fewer than
three shrinks nothing (Stein 1956); of more than two years' months it would take a second to make a note."""


def pooled_groups(release: Release) -> Release:
    """Return the same release with its groups pooled: what was released is the same, what is believed of it is not."""
    posterior = release.value
    asked = posterior.question
    if not isinstance(posterior, CellsPosterior) or asked.verb not in _POOLED_VERBS:
        raise InvalidValue(f"groups are pooled of {', '.join(_POOLED_VERBS)}. Got {asked.describe()}")
    if len(asked.labels) < 2:
        raise InvalidValue(f"there is one row, and nothing to pool it with: {asked.describe()}")
    return release if asked.pool else replace(release, value=replace(posterior, question=replace(asked, pool=True)))


def narrower_note(release: Release, rows: Sequence[Mapping[str, Any]], share: float | None, level: float) -> str | None:
    """Return in words how the row of middle width would be narrower; None where noise does little for most rows.

    Widths follow from the two parts that a width has: what is there without noise falls as one over the root of the
    number of records, noise as one over their number, Gaussian noise as one over the root of the share and Laplace
    noise as one over it. What pooling does is computed: the posterior of the same release.
    """
    posterior, asked = release.value, release.value.question
    if sorted(map(_noise_of, rows))[len(rows) // 2] < MOSTLY:
        return None
    place = sorted(range(len(rows)), key=lambda at: float(rows[at]["high"]) - float(rows[at]["low"]))[len(rows) // 2]
    row = rows[place]
    width, part = (row["high"] - row["low"]) / 2, row["privacy_share"]
    hidden = row["estimate"] is None
    if not math.isfinite(width) or not (hidden or (part is not None and part >= MOSTLY)):
        return None
    ways = []
    if (pooled := _pooled(release, place, level)) is not None and pooled < width:
        ways.append(
            f"groups pooled (pool=True; of this release free, answer.pooled()), ± {about(pooled)} if they are alike"
        )
    if not hidden:
        plain = (1 - part) * width
        noise = math.sqrt(max(width**2 - plain**2, 0.0))
        if asked.by and len(asked.kept) > 1 and asked.verb in _OF_SIZES:
            ways.append(f"groups of twice as many records, ± {about(math.hypot(plain / math.sqrt(2), noise / 2))}")
        if share is not None and share <= 1 / 2:
            louder = math.sqrt(2) if getattr(posterior, "noise", "gaussian") == "gaussian" else 2.0
            ways.append(f"twice the share of the budget, ± {about(math.hypot(plain, noise / louder))}")
    if not ways:
        return None
    which = "" if len(rows) == 1 else " of the middle row"
    return f"most of the ± {about(width)}{which} is privacy's noise; with {', or with '.join(ways)}"


def _noise_of(row: Mapping[str, Any]) -> float:
    """Return which part of a row's width is noise: all where noise hides the row."""
    return 1.0 if row["estimate"] is None or row["privacy_share"] is None else float(row["privacy_share"])


def about(width: float) -> str:
    """Return a width with two digits that count.

    >>> about(391.3), about(0.03125)
    ('390', '0.031')
    """
    return f"{float(f'{width:.2g}'):,.10g}"


def _pooled(release: Release, place: int, level: float) -> float | None:
    """Return half the width of a row if groups were pooled; None where they are not, or where it would take long."""
    asked = release.value.question
    if asked.pool or not _FEWEST <= len(asked.labels) <= _MOST:
        return None
    try:
        pooled = pooled_groups(release).value
    except InvalidValue:
        return None
    low, high = pooled.interval(level)[asked.places[place]]
    return float(high - low) / 2
