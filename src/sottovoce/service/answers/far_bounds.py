"""Whether bounds that are far away make a mean wide, and what closer ones would do: told by the answer itself, free."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sottovoce.inference.cells.cell_mechanisms import Posterior

_NEAR = 0.05
"""A mean within so much of the range from its lower bound is told of: few values lie further off than half of it."""
_NOISE = 0.5
"""Where noise is at least this part of the width."""
_ROOM = 10
"""Named as an example is a bound so many times as far off as the mean may be."""
_VARIES, _WIDE = 2.0, 1.96
"""Without noise: values are taken to vary by up to twice their mean, as long-tailed costs and stays do (a lognormal law
of log-deviation 1.27); noise of far bounds hides how much they do. Half the width of an interval is so many of that."""
_CLOSER = 0.25
"""If that is so much of the bound there is, or less."""


def far_bounds_note(posterior: Posterior, rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what a closer bound would do to the width of a mean or a rate, in words; None where that is little.

    Told of the narrowest row, which is the one of most records.
    """
    asked = posterior.question
    known = [row for row in rows if row["privacy_share"] is not None]
    if asked.verb not in ("mean", "rate") or asked.exposure or asked.tails == "smooth" or not known:
        return None
    low, high = posterior.public_range
    row = min(known, key=lambda item: float(item["high"]) - float(item["low"]))
    reach = _round_above(_ROOM * (row["high"] - low))
    if row["privacy_share"] < _NOISE or row["high"] - low > _NEAR * (high - low) or reach > _CLOSER * (high - low):
        return None
    width = (row["high"] - row["low"]) / 2
    plain = (1 - row["privacy_share"]) * width
    if len(rows) == 1 and posterior.n:
        plain = min(plain, _WIDE * _VARIES * (row["estimate"] - low) / math.sqrt(posterior.n))
    closer = math.hypot(plain, math.sqrt(max(width**2 - plain**2, 0.0)) * reach / (high - low))
    smooth = asked.verb == "mean" and not asked.pool and not asked.averaged
    said = ' (or tails="smooth", which looks for the tail first)' if smooth else ""
    return (
        f"most of the width is the noise of a bound as far as {high:,.6g}: one of {low + reach:,.6g} would make it "
        f"about ± {closer:.2g} in place of ± {width:.2g}, if so few values lie beyond that they may count as it{said}"
    )


def _round_above(value: float) -> float:
    """Return the least of 1, 2, 5, 10, 20, ... that is no less.

    >>> _round_above(17.0), _round_above(0.3)
    (20.0, 0.5)
    """
    power = 10.0 ** math.floor(math.log10(max(value, 1e-300)))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= value * (1 - 1e-12))
