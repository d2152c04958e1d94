r"""Normal noise for many numbers at once, exactly rounded: quick in doubles, in balls where doubles cannot decide.

Mean + s·z is put into a cell of a public width, z an ideal normal made by Box and Muller from two real uniform
numbers. The first bits of these are drawn; doubles then say where mean + s·z lies up to a proven error. Where no edge
of a cell is that near, as in all but one draw in a million or so, the cell is certain whatever the bits to come are.
Elsewhere more bits are drawn and the same formula is computed in balls until one cell is left. So the cell that leaves
**is** the cell of a real sample: by data processing every claim about N(mean, s²) is one about the bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sottovoce.mechanisms.ball_arithmetic import Ball, ball, precision
from sottovoce.mechanisms.rounding_cells import EvenCells, exact
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, Integers, Mask
from sottovoce.privacy.randomness import is_secure

_BITS = 52
"""Bits of a uniform number, after its leading one, that are drawn at first."""
_NORMAL = 2.0**-44
"""How far doubles may put a normal from the ideal one, beside the length of its pair: eight times what is proven."""
_SIGNS = np.array([[0], [1]])
"""By how much an octant is shifted to have the sign of either normal in its second bit."""
_FAR = 2.0**48
"""Means beyond so many cells are left to balls."""


def noise_cells(scale: float) -> EvenCells:
    """Return the public cells of noise: their width is between 2⁻¹⁷ and 2⁻¹⁶ of its standard deviation."""
    if not 1e-280 < scale < 1e280:
        raise InvalidValue(f"noise must be > 0 and finite, and far from the ends of the doubles. Got {scale!r}")
    return EvenCells.beside(scale, bits=16)


@dataclass(frozen=True, eq=False)
class _Uniforms:
    """Pairs of real uniform numbers of which the first bits are known.

    U, or 1 - U where not `low`, is (1 + words·2⁻⁵²)·2^-exponents and on; the angle is `octants` eighths of a turn,
    mirrored or not, with a part (1 + angle_words·2⁻⁵²)·2^-angle_exponents and on of one.
    """

    low: Mask
    words: Integers
    exponents: Integers
    octants: Integers
    angle_words: Integers
    angle_exponents: Integers

    @classmethod
    def draw(cls, rng: Any, pairs: int) -> _Uniforms:
        # A word has 62 fair bits: 52 of the number, and some of the ten that are left say half and octant.
        both = rng.integers(0, 1 << 62, (2, pairs))
        words, angle_words = both >> 10
        exponents, angle_exponents = _leading_zeros(rng, 2 * pairs).reshape(2, pairs)
        low = (both[0] & 1).astype(bool)
        return cls(low, words, exponents + 2, both[1] & 7, angle_words, angle_exponents + 1)  # U is below one half

    def normals(self) -> tuple[Floats, Floats]:
        """Return in doubles both normals of every pair, (2, pairs), and the length of each pair."""
        mantissa = 1 + self.words * 2.0**-_BITS
        small = np.ldexp(mantissa, -np.minimum(self.exponents, 1000))
        tail = self.exponents * math.log(2) - np.log(mantissa)
        length = np.sqrt(2 * np.where(self.low, tail, -np.log1p(-small)))
        part = np.ldexp(1 + self.angle_words * 2.0**-_BITS, -np.minimum(self.angle_exponents, 1000)) * (math.pi / 4)
        both = np.array([np.cos(part), np.sin(part)])
        both = np.where(self.octants & 1, both[::-1], both)
        signs = 1.0 - (self.octants >> _SIGNS & 2)
        return length * both * signs, length


class _Pair:
    """One pair of `_Uniforms`, with as many bits as it takes."""

    def __init__(self, uniforms: _Uniforms, place: int, source: Any) -> None:
        self._source, self._octant = source, int(uniforms.octants[place])
        self._low = bool(uniforms.low[place])
        self._bits = _BITS
        self._values = [(1 << _BITS) + int(part[place]) for part in (uniforms.words, uniforms.angle_words)]
        self._exponents = [int(part[place]) for part in (uniforms.exponents, uniforms.angle_exponents)]

    def refine(self) -> None:
        """Draw more bits of both numbers."""
        for k in (0, 1):
            self._values[k] = self._values[k] << 64 | int.from_bytes(self._source.bytes(8), "big")
        self._bits += 64

    def normal(self, which: int) -> Ball:
        """Return a ball around the first or the second normal, at the precision of now."""
        small, part = (
            ball((value, -self._bits - exponent)).union(ball((value + 1, -self._bits - exponent)))
            for value, exponent in zip(self._values, self._exponents, strict=True)
        )
        length = (-2 * (small.log() if self._low else (-small).log1p())).sqrt()
        angle = (part / 4).sin_pi() if which != (self._octant & 1) else (part / 4).cos_pi()
        return -length * angle if self._octant & (4 if which else 2) else length * angle

    def cell(self, which: int, mean: Fraction, scale: Fraction, cells: EvenCells) -> int:
        """Return the cell of mean + scale·z, for sure."""
        width = exact((1, cells.exponent))
        around = math.floor(mean / width)
        while True:
            with precision(2 * self._bits + 64):
                result = (ball(scale / width) * self.normal(which) + ball(mean / width - around)).floor()
                if (low := result.unique_fmpz()) is not None:
                    return around + int(low)
            self.refine()


def _leading_zeros(rng: Any, count: int) -> Integers:
    """Return how many fair coins fell on tails before the first head, as often as it takes."""
    out, waiting = np.zeros(count, dtype=np.int64), np.arange(count)
    while waiting.size:
        word = rng.integers(0, 1 << 62, waiting.size)
        last = np.where(word > 0, np.frexp((word & -word).astype(np.float64))[1] - 1, 62)
        out[waiting] += last
        waiting = waiting[word == 0]
    return out


def _margin(place: Floats, reach: Floats) -> Floats:
    """Return how far, in cells, a place that was computed in doubles may lie from the real one."""
    return np.asarray(reach * _NORMAL + (np.abs(place) + 1) * 2.0**-50)


class CoupledNormals:
    """Normal vectors in doubles, each within a relative 2⁻⁴⁷ of an ideal normal vector it is coupled with.

    By Box and Muller: radius √(2L), L = -log U, and angle 2πV. U and V keep 52 significant bits however small they, or
    1 - U, are: their exponents are counted in as many fair bits as it takes. So L has a relative error of a few 2⁻⁵²
    everywhere, in the middle and in the tails, and no radius is out of reach.

    >>> from sottovoce.privacy.randomness import secure_rng
    >>> CoupledNormals(secure_rng()).standard_normal((2, 3)).shape
    (2, 3)
    """

    def __init__(self, rng: Any) -> None:
        self._rng = rng

    def standard_normal(self, shape: Any) -> Floats:
        """Return normals of this shape."""
        size = int(np.prod(shape))
        normals, _ = _Uniforms.draw(self._rng, -(-size // 2)).normals()
        return np.reshape(np.ravel(normals)[:size], shape)


def exact_normals(means: Any, scale: float, rng: Any) -> Floats:
    """Return N(mean, scale²) for every entry of `means`, exactly rounded to `noise_cells(scale)`.

    What leaves is the middle of a cell. Means and scale are taken as the very doubles they are; seeded generators, for
    experiments, add noise in doubles and use the same cells.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import secure_rng
    >>> noisy = exact_normals(np.zeros(10_000), 3.0, secure_rng())
    >>> bool(abs(noisy.std() - 3) < 0.2), bool(np.all(noisy / 2.0**-16 % 1 == 0))
    (True, True)
    """
    cells = noise_cells(scale)
    flat = np.ravel(np.asarray(means, dtype=np.float64))
    if not np.all(np.isfinite(flat)):
        raise InvalidValue("what noise is added to must be finite")
    if hasattr(rng, "standard_normal") and not is_secure(rng):
        return np.reshape(cells.round(flat + scale * rng.standard_normal(flat.size)), np.shape(means))
    pairs = -(-flat.size // 2)
    uniforms = _Uniforms.draw(rng, pairs)
    normals, length = uniforms.normals()
    z, reach = np.ravel(normals)[: flat.size], np.concatenate([length, length])[: flat.size]
    steep = math.ldexp(scale, -cells.exponent)  # from 2¹⁶ to 2¹⁷
    with np.errstate(over="ignore"):
        steps = np.ldexp(flat, -cells.exponent)
    near = (np.abs(steps) < _FAR) & (np.ldexp(steps, cells.exponent) == flat)
    steps = np.where(near, steps, 0.0)
    base = np.floor(steps)
    place = steps - base + steep * z
    error = _margin(place, steep * reach)
    cell = np.floor(place - error)
    sure = near & (np.floor(place + error) == cell)
    out = np.ldexp(base + cell + 0.5, cells.exponent)
    kept: dict[int, _Pair] = {}  # the two normals of a pair share their bits, those drawn late too
    for k in np.flatnonzero(~sure).tolist():
        pair = kept.setdefault(k % pairs, _Pair(uniforms, k % pairs, rng))
        out[k] = cells.value(pair.cell(k // pairs, Fraction(float(flat[k])), Fraction(scale), cells))
    return np.reshape(out, np.shape(means))
