r"""What a formula may miss, and how far that leads a look astray which weighs long rows less.

No line fits what rises and falls again. An ordinary regression is then the line nearest to all records; a look that
weighs a record by v finds the one nearest to those it weighs. With :math:`\hat z = \sqrt{\mu'} z`, what the formula
misses is q, uncorrelated with :math:`\hat z`, in units of the response's own deviation; it moves the score by
:math:`\sum v q \hat z`, and of q only what goes with :math:`r = v\hat z - P\hat z` counts, P the best line. If q may
have a standard deviation τ along every such direction, it moves the score by

.. math:: N\tau^2 \sum r r' = N\tau^2 (A_2 - A_1 A_0^{-1} A_1), \qquad A_k = \sum v^k \hat z \hat z',

as a covariance. Where all rows weigh alike, and where the formula has a coefficient for every kind of row, it is none.

How large τ is differs from formula to formula, and from column to column. The family says what it is before anything
was seen (`Family.missed`), or who asks (`Formula.misses`);
two looks that weigh long rows otherwise tell more: they point to the same place if the formula fits, and if not, they
differ by :math:`\sum r r'` with :math:`r = v_2\hat z - A_2A_1^{-1}v_1\hat z` in the same way.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from sottovoce.inference.regression.eigenvalues import floored
from sottovoce.privacy.numbers import Floats
from sottovoce.records.facts.encodings import Encoding

if TYPE_CHECKING:
    from sottovoce.inference.regression.residual_tails import ResidualTail

_TAIL = 3.0
"""The degrees of freedom of the law that lengths of rows follow: t₃, the longest tails that real columns have."""
_OFTEN = 3.0
"""Rows are the more often the longer they are, and count for less."""
_TIMES, _LONGEST = 8, 4.0
"""In so many steps it is found how long rows are; they are no longer than so many times what was seen of them."""
_LOST = 0.2
"""What residuals that are cut at c standard deviations lose on average, in those, is this over c²."""
_FLAT = 1e-9
_VARIES = 1.0
"""By how much τ differs from formula to formula: the standard deviation of its logarithm."""
_PLACES = np.linspace(-4.5, 4.5, 91)
"""Where its law is looked at, in these standard deviations."""


@dataclass(frozen=True, eq=False)
class Misspecification:
    """By how much the score of a look may be moved by what the formula misses, and by what is cut off.

    Attributes
    ----------
    rows, records, slopes
        Imagined rows z, for how many records each stands, and how the mean rises there.
    before, now
        What the look before this one, and this one, weigh them by.
    varies
        How much a response varies by itself.
    tau, usual
        What the formula may miss before anything was seen, the root of the mean of τ²: 0 of one that is taken to be
        right, and of others like it.
    bent, cut
        By how much, as covariances, the score may be moved for each τ², and by what is cut off.
    tail
        What is known of what residuals lose, where that is measured: it is not in `cut` then.
    """

    rows: Floats
    records: Floats
    slopes: Floats
    before: Floats
    now: Floats
    varies: float
    tau: float
    usual: float
    bent: Floats
    cut: Floats
    tail: ResidualTail | None = None

    def told(self, score: Floats | None, off: Floats, sigma: float, before: Floats) -> tuple[Floats, float]:
        """Return by how much the score may be moved, as a covariance, by how far the two looks are apart; and how
        much the formula misses along the coordinate where that is most.

        Parameters
        ----------
        score, sigma
            The score, one row for each linear predictor, and its noise; None for one of which the formula misses
            nothing, on average.
        off, before
            Where the look before says the answer is, from the centre of this one, and how sure it is: a covariance.
        """
        known, parts = apart(self.rows, self.records * self.slopes, self.before, self.now)
        moved = self.records.sum() * self.varies * parts
        noise = known @ before @ known + sigma**2 * np.eye(len(known))  # with it, how the response itself varies
        gap = len(off) if score is None else score - off @ known
        # Who trusts a formula more than others is told what looks tell of it as they would be.
        shown = taus = np.sqrt(mean_squares(max(self.tau, self.usual), moved, noise, gap))
        if self.tau < self.usual:
            taus = np.sqrt(mean_squares(self.tau, moved, noise, gap)) if self.tau else np.zeros_like(shown)
        return np.asarray(taus[:, None] * self.bent * taus + self.cut), float(shown.max())


def thick(rows: Floats, records: Floats, encoding: Encoding, seen: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """Return imagined rows x whose numbers have long tails within their bounds, and for how many records each stands.

    A normal law's rows would have none that is long. What a look saw of long ones it weighed less: rows are as long as
    it takes to seem, so weighed (`seen`), as long as the given ones.
    """
    stretch, counts = _stretches(len(rows))
    numbers = ~encoding.ones & np.array([bool(entry) for entry in encoding.entries])
    middle, weighted = records @ rows / records.sum(), records * counts
    off = (rows - middle)[:, numbers]
    unit = np.maximum(records @ off**2 / records.sum(), 1e-300)
    aim = records @ (off**2 / unit).sum(axis=1) / records.sum()  # one for each number that varies at all
    low, high = (end[numbers] - middle[numbers] for end in encoding.ends)
    result, longer = rows.copy(), 1.0
    for _ in range(_TIMES if off.size else 0):
        built = np.clip(longer * stretch[:, None] * off, low, high)
        result[:, numbers] = middle[numbers] + built
        shown = weighted * seen(result)
        size = shown @ (built**2 / unit).sum(axis=1) / max(shown.sum(), 1e-300)
        before, longer = longer, min(max(longer * math.sqrt(aim / max(size, 1e-300)), 1.0), _LONGEST)
        if longer == before:
            break
    return result, weighted


def doubt(z: Floats, records: Floats, slopes: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
    """Return A₁, A₂ and, but for τ², by how much the score may be moved by what the formula misses.

    In units of how much a response varies by itself; one first index a way to weigh.
    """
    weighted = records * slopes
    once, twice = ((z.T * part[:, None]) @ z for part in (weighted * v, weighted * v * v))
    even = (z.T * weighted) @ z
    even = even + _FLAT * np.trace(even) * np.eye(len(even))
    moved = twice - once @ np.linalg.solve(even, once)
    return once, twice, records.sum() * moved


def apart(z: Floats, many: Floats, before: Floats, now: Floats) -> tuple[Floats, Floats]:
    """Return the information of rows as they are weighed now, and Σrr' of how far apart two ways to weigh them point.

    As scores: r is what a record moves the second by, less what it moves the answer of the first by.
    """
    first, second = ((z.T * (many * v)) @ z for v in (before, now))
    turned = np.linalg.solve(first + _FLAT * np.trace(first) * np.eye(len(first)), second)
    r = now[:, None] * z - before[:, None] * (z @ turned)
    return second, (r.T * many) @ r


def mean_squares(tau: float, moved: Floats, noise: Floats, gap: Floats | int) -> Floats:
    """Return the mean of τ² along each coordinate, by how far apart two looks point: by noise, and `moved` for each τ².

    It was τ² before, and its root varies as a log-normal law does: one for all coordinates, or for each its own where
    that is more, for a formula may miss what one column does and nothing else. One row of the gap for each linear
    predictor; or of how many, where noise alone parts them, on average.

    >>> one = np.eye(1)
    >>> [round(math.sqrt(mean_squares(0.1, 1e4 * one, one, gap * one)[0]), 3) for gap in (0.0, 1.0, 10.0, 100.0)]
    [0.043, 0.045, 0.124, 0.684]
    """
    noise = (noise + noise.T) / 2
    least = 1e-12 * np.trace(noise)
    unit = np.linalg.inv(np.linalg.cholesky(floored(noise[None], least[None])[0])).T  # along these, noise is one
    values, vectors = np.linalg.eigh(unit.T @ moved @ unit)
    diagonal = np.maximum(np.diag(noise), least)
    each = learned(tau, np.diag(moved) / diagonal, gap if isinstance(gap, int) else gap / np.sqrt(diagonal))
    every = learned(tau, values, gap if isinstance(gap, int) else gap @ unit @ vectors, together=True)
    return np.maximum(each, every)


def learned(
    tau: float, values: Floats, gap: Floats | int, *, together: bool = False, varies: float = _VARIES
) -> Floats:
    """Return the mean of τ² by gaps that have a variance of 1 + τ²·value: by each alone, or by all of them."""
    count, seen = (gap, gap) if isinstance(gap, int) else (len(gap), (gap**2).sum(axis=0))
    squares = np.exp(2 * (math.log(tau) - varies**2 + varies * _PLACES))
    full = 1 + squares[:, None] * np.maximum(values, 0.0)
    log = -(count * np.log(full) + seen / full) / 2
    log = (log.sum(axis=1, keepdims=True) if together else log) - _PLACES[:, None] ** 2 / 2
    weights = np.exp(log - log.max(axis=0))
    return np.asarray(squares @ weights / weights.sum(axis=0))


def lost(sd: Any, cap: Any, most: Any) -> Any:
    """Return what residuals of this standard deviation lose on average that are cut at `cap` and end at `most`.

    To one side, if their tails are as long as real ones: as much as both tails of t₃ lose, P(r > c) ∝ c⁻³. It may be
    another in every kind of row.

    >>> round(float(lost(1.0, 5.0, 1e9)), 4), float(lost(1.0, 5.0, 5.0))
    (0.008, 0.0)
    """
    return _LOST * sd * np.maximum((sd / cap) ** 2 - (sd / most) ** 2, 0.0)


@functools.cache
def _stretches(rows: int) -> tuple[Floats, Floats]:
    """Return by what each imagined row is made longer, and for how much it counts: always the same."""
    half = (rows + 1) // 2
    remaining = 1 - (np.random.default_rng(11).permutation(half) + 0.5) / half
    counts = _OFTEN * remaining ** (_OFTEN - 1)
    # Squared lengths over those of a normal law are ν/χ²; the chance of longer ones is left³.
    result = np.sqrt((_TAIL - 2) / 2 / special.gammaincinv(_TAIL / 2, remaining**_OFTEN))
    counts, result = (np.tile(part, 2)[:rows] for part in (counts, result))
    return result, counts / counts.mean()
