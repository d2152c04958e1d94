"""How far one record moves a look, in steps: each part alone, and all of them together in units of their noise."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping

import numpy as np

from sottovoce.privacy.numbers import Floats
from sottovoce.records.readings.families import Family
from sottovoce.records.readings.look_records import LookRecords

SLACK = 1.01
"""Beside half a step an entry, what double precision loses before the rounding."""
_STEPS = 4096
"""The largest sum over cosines is looked for in so many steps from 0 to 1."""
_CELLS = 24
"""Lengths of a score are taken in so many cells from 0 to 1: with twice as many the bound is less than 1 % lower."""
EDGES = np.linspace(0.0, 1.0, _CELLS + 1)
"""Where they begin and end."""
_FIRST, _SECOND = np.triu_indices(_CELLS)
"""Each pair of cells once."""


class LookMoves(LookRecords):
    """What of a look says how far one record moves it. `Look` says what a record gives.

    Attributes
    ----------
    bits
        Contributions are no longer than 2ᵇ steps, before they are rounded.
    """

    bits: int

    @property
    @abstractmethod
    def model(self) -> Family:
        """The family: with several linear predictors a record's information need not point where its score does."""

    @property
    @abstractmethod
    def diameter(self) -> float:
        """How far two contributions to the score lie apart, of which none is longer than 1."""

    @property
    def _rounding(self) -> float:
        """How far rounding moves one contribution, in steps: half a step an entry."""
        return math.sqrt(self.layout.dimension) / 2 * SLACK

    @property
    def lengths(self) -> dict[str, float]:
        """The longest contribution of one record to each part, in steps, rounding included."""
        item, off = 2.0**self.bits, self._rounding
        square = (item + off) ** 2
        roots = self.model.outputs + 1
        several = item**2 + 2 * off * item * math.sqrt(2 * roots) + roots * off**2
        result = {"score": item + off, "information": square if roots == 2 else several, "meat": square}
        return {part: result[part] for part in self.parts}

    @property
    def moves(self) -> dict[str, float]:
        """How far one replaced record moves each part alone, in steps; two PSD matrices never point apart."""
        item, off = 2.0**self.bits, self._rounding
        moves = {part: math.sqrt(2) * length for part, length in self.lengths.items()}
        return moves | ({"score": self.diameter * item + 2 * off} if "score" in self.parts else {})

    def joint(self, scales: Mapping[str, float]) -> float:
        r"""Return how far one replaced record moves all parts together, each in units of its noise.

        Let −g be the cosine between the two contributions to the score. Their difference has a squared length of at
        most 2(1 + g), and of the squared `diameter` D; that of their outer products 2(1 − g²), and that of two
        information matrices 2 max(1 − g², ½), for lengths of at most 1. With several predictors these are M ⊗ zz', and
        g is no more than the cosine c of the two z: c²‖M − M'‖² + (1 − c²)(‖M‖² + ‖M'‖²) ≤ 2 − g² for two of them, no
        entry of M − M' being above ¼ where κ = ½; for more, 2. The largest sum over g, and what rounding adds:

        .. math:: \Delta = \max_g \sqrt{\tfrac{\min(2 + 2g, D^2)}{\sigma^2} + \tfrac{2(1-g^2)}{\tau_w^2} + \dots}

        A shorter contribution moves less: for a fixed inner product every term grows with both lengths.
        """
        item = 2.0**self.bits
        score = item / scales["score"] if "score" in self.parts else 0.0
        meat = item**2 / scales["meat"] if "meat" in self.parts else 0.0
        information = item**2 / scales["information"] if "information" in self.parts else 0.0
        squares = self._largest_squares(score**2, meat**2, information**2)
        slack = {part: length - (item if part == "score" else item**2) for part, length in self.lengths.items()}
        rounding = math.sqrt(sum((2 * slack[part] / scales[part]) ** 2 for part in self.parts))
        return math.sqrt(squares) + rounding

    def _largest_squares(self, score: float, meat: float, information: float) -> float:
        """Return the largest sum of one record's contributions."""
        squares = self._squares_by_cosine(score, meat, information)
        if self.model.outputs > 1 or self.information_ranges is None:
            return squares
        return min(squares, self._squares_by_length(score, meat, information))

    @property
    def information_ranges(self) -> tuple[Floats, Floats] | None:
        """The least and the most information of a record in each cell of lengths of its score; None where unknown."""
        return None

    def _squares_by_length(self, score: float, meat: float, information: float) -> float:
        r"""Return the largest sum over pairs of records, of scores a and a' long that hold the information m and m'.

        .. math:: \min(a^2 + a'^2 + 2gaa', D^2)\,S + (a^4 + a'^4 - 2g^2a^2a'^2)\,M + (m^2 + m'^2 - 2g^2mm')\,H.

        It is the largest of these, g minus the cosine between the scores. What pulls farthest is what the model is
        surest of, and holds little information. The sum rises with both lengths in its first term, and is convex in m
        and m', so that of two cells the ends say all; as a function of g it is concave, so that it is largest where its
        slope vanishes, or where the first term reaches the diameter.
        """
        assert self.information_ranges is not None
        least, most = self.information_ranges
        low, high = EDGES[:-1], EDGES[1:]
        lengths, product = high[_FIRST] ** 2 + high[_SECOND] ** 2, high[_FIRST] * high[_SECOND]
        fourth, shared = high[_FIRST] ** 4 + high[_SECOND] ** 4, (low[_FIRST] * low[_SECOND]) ** 2
        far = self.diameter**2
        reached = (far - lengths) / (2 * product)
        largest = []
        for first, second in ((most, most), (most, least), (least, most), (least, least)):
            m, other = first[_FIRST], second[_SECOND]
            falls = m * other * information + shared * meat
            g = np.clip(np.minimum(product * score / np.maximum(2 * falls, 1e-300), reached), 0.0, 1.0)
            total = np.minimum(lengths + 2 * g * product, far) * score + fourth * meat
            total += (m * m + other * other) * information - 2 * g * g * falls
            largest.append(total.max())
        return float(np.max(largest)) * (1 + 1e-9)

    def _squares_by_cosine(self, score: float, meat: float, information: float, *, averaged: bool = False) -> float:
        """Return the largest sum over all cosines; information that is an average of rows may point anywhere."""
        # Between two points of the grid the sum, of slopes at most 2·score² + 4·(…)², rises by less than this.
        between = (2 * score + 4 * meat + 4 * information) / _STEPS
        return max(self._squares(score, meat, information, 0 if averaged else self.model.outputs)) + between

    def _squares(self, score: float, meat: float, information: float, outputs: int) -> Iterator[float]:
        """Yield the sum at the points of a grid of g at which it may be largest: beside where one of its parabolas, of
        which none opens upwards, turns down, and where one ends.
        """
        far = self.diameter**2
        ends = [0.0, far / 2 - 1, math.sqrt(0.5)]
        turns = [score / max(2 * (meat + part * information), 1e-300) for part in (0.0, 0.5, 1.0)]
        below = {int(_STEPS * min(max(place, 0.0), 1.0)) for place in ends + turns}
        for k in below | {min(k + 1, _STEPS) for k in below}:
            g = k / _STEPS
            curve = 1 - g * g
            both = max(curve, 0.5) if outputs == 1 else (1 + curve) / 2 if outputs == 2 else 1.0
            yield min(2 * (1 + g), far) * score + 2 * meat * curve + 2 * information * both
