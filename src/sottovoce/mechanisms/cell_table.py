r"""Many draws of one law, exactly rounded: quick in doubles, in balls where doubles cannot decide.

A draw is a function of a uniform number U: the cell with F(edge) <= U < F(next edge). Between two quantiles far out, F
is a polynomial on each of some pieces, up to a proven error: on [c - r, c + r]

    F(x) = F(c - r) + s·(I(x - c) - I(-r)),   I(t) = ∫₀ᵗ g,   s = (F(c + r) - F(c - r)) / (I(r) - I(-r)),

g the density up to a factor, whose Taylor series, with its remainder over the whole piece, comes in balls. Evaluated
in doubles that says where F of an edge lies. Where the first 64 bits of U are farther from it than the error, the
cell is certain whatever the bits to come are; elsewhere, and in the tails, the cell is sought in balls, from the same
bits. So a table changes the time of a draw and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.mechanisms.ball_arithmetic import Ball, BallFunction, ball, ball_function, precision
from sottovoce.mechanisms.conjugate.exact_posteriors import BetaLaw, GammaLaw, NormalLaw
from sottovoce.mechanisms.lazy_uniform import BitSource, LazyUniform, find_cell
from sottovoce.mechanisms.rounding_cells import RoundingCells, nearest_double
from sottovoce.privacy.numbers import Floats, Integers, Mask

__all__ = ["CellTable"]

_TAIL = 2.0**-18
"""Chance on either side that is left to balls."""
_DEGREE = 12
_PRECISION = 192
_PIECES = 32
_MOST = 1500
"""Pieces tried at most: a law for which that is too few is drawn in balls where no piece is."""
_SMALLEST = 2.0**-960
"""No piece of a share or rate begins lower."""
_RATIO = 1.5
"""The upper end of a piece over the lower, at most: beside a pole at zero no series reaches farther."""
_FINE = 2.0**-46
"""Error of a piece that is small enough."""
_WORD = 2.0**-52
"""How far 64 bits, as a double, may lie from U."""
_NEWTON = 4

OneNumber = BetaLaw | GammaLaw | NormalLaw


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Polynomials side by side: where each is centred and how far it reaches, coefficients from t⁰ on, errors.

    They are of t = (x - centre)/unit, the unit a power of two: near zero, powers of x - centre would be no doubles.
    """

    centres: Floats
    reaches: Floats
    units: Floats
    coefficients: Floats
    errors: Floats
    starts: Floats
    """F at the lower end of each, about."""

    def at(self, places: Integers, x: Floats) -> tuple[Floats, Floats]:
        """Return F and the density at x by the polynomials of these places."""
        t = (x - self.centres[places]) / self.units[places]
        value, slope = np.zeros_like(t), np.zeros_like(t)
        for j in range(self.coefficients.shape[1] - 1, -1, -1):
            slope = slope * t + value
            value = value * t + self.coefficients[places, j]
        return value, slope / self.units[places]

    def error(self, places: Integers, x: Floats) -> Floats:
        """Return how far F by a polynomial may be off at x; infinite beyond its reach."""
        inside = np.abs(x - self.centres[places]) <= self.reaches[places]
        return np.where(inside, self.errors[places], np.inf)


class CellTable:
    """The cells of one law, for many draws.

    >>> from sottovoce.mechanisms.rounding_cells import UnitCells
    >>> from sottovoce.privacy.randomness import secure_rng
    >>> middles, complements = CellTable(BetaLaw(Fraction(7), Fraction(9)), UnitCells()).draw(1000, secure_rng())
    >>> bool(np.all((middles > 0) & (middles < 1))), bool(np.all(middles + complements == 1))
    (True, True)
    """

    def __init__(self, law: OneNumber, cells: RoundingCells, draws: int = _MOST) -> None:
        self._function, self._cells = ball_function(law), cells
        self._pieces = _pieces(law, self._function, min(draws, _MOST))  # a piece takes about as long as a draw in balls

    def draw(self, count: int, source: BitSource) -> tuple[Floats, Floats]:
        """Return the middles of the cells of so many draws, and one less each."""
        words = np.frombuffer(source.bytes(8 * count), dtype=">u8").astype(np.uint64)
        x, sure = self._found(words)
        x = np.where(sure, x, 0.5)
        middles, complements = self._cells.round(x), self._cells.complement(x)
        for i in np.flatnonzero(~sure).tolist():
            k = find_cell(self._function, self._cells, LazyUniform(source, int(words[i])))
            middles[i], complements[i] = self._cells.value(k), nearest_double(1 - self._cells.middle(k))
        return middles, complements

    def _found(self, words: NDArray[np.uint64]) -> tuple[Floats, Mask]:
        """Return a number within the cell of each draw, where the cell is certain."""
        if self._pieces is None:
            return np.zeros(words.size), np.zeros(words.size, dtype=bool)
        pieces, u = self._pieces, words.astype(np.float64) * 2.0**-64
        places = np.clip(np.searchsorted(pieces.starts, u, side="right") - 1, 0, pieces.starts.size - 1)
        x, reach = pieces.centres[places], pieces.reaches[places]
        with np.errstate(all="ignore"):  # what is not a number is not certain
            for _ in range(_NEWTON):
                value, slope = pieces.at(places, x)
                x = np.clip(x - (value - u) / slope, pieces.centres[places] - reach, pieces.centres[places] + reach)
            low, high = self._cells.around(x)
            below = pieces.at(places, low)[0] + pieces.error(places, low) <= u - _WORD
            above = pieces.at(places, high)[0] - pieces.error(places, high) >= u + _WORD
            return x, below & above


