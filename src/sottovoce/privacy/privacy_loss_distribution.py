r"""Privacy-loss distributions: curves δ(ε) put on a grid from above, tilted, convolved, with the error of doing so.

A convolution by fast Fourier transforms has an absolute error near 1e-16 of its largest mass, and that drowns a small
δ. So the masses are *tilted* first, :math:`x(s) = p(s)e^{\theta s}/M(\theta)`, which puts the bulk where the loss is
about the ε asked for; tilting back shrinks the error as much as the masses. Every step rounds towards more loss:

- a curve is replaced by the chords of its lifted values, which lie above it (connect the dots, Doroshenko et al. 2022);
- transforms are circular, and what wraps around only adds mass inside the window; mass above it is bounded by Chernoff;
- masses below zero are cut, and the error of the transforms, in the mean square, is added to δ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from sottovoce.privacy.numbers import Floats, Integers
from sottovoce.privacy.profile import Profile

_U = 2.0**-53
_FFT = 10 * _U
"""Relative mean-square error of a transform of length 2^k, over k: 7u by Higham (2002), Theorem 24.2, and some more."""
_DEPTHS = (0.5, 10.0, 36.0)
"""How far out each tilt looks: minus the logarithm of the Chernoff bound at its mean."""
_TAIL = 40.0
"""The same for what each window leaves out."""
_NEAR, _TURNS = 0.01, 200
"""How near to such a depth is near enough, and how often it is looked for at most."""
_LONGEST = 2**22
"""The longest window that is transformed."""
_COARSE = 2000
"""How many nodes are enough to see where the bulk of a law lies."""
_FARTHEST = 600.0
"""The largest loss on a grid; e to its power, and over the smallest δ, stays a double."""


@dataclass(frozen=True)
class Losses:
    """A privacy loss on a grid: mass `exp(log_mass)` at `step * index`, and `infinity` at infinity."""

    index: Integers | Floats
    log_mass: Floats
    infinity: float

    @cached_property
    def extent(self) -> tuple[float, float]:
        """The largest logarithm of a mass and the largest index, whatever their signs."""
        return float(np.abs(self.log_mass).max()), float(np.abs(self.index).max())

    @cached_property
    def coarse(self) -> Losses:
        """Nearly the same law on fewer nodes."""
        block = -(-len(self.index) // _COARSE)
        if block == 1:
            return self
        starts = np.arange(0, len(self.index), block)
        most = np.maximum.reduceat(self.log_mass, starts)
        masses = np.exp(self.log_mass - np.repeat(most, block)[: len(self.index)])
        total = np.add.reduceat(masses, starts)
        return Losses(np.add.reduceat(masses * self.index, starts) / total, most + np.log(total), self.infinity)


def discretise(profile: Profile, step: float, reach: float, *, back: bool = False) -> Losses:
    """Return a loss on the grid whose δ(ε) is above the profile's at every ε, negative ones too.

    Where the two orders of a pair have curves of their own, `back` asks for the loss of the other order.
    """
    top = max(math.ceil(min(reach, _FARTHEST) / step), 1)
    at = step * np.arange(top + 1.0)
    positive = negative = _above_zero(profile._log_delta, at, step)
    if profile.ordered:
        other = _above_zero(profile._log_delta_back, at, step)
        positive, negative = (other, positive) if back else (positive, other)
    # Swapping a pair fixes the left half: what the other law puts at a loss of s lies at -s.
    none = max(positive.at_zero, negative.at_zero)
    with np.errstate(divide="ignore"):
        middle = np.log(max(1.0 - none - positive.above - negative.above, 0.0) + 4 * _U)
    index = np.arange(-top, top + 1)
    log_mass = np.concatenate([(negative.log_mass - at[1:])[::-1], [middle], positive.log_mass])
    kept = np.isfinite(log_mass)
    return Losses(index[kept], log_mass[kept], positive.infinity)


@dataclass(frozen=True)
class _AboveZero:
    """A curve of δ as masses at the nodes above zero and at infinity, δ(0), and the other law's mass above zero."""

    log_mass: Floats
    infinity: float
    at_zero: float
    above: float


def _above_zero(log_delta: Callable[[Floats], Floats], at: Floats, step: float) -> _AboveZero:
    """Return the masses of the chords of a curve, lifted so that none of them is below it."""
    from scipy import optimize  # noqa: PLC0415 - most commands need none of it

    curve = np.minimum(log_delta(at), 0.0)
    with np.errstate(invalid="ignore"):
        lifted = np.where(curve == -np.inf, 0.0, np.exp(curve * (1 - 1e-15) + 1e-15))
    delta = np.minimum(np.maximum.accumulate(lifted[::-1])[::-1], 1.0)
    # In e^ε the curve is convex. Rounding breaks that by a hair, so the greatest convex minorant of the lifted values
    # stands for them. Its slopes are the mass that the other law puts above each interval.
    weights = np.exp(at[:-1])
    slopes = -np.diff(delta) / weights
    above = -optimize.isotonic_regression(-slopes, weights=weights).x / np.expm1(step)
    other = np.maximum(above - np.append(above[1:], 0.0), 0.0)
    # A relative error of u in a slope is one of u/step in the curve.
    lift = math.log1p(16 * _U / math.expm1(step))
    with np.errstate(divide="ignore"):
        log_mass = np.log(other) + at[1:] + lift
    return _AboveZero(log_mass, float(delta[-1]), float(delta[0]), float(above[0]))


