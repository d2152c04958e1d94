r"""Imagined rows in which a flag is a flag: set or not, however rare it is.

A normal column with the moments of a rare flag is nearly zero in every row: on such rows the mean hardly bends when the
flag's slope changes, while on the few records that have it the odds change by a factor. So entries that are zero or one
are drawn one after the other, each with the chance that a line through those before it gives,

.. math:: P(f_k = 1) = m_k + \sum_{j<k} L_{kj}e_j, \qquad e_j = (f_j - P(f_j = 1))/L_{jj}, \qquad C = LL',

which is exact for the levels of a column, and all other entries are normal, or skewed, given them. Rare ones are drawn
more often than they are, and count for less.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from sottovoce.inference.regression.eigenvalues import floored
from sottovoce.inference.regression.skewed_rows import skewed
from sottovoce.privacy.numbers import Floats, Mask

_MOST = 64
"""Entries that are drawn as flags at most, the rarest: with more of them too few rows would have each."""
_OFTEN = 1 / 16
"""The part of the rows, at least, in which a flag is set; half of what is there for each where they are many."""
_SURE = 1e-9
"""A chance nearer to none, or to one, than this is none, or one: another level of its column leaves none."""
_FLAG = 2.0
"""An entry varies by up to so many times more or less than a flag with its mean does, or noise made a guess of it in
which it is none: then it is normal like others."""
_ALIKE = 1e-3
"""The least part, as a standard deviation, that an entry has for itself; a tenfold one lets it be drawn."""


def flagged_rows(
    means: Floats,
    covariances: Floats,
    ones: Mask,
    noise: Floats,
    skews: Floats,
    guesses: Sequence[int] = (),
) -> tuple[Floats, Floats]:
    """Return rows with such moments, and for how much each counts: one on average. Of several sorts of skewed numbers
    the rows come one sort after the other, with the same flags.

    Parameters
    ----------
    means, covariances
        Of the entries, one first index a guess.
    ones
        Which entries are zero or one.
    noise
        Standard normal, an entry a column: rows are made of it.
    skews
        How skewed each entry is beside those before it, zero of flags; one first index a guess, of several sorts after
        theirs.
    guesses
        How many guesses of each look follow each other, whose flags are drawn in one order; all of them unless given.
    """
    totals = np.array(guesses or [len(means)])
    often = np.add.reduceat(means, np.cumsum(totals) - totals) / totals[:, None]
    order = np.argsort(np.where(ones, often, np.inf), kind="stable")  # of all levels the commonest is last
    order = np.repeat(order, totals, axis=0)
    each = np.arange(len(means))[:, None]
    mean, C = means[each, order], covariances[each[:, :, None], order[:, :, None], order[:, None]]
    sd = np.sqrt(np.maximum(np.diagonal(C, axis1=1, axis2=2), 1e-12))
    L = sd[:, :, None] * _root(C / (sd[:, :, None] * sd[:, None]))
    flags, rows = min(int(ones.sum()), _MOST), len(noise)
    least = min(_OFTEN, 0.5 / max(flags, 1))
    shown, varies = mean * (1 - mean), sd**2
    # The last of all levels is what the others leave.
    free = (np.diagonal(L, axis1=1, axis2=2) > 10 * _ALIKE * sd) & (varies < _FLAG * shown) & (shown < _FLAG * varies)
    remainder, numbers = noise[:, flags:], skews[..., each, order][..., flags:]
    drawn, odds = np.repeat(noise.T[None, :flags], len(mean), axis=0), np.ones((len(mean), rows))
    every, ever = np.logical_and.reduce(free), np.logical_or.reduce(free)
    for k, places in enumerate(_places(flags, rows)):
        if not ever[k]:
            continue
        line = mean[:, k, None] + (L[:, k, None, :k] @ drawn[:, :k])[:, 0]
        # By arithmetic: to choose number by number takes several times as long.
        sure = line > 1 - _SURE
        open_ = np.logical_not(sure | (line < _SURE))
        chance, asked = line * open_, line.clip(least, 1 - least)
        asked *= open_
        chance += sure
        asked += sure
        flag = places < asked
        built = (flag - line) / L[:, k, k, None]
        unset = np.subtract(1.0, flag)
        rarer = np.abs(unset - chance) / np.abs(np.subtract(unset, asked, out=asked), out=asked)
        subset = free[:, k, None]
        drawn[:, k] = built if every[k] else np.where(subset, built, drawn[:, k])
        odds *= rarer if every[k] else np.where(subset, rarer, 1.0)
    back = np.empty_like(L)  # to the order in which entries came
    back[each, order] = L
    turned = back.transpose(0, 2, 1)
    flagged = drawn.transpose(0, 2, 1) @ turned[:, :flags]
    flagged += means[:, None]
    result = np.empty((*skews.shape[:-1], *noise.shape))
    for place in np.ndindex(skews.shape[:-2]):
        np.matmul(skewed(remainder, numbers[place]), turned[:, flags:], out=result[place])
        result[place] += flagged
    return result, odds / odds.mean(axis=1, keepdims=True)


@functools.cache
def _places(flags: int, rows: int) -> Floats:
    """Return the place of every row in the law of each flag, always the same."""
    rng = np.random.default_rng(8)
    return np.array([(rng.permutation(rows) + 0.5) / rows for _ in range(flags)])


def _root(correlations: Floats) -> Floats:
    """Return the lower roots of correlations, also where noise left some that no rows have."""
    result, eye = (
        np.clip((correlations + correlations.transpose(0, 2, 1)) / 2, -1.0, 1.0),
        np.eye(correlations.shape[1]),
    )
    return np.asarray(np.linalg.cholesky(floored(result * (1 - eye) + eye, np.full(len(result), _ALIKE**2))))
