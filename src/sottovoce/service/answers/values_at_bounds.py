"""Whether many values lie at a bound: told by what was released of a mean or of quantiles, and by nothing else.

Values beyond a bound count as the bound. Where the facts say a range that is too narrow, most of them may, and an
answer is sure of a number that is not the one that was meant.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from scipy import special

from sottovoce.inference.cells.question_checks import OF_RECORDS
from sottovoce.privacy.shares import percent
from sottovoce.records.readings.group_moments import STEPS

if TYPE_CHECKING:
    from sottovoce.inference.cells.cell_mechanisms import Posterior

_SURE = 4.0
"""So many standard deviations of the noise are allowed for before anything is said."""
_PILED = 0.5
"""A Beta density whose power at a bound is less than that of the arcsine law's rises to it as a heap does."""
_NEAR = 0.01
"""The part of the range that counts as being at its end, where mean and spread are all that is known."""
_PART = 0.1
"""From this part of the values on they are spoken of."""
_TWO = 0.05
"""Values that a Beta law of a smaller size is made for are all at the two bounds, as flags written as numbers are."""
_BINS = 3.0
"""An end bin is spoken of where it holds so many times as much as the bin beside it: values that thin out do not."""


def bounds_note(posterior: Posterior) -> str | None:
    """Return that many values lie at a bound, in words; None where what was released does not say so.

    At a lower bound of zero many values may well be, as of costs and of visits: of that nothing is said.

    >>> from sottovoce.service.answers import NoisyCells, Question
    >>> from sottovoce.records.facts import Facts, Number
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> mechanism = NoisyCells(Question("mean", ("days",), Facts(days=Number(0, 3))), 1000, "gaussian", 2.0)
    >>> stays = {"days": [1.0, 2.0, 4.0, 7.0, 9.0] * 200}
    >>> bounds_note(mechanism.release(stays, seeded_rng(1)).value)
    'many values of days seem to lie at 3, where all above it count: if that is a surprise, widen the bounds'
    """
    question = posterior.question
    edges: tuple[float, ...] = getattr(posterior.reading, "edges", ())
    if question.tails == "smooth":
        return None
    if question.verb in ("mean", "rate", *OF_RECORDS):
        shares, scale = _by_moments(posterior), posterior.reading.scales[0]
        low, high = scale.middle - scale.half, scale.middle + scale.half
    elif question.verb == "quantiles" and not question.whole and len(edges) > 2:
        shares, low, high = _by_bins(posterior, len(edges) - 1), float(edges[0]), float(edges[-1])
    else:
        return None
    ends = [(shares[1], high, "above")] + ([(shares[0], low, "below")] if low != 0 else [])
    said = []
    for part, end, side in ends:
        if part >= _PART:
            text = f"many values of {question.columns_asked[0]} seem to lie at {end:,.6g}"
            if question.verb == "quantiles":
                inner = edges[-2] if side == "above" else edges[1]
                between = f"{min(inner, end):,.6g} and {max(inner, end):,.6g}"
                share = percent(part, whole=True)
                text = f"about {share} of the values of {question.columns_asked[0]} lie between {between}"
            said.append(f"{text}, where all {side} it count: if that is a surprise, widen the bounds")
    return "; ".join(said) or None


def _by_moments(posterior: Any) -> tuple[float, float]:
    """Return which parts of the values lie at the lower and the upper bound, if they vary as a Beta law does.

    That law has the mean and the spread that were released, whatever noise may have done to them, and rises to the
    bound; it is the one with the smallest part there.
    """
    reading, counted = posterior.reading, posterior.reading.counted
    cells = reading.cells
    number, sd = float(posterior.n or 0), 0.0
    if counted:
        noisy, noise, _ = posterior.noisy_counts()
        number, sd = float(noisy[:-1].sum()), math.sqrt(noise.variance * cells)
    parts, noises = reading.split(posterior.cells)[counted:], posterior.noises[counted:]
    if number - _SURE * sd < 1:
        return 0.0, 0.0
    total, square = (float(part[:cells].sum()) / STEPS for part in (parts[0], parts[-1]))
    errors = [math.sqrt(noise.variance * cells) / STEPS for noise in (noises[0], noises[-1])]
    shares = []
    for signs in itertools.product((-_SURE, 0.0, _SURE), repeat=2):
        mean = (total + signs[0] * errors[0]) / number
        spread = (square + signs[1] * errors[1]) / number - mean**2
        shares.append(_beta_ends((1 + mean) / 2, spread / 4))
    low, high = ([share[side] for share in shares] for side in (0, 1))
    middle = shares[len(shares) // 2]
    return middle[0] if min(low) > 0 else 0.0, middle[1] if min(high) > 0 else 0.0


def _beta_ends(mean: float, variance: float) -> tuple[float, float]:
    """Return what a Beta law of a mean and a variance has in each outermost hundredth, if it heaps up there."""
    if not 0 < mean < 1 or variance <= 0:
        return 0.0, 0.0
    size = mean * (1 - mean) / variance - 1
    if size < _TWO:
        return 0.0, 0.0
    low, high = mean * size, (1 - mean) * size
    below = float(special.betainc(low, high, _NEAR)) if low < _PILED else 0.0
    above = float(special.betaincc(low, high, 1 - _NEAR)) if high < _PILED else 0.0
    return below, above


def _by_bins(posterior: Posterior, bins: int) -> tuple[float, float]:
    """Return which parts of the values are in the first and the last of a column's bins, less what noise may add."""
    noisy, noise, _ = posterior.noisy_counts()
    counts = noisy[:-1].reshape(-1, bins)
    number, error = max(float(counts.sum()), 1.0), _SURE * math.sqrt(noise.variance * len(counts))
    ends = [float(counts[:, place].sum()) for place in (0, -1)]
    inner = [float(counts[:, place].sum()) for place in (1, -2)]
    sure = [
        end if end - error >= max(_PART * number, _BINS * (beside + error)) else 0.0
        for end, beside in zip(ends, inner, strict=True)
    ]
    return sure[0] / number, sure[1] / number