def _cumulant(parts: Sequence[Losses], counts: Sequence[int], step: float, tilt: float) -> tuple[float, float]:
    """Return K(θ), the logarithm of the moment generating function of the sum of the losses, and its slope."""
    value = slope = 0.0
    for part, count in zip(parts, counts, strict=True):
        logs = part.log_mass + tilt * step * part.index
        most = float(logs.max())
        masses = np.exp(logs - most)
        total = float(masses.sum())
        value += count * (most + math.log(total))
        slope += count * step * float(masses @ part.index) / total
    return value, slope


@dataclass(frozen=True)
class Tilted:
    """Upper bounds on δ(ε) by one tilt: exact around where the tilt looks, and sound everywhere."""

    step: float
    tilt: float
    start: int
    sums: Floats
    """At each node, Σ (1 - e^(ε-s)) e^(-θ(s-ε)) x(s) over the losses s above it."""
    log_scale: float
    log_slack: float
    error: float
    log_rest: float

    def log_delta(self, epsilon: Floats) -> Floats:
        """Return an upper bound on log δ(ε); zero below the window."""
        place = np.floor(epsilon / self.step)
        node = np.clip(place - self.start, 0, len(self.sums) - 2).astype(np.int64)
        over = np.clip(epsilon - place * self.step, 0.0, self.step)
        share = np.expm1(over) / math.expm1(self.step)  # δ is linear in e^ε between two nodes
        left = (1 - share) * self.sums[node] * np.exp(self.tilt * over)
        right = share * self.sums[node + 1] * np.exp(self.tilt * (over - self.step))
        inside = np.where(place - self.start < len(self.sums) - 1, left + right, 0.0) + self.error
        slack = self.log_slack + 8 * _U * (1 + self.tilt) * epsilon
        value = np.logaddexp(self.log_scale - self.tilt * epsilon + np.log(inside) + slack, self.log_rest)
        return np.where(place < self.start, 0.0, np.minimum(value, 0.0))


def tilted_sums(
    parts: Sequence[Losses], counts: Sequence[int], step: float, depths: Sequence[float] | None = None
) -> list[Tilted]:
    """Return the bounds on the curve of the sum of all the losses, one for each depth that fits a transform."""
    infinity = math.fsum(count * part.infinity for part, count in zip(parts, counts, strict=True))
    log_infinity = math.log(infinity) + 1e-15 if infinity > 0 else -math.inf
    result = []
    for depth in _DEPTHS if depths is None else depths:
        tilt = _where_chernoff_says(parts, counts, step, 0.0, depth, +1)
        bound = _one_tilt(parts, counts, step, tilt, log_infinity)
        if bound is not None:
            result.append(bound)
    return result


def _where_chernoff_says(
    parts: Sequence[Losses], counts: Sequence[int], step: float, start: float, depth: float, sign: int
) -> float:
    """Return φ on one side of `start` with K(φ) - K(start) - (φ - start)·K'(φ) near -depth, or the last one tried."""
    parts = [part.coarse for part in parts]  # any φ will do, so it is sought on a few nodes
    origin, _ = _cumulant(parts, counts, step, start)

    def reached(size: float) -> float:
        value, slope = _cumulant(parts, counts, step, start + sign * size)
        return origin + sign * size * slope - value

    low, size, high, most = 0.0, 1e-3, math.inf, 40.0 / step
    for turn in range(_TURNS):
        result = reached(size)
        low, high = (low, size) if result >= depth else (size, high)
        if abs(result - depth) <= _NEAR * depth or low >= most or high <= 1e-300:
            break
        # Near `start` it grows as a square; where it does not, what is known is halved, or gone beyond.
        guess = size * math.sqrt(depth / result) if result > 0 else math.inf
        if turn % 3 == 2 or not low < guess < high:
            guess = math.sqrt(low) * math.sqrt(high) if low > 0 and high < math.inf else 64 * low or high / 64
        elif high == math.inf:  # not yet known to be reached at all
            guess *= 2
        size = min(guess, most)
    return start + sign * size