def _pieces(law: OneNumber, function: BallFunction, most: int) -> _Pieces | None:
    """Return polynomials that cover the law but for its tails, the upper ones first, or None where there are none."""
    first, last = (_within(function, float(function.guess(u, v))) for u, v in ((_TAIL, 1 - _TAIL), (1 - _TAIL, _TAIL)))
    first = max(first, _SMALLEST) if function.low == 0 else first
    if not first < last:
        return None
    reached = cache(lambda x: function(Fraction(x), _PRECISION))  # most ends are those of two pieces
    edges = np.linspace(first, last, _PIECES + 1).tolist()
    waiting, built, tried = list(pairwise(edges)), [], 0
    while waiting and tried < most:
        low, high = waiting.pop()
        if 0 < _RATIO * low < high:
            centre = math.sqrt(low) * math.sqrt(high)
            waiting += [(low, centre), (centre, high)]
            continue
        centre = low + (high - low) / 2
        tried += 1
        if not low < centre < high:
            continue
        reach = max(centre - low, high - centre)
        unit = math.ldexp(1.0, math.frexp(reach)[1])
        result, error = _piece(law, (reached(low), reached(high)), low, centre, high, unit)
        if error <= _FINE:
            built.append((centre, reach, unit, result, error))
        else:
            waiting += [(low, centre), (centre, high)]
    if not built:
        return None
    centres, reaches, units, coefficients, errors = (np.array(part) for part in zip(*sorted(built), strict=True))
    starts = np.maximum.accumulate((coefficients * (-reaches / units)[:, None] ** np.arange(_DEGREE + 1)).sum(axis=1))
    return _Pieces(centres, reaches, units, coefficients, errors, starts)


def _within(function: BallFunction, x: float) -> float:
    """Return a double that is not beyond the ends of a law, where no polynomial follows its F."""
    if function.low is not None and x < function.low:
        return math.nextafter(nearest_double(function.low), math.inf)
    if function.high is not None and x > function.high:
        return math.nextafter(nearest_double(function.high), -math.inf)
    return x


def _piece(
    law: OneNumber, ends: tuple[Ball, Ball], low: float, centre: float, high: float, unit: float
) -> tuple[list[float], float]:
    """Return coefficients of F about the centre, in doubles, and a proven bound of their error up to both ends."""
    from flint import arb, ctx  # noqa: PLC0415 - only a release needs it

    start, end = ends
    with precision(_PRECISION):
        before, ctx.cap = ctx.cap, _DEGREE + 1
        try:
            near, wide = _density(law, arb(centre), centre), _density(law, arb(low).union(arb(high)), centre)
        finally:
            ctx.cap = before
        item = arb(unit)
        left, right = (arb(low) - arb(centre)) / item, (arb(high) - arb(centre)) / item
        reach, scales, powers = right.max(-left), [arb(1)], [arb(1)]
        for _ in range(_DEGREE):
            scales.append(scales[-1] * item)
            powers.append(powers[-1] * reach)
        # I(t) = Σ near[j] t^(j+1)/(j+1) + θ·wide[D] t^(D+1)/(D+1): the remainder is the last coefficient over the piece
        terms = [near[j] * scales[j] / (j + 1) for j in range(_DEGREE)]
        remainder = arb(0, _above(abs(wide[_DEGREE]) * scales[_DEGREE] * powers[_DEGREE] * reach / (_DEGREE + 1)))

        def integral(t: Ball) -> Ball:
            total = arb(0)
            for term in reversed(terms):
                total = (total + term) * t
            return total + remainder

        first = integral(left)
        scale = (end - start) / (integral(right) - first)
        if not scale.is_finite():
            return [0.0] * (_DEGREE + 1), np.inf
        exact = [start - scale * first, *(scale * term for term in terms)]
        built = [float(item.mid()) for item in exact]
        off, size = abs(scale * remainder), arb(0)
        for item, c, power in zip(exact, map(arb, built), powers, strict=True):
            off += abs(item - c) * power
            size += abs(c) * power
        # Horner in doubles: t is off by a rounding, every step by two more; what is added up has so many sizes
        off += size * (4 * _DEGREE + 8) * arb(2) ** -53
        return built, _above(off)


def _above(bound: Ball) -> float:
    """Return a double that is not below a ball."""
    return float(bound.upper()) * (1 + 2.0**-40)


def _density(law: OneNumber, at: Ball, centre: float) -> Any:
    """Return the Taylor series, about a ball, of the density over what it is at the centre of a piece.

    Of its logarithm, the first two coefficients are differences of numbers that a narrow law makes large. So the slope
    is written as one fraction, and the value is the slope somewhere in the ball times the way from the centre.
    """
    from flint import arb, arb_series, ctx  # noqa: PLC0415 - only a release needs it

    x = arb_series([at, 1])
    match law:
        case BetaLaw(alpha, beta):
            logs = (ball(alpha) - 1) * x.log() + (ball(beta) - 1) * (1 - x).log()
            slope = (ball(alpha - 1) - ball(alpha + beta - 2) * at) / (at * (1 - at))
        case GammaLaw(shape, rate):
            logs = (ball(shape) - 1) * x.log()
            slope = (ball(shape - 1) - ball(rate) * at) / at
        case NormalLaw(mean, variance):
            logs = -(x - ball(mean)) * (x - ball(mean)) / (2 * ball(variance))
            slope = (ball(mean) - at) / ball(variance)
    value = slope * (at - arb(centre))
    return arb_series([value, slope, *(logs[j] for j in range(2, ctx.cap))]).exp()
