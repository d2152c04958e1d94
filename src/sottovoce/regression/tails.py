r"""What residuals lose that are cut, and one small look that measures what all of them lose alike.

Residuals of a linear regression are cut at c; what lies farther out is lost, :math:`\ell_c` for each record on average.
Where they have a long tail to one side, that moves every level. So one look more adds up what lies between c and a
farther cut m, with a constant for a row: one number, whose noise grows with m − c and with nothing else. It tells
:math:`\ell_c - \ell_m`, which was only guessed before, and what to think of :math:`\ell_m`.

The guess: :math:`\ell_c` has a standard deviation of λ·sd²/c, which falls as slowly as log-normal tails do, with a λ
that is another for every table, 0.2 in the root mean square (log-normal, as τ in `misfit`), and is learned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.readings import Look
from sottovoce.regression.formula import Formula
from sottovoce.regression.misfit import learned

__all__ = ["Tail", "tail_look"]

_ALIKE = 0.2
"""λ: what all residuals that are cut at c standard deviations may lose alike, in those, is this over c."""
_CUTS = np.linspace(0.0, 1.0, 25)[1:]
"""Where they may be cut the second time, from the first cut to as far as any goes."""
_TINY = 2.0**-20
"""What is left of all entries of a row but the constant."""


@dataclass(frozen=True, eq=False)
class Tail:
    """What is known, and what will be, of what residuals lose that are cut, for each of several cuts.

    Attributes
    ----------
    cap, farther
        Where they are cut, and where for the second time.
    before, noise, after
        The variances of what they lose between both as it is guessed and as it is measured, and of what they lose
        beyond.
    """

    cap: Any
    farther: Any
    before: Any
    noise: Any
    after: Any

    @classmethod
    def of(cls, sd: float, cap: Floats, most: float, noise: float) -> Self:
        """Return the second cut that leaves least to be doubted.

        Parameters
        ----------
        sd, most
            How far residuals spread, and how far they go at most.
        noise
            That of what a record loses on average, for each unit between the cuts.

        >>> tail = Tail.of(0.1, np.array([0.4, 2.0]), 2.0, 0.002)
        >>> tail.farther.round(2), np.sqrt(tail.left).round(5), np.sqrt(tail.before + tail.after).round(5)
        (array([1., 2.]), array([0.00152, 0.     ]), array([0.004, 0.   ]))
        """
        cap = np.minimum(cap, most)
        cuts = np.minimum(cap[:, None] + (most - cap[:, None]) * _CUTS, most)
        whole, after = (_lost(sd, at, most) ** 2 for at in (cap[:, None], cuts))
        found = cls(cap[:, None], cuts, np.maximum(whole - after, 0.0), (noise * (cuts - cap[:, None])) ** 2, after)
        best = (np.arange(len(cap)), found.left.argmin(axis=1))
        return cls(cap, *(part[best] for part in (cuts, found.before, found.noise, found.after)))

    def at(self, place: int) -> Self:
        """Return what there is of one cut."""
        parts = (self.cap, self.farther, self.before, self.noise, self.after)
        return type(self)(*(float(part[place]) for part in parts))

    @property
    def left(self) -> Any:
        """The variance of what is lost once it was measured."""
        return self.before * self.noise / np.maximum(self.before + self.noise, 1e-300) + self.after

    def told(self, seen: float, records: float) -> tuple[float, float]:
        """Return the mean and the variance of what is lost, by what was measured of so many records.

        What residuals have beyond the cut varies from record to record, and goes with the rest of them: of a tail such
        as t₃'s, by 2c(1 − c/m)² and by c for each unit of it.

        >>> tail = Tail(0.4, 0.8, 1e-5, 1e-6, 1e-6)
        >>> [round(math.sqrt(tail.told(seen, 1e6)[1]), 5) for seen in (0.0, 0.002, 0.02)]
        [0.001, 0.0012, 0.00481]
        """
        noise, far = max(self.noise, 1e-300), self.farther - self.cap
        seen = min(max(seen, -far), far)  # no record loses more
        (times,) = learned(1.0, np.array([self.before / noise]), np.array([[seen / math.sqrt(noise)]]))
        longer = replace(self, before=self.before * times, after=self.after * times)
        mean = seen * longer.before / (longer.before + noise)
        varies = 2 * self.cap * (1 + (1 - self.cap / self.farther) ** 2) * abs(mean)
        return mean, float(longer.left) + varies / max(records, 1.0)


def _lost(sd: float, cap: Any, most: float) -> Any:
    """Return how much residuals that are cut at `cap` and end at `most` may lose alike."""
    return _ALIKE * sd * sd * np.maximum(1 / cap - 1 / most, 0.0)


def tail_look(system: Formula, n: int | None, look: Look, farther: float) -> Look:
    """Return a look about the centre of another at what that cuts off, up to a farther cut, and nothing else."""
    (whole, *_), size = system.encoding.wholes, look.encoding.size
    shape = _TINY * np.eye(size)
    shape[whole[0]] = np.isin(np.arange(size), whole)
    centre = look.matrix.T @ look.predictors[0]
    return system.look_at(n, centre, shape, 1 + size * _TINY, ("score",), farther, beyond=look.cap)
