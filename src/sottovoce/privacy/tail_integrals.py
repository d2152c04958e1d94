r"""Hockey-stick integrals of Beta and Gamma densities: every term positive, at every scale.

.. math:: \delta = \int_0^\infty f(u) \big(1 - e^{-\mathrm{gap}(u)}\big)\,du,

where u is the distance from the threshold of log(θ/(1-θ)) or log θ, f the density of that scalar, and the gap what the
log-ratio gains on the way. Density and gap are log-concave. The integral is walked from the mode both ways in panels
as long as the integrand is smooth, so that a tail that falls at the rate 1e-6 is followed as far as one that falls
at the rate 1e6; the walk ends where log-concavity bounds what is left, and that bound is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sottovoce.privacy.numbers import Floats, expm1mx, log1mexp, log1pmx

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_PANEL, _WEIGHTS = np.append((_NODES + 1) / 2, 1.0), _WEIGHTS / 2
_LEFT = np.log(1e-15)  # what may be left of the sum where a walk ends
_PANELS = 4000
_FAR = 1e290
_FULL = 40.0  # a gap from which 1 - e^-gap is 1


class _Cells(Protocol):
    """Columns of numbers, one row a cell."""

    def take(self, rows: NDArray[Any]) -> Self:
        """Return some of the cells."""

    def length(self, u: Floats, way: float) -> Floats:
        """Return how far from u on, up or down, a polynomial of moderate degree follows the function."""


class TailIntegral(_Cells, Protocol):
    """A log-concave density, seen from a threshold."""

    @property
    def ahead(self) -> Floats:
        """How far the mode lies beyond the threshold; negative if behind."""

    def log_density(self, u: Floats) -> Floats:
        """Return the log-density at the distance u."""

    def fall(self, u: Floats) -> Floats:
        """Return how fast the log-density falls at the distance u."""


class Gap(_Cells, Protocol):
    """What the log-ratio gains with the distance: concave, or with a logarithm of 1 - e^-gap that is."""

    def __call__(self, u: Floats) -> Floats:
        """Return the gap at the distance u."""

    def log_mean(self, u: Floats) -> Floats | float:
        """Return a bound on the log-mean of 1 - e^-gap over distances that are exponential with the mean u."""


@dataclass(frozen=True)
class BetaTail:
    """The logit of a Beta(p, q), upwards from a threshold."""

    p: Floats
    q: Floats
    ahead: Floats
    top: Floats

    @classmethod
    def of(cls, p: Floats, q: Floats, threshold: Floats) -> BetaTail:
        """Return the tail beyond a threshold of the logit."""
        top = _mode_height(p) + _mode_height(q) - _mode_height(p + q)
        return cls(*np.broadcast_arrays(p, q, np.log(p) - np.log(q) - threshold, top))

    def take(self, rows: NDArray[Any]) -> BetaTail:
        """Return some of the cells."""
        return BetaTail(self.p[rows], self.q[rows], self.ahead[rows], self.top[rows])

    def log_density(self, u: Floats) -> Floats:
        """Return -n·(log(1 + (p/n)(e^d - 1)) - (p/n)d) and the height of the mode, where d counts from the mode.

        Above logit 0 the same is written from the other end, and far from the mode without the small difference.
        """
        p, q, total = self.p, self.q, self.p + self.q
        d = u - self.ahead
        z = d + (np.log(p) - np.log(q))
        above = z > 0
        low, high = p / total, q / total
        share, d = np.where(above, high, low), np.where(above, -d, d)
        far = d < np.where(above, _half_way(high), _half_way(low))
        fall = np.where(above, np.log(low), np.log(high)) - share * d
        fall[far] += np.log1p(np.exp(-np.abs(z[far])))
        if not far.all():
            near, share = d[~far], share[~far]
            growth = np.expm1(near)
            fall[~far] = log1pmx(share * growth) + share * expm1mx(near, growth)
        return np.asarray(self.top - total * fall)

    def fall(self, u: Floats) -> Floats:
        """Return n·expit(z) - p at the logit z, above logit 0 from the other end."""
        z = u - self.ahead + (np.log(self.p) - np.log(self.q))
        near = (self.p + self.q) * special.expit(-np.abs(z))
        return np.asarray(np.where(z > 0, self.q - near, near - self.p))

    def length(self, u: Floats, way: float) -> Floats:
        """Return the length of the next panel."""
        z = u - self.ahead + (np.log(self.p) - np.log(self.q))
        total, near = self.p + self.q, special.expit(-np.abs(z))
        slope = np.where(z > 0, self.q, self.p) - total * near
        return _smooth(z, way, slope, total * near * (1 - near))


@dataclass(frozen=True)
class GammaTail:
    """The logarithm of a Gamma(k), from a threshold upwards (`sign` 1) or downwards (-1)."""

    k: Floats
    ahead: Floats
    top: Floats
    sign: float

    @classmethod
    def of(cls, k: Floats, threshold: Floats, sign: float) -> GammaTail:
        """Return the tail beyond a threshold of the logarithm."""
        shape, ahead, top = np.broadcast_arrays(k, sign * (np.log(k) - threshold), _mode_height(k))
        return cls(shape, ahead, top, sign)

    def take(self, rows: NDArray[Any]) -> GammaTail:
        """Return some of the cells."""
        return GammaTail(self.k[rows], self.ahead[rows], self.top[rows], self.sign)

    def log_density(self, u: Floats) -> Floats:
        """Return -k(e^d - 1 - d) and the height of the mode, where d counts from the mode."""
        return np.asarray(self.top - self.k * expm1mx(self.sign * (u - self.ahead)))

    def fall(self, u: Floats) -> Floats:
        """Return k(e^d - 1), downwards with the other sign."""
        return np.asarray(self.sign * self.k * np.expm1(np.minimum(self.sign * (u - self.ahead), 700.0)))

    def length(self, u: Floats, way: float) -> Floats:
        """Return the length of the next panel."""
        d = np.minimum(self.sign * (u - self.ahead), 700.0)
        return _smooth(d + np.log(self.k), self.sign * way, self.k * np.expm1(d), self.k * np.exp(d))


@dataclass(frozen=True)
class Linear:
    """The gap w·u of a pair that differs in its shape."""

    w: Floats

    def take(self, rows: NDArray[Any]) -> Linear:
        """Return some of the cells."""
        return Linear(self.w[rows])

    def __call__(self, u: Floats) -> Floats:
        """Return the gap at the distance u."""
        return self.w * u

    def log_mean(self, u: Floats) -> Floats:
        """Return the log-mean of 1 - e^-gap itself: wu/(1 + wu)."""
        return -np.log1p(1 / (self.w * u))

    def length(self, u: Floats, way: float) -> Floats:
        """Return the length of the next panel."""
        return np.where(self.w * u < _FULL, 10.0 / self.w, _FAR)


@dataclass(frozen=True)
class Curved:
    """The gap c(e^u - 1) of a pair that differs in its rate, or c(1 - e^-u) downwards."""

    c: Floats
    sign: float

    def take(self, rows: NDArray[Any]) -> Curved:
        """Return some of the cells."""
        return Curved(self.c[rows], self.sign)

    def __call__(self, u: Floats) -> Floats:
        """Return the gap at the distance u."""
        return self.sign * self.c * np.expm1(np.minimum(self.sign * u, 700.0))

    def log_mean(self, u: Floats) -> Floats | float:
        """Return that of the mean distance where 1 - e^-gap is concave (Jensen), else that of one."""
        return log1mexp(-self(u)) if self.sign < 0 else 0.0

    def length(self, u: Floats, way: float) -> Floats:
        """Return the length of the next panel."""
        steep = 10.0 / (self.c * np.exp(np.minimum(self.sign * u, 700.0)))
        turn = 8.0 if self.sign > 0 else np.maximum(2.0, u / 2)
        return np.where(self(u) < _FULL, np.minimum(steep, turn), _FAR)


def _half_way(share: Floats) -> Floats:
    """Return the d at which share·(e^d - 1) is -1/2; -inf where there is none.

    Of a share that small the other one's logarithm has no digits to spare for a large n, however far d lies.
    """
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(1 - 0.5 / share, 0.0))


def _smooth(z: Floats, way: float, slope: Floats, curve: Floats) -> Floats:
    """Return the length on which a log-density with this slope and curvature at z is smooth, up or down.

    The logistic function has its poles at ±πi, and e^z turns steep on a length of one: both at z near 0 only.
    """
    by_slope, by_curve = 10.0 / (np.abs(slope) + 1e-300), 4.0 / np.sqrt(curve + 1e-300)
    from_zero = np.where(way * z > 0, np.abs(z), np.abs(z) / 2)
    return np.minimum(np.minimum(by_slope, by_curve), np.minimum(np.maximum(2.0, from_zero), _FAR))


def _mode_height(k: Floats) -> Floats:
    """Return the log-density of log θ at its mode, θ ~ Gamma(k): k log k - k - lnΓ(k)."""
    large = np.maximum(k, 10.0)
    square = 1 / (large * large)
    series = 1 / 1188.0 - square * (691 / 360360.0 - square / 156.0)
    for c in (-1 / 1680.0, 1 / 1260.0, -1 / 360.0, 1 / 12.0):
        series = c + square * series
    small = np.minimum(k, 10.0)
    plain = special.xlogy(small, small) - small - special.gammaln(small)
    return np.where(k > 10, 0.5 * np.log(large / (2 * np.pi)) - series / large, plain)


def log_integral(tail: TailIntegral, gap: Gap, floor: float | Floats = -np.inf) -> Floats:
    """Return the logarithm of each cell's integral; +inf, which claims nothing, if a walk does not end.

    A cell that the tangent to its log-density keeps below `floor` may be answered with that bound.
    """
    with np.errstate(all="ignore"):
        start, behind = np.maximum(tail.ahead, 0.0), ~(tail.ahead[:, 0] >= 0)
        here, top = tail.log_density(np.zeros_like(start)), tail.log_density(tail.ahead)
        # So deep in a tail no digit of the density's change is left; it falls at least as fast as it fell on average.
        deep, total = behind & ~(here[:, 0] > -1e10), (here - np.log((top - here) / -tail.ahead))[:, 0]
        fall = tail.fall(np.zeros_like(start))
        tangent = (here - np.log(fall) + gap.log_mean(1 / fall))[:, 0]
        # By more than its rounding; next to the mode of a very large shape, no digit of the fall is left.
        low = behind & ~deep & (tail.ahead[:, 0] < -1e-10) & (tangent < floor - 0.01)
        total[low] = tangent[low]
        near = np.flatnonzero(~(deep | low))
        if near.size:
            total[near] = _near(tail.take(near), gap.take(near), start[near])
    return np.where(np.isnan(total), np.inf, total)


def _near(tail: TailIntegral, gap: Gap, start: Floats) -> Floats:
    total = _walk(tail, gap, start, 1.0)
    inside = np.flatnonzero(start[:, 0] > 0)
    if inside.size:
        back = _walk(tail.take(inside), gap.take(inside), start[inside], -1.0)
        total[inside] = np.logaddexp(total[inside], back)
    return total


def _walk(tail: TailIntegral, gap: Gap, u: Floats, way: float) -> Floats:
    """Return the logarithm of the part of each integral from u on, upwards or back to zero."""
    out, rows = np.full(u.shape[0], np.inf), np.arange(u.shape[0])
    total = np.full(u.shape, -np.inf)

    before = tail.log_density(u) + log1mexp(-gap(u))
    for _ in range(_PANELS):
        step = np.minimum(tail.length(u, way), gap.length(u, way))
        end = np.maximum(u - step, 0.0) if way < 0 else u + step
        step = np.abs(end - u)
        at = u + (end - u) * _PANEL
        logs, ratios = tail.log_density(at), gap(at)
        after = logs[:, -1:] + log1mexp(-ratios[:, -1:])
        logs, shares = logs[:, :-1], -np.expm1(-ratios[:, :-1])
        top = logs.max(axis=1, keepdims=True)
        total = np.logaddexp(total, np.log((np.exp(logs - top) * shares) @ _WEIGHTS)[:, None] + top + np.log(step))
        # The logarithm falls at least as fast from here on as it fell over this panel.
        between = after + np.log(step) - np.log(before - after)
        done = ((between < total + _LEFT) | (after == -np.inf))[:, 0]
        stuck = (step == 0)[:, 0]  # a panel shorter than the distance's last digit: nothing can be said
        if done.any() or stuck.any():
            out[rows[done]] = np.logaddexp(total, np.where(np.isfinite(between), between, -np.inf))[done, 0]
            remainder = np.flatnonzero(~(done | stuck))
            if not remainder.size:
                break
            rows, total, tail, gap = rows[remainder], total[remainder], tail.take(remainder), gap.take(remainder)
            end, after = end[remainder], after[remainder]
        u, before = end, after
    return out
