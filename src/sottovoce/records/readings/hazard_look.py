r"""A look at a hazard regression: the score and the information of a piecewise exponential model at a public centre.

With the hazard :math:`e^{\alpha_j + b\cdot z}` between the cuts :math:`a_{j-1}` and :math:`a_j`, z = T(x − m) in public
coordinates, a record that is followed to t gathers :math:`\lambda_j` in the j-th interval, their sum being its
cumulative hazard Λ. Its row in that interval is q = (g·e_j, z). Follow-up ends, by the centre alone, once Λ = r: so the
record is weighed by what x says, v = min(1, c²/(g² + ‖z‖²)), never by how long it was followed, and the score has mean
zero at the truth. Whoever enters late gathers from then on, and events before are none of theirs. A record gives

.. math:: w = \frac{v}{Bc} \sum_j q_j(d_j - \lambda_j), \qquad A = \frac{v}{rc^2} \sum_j \lambda_j q_j q_j',

d_j being 1 where its event lies, within the follow-up. Both are rounded to whole steps, entry by entry.

**Lemma.** For g² ≤ c²/2 and B = max(1, r) the score is no longer than 1, and the trace of A no more than 1. *Proof.*
The squared length of the sum is g²‖d − λ‖² + (Σd − Λ)²‖z‖², convex in λ, so largest where λ is 0 or has its whole r
in one interval. Without an event it is at most r²(g² + ‖z‖²); with one it is g² + ‖z‖² at λ = 0, (1 − r)²(g² + ‖z‖²)
where all lies in the interval of the event, and g²(1 + r²) + (1 − r)²‖z‖² elsewhere. Times v² the first two are at
most B²c², for v²(g² + ‖z‖²) ≤ c²; the last is at most (1 − r)²c² + 2rg², reached where the row is c long, and that at
most (1 − r + r²)c² ≤ B²c². The trace of Σλ_j q_j q_j' is Λ(g² + ‖z‖²). ∎
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, Mask, real
from sottovoce.records.facts.columns import Column, Count, Flag, Number
from sottovoce.records.facts.encodings import LEAST, Encoding
from sottovoce.records.readings.base import Reading, Statistics
from sottovoce.records.readings.family import FARTHEST
from sottovoce.records.readings.in_memory_records import as_columns
from sottovoce.records.readings.look import CHUNK
from sottovoce.records.readings.look_parts import HazardParts
from sottovoce.records.readings.look_records import LookRecords
from sottovoce.records.readings.look_sensitivity import SLACK

__all__ = ["HazardLook"]

_SURE = 1 + 1e-9
"""Contributions are longer than 1 by no more than the arithmetic of a record can be off."""


@dataclass(frozen=True)
class HazardLook(LookRecords):
    """Score and information of a piecewise exponential model at a public centre.

    Attributes
    ----------
    encoding
        How the first columns become a row x, without a constant.
    event, time
        What is public of the last two columns: whether follow-up ended in the event, and how long it was.
    cuts
        The ends of the intervals, rising; the first begins at zero, and follow-up ends at the last.
    centre
        α, the log hazards per unit of time at z = 0, then b.
    shape, about
        T, row by row, and m.
    constant, norm
        g and c.
    limit
        r: follow-up ends where the centre's cumulative hazard reaches it.
    bits
        Entries of the score are rounded to 2⁻ᵇ, of the information to 2⁻²ᵇ.
    parts
        Both parts, always.
    start
        What is public of a column after the time that says when a record's follow-up began; None where it does at 0.

    A record with a missing value, of which the facts do not say what it counts as, gives zeros.

    Examples
    --------
    >>> encoding = Encoding(("a",), (Number(-1, 1),), (((0, -1),),))
    >>> look = HazardLook(encoding, Flag(), Number(0, 10), (10.0,), (-2.0, 0.0), ((1.0,),), (0.0,), 1.0, 2.0, bits=4)
    >>> look.read([[1.0, -0.5], [True, False], [3.0, 20.0]]).total.tolist()
    [-3.0, 9.0, 90.0, 42.0, -6.0]
    """

    word: ClassVar[str] = "hazard look"
    vector: ClassVar[bool] = True
    hides_n: ClassVar[bool] = True
    encoding: Encoding
    event: Column
    time: Column
    cuts: tuple[float, ...]
    centre: tuple[float, ...]
    shape: tuple[tuple[float, ...], ...]
    about: tuple[float, ...]
    constant: float
    norm: float
    limit: float = 1.0
    bits: int = 12
    parts: tuple[str, ...] = ("score", "information")
    start: Column | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        times = (self.time,) if self.start is None else (self.time, self.start)
        if not isinstance(self.event, Flag) or not all(isinstance(time, Number | Count) for time in times):
            raise InvalidValue("a hazard is of a flag, the event, and of a time, a number or a count")
        cuts, p = np.array(self.cuts, dtype=np.float64), self.encoding.size
        if not (cuts.ndim == 1 and cuts.size and cuts[0] > 0 and np.all(np.diff(cuts) > 0) and np.all(cuts < 1e100)):
            raise InvalidValue("cuts are rising times above zero")
        for name in ("constant", "norm", "limit"):
            real(name, getattr(self, name), above=0.0)
        if not self.constant**2 <= self.norm**2 / 2 or not 2 <= self.bits <= 20:
            raise InvalidValue("a hazard look needs constant² <= norm²/2 and bits from 2 to 20")
        shape, middle, centre = (np.array(item, dtype=np.float64) for item in (self.shape, self.about, self.centre))
        if shape.shape != (p, p) or middle.shape != (p,) or centre.shape != (self.dimension,):
            raise InvalidValue(f"a hazard look at {p} entries takes a {p} × {p} shape, a middle and a centre")
        if not all(np.all(np.isfinite(item)) for item in (shape, middle, centre)) or np.abs(shape).max() > 2.0**40:
            raise InvalidValue("the shape, the middle and the centre of a look must be finite and of moderate size")

    @property
    def intervals(self) -> int:
        """How many intervals of time there are."""
        return len(self.cuts)

    @property
    def dimension(self) -> int:
        """The unknowns: a log hazard for each interval, and a coefficient for each entry of a row."""
        return self.intervals + self.encoding.size

    @cached_property
    def layout(self) -> HazardParts:
        """Which entries of the total belong to which part."""
        return HazardParts(self.intervals, self.encoding.size)

    # The records.

    @property
    def columns(self) -> list[Column]:
        """The columns to read, event, time and start last."""
        return [*self.encoding.columns, self.event, self.time, *([] if self.start is None else [self.start])]

    @property
    def passing(self) -> bool:
        """Whether noise led here: no other look will be taken at the same place."""
        return any(self.centre[self.intervals :])

    @cached_property
    def slopes(self) -> Floats:
        """b, a coefficient for each entry of z."""
        return np.array(self.centre[self.intervals :])

    @cached_property
    def hazards(self) -> Floats:
        """e^α, no farther than numbers go on every engine."""
        return np.asarray(np.exp(np.clip(self.centre[: self.intervals], -FARTHEST * 8, FARTHEST * 8)))

    @cached_property
    def offset(self) -> Floats:
        """−Tm, so that z = Tx − Tm."""
        return np.asarray(-np.array(self.shape) @ np.array(self.about))

    @property
    def bound(self) -> float:
        """B: how far a record's martingale residual pulls at most."""
        return max(1.0, self.limit)

    @property
    def beyond(self) -> float:
        """A time after all follow-up, which later ones count as; those before zero count as zero."""
        return 2 * self.cuts[-1]

    @property
    def factors(self) -> tuple[float, float]:
        """By what the score and the roots of the information are multiplied: 2ᵇ/(Bc) and 2ᵇ/(√r·c)."""
        return 2.0**self.bits / (self.bound * self.norm), 2.0**self.bits / (math.sqrt(self.limit) * self.norm)

    def of_limit(self, limit: float) -> Self:
        """Return the same look with follow-up that ends elsewhere."""
        return replace(self, limit=limit)

    def of_norm(self, norm: float) -> Self:
        """Return the same look with another norm."""
        return replace(self, norm=norm)

    def default(self, place: int) -> float | None:
        """Return what a missing value of a column counts as; None where its record is left out."""
        if place < len(self.encoding.columns):
            return self.encoding.default(place)
        missing: Any = getattr(self.columns[place], "missing", None)
        return None if missing is None else float(missing)

    def read(self, records: object, missing: object = None, *, public: bool = False) -> Statistics:
        """Return n and the look at a list of columns, event and time last."""
        del public
        if missing is not None:
            raise InvalidValue("each column says itself what a missing value counts as")
        values = as_columns(self.columns, records)
        n, total = len(values[0]), np.zeros(self.size)
        for start in range(0, n, CHUNK):
            subset = [column[start : start + CHUNK] for column in values]
            first = len(self.encoding.columns)
            rows, known = self.encoding.rows(subset[:first], len(subset[first]))
            outcomes = [self._outcome(place, part) for place, part in enumerate(subset[first:], first)]
            total = total + self.of_rows(rows, known, *outcomes)
        return Statistics(n, total)

    def _outcome(self, place: int, values: Floats) -> Floats:
        default = self.default(place)
        return values if default is None else np.where(np.isnan(values), default, values)

    def of_rows(self, rows: Floats, known: Mask, *outcomes: Floats) -> Floats:
        """Return the sum over encoded rows with their events, times and starts, NaN where missing."""
        known = known & ~np.any(np.isnan(outcomes), axis=0)
        rows = np.where(known, rows.T, 0.0).T
        parts = self.contributions(rows, *(np.where(known, item, 0.0) for item in outcomes))
        return np.asarray(np.where(known, parts, 0.0).sum(axis=1))

    def contributions(self, rows: Floats, event: Floats, time: Floats, start: Floats | None = None) -> Floats:
        """Return what each record gives, in whole steps, (entries of the total, records)."""
        z = [
            _ordered(weights, list(rows.T)) + off for weights, off in zip(self.shape, self.offset.tolist(), strict=True)
        ]
        squares = np.zeros(len(rows))
        for column in z:
            squares = squares + column * column
        full = self.norm**2
        v = full / np.maximum(squares + self.constant**2, full)
        growth = np.exp(np.clip(_ordered(self.slopes.tolist(), z), -FARTHEST, FARTHEST))
        starts = (0.0, *self.cuts[:-1])
        # No difference of what is left is too large, and no product too small.
        time, since = (
            np.where(part < LEAST * self.cuts[-1], 0.0, np.minimum(part, self.beyond))
            for part in (time, np.zeros(len(rows)) if start is None else start)
        )
        gathered, before = [np.zeros(len(rows))], np.zeros(len(rows))
        for rate, begins, end in zip(self.hazards.tolist(), starts, self.cuts, strict=True):
            before = before + rate * growth * np.maximum(np.minimum(time, end) - np.maximum(since, begins), 0.0)
            gathered.append(np.minimum(before, self.limit))
        ends = (event != 0) & (time <= self.cuts[-1]) & (before <= self.limit)
        ends &= True if start is None else time > since
        marks = [-math.inf, *self.cuts]
        here = [ends & (time > low) & (time <= high) for low, high in itertools.pairwise(marks)]
        lived = [after - earlier for earlier, after in itertools.pairwise(gathered)]
        residual, Lambda = ends - gathered[-1], gathered[-1]
        pull, lean = self.factors
        score = [pull * self.constant * v * (hit - part) for hit, part in zip(here, lived, strict=True)]
        score += [pull * v * residual * column for column in z]
        weighed = lean * lean * v
        diagonal = [weighed * self.constant**2 * part for part in lived]
        diagonal += [weighed * Lambda * (column * column) for column in z]
        off = [weighed * self.constant * part * column for part in lived for column in z]
        off += [weighed * Lambda * (left * right) for left, right in itertools.combinations(z, 2)]
        return np.asarray(np.rint(np.array([*score, *diagonal, *off])))

    # How far one record moves it.

    @cached_property
    def _rounding(self) -> dict[str, float]:
        """How far rounding moves one contribution, in steps: half a step an entry, twice beside the diagonal."""
        sizes = self.sizes
        entries = {"score": sizes["score"], "information": sizes["information"] + 2 * sizes["information off"]}
        return {part: math.sqrt(count) / 2 * SLACK for part, count in entries.items()}

    @cached_property
    def lengths(self) -> dict[str, float]:
        """The longest contribution of one record to each part, in steps, rounding included."""
        item = 2.0**self.bits * _SURE
        return {"score": item + self._rounding["score"], "information": item**2 + self._rounding["information"]}

    @cached_property
    def moves(self) -> dict[str, float]:
        """How far one replaced record moves each part alone; two PSD matrices never point apart."""
        item, off = 2.0**self.bits * _SURE, self._rounding
        return {"score": 2 * (item + off["score"]), "information": math.sqrt(2) * item**2 + 2 * off["information"]}

    def joint(self, scales: Mapping[str, float]) -> float:
        """Return how far one replaced record moves both parts together, each in units of its noise."""
        return math.hypot(*(self.moves[part] / scales[part] for part in self.parts)) * (1 + 1e-12)

    @classmethod
    def example(cls) -> Self:
        """Return a number and a flag in three intervals, away from zero."""
        encoding = Encoding(("a", "b"), (Number(-1, 1), Flag()), (((0, -1),), ((1, 1),)))
        centre, shape = (-1.0, -2.0, -1.5, 0.7, -0.4), ((1.0, 0.0), (0.25, 1.5))
        return cls(encoding, Flag(), Number(0, 4), (1.0, 2.0, 4.0), centre, shape, (0.1, 0.5), 1.0, 1.8, bits=10)

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Reading:
        state["encoding"] = Encoding.from_dict(state["encoding"])
        state["event"], state["time"] = (Column.from_dict(state[name]) for name in ("event", "time"))
        state["start"] = None if state.get("start") is None else Column.from_dict(state["start"])
        return super()._from_state(state)


def _ordered(weights: Sequence[float], columns: Sequence[Floats]) -> Floats:
    """Return Σ weights·columns, added from left to right, what weighs nothing left out: as engines add it."""
    result = np.zeros(columns[0].shape)
    for weight, column in zip(weights, columns, strict=True):
        if weight:
            result = result + weight * column
    return result
