r"""Splines on public knots: smooth curves of a number as sums of a few bounded functions.

The bounds of the facts become 0 and 1, and knots lie evenly between them: nothing is read off the data. ``bs`` has
cubic B-splines without the first (de Boor, *A Practical Guide to Splines*, 1978), ``ns`` cubic splines that are
straight at both ends: each function is 1 at one knot and 0 at the others, so that a coefficient is by how much the
curve lies higher at its knot than at the lower bound.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.errors import InvalidValue

__all__ = ["KINDS", "Spline"]

Floats = NDArray[np.float64]
KINDS = {"bs": 3, "ns": 2}
"""The least number of functions of each kind; fewer are a polynomial, or a line."""
USUAL = 4
_MOST = 12
LEAST = 2.0**-60
"""Nearer to a knot a number is the knot: no power of the distance is too small for an engine."""
_DEGREE = 3


@dataclass(frozen=True)
class Spline:
    """The functions of a spline: cubic between neighbouring edges, each bounded.

    Attributes
    ----------
    kind
        ``bs`` or ``ns``.
    df
        How many functions.

    Examples
    --------
    >>> Spline("ns", 2).values(np.array([0.0, 0.5, 1.0]), 0).tolist()
    [0.0, 1.0, 0.0]
    """

    kind: str
    df: int

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidValue(f"a spline is one of {', '.join(KINDS)}. Got {self.kind!r}")
        if not KINDS[self.kind] <= self.df <= _MOST:
            raise InvalidValue(f"{self.kind}() takes df from {KINDS[self.kind]} to {_MOST}. Got {self.df}")

    @property
    def edges(self) -> Floats:
        """The edges of the pieces, from 0 to 1."""
        return _pieces(self.kind, self.df)[0]

    @property
    def coefficients(self) -> Floats:
        """Of each function and piece the coefficients of the powers of the distance from its left edge, 0 to 3."""
        return _pieces(self.kind, self.df)[1]

    def ends(self, which: int) -> tuple[float, float]:
        """Return bounds of a function: it is held between them."""
        low, high = _ends(self.kind, self.df)[which]
        return low, high

    def values(self, t: Floats, which: int) -> Floats:
        """Return a function at numbers from 0 to 1; NaN stays NaN."""
        piece, off = self._located(t)
        a, b, c, d = self.coefficients[which][piece].T
        return np.asarray(np.clip(((d * off + c) * off + b) * off + a, *self.ends(which)))

    def slopes(self, t: Floats, which: int) -> Floats:
        """Return the derivative of a function at numbers from 0 to 1."""
        piece, off = self._located(t)
        _, b, c, d = self.coefficients[which][piece].T
        return np.asarray((3 * d * off + 2 * c) * off + b)

    def _located(self, t: Floats) -> tuple[NDArray[np.intp], Floats]:
        piece = np.searchsorted(self.edges[1:-1], t, side="right")
        off = t - self.edges[piece]
        return piece, np.where(off < LEAST, 0.0 * off, off)


@functools.lru_cache(maxsize=64)
def _pieces(kind: str, df: int) -> tuple[Floats, Floats]:
    """Return the edges, and of each function the coefficients of each piece."""
    built = _b_splines(df) if kind == "bs" else _natural(df)
    edges, coefficients = (np.array(part, dtype=np.float64) for part in built)
    for part in (edges, coefficients):
        part.flags.writeable = False
    return edges, coefficients


def _b_splines(df: int) -> tuple[list[float], list[list[list[float]]]]:
    """Return cubic B-splines by the recursion of Cox and de Boor, in exact fractions; without the first."""
    count = df - _DEGREE + 1
    inner = [Fraction(k, count) for k in range(count + 1)]
    knots = [inner[0]] * _DEGREE + inner + [inner[-1]] * _DEGREE
    coefficients: list[list[list[float]]] = [[] for _ in range(df)]
    for piece in range(count):
        start = inner[piece]
        basis = [[Fraction(int(i == piece + _DEGREE))] for i in range(len(knots) - 1)]
        for p in range(1, _DEGREE + 1):
            basis = [
                _sum(
                    _ramp(basis[i], start - knots[i], knots[i + p] - knots[i], 1),
                    _ramp(basis[i + 1], knots[i + p + 1] - start, knots[i + p + 1] - knots[i + 1], -1),
                )
                for i in range(len(basis) - 1)
            ]
        for k in range(df):
            coefficients[k].append([float(item) for item in basis[k + 1]])
    return [float(edge) for edge in inner], coefficients


def _ramp(part: list[Fraction], offset: Fraction, width: Fraction, sign: int) -> list[Fraction]:
    """Return a polynomial of the distance s times (offset ± s)/width; nothing where knots coincide."""
    if not width:
        return [Fraction(0)] * (len(part) + 1)
    up, along = [*part, Fraction(0)], [Fraction(0), *part]
    return [(offset * a + sign * b) / width for a, b in zip(up, along, strict=True)]


def _sum(first: list[Fraction], second: list[Fraction]) -> list[Fraction]:
    return [a + b for a, b in zip(first, second, strict=True)]


def _natural(df: int) -> tuple[list[float], list[list[list[float]]]]:
    """Return natural cubic splines through 1 at one knot and 0 at the others; without that of the lower bound."""
    h, knots = 1 / df, df + 1
    bend = 4 * np.eye(knots - 2) + np.eye(knots - 2, k=1) + np.eye(knots - 2, k=-1)
    result = []
    for k in range(1, knots):
        y = np.eye(knots)[k]
        second = np.concatenate([[0.0], np.linalg.solve(bend, 6 * np.diff(y, 2) / h**2), [0.0]])
        slope = np.diff(y) / h - h * (2 * second[:-1] + second[1:]) / 6
        powers = np.stack([y[:-1], slope, second[:-1] / 2, np.diff(second) / (6 * h)], axis=1)
        result.append(powers.tolist())
    return [j / df for j in range(knots)], result


@functools.lru_cache(maxsize=64)
def _ends(kind: str, df: int) -> list[tuple[float, float]]:
    """Return bounds of each function: where a piece begins or ends, or its derivative is zero."""
    edges, coefficients = _pieces(kind, df)
    if kind == "bs":
        return [(0.0, 1.0)] * df
    result = []
    for function in coefficients:
        seen = [0.0, 1.0]
        for (a, b, c, d), width in zip(function.tolist(), np.diff(edges).tolist(), strict=True):
            turns = [float(root.real) for root in np.roots([3 * d, 2 * c, b]) if abs(root.imag) < 1e-12]
            for s in [0.0, width, *(turn for turn in turns if 0 < turn < width)]:
                seen.append(((d * s + c) * s + b) * s + a)
        result.append((min(seen), max(seen)))
    return result
