r"""What residuals lose that are cut, and one small look that measures it.

Residuals of a linear regression are cut at c; what lies farther out is lost, :math:`\ell_c` for each record on average.
Where they have a long tail to one side, that moves every level; where the tail is longer in some kinds of rows than in
others, as that of what grows in proportion is, it moves slopes too. So one look more adds up what lies between c and a
farther cut m, with rows of their own: a constant, of which noise hides least, and beside it what rows are otherwise,
made small. Its noise grows with m − c. It tells :math:`\ell_c - \ell_m`, which was only guessed before, and what to
think of :math:`\ell_m`: a tail goes on as it began, so what lies beyond m goes with what lies before it.

The guess: what rows z lose is b·z and more, all of them alike with a standard deviation of λ·sd²/c, which falls as
slowly as log-normal tails do, and each kind of rows by 0.6 of that otherwise; λ is another for every table, 0.3 in the
root mean square (log-normal, as τ in `misfit`), and is learned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sottovoce.inference.regression.eigenvalues import floored
from sottovoce.inference.regression.formula import Formula
from sottovoce.inference.regression.misspecification import learned
from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings import Look

ALIKE = 0.3
"""λ: what all residuals that are cut at c standard deviations may lose alike, in those, is this over c."""
_UNLIKE = 0.6
"""By how much more or less some kinds of rows may lose, as a part of it."""
_GOES_ON = 0.7
"""How what residuals lose beyond the second cut goes with what they lose before it, as a correlation."""
_CUTS = np.linspace(0.0, 1.0, 25)[1:]
"""Where they may be cut the second time, from the first cut to as far as any goes."""
_ASIDE = 0.5
"""What the squares of all that rows have beside the constant add up to on average, in the look."""
_FLAT = 1e-9


@dataclass(frozen=True, eq=False)
class Weighed:
    """Imagined rows z, for how many records each stands, and what the last look weighs it by."""

    rows: Floats
    records: Floats
    weights: Floats

    @property
    def many(self) -> float:
        """How many records there are."""
        return max(float(self.records.sum()), 1.0)

    def squares(self, weights: Floats) -> Floats:
        """Return Σzz′ with other weights."""
        return np.asarray((self.rows.T * (self.records * weights)) @ self.rows)

    def counted(self, seen: float, one: Floats) -> Self:
        """Return rows of as many records as were seen to weigh so much: some lack a value, and give nothing."""
        times = seen / max(float(one @ self.middle), 1e-300)
        return replace(self, records=self.records * min(max(times, 1e-6), 1.0))

    @property
    def middle(self) -> Floats:
        """Σvz."""
        return np.asarray((self.records * self.weights) @ self.rows)


@dataclass(frozen=True, eq=False)
class ResidualTail:
    """What is known, and what will be, of what residuals lose that are cut, for each of several cuts.

    Attributes
    ----------
    cap, farther
        Where they are cut, and where for the second time.
    before, noise, after
        The variances of what they lose alike between both as it is guessed and as it is measured, and of what they lose
        beyond.
    """

    cap: Any
    farther: Any
    before: Any
    noise: Any
    after: Any

    @classmethod
    def of(cls, size: float, cap: Floats, cuts: Floats, most: float, noise: float) -> Self:
        """Return the second cut that leaves least to be doubted.

        Parameters
        ----------
        size, most
            How much they may lose alike that are cut at c is size·(1/c − 1/most).
        cap, cuts
            Where they are cut, and for each of that where they may be for the second time.
        noise
            That of what a record loses on average, for each unit between the cuts.

        >>> tail = ResidualTail.of(0.003, *cuts(np.array([0.4, 2.0]), 2.0), 2.0, 0.002)
        >>> tail.farther.round(2), np.sqrt(tail.left).round(5), np.sqrt(tail.before + tail.after).round(5)
        (array([1.13, 2.  ]), array([0.00198, 0.     ]), array([0.006, 0.   ]))
        """
        full, after = ((size * np.maximum(1 / at - 1 / most, 0.0)) ** 2 for at in (cap[:, None], cuts))
        result = cls(cap[:, None], cuts, np.maximum(full - after, 0.0), (noise * (cuts - cap[:, None])) ** 2, after)
        best = (np.arange(len(cap)), result.left.argmin(axis=1))
        return cls(cap, *(part[best] for part in (cuts, result.before, result.noise, result.after)))

    def at(self, place: int) -> Self:
        """Return what there is of one cut."""
        parts = (self.cap, self.farther, self.before, self.noise, self.after)
        return type(self)(*(float(part[place]) for part in parts))

    @property
    def left(self) -> Any:
        """The variance of what all lose alike once it was measured."""
        return self._left(self.noise)

    def unlike(self, size: int) -> Any:
        """Return the variance of what kinds of rows of so many entries lose otherwise once that was measured."""
        return _UNLIKE**2 * self._left(self.noise * max(size - 1, 1) / _ASIDE / _UNLIKE**2)

    def _left(self, noise: Any) -> Any:
        measured = self.before * noise / np.maximum(self.before + noise, 1e-300)
        return (1 + self.goes_on) ** 2 * measured + self.after

    @property
    def goes_on(self) -> Any:
        """How much is lost beyond the second cut, on average, for each unit lost before it."""
        return _GOES_ON * np.sqrt(self.after / np.maximum(self.before, 1e-300)) * (self.before > 0)

    def told(
        self, seen: Floats, noise: float, look: Look, back: Floats, one: Floats, rows: Weighed, *, drawn: bool = True
    ) -> tuple[Floats, Floats]:
        """Return the mean of b, rows z losing z·b, and by how much, as a covariance, the rest of it moves the score.

        What residuals have beyond the cut varies from record to record, and goes with the rest of them: for each unit
        of it that lies on one side by m − c at most, and by 2c.

        Parameters
        ----------
        seen, noise, look
            The sums and their noise, and the `tail_look` that saw them.
        back, one, rows
            From z to x, what makes 1 of every z, and what the last look weighs.
        drawn
            Whether λ is learned from what was seen, or from what noise alone shows on average.
        """
        turn, size = look.matrix @ back, len(one)
        built = rows.rows @ turn.T
        tells = turn @ rows.squares(look.weights((built * built).sum(axis=1)))  # what b adds to the sums
        once = rows.squares(rows.weights)
        bare = np.linalg.inv(once + _FLAT * np.trace(once) * np.eye(size))
        varies, level = bare @ rows.squares(rows.weights**2) @ bare, np.outer(one, one)
        guess = level + _UNLIKE**2 * floored((rows.many * varies - level)[None], np.zeros(1))[0]
        most, noise = rows.many * (self.farther - self.cap) * look.norm, max(noise, 1e-300)
        seen = np.clip(seen, -most, most)  # records lose no more
        expected = self.before / noise**2 * tells @ guess @ tells.T
        (times,) = learned(1.0, expected[:1, 0], seen[None, :1] / noise if drawn else 1)
        prior = times * self.before * guess
        gain = np.linalg.solve(tells @ prior @ tells.T + noise**2 * np.eye(size), tells @ prior).T
        mean = gain @ seen
        lost = abs(float(rows.middle @ mean)) / rows.many
        on = 1 + self.goes_on
        extra = on * (2 * self.cap + on * (self.farther - self.cap)) * lost
        keeps = np.eye(size) - gain @ tells
        remaining = on**2 * (keeps @ prior @ keeps.T + noise**2 * gain @ gain.T) + extra * varies
        remaining = remaining + times * self.after * guess
        return on * mean, floored((once @ (remaining + remaining.T) @ once / 2)[None], np.zeros(1))[0]


def tail_look(system: Formula, n: int | None, look: Look, rows: Weighed, farther: float) -> Look:
    """Return a look about the centre of another at what that cuts off, up to a farther cut, and nothing else."""
    (full, *_), size = system.encoding.wholes, look.encoding.size
    across = np.linalg.qr(np.column_stack([rows.middle, np.eye(size)]))[0][:, 1:]  # of the middle row they make none
    aside = rows.records @ ((rows.rows @ across) ** 2).sum(axis=1) / rows.many
    least = 1e-6 * float(rows.middle @ rows.middle) / rows.many**2
    small = math.sqrt(_ASIDE / max(float(aside), least, 1e-300))
    shape = np.vstack([np.isin(np.arange(size), full), small * across.T @ look.matrix])
    centre = look.matrix.T @ look.predictors[0]
    norm = math.sqrt(1 + 2 * _ASIDE * (size > 1))
    return system.look_at(n, centre, shape, norm, ("score",), farther, beyond=look.cap)


def cuts(cap: Floats, most: float) -> tuple[Floats, Floats]:
    """Return where residuals are cut that go no farther than `most`, and where they may be for the second time."""
    cap = np.minimum(cap, most)
    return cap, np.minimum(cap[:, None] + (most - cap[:, None]) * _CUTS, most)