def _one_tilt(
    parts: Sequence[Losses], counts: Sequence[int], step: float, tilt: float, log_infinity: float
) -> Tilted | None:
    """Return the bound of one tilt; None where its window is too long to transform."""
    window = _window(parts, counts, step, tilt)
    if window is None:
        return None
    first, length, log_tail = window
    law, log_scale, mean_square, rounding = _convolve(parts, counts, step, tilt, length)
    law = np.roll(law, -(first % length))
    decay = math.exp(-tilt * step)
    # Two geometric sums after another: 1 - e^-d is itself one, so every term is positive.
    reverse = _geometric_sums(law[::-1], decay * math.exp(-step))
    twice = _geometric_sums(decay * -math.expm1(-step) * reverse, decay)
    sums = np.append(np.append(0.0, twice)[-2::-1], [0.0, 0.0])
    square = decay * decay
    fall = -math.expm1(-2 * tilt * step)
    wide = min(1.0 / fall, step * step * square * (1 + square) / fall**3 + 1.0) if fall > 0 else math.inf
    return Tilted(
        step=step,
        tilt=tilt,
        start=first,
        sums=sums,
        log_scale=log_scale,
        log_slack=rounding + 16 * _U * (length + abs(log_scale) + 1),
        error=mean_square * math.sqrt(min(wide, length)) + 1e-300,
        log_rest=float(np.logaddexp(log_infinity, log_tail)),
    )


def _geometric_sums(terms: Floats, ratio: float) -> Floats:
    """Return y_i = x_i + ratio * y_(i-1), as the solution of a system with two diagonals.

    `scipy.signal.lfilter` does the same, and its room takes half a second to import.
    """
    diagonals = np.empty((2, len(terms)), order="F")
    diagonals[0], diagonals[1] = 1.0, -ratio
    return np.asarray(scipy.linalg.blas.dtbsv(1, diagonals, terms, lower=1, diag=1))


def _window(parts: Sequence[Losses], counts: Sequence[int], step: float, tilt: float) -> tuple[int, int, float] | None:
    """Return the first node, the length, and the logarithm of a bound on the mass above the window."""
    up = _where_chernoff_says(parts, counts, step, tilt, _TAIL, +1)
    down = _where_chernoff_says(parts, counts, step, tilt, _TAIL, -1)
    low, high = _cumulant(parts, counts, step, down)[1], _cumulant(parts, counts, step, up)
    ends = [sum(count * int(part.index[end]) for part, count in zip(parts, counts, strict=True)) for end in (0, -1)]
    first, last = max(math.floor(low / step) - 1, ends[0] - 1), min(math.ceil(high[1] / step) + 1, ends[1])
    if last - first + 2 > _LONGEST:
        return None
    exponent = high[0] - up * step * (last + 1)
    log_tail = -math.inf if last == ends[1] else exponent + 16 * _U * (abs(high[0]) + abs(exponent) + 1)
    return first, max(2 ** math.ceil(math.log2(last - first + 2)), 16), log_tail


def _convolve(
    parts: Sequence[Losses], counts: Sequence[int], step: float, tilt: float, length: int
) -> tuple[Floats, float, float, float]:
    """Return the tilted law of the sum, the logarithm of its scale, its mean-square error and its rounding."""
    spectrum = np.ones(length // 2 + 1, dtype=np.complex128)
    transform = _FFT * math.log2(length)
    log_scale = spread = growth = rounding = 0.0
    for part, count in zip(parts, counts, strict=True):
        logs = part.log_mass + tilt * step * part.index
        most = float(logs.max())
        weights = np.exp(logs - most)
        total = float(weights.sum())
        scale = most + math.log(total)
        place = np.bitwise_and(part.index, length - 1)  # modulo a power of two
        masses = np.bincount(place, weights=weights, minlength=length) / total
        size = float(np.sqrt(masses @ masses))
        spectrum *= _power(scipy.fft.rfft(masses), count)
        log_scale += count * scale
        spread += count * transform * size
        growth += count * transform * size * math.sqrt(length)
        log_mass, index = part.extent
        rounding += count * 8 * _U * (1 + log_mass + abs(tilt) * step * index)
    law = scipy.fft.irfft(spectrum, length)
    size = float(np.sqrt(law @ law))
    # Transforms in; their powers and products, each of which rounds; the transform back.
    error = spread * math.exp(min(growth, 600.0)) + (4 * _U * sum(counts) + 2 * transform) * (size + spread)
    return np.maximum(law, 0.0), log_scale, error, rounding


def _power(spectrum: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Return the power by squaring, whose relative error is at most `count` times that of one product."""
    power, out = spectrum.copy(), None
    while True:
        if count & 1:
            out = power.copy() if out is None else np.multiply(out, power, out=out)
        count >>= 1
        if not count:
            assert out is not None
            return out
        np.multiply(power, power, out=power)  # in place: the arrays are long
