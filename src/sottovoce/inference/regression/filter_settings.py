"""How a filtered regression is set: by n, d, μ and the kind of response alone, by a rule of a small family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sottovoce.inference.regression.residuals import Classes, Line, ScoreFamily

_SHAPED = 0.8
"""How long a row is that shaped looks leave alone, beside a typical one."""


@dataclass(frozen=True)
class Rule:
    """A member of the family that the race chooses from: few numbers, all else follows from what is public.

    Attributes
    ----------
    reach
        The mean row is asked for where n·μ/√d is at least this: below, noise would hide it.
    keep
        How long the mean of the rows is to be after flattening, beside their distance from it.
    room
        How much longer than a typical row the bound is.
    prior
        The prior's precision, in the coordinates of rows of length 1; of full looks, which need less, a tenth of it.
    stretch
        How much room rows of full looks have: this times ∛r of their typical length, r = n·μ/d^{3/2}.
    full
        Two classes are given full looks where n·μ/d^{3/2} is at least this.

    Examples
    --------
    >>> Rule(reach=10.0).shares(300, 30, 0.1, Line())["flatten"]
    0.0
    """

    reach: float = 6.0
    keep: float = 0.3
    room: float = 0.55
    prior: float = 1.0
    stretch: float = 0.3
    full: float = 15.0

    def shares(self, n: int, dimension: int, mu: float, family: ScoreFamily) -> dict[str, Any]:
        """Return the shares of μ², how many looks there are and of which kind.

        The mean row is worth the more of μ² the less is known of it: `flatten` is such that its noise, of norm
        2√d/(nμ), is a fifth of the bound of a row, and between .05 and .4; or none where it would be hidden. Where
        r = nμ/d^{3/2} is 1 or more the rows are shaped by what rises above the noise of the information. From 10 on
        there are twice as many looks, and from 60 on three times as many, three quarters instead of half of which leave
        no bias. Where it is `full` or more, noise is nothing beside what shortening residuals and weighing rows does to
        the answer: two classes are given eight full looks, and the room of their rows grows with r, if
        neither of them is rare. Twelve looks do for a line.
        """
        line, shown = isinstance(family, Line), n * mu / math.sqrt(dimension)
        known = shown / dimension
        full = isinstance(family, Classes) and family.width == 1 and known >= self.full
        looks, unbiased = (12, 0) if line else (8, 4) if known < 10 else (16, 8) if known < 60 else (24, 18)
        return {
            "prior_precision": self.prior / 10 if full else self.prior,
            "flatten": min(max(100 / shown**2, 0.05), 0.4) if shown >= self.reach else 0.0,
            "first": 0.15 if full else 0.3,
            "looks": 8 if full else looks,
            "unbiased": 0 if full else unbiased,
            "shape_room": 0.0 if known < 1 else min(self.stretch * known ** (1 / 3), 3.0) if full else _SHAPED,
            "keep": self.keep,
            "room": self.room,
            "full": full,
        }


CLASSES = Rule()
"""The rule for classes, the one of the family that is best on the ten sets of the race."""
LINES = Rule(reach=20.0, keep=0.5, room=0.65, prior=15.0)
"""The rule for lines, chosen on made-up tables and on one set that is in no race."""
