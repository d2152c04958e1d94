r"""Rényi divergences from hockey-stick curves, by the integral of the curve.

.. math:: e^{(\lambda-1)R(\lambda)} = 1 + \lambda(\lambda-1) \int_0^\infty
          \big(e^{(\lambda-1)\varepsilon}\,\delta_1(\varepsilon) + e^{-\lambda\varepsilon}\,\delta_2(\varepsilon)\big)
          \,d\varepsilon

where δ₁ is the curve of P against Q and δ₂ that of Q against P (Sason and Verdú 2016, Proposition 3). Every term is
positive, so a small divergence keeps its digits. Between two nodes a curve is replaced by a line in ε above it: δ is
convex in :math:`e^\varepsilon`, so it lies below its chord there, and that chord lies below the line which starts
with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sottovoce.privacy.numbers import Floats, expm1mx
from sottovoce.privacy.rounding import lifted

_FIRST_DROP, _GROWTH = 0.05, 0.015
"""How much log δ falls from one node to the next: so much, and so much of what it has fallen by in all.

A fall by D over a panel adds D²/8 of itself to the integral at most, and log-integrals grow with the fall in all.
"""
_NOTHING = 50.0
"""The logarithm of what is nothing beside a double, and a thousandth of it."""
_PLACES = np.concatenate([[0.0], np.geomspace(1e-15, 1.0, 400), np.linspace(0.005, 1.0, 200)])
"""Where one looks first, beside the end."""
_AT_ONCE = 1 << 18
"""How many numbers an intermediate table may hold."""
_LOST = 8e-16
"""More than what a term loses to rounding, relative to what it was made of."""
_LITTLE = -30.0
"""Below this logarithm log(1 + x) is x."""
_SUMMED = 1e-13
"""More than what a few thousand positive terms lose in their sum, and few operations in each."""


def spaced_by_log_delta(log_delta: Callable[[Floats], Floats], end: float) -> Floats:
    """Return places from 0 to `end` between which log δ falls by little, or by little of what it has fallen by."""
    places = np.unique(end * _PLACES)
    fall = np.maximum.accumulate(np.nan_to_num(log_delta(places[:1]) - log_delta(places), posinf=0.0, nan=0.0))
    level = np.log1p(_GROWTH / _FIRST_DROP * fall) / _GROWTH
    wanted = np.arange(1.0, np.floor(level[-1]) + 1)
    return np.unique(np.concatenate([[0.0, end], np.interp(wanted, level, places)]))


def renyi_orders(pole: float) -> Floats:
    """Return orders from 1 on, close enough for chords between them, and those that are asked for most."""
    usual = np.concatenate([np.arange(1.0, 32.5, 0.5), np.arange(33.0, 257.0)])
    if np.isfinite(pole):
        spread = 1 + (pole - 1) / (1 + np.exp(-np.linspace(-12.0, 12.0, 401)))
        return np.unique(np.concatenate([usual[usual < pole], spread[spread < pole]]))
    return np.unique(np.concatenate([usual, 1 + np.exp(np.linspace(-9.0, 16.0, 401))]))


def chord(orders: Floats, log_moments: Floats, order: Floats) -> Floats:
    """Return the logarithm of the integral at an order between two, rounded up, and infinity beyond the last.

    The integral is a mixture of exponentials in the order, so its logarithm is convex and lies below its chords.

    >>> chord(np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.array([1.0, 1.5, 3.0])).round(9).tolist()
    [0.0, 0.5, inf]
    """
    place = np.clip(np.searchsorted(orders, order), 1, len(orders) - 1)
    low, high, before, after = orders[place - 1], orders[place], log_moments[place - 1], log_moments[place]
    share = (order - low) / (high - low)
    with np.errstate(invalid="ignore"):
        inside = (1 - share) * before + share * after + _LOST * (np.abs(before) + np.abs(after))
    inside = np.where(order == low, before, np.where(order == high, after, inside))
    return np.where((order > orders[-1]) | np.isnan(inside), np.inf, inside)


def divergence(order: Floats, log_moment: Floats) -> Floats:
    """Return the Rényi divergence that goes with an integral, rounded up."""
    gap = order - 1
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        excess = np.log(order) + np.log(gap) + log_moment
        little = order * np.exp(log_moment)  # at order 1 the divergence itself, and elsewhere never below it
        value = np.where(excess < _LITTLE, little, np.logaddexp(0.0, excess) / gap)
    return lifted(np.where(np.isnan(value), np.inf, value), 1 + _SUMMED)


@dataclass(frozen=True)
class RenyiIntegral:
    """The integral up to the last node, for two curves that are known at nodes.

    Parameters
    ----------
    epsilon
        The nodes, which increase from 0.
    log_forward, log_backward
        log δ₁ and log δ₂ there, or more.

    Examples
    --------
    Randomized response has chords for a curve, so the integral is its divergence, but for the line:

    >>> from sottovoce.privacy.pure import PureProfile
    >>> pure, nodes = PureProfile(1.0), np.linspace(0.0, 1.0, 2001)
    >>> integral = RenyiIntegral(nodes, pure.log_delta(nodes), pure.log_delta(nodes))
    >>> log_moment = integral.log_moment(np.array([2.0]))
    >>> divergence(np.array([2.0]), log_moment).round(4).tolist(), round(pure.renyi(2.0), 4)
    ([0.7353], 0.7353)
    """

    epsilon: Floats
    log_forward: Floats
    log_backward: Floats

    def log_moment(self, order: Floats) -> Floats:
        """Return the logarithm of the integral at each order >= 1, rounded up."""
        rows = max(1, _AT_ONCE // len(self.epsilon))
        return np.concatenate([self._log_moment(order[i : i + rows]) for i in range(0, len(order), rows)])

    def _log_moment(self, order: Floats) -> Floats:
        most, total = self._most(order), np.zeros(order.shape)
        for log_delta, tilt in ((self.log_forward, order - 1), (self.log_backward, -order)):
            total += self._half(log_delta, tilt, most)
        return np.asarray(most + np.log(total) + _SUMMED)

    def _most(self, order: Floats) -> Floats:
        """Return a number that no integral is below: half the largest δ·e^((λ-1)ε) at the start of a panel."""
        with np.errstate(divide="ignore"):
            heights = self.log_forward[:-1] + np.log(np.diff(self.epsilon) / 2)
        return np.asarray((heights + (order - 1)[:, None] * self.epsilon[:-1]).max(axis=1))

    def _half(self, log_delta: Floats, tilt: Floats, most: Floats) -> Floats:
        """Return ∫ e^(tilt·ε) δ(ε) dε over e^most; panels that add nothing to a double are one small number."""
        left, right = self.epsilon[:-1], self.epsilon[1:]
        width, first = right - left, log_delta[:-1]
        last = np.minimum(log_delta[1:], first)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = width / np.expm1(width) * (1 - _LOST)  # the slope at the left end of a chord, over that of the line
            last = np.where(np.isneginf(first), -np.inf, first + np.log1p(share * np.expm1(last - first)))
            bounds = first + np.log(width) + tilt[:, None] * np.where(tilt[:, None] > 0, right, left)
            rows, panels = np.nonzero(bounds > most[:, None] - _NOTHING)
            a = tilt[rows] * width[panels]
            size, edge = np.abs(a), np.where(a > 0, right[panels], left[panels])
            near, far = _first_moment(size), _zeroth_less_first(size)
            at_first, at_last = np.where(a > 0, near, far), np.where(a > 0, far, near)
            start = first[panels]
            exponents = start + tilt[rows] * edge - most[rows]
            lost = _LOST * (8 + np.abs(start) + np.abs(tilt[rows] * edge) + np.abs(most[rows]))
            terms = (at_first + at_last * np.exp(last[panels] - start)) * width[panels] * np.exp(exponents + lost)
        return np.asarray(np.bincount(rows, weights=terms, minlength=len(tilt)) + len(width) * np.exp(-_NOTHING))


def _first_moment(a: Floats) -> Floats:
    """Return ∫₀¹ s·e^(-as) ds = (1 - (1 + a)e^(-a))/a²."""
    little, small = np.maximum(a, 1e-8), np.minimum(a, 1.0)
    plain = np.where(a < 1, np.exp(-small) * expm1mx(small), 1 - (1 + a) * np.exp(-a)) / little / little
    return np.where(a < 1e-8, 0.5, plain)


def _zeroth_less_first(a: Floats) -> Floats:
    """Return ∫₀¹ (1 - s)·e^(-as) ds = (e^(-a) - 1 + a)/a²."""
    little = np.maximum(a, 1e-8)
    return np.where(a < 1e-8, 0.5, expm1mx(-a) / little / little)
