"""Quantiles of mixtures of Beta laws whose parameters follow each other, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from sottovoce.privacy.numbers import Floats

_TINY = 1e-300
_BLOCK = 2**16
"""Laws that are worked on at once."""


def quantiles(first: Floats, total: float, weights: Floats, levels: Sequence[float]) -> list[Floats]:
    r"""Return quantiles of each row's mixture of the laws Beta(a, total - a), a = first, first + 1, …; levels in order.

    One incomplete beta function a row and step: those of its neighbours follow by adding, for
    I_x(a, b) = I_x(a + 1, b - 1) + x · f(x; a, b) / a: from the last law on, and above the middle from the first, so
    that a small weight far above keeps its digits. Halley's steps inside a bracket; below the middle and near zero they
    are those of log F in log x, which a power law near zero makes exact.
    """
    step = max(_BLOCK // weights.shape[1], 1)
    blocks = [slice(row, row + step) for row in range(0, len(first), step)]
    parts = [_quantiles(first[rows], total, weights[rows], levels) for rows in blocks]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _quantiles(first: Floats, total: float, weights: Floats, levels: Sequence[float]) -> list[Floats]:
    last = weights.shape[1] - 1 - (weights[:, ::-1] > 0).argmax(axis=1)
    columns = np.arange(weights.shape[1])
    a = first[:, None] + np.minimum(columns, last[:, None])
    b = np.maximum(total - a, 1e-20)  # beside very many records a small α is lost in rounding
    inside = columns < last[:, None]
    norms = _log_norms(a, b, inside)
    middle, spread = _logit_normal(weights, a / total, total)

    full, (before, after) = weights.sum(axis=1), _neighbours(weights, a, inside)
    above, turns = b - 1, weights * a

    def evaluate(q: float, x: Floats, some: Any) -> tuple[Floats, Floats, Floats]:
        rows = slice(None) if some.size == len(first) else some
        with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
            dense = a[rows] * np.log(x)[:, None]
            dense += above[rows] * np.log1p(-x)[:, None]
            dense -= norms[rows]
            np.exp(dense, out=dense)  # x times the density
        law, share = (-1, before) if q < 0.5 else (0, after)
        below = full[rows] * special.betainc(a[rows, law], b[rows, law], x)
        below += np.einsum("ij,ij->i", share[rows], dense)
        slope, turn = np.einsum("ij,ij->i", weights[rows], dense), np.einsum("ij,ij->i", turns[rows], dense)
        return below, slope, turn - x / (1 - x) * ((total - 1) * slope - turn)  # F(x), s = x·f(x), x·s'(x)

    def quantile(q: float) -> Floats:
        x = np.clip(special.expit(middle + spread * special.ndtri(q)), 1e-290, 1 - 1e-16)
        low, high = np.zeros(len(first)), np.ones(len(first))
        piled = np.flatnonzero(first < 0.07)  # for all others x^a is less than 1e-20 at the least number
        if piled.size:
            none = evaluate(q, np.full(piled.size, _TINY), piled)[0] >= q
            x[piled[none]], piled = _TINY, piled[~none]
        if piled.size:  # and whether the quantile lies where one law piles up, and the next has not begun
            near = min(1e-3 / total, 1e-3)
            there = evaluate(q, np.full(piled.size, near), piled)[0] >= q
            x[piled] = np.where(there, near, np.maximum(x[piled], near))
            low[piled], high[piled] = np.where(there, 0.0, near), np.where(there, near, 1.0)
        todo = np.flatnonzero(x > _TINY)
        for _ in range(200):
            if not todo.size:
                break
            at = x[todo]
            below, slope, turn = evaluate(q, at, todo)
            power = (q < 0.5) | (at < 1e-6)
            fresh, remaining = _halley(q, at, below, slope, turn, power, full[todo])
            low[todo] = np.where(below > q, low[todo], at)
            high[todo] = np.where(below > q, at, high[todo])
            ratio = np.sqrt(np.maximum(low[todo], _TINY)) * np.sqrt(high[todo])
            half = np.where(power | (low[todo] > 0), ratio, (low[todo] + high[todo]) / 2)
            short = 1e-10 * np.minimum(at, 1 - at) + 2e-16 * at  # beside what is left to one, too
            there = np.abs(fresh - at) <= short  # the last digit may lie on the bracket's other side
            taken = there | ((fresh > low[todo]) & (fresh < high[todo]))
            fresh = np.clip(np.where(taken, fresh, half), _TINY, 1 - 1e-16)
            x[todo] = fresh
            todo = todo[~(taken & (remaining < 1e-15)) & (np.abs(fresh - at) > short)]
        return np.where(x < 1 - 2e-16, x, 1.0)

    # Next to one an upper quantile may be found a last digit below a lower one.
    return list(np.maximum.accumulate([quantile(q) for q in levels], axis=0))


def _halley(
    q: float, at: Floats, below: Floats, slope: Floats, turn: Floats, power: Any, whole: Floats
) -> tuple[Floats, Floats]:
    """Return where Halley's step leads, and about how much of it, beside x, is left to go: a third order.

    Functions of log x change on the scale of one, or of how fast F bends or rises.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
        step = np.where(power, below * np.log(q / below), q - below) / slope
        bend = turn / slope - np.where(power, slope / below, 1.0)
        step /= np.clip(1 + step * bend / 2, 0.5, 2.0)
        rise = slope / np.minimum(below, whole - below)
        remaining = (1 + bend**2 + rise**2) * np.abs(step) ** 3
        return at * np.where(power, np.exp(step), 1 + step), remaining


def _neighbours(weights: Floats, a: Floats, inside: Any) -> tuple[Floats, Floats]:
    """Return how often a step from each law to the next is in the mixture: from the last law on, and from the first.

    From one end on, it is there as often as the laws on its other side.
    """
    before, after = np.where(inside, np.cumsum(weights, axis=1) / a, 0.0), np.zeros_like(weights)
    after[:, :-1] = np.cumsum(weights[:, :0:-1], axis=1)[:, ::-1] / -a[:, :-1]
    return before, after


def _log_norms(a: Floats, b: Floats, inside: Any) -> Floats:
    """Return log B(a, b), each from the one before it: B(a + 1, b - 1) = B(a, b) · a / (b - 1)."""
    norms = np.empty_like(a)
    norms[:, 0] = special.betaln(a[:, 0], b[:, 0])
    norms[:, 1:] = np.where(inside[:, :-1], np.log(a[:, :-1] / b[:, 1:]), 0.0)
    return np.asarray(np.cumsum(norms, axis=1, out=norms))


def _logit_normal(weights: Floats, centres: Floats, total: float) -> tuple[Floats, Floats]:
    """Return the mean and the deviation of about each row's logit, from the mean and the variance of its mixture."""
    full = weights.sum(axis=1)
    mean = np.clip(np.einsum("ij,ij->i", weights, centres) / full, _TINY, 1 - 1e-16)
    squares = np.einsum("ij,ij,ij->i", weights, centres, centres) / full
    remainder = mean * (1 - mean)
    variance = np.maximum(squares - mean**2, 0.0) + np.maximum(mean - squares, 0.0) / (total + 1)
    square = np.log1p(variance / remainder**2)
    return special.logit(mean) - square * (0.5 - mean), np.sqrt(square)
