r"""What the information behind a noisy look may be: as it was seen where noise is little, and many guesses where not.

A column may spread over any part of its public range, down to next to nothing. Where noise hides how much of a column
the others do not explain, to take the likeliest amount for the true one makes what the score says look too sure: then
every column is given what it may have, drawn from what the noise allows for and from a prior of its spread s,

.. math:: p(s) \propto s^{1/4 - 1}, \qquad 0 < s \le 1,

in units of half its public range; it has one column in five below 0.2 % of that. What a column's slope may be follows
from its spread (`Formula.prior_sd`), so that of a column that may be narrow is wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce.inference.regression.moment_gibbs_sampler import NARROWEST, MomentGibbsSampler, turns
from sottovoce.inference.regression.noisy_score_information import NoisyScoreInformation, know
from sottovoce.inference.regression.sampler_settings import RELEASED, SamplerSettings
from sottovoce.privacy.numbers import Floats, Mask

_TOGETHER = 192
"""So many guesses are worked on together: of more the numbers would not stay near the processor."""
_CERTAIN = 6.0
"""A column whose own information is this many times its noise is taken as it was seen."""
_ALIKE = 0.25
"""Guesses of a spread that differ by less than this part of it are as good as one."""


@dataclass(frozen=True, eq=False)
class MomentSamples:
    """Several guesses of the information.

    Attributes
    ----------
    information
        Each guess, in the coordinates of the look; one first index a guess.
    mean
        The same, averaged over the linear predictors.
    middle, spread
        The mean of each entry of a row, as the look weighs records (in the look's coordinates; None where there is no
        intercept), and its standard deviation (in those of x).
    hidden
        Which columns noise hides, so that guesses had to be made of them.
    """

    information: Floats
    mean: Floats
    middle: Floats | None
    spread: Floats
    hidden: Mask

    def untold(self, weights: Floats) -> Mask:
        """Say of which columns nobody knows how far they spread, by how much each guess is believed."""
        logs = np.log(np.maximum(self.spread, NARROWEST))
        apart = np.sqrt(weights @ (logs - weights @ logs) ** 2)
        return np.asarray(self.hidden & ((apart > _ALIKE) | (np.ptp(logs, axis=0) == 0)))

    @classmethod
    def of(
        cls,
        glances: Sequence[NoisyScoreInformation],
        *,
        several: bool,
        at_least: int = 1,
        care: SamplerSettings = RELEASED,
        last: bool = False,
    ) -> list[MomentSamples]:
        """Return one guess of each of several looks of one regression, or many where noise hides a column.

        Where they are the `last`, each knows what groups are.
        """
        know(glances)
        known = [glance.levelled if last else glance.known for glance in glances]
        averages = [glance.averaged(item) for glance, item in zip(glances, known, strict=True)]
        # What noise hides is asked as at every other look: knowing what groups are makes no column harder to see.
        hidden = [
            out_of_sight(glance) if several else np.zeros(len(average), dtype=bool)
            for glance, average in zip(glances, averages, strict=True)
        ]
        stretches = _stretches(glances, averages, hidden, max(at_least, care.guesses), care.fewer)
        return [
            cls._of(glance, item, average, veiled, stretches.get(place), several, at_least)
            for place, (glance, item, average, veiled) in enumerate(zip(glances, known, averages, hidden, strict=True))
        ]

    @classmethod
    def _of(
        cls,
        glance: NoisyScoreInformation,
        known: Floats,
        average: Floats,
        hidden: Mask,
        stretch: Floats | None,
        several: bool,
        count: int,
    ) -> MomentSamples:
        """Return the guesses of a look, by what rows are stretched."""
        look = glance.look
        K, d = look.model.outputs, look.encoding.size
        back = glance.back
        if stretch is None:
            mean, full = np.repeat(average[None], count, axis=0), np.repeat(known[None], count, axis=0)
        else:
            turned = stretch.transpose(0, 2, 1)
            mean = stretch @ average @ turned
            full = np.zeros((len(stretch), K * d, K * d))
            for k in range(K):
                for m in range(K):
                    block = known[k * d : (k + 1) * d, m * d : (m + 1) * d]
                    full[:, k * d : (k + 1) * d, m * d : (m + 1) * d] = stretch @ block @ turned
        middle, weight = None, None
        if glance.constant is not None:
            weight = whole_weight(mean, back[glance.constant])[:, None]
            middle = mean @ back[glance.constant] / weight
        spread = _spreads(mean, back, glance, weight)
        if not several:  # what is not sure to be narrow is not taken for it
            spread = np.asarray(np.sqrt(np.minimum(np.square(spread) + _blur(average, back, glance), 1.0)))
        return cls(full, mean, middle, spread, hidden)


def _stretches(
    glances: Sequence[NoisyScoreInformation],
    averages: Sequence[Floats],
    hidden: Sequence[Mask],
    count: int,
    fewer: int,
) -> dict[int, Floats]:
    """Return for each look with hidden columns, by its place, what its guesses stretch rows by."""
    # Levels that add up to one are what they are: a guess in which they do not would be of no records.
    bound = np.any(glances[0].look.encoding.empty != 0, axis=0)
    columns_of = {place: columns & ~bound for place, columns in enumerate(hidden)}
    places = sorted(
        (place for place in columns_of if columns_of[place].any()), key=lambda place: -turns(columns_of[place])
    )
    result: dict[int, Floats] = {}
    lot = max(_TOGETHER // count, 1)
    for subset in (places[start : start + lot] for start in range(0, len(places), lot)):
        seen = [(glances[k], averages[k], _weight(glances[k], averages[k])) for k in subset]
        lifted = MomentGibbsSampler.over(seen, [columns_of[k] for k in subset], count, fewer).lifted(count)
        result |= dict(zip(subset, lifted, strict=True))
    return result


def _weight(glance: NoisyScoreInformation, average: Floats) -> float:
    """Return what all records weigh together."""
    back = glance.back
    if glance.constant is None:
        return float(_most(glance, np.diag(back @ average @ back.T).max()))
    return float(whole_weight(average[None], back[glance.constant])[0])


def out_of_sight(glance: NoisyScoreInformation) -> Mask:
    """Say which columns have little information beside its noise.

    Of a number counts what the other columns do not explain of it. Of a level, which its column's other levels may
    explain altogether, counts how it varies.
    """
    g, entries, average = glance.look.matrix, glance.look.encoding.entries, glance.averaged(glance.known)
    seen, noise = _along(g, _left(glance, average), _own(g, glance.axes), glance.noise)
    hidden = seen < _CERTAIN * noise
    centred = glance.back
    if glance.constant is not None:
        item = centred[glance.constant]
        centred = centred - np.outer(centred @ average @ item / max(float(item @ average @ item), 1e-300), item)
    shown = glance.averaged(np.asarray(glance.information))
    varies = np.einsum("ia,ab,ib->i", centred, shown, centred) < _CERTAIN * glance.noise * (centred**2).sum(axis=1)
    return np.asarray(
        np.where(glance.look.encoding.numbers, hidden, varies) & np.array([bool(entry) for entry in entries]),
        dtype=bool,
    )


def loudest(glance: NoisyScoreInformation) -> float:
    """Return how large the noise is of the information that some column has for itself, beside that, at most."""
    g = glance.look.matrix
    return float(_along(g, np.zeros_like(g), _own(g, glance.axes), glance.noise)[1].max())


def _left(glance: NoisyScoreInformation, average: Floats) -> Floats:
    """Return what was seen beside what is taken for known."""
    assert glance.information is not None
    return glance.averaged(glance.information) - average


def _own(g: Floats, axes: tuple[Floats, Floats]) -> Floats:
    """Return H⁻¹g for each column of g."""
    values, vectors = axes
    return np.asarray((vectors / np.maximum(values, 1e-9 * values[-1])) @ (vectors.T @ g))


def _along(g: Floats, left: Floats, solved: Floats, tau: float) -> tuple[Floats, Floats]:
    """Return how much of each column's own information was seen beside what is taken for known, and the noise of that.

    A column's own part is what the others do not explain, κ = 1/(g'H⁻¹g) of it. With that multiplied by a, which is
    what I + (a − 1)κg(H⁻¹g)' does to rows, the information changes by (a² − 1)κgg' alone.
    """
    kappa = 1 / np.maximum(np.einsum("ai,ai->i", g, solved), 1e-300)
    squares = np.maximum((g * g).sum(axis=0), 1e-300)
    return 1 + np.einsum("ai,ab,bi->i", g, left, g) / (kappa * squares**2), tau / (kappa * squares)


def _spreads(mean: Floats, back: Floats, glance: NoisyScoreInformation, weight: Floats | None) -> Floats:
    """Return the standard deviation of each entry, in the coordinates of x, by what records with a constant weigh."""
    moment = back @ mean @ back.T
    if weight is None:  # n records at most, each of a weight of at most the steepest slope
        squares = np.diagonal(moment, axis1=1, axis2=2)
        squares = squares / np.maximum(_most(glance, squares.max(axis=1, keepdims=True)), 1e-300)
        return np.asarray(np.sqrt(np.clip(squares, 0.0, 1.0)))
    middle = moment[:, glance.constant] / weight
    return np.sqrt(np.clip(np.diagonal(moment, axis1=1, axis2=2) / weight - middle**2, 0.0, 1.0))


def whole_weight(mean: Floats, first: Floats) -> Floats:
    """Return what all records weigh together, by guess: more than nothing beside what they weigh in any direction."""
    first = np.broadcast_to(first, mean.shape[:2])
    least = 1e-12 * np.trace(mean, axis1=1, axis2=2) * (first * first).sum(axis=1)
    seen = np.einsum("mi,mij,mj->m", first, mean, first)
    return np.asarray(np.maximum(seen, np.maximum(least, 1e-300)))


def _most(glance: NoisyScoreInformation, seen: Any) -> Any:
    """Return the most information that an entry can have; where n is a secret, what the entry with most has.

    Of nobody noise alone is seen, and is measured by what one record has.
    """
    return seen if glance.n is None else max(glance.n, 1) * glance.look.model.steepest


def _blur(average: Floats, back: Floats, glance: NoisyScoreInformation) -> Floats:
    """Return by how much the variance of each entry may be larger than it seems, by noise."""
    item = None if glance.constant is None else back[glance.constant]
    if item is None:
        count = max(float(_most(glance, np.diagonal(back @ average @ back.T).max())), 1e-300)
    else:
        count = max(float(item @ average @ item), 1e-300)
    return np.asarray(glance.noise * (back**2).sum(axis=1) / count)
