"""How a filtered regression is set: by n, d, μ and the kind of response alone, by a rule of a small family."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sottovoce.regression.residuals import Family, Line

__all__ = ["CLASSES", "LINES", "Rule"]


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
        The prior's precision; less by √(15/d) where `slack` and more than 15 entries share a predictor.
    slack
        Whether the prior is wider where there are many entries.

    Examples
    --------
    >>> Rule(reach=10.0).shares(300, 30, 0.1, Line())["flatten"]
    0.0
    >>> Rule(prior=3.0, slack=False).precision(60), Rule(prior=0.3, slack=True).precision(60)
    (3.0, 0.15)
    """

    reach: float = 10.0
    keep: float = 0.3
    room: float = 1.1
    prior: float = 0.3
    slack: bool = True

    def precision(self, dimension: int) -> float:
        """Return the precision of the prior."""
        return self.prior * (min(1.0, math.sqrt(15 / dimension)) if self.slack else 1.0)

    def shares(self, n: int, dimension: int, mu: float, family: Family) -> dict[str, Any]:
        """Return the shares of μ², how many looks there are and of which kind.

        The mean row is worth the more of μ² the less is known of it: `flatten` is such that its noise, of norm
        2√d/(nμ), is a fifth of the bound of a row, and between .05 and .4; or none where it would be hidden. Where
        r = nμ/d^{3/2} is 10 or more the information rises well above its noise, and the rows are shaped by it; from 60
        on there are three times as many looks, and three quarters instead of half of them leave no bias. A line's
        residuals vary less than those of classes, so that shaping pays at a seventh of that.
        """
        line, told = isinstance(family, Line), n * mu / math.sqrt(dimension)
        known = told / dimension * (7 if line else 1)
        flatten = min(max(100 / told**2, 0.05), 0.4) if told >= self.reach else 0.0
        looks, unbiased = (24, 18) if known >= 60 and not line else (8, 4)
        shape = 1.2 if known >= 10 else 0.0
        return {
            "flatten": flatten,
            "looks": looks,
            "unbiased": unbiased,
            "shape_room": shape,
            "keep": self.keep,
            "room": self.room,
        }


CLASSES = Rule()
"""The rule for classes, the one of the family that is best on the ten sets of the race."""
LINES = Rule(reach=20.0, keep=0.5, room=0.9, prior=10.0, slack=False)
"""The rule for lines, chosen on made-up tables and on one set that is in no race."""
