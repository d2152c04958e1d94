"""What could hide in a tail that is taken to be smooth, and what it would do to a mean, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Hidden:
    """How many records could hide unseen above (or below) a cut, as far off as `end`, and by how much they would move
    the mean.
    """

    above: bool
    cut: float
    end: float
    records: int
    moved: float


def assumption_of(groups: Sequence[Sequence[Hidden]]) -> str | None:
    """Return what was assumed of records that nobody saw, of one group or of several, in words.

    >>> assumption_of([[Hidden(True, 60, 4000, 17, 0.5)]])  # doctest: +ELLIPSIS
    'assumes that values above 60 thin out smoothly: up to 17 records far beyond, as at 4,000, could hide unseen (95 ...
    """
    several, result = len(groups) > 1, []
    for above in (True, False):
        side = [item for group in groups for item in group if item.above == above]
        if side:
            where, by = _span([item.cut for item in side], ",.4g"), _span([item.moved for item in side], ".2g")
            result.append(
                f"assumes that values {'above' if above else 'below'} {where} thin out smoothly: up to "
                f"{max(item.records for item in side):,} records{' of a group' * several} far beyond, as at "
                f"{side[0].end:,.6g}, could hide unseen (95 %), and would {'raise' if above else 'lower'} "
                f"{'its' if several else 'the'} mean by {by}; closer bounds rule that out"
            )
    return "; ".join(result) or None


def _span(values: Sequence[float], shown: str) -> str:
    return " to ".join(dict.fromkeys(format(value, shown) for value in (min(values), max(values))))
