r"""What a formula may miss, and how far that leads a look astray which weighs long rows less.

No line fits what rises and falls again. An ordinary regression is then the line nearest to all records; a look that
weighs a record by v finds the one nearest to those it weighs. With :math:`\hat z = \sqrt{\mu'} z`, what the formula
misses is q, uncorrelated with :math:`\hat z`, in units of the response's own deviation; it moves the score by
:math:`\sum v q \hat z`, and of q only what goes with :math:`r = v\hat z - P\hat z` counts, P the best line. If q may
have a standard deviation τ along every such direction, it moves the score by

.. math:: N\tau^2 \sum r r' = N\tau^2 (A_2 - A_1 A_0^{-1} A_1), \qquad A_k = \sum v^k \hat z \hat z',

as a covariance. Where all rows weigh alike, and where the formula has a coefficient for every kind of row, it is none.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy import special

from sottovoce.facts.encodings import Encoding
from sottovoce.privacy.numbers import Floats
from sottovoce.regression.skewed_rows import ends

__all__ = ["doubt", "lost", "thick"]

_MISSED = 0.15
"""τ: a formula may miss a fortieth of how much its response varies."""
_TAIL = 5.0
"""The degrees of freedom of the law that lengths of rows follow: t₅, much as those of real columns do."""
_OFTEN = 3.0
"""Rows are the more often the longer they are, and count for less."""
_LOST = 0.2
"""What residuals that are cut at c standard deviations lose on average, in those, is this over c²."""
_FLAT = 1e-9


def thick(rows: Floats, records: Floats, encoding: Encoding) -> tuple[Floats, Floats]:
    """Return imagined rows whose numbers have long tails within their bounds, and for how many records each stands.

    By guess, row and entry, in the coordinates of x: a normal law's rows would have none that is long.
    """
    stretch, counts = _stretches(rows.shape[1])
    numbers = ~encoding.ones & np.array([bool(entry) for entry in encoding.entries])
    middle = (records[:, None] @ rows) / records.sum(axis=1)[:, None, None]
    longer = np.clip(middle + (rows - middle) * stretch[:, None], *ends(encoding))
    return np.where(numbers, longer, rows), records * counts


def doubt(z: Floats, records: Floats, slopes: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
    """Return A₁, A₂ and by how much the score may be moved by what the formula misses; one first index a guess.

    In units of how much a response varies by itself.
    """
    turned, many = z.transpose(0, 2, 1), records * slopes
    even, once, twice = ((turned * part[:, None]) @ z for part in (many, many * v, many * v * v))
    size = np.trace(even, axis1=1, axis2=2)[:, None, None]
    even = even + _FLAT * size * np.eye(z.shape[2])
    moved = twice - once @ np.linalg.solve(even, once)
    return once, twice, _MISSED**2 * records.sum(axis=1)[:, None, None] * moved


def lost(sd: Any, cap: Any, most: Any) -> Any:
    """Return what residuals of this standard deviation lose on average that are cut at `cap` and end at `most`.

    To one side, if their tails are as long as real ones: of t₃, P(r > c) ∝ c⁻³. It may be another in every kind of row.

    >>> round(lost(1.0, 5.0, 1e9), 4), lost(1.0, 5.0, 5.0)
    (0.008, 0.0)
    """
    return _LOST * sd * np.maximum((sd / cap) ** 2 - (sd / most) ** 2, 0.0)


@functools.cache
def _stretches(rows: int) -> tuple[Floats, Floats]:
    """Return by what each imagined row is made longer, and for how much it counts: always the same."""
    half = (rows + 1) // 2
    left = 1 - (np.random.default_rng(11).permutation(half) + 0.5) / half
    counts = _OFTEN * left ** (_OFTEN - 1)
    # Squared lengths over those of a normal law are ν/χ²; the chance of longer ones is left³.
    found = np.sqrt((_TAIL - 2) / 2 / special.gammaincinv(_TAIL / 2, left**_OFTEN))
    counts, found = (np.tile(part, 2)[:rows] for part in (counts, found))
    return found, counts / counts.mean()
