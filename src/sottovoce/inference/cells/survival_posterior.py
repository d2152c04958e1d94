"""The posterior of survival: curves with their bands, and who is at risk, from noisy counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.intervals import central, checked_level
from sottovoce.inference.cells.survival_curves import curve_draws, free_counts, greenwood, rising
from sottovoce.inference.cells.survival_question import SurvivalQuestion
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng

_SEED = 19580625
"""Draws are a function of the noisy cells alone."""
_HALF, _NOBODY = 0.5, 1e-300
_ANYBODY = 1.0
"""Where fewer may be at risk, nobody may be: of what comes then nothing is known."""


@dataclass(frozen=True, eq=False)
class SurvivalPosterior(CellsPosterior):
    """Noisy counts of events and censorings, and the curves they tell of: free post-processing.

    A row is a group and a time. Of a time that nobody may have been followed to nothing is known: its interval is from
    0 to 1.
    """

    question: SurvivalQuestion

    @cached_property
    def _curves(self) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats]:
        """Draws of curves, records at risk, events and censorings, each (draws, groups, cells); and of events by kind,
        (draws, groups, kinds, cells), and of records at risk again, which may be below zero.
        """
        noisy, noise, room = self.noisy_counts()
        draws, rng = self._draws_taken, seeded_rng(_SEED)
        free = free_counts(noisy, float(np.sqrt(noise.variance)), self.noise, draws, rng, room)[:, :-1]
        asked = self.question
        kinds = free.reshape(draws, -1, 1 + len(asked.kinds), len(asked.cuts) + 1)
        both = np.stack([kinds[:, :, 0], kinds[:, :, 1:].sum(axis=2)], axis=2)
        curves = curve_draws(both, asked.edges, np.asarray(asked.single_values), rng)
        free_risk = both.sum(axis=2)[:, :, ::-1].cumsum(axis=2)[:, :, :0:-1]
        return (*curves, kinds[:, :, 1:, :-1], free_risk)

    def _survival(self, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        del draws, rng
        curves, risk, events, *_ = self._curves
        plain = greenwood(np.median(curves, axis=0), risk.mean(axis=0), events.mean(axis=0))
        added = np.sqrt(np.maximum(curves.var(axis=0) - plain**2, 0.0))
        return curves.reshape(len(curves), -1), plain.ravel(), added.ravel()

    @property
    def public_range(self) -> tuple[float, float]:
        """The public ends of what every row may be."""
        return 0.0, 1.0

    def interval(self, level: float = 0.95) -> Floats:
        """Return the interval of every row that holds `level`; from 0 to 1 where nobody may have been at risk."""
        ends = central(self.draws, level)
        return np.where(self.unknown(level).reshape(-1, 1), self.public_range, ends)

    def unknown(self, level: float = 0.95) -> NDArray[np.bool_]:
        """Return at which cuts of each group nothing is known, (groups, cells): perhaps nobody was followed so far.

        So it is where perhaps nobody is at risk as the cell begins, and where surely somebody is censored in it and
        perhaps nobody stays to its end: how far events went on after the last was censored, nothing says. Who is at
        risk is told by the free counts here: made to rise, noise alone looks like a few who stay on without an event.
        """
        certain = max(checked_level(level), 0.8)

        def least(counts: Floats) -> Floats:
            return central(counts.reshape(len(counts), -1), certain)[:, 0].reshape(counts.shape[1:])

        staying = self.at_risk - self.events - self.censored
        ended = (least(self.censored) >= _ANYBODY) & (least(staying) < _ANYBODY)
        nobody = np.quantile(self._curves[5], 1 - certain, axis=0) < _ANYBODY
        return np.asarray(np.logical_or.accumulate(nobody | ended, axis=1))

    @property
    def at_risk(self) -> Floats:
        """Draws of how many are at risk as each cell of time begins, (draws, groups, cells)."""
        return self._curves[1]

    @property
    def events(self) -> Floats:
        """Draws of how many events there are in each cell of time, (draws, groups, cells)."""
        return self._curves[2]

    @property
    def censored(self) -> Floats:
        """Draws of how many are censored in each cell of time, (draws, groups, cells)."""
        return self._curves[3]

    @cached_property
    def incidence(self) -> Floats:
        """Draws of the share who had each kind of event by each edge, (draws, groups, kinds, edges) (Aalen, Johansen).

        What the curve of any event falls by in a cell is of its kinds as their events there are.
        """
        curves, kinds = self._curves[0], self._curves[4]
        rng, count = seeded_rng(_SEED + 2), kinds.shape[2]
        rates = _shares(rising(kinds), self.events, rng) if count > 1 else np.ones_like(kinds)
        full = np.concatenate([np.ones((*curves.shape[:2], 1)), curves], axis=2)
        steps = rates * (full[:, :, :-1] - full[:, :, 1:])[:, :, None]
        return np.concatenate([np.zeros((*steps.shape[:3], 1)), np.cumsum(steps, axis=3)], axis=3)

    @cached_property
    def bends(self) -> Floats:
        """A standard normal number for each draw: which way its curves err within cells."""
        return seeded_rng(_SEED + 1).standard_normal(len(self._curves[0]))

    def curves(self, group: int) -> Floats:
        """Return draws of the curve of a group at all edges, the first of which is where everybody is without it."""
        curves = self._curves[0][:, group]
        return np.concatenate([np.ones((len(curves), 1)), curves], axis=1)


def _shares(kinds: Floats, events: Floats, rng: np.random.Generator) -> Floats:
    """Return draws of the shares of each kind among the events of a cell: Dirichlet, Jeffreys' half of a kind spread
    over all cells.
    """
    counts = kinds * (events / np.maximum(kinds.sum(axis=2), _NOBODY))[:, :, None]
    drawn = rng.standard_gamma(counts + _HALF / kinds.shape[3]) + _NOBODY
    return np.asarray(drawn / drawn.sum(axis=2, keepdims=True))
