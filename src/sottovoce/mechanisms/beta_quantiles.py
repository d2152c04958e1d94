"""Quantiles of mixtures of Beta laws whose parameters follow each other, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from sottovoce.privacy.numbers import Floats

__all__ = ["quantiles"]

_TINY = 1e-300
_FEW = 16
"""Laws of a mixture that a search for a quantile begins with."""
_BLOCK = 2**16
"""Laws that are worked on at once."""


def quantiles(first: Floats, total: float, weights: Floats, levels: Sequence[float]) -> list[Floats]:
    r"""Return quantiles of each row's mixture of the laws Beta(a, total - a), a = first, first + 1, …; levels in order.

    One incomplete beta function a row and step: those of its neighbours follow by adding, for
    I_x(a, b) = I_x(a + 1, b - 1) + x · f(x; a, b) / a. Newton's steps inside a bracket; below the middle
    and near zero they are those of log F in log x, which a power law near zero makes exact.
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
    normal = _as_normals(weights, a / total, total)

    # A step from one law's neighbour to the next is in the mixture as often as the laws up to there.
    share, whole = np.where(inside, np.cumsum(weights, axis=1) / a, 0.0), weights.sum(axis=1)
    above = b - 1

    def evaluate(x: Floats, some: Any) -> tuple[Floats, Floats]:
        rows = slice(None) if some.size == len(first) else some
        with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
            dense = a[rows] * np.log(x)[:, None]
            dense += above[rows] * np.log1p(-x)[:, None]
            dense -= norms[rows]
            np.exp(dense, out=dense)  # x times the density
        below = whole[rows] * special.betainc(a[rows, -1], b[rows, -1], x)
        below += np.einsum("ij,ij->i", share[rows], dense)
        return below, np.einsum("ij,ij->i", weights[rows], dense)  # F(x), x·f(x)

    def quantile(q: float) -> Floats:
        x = np.clip(_normal_quantile(*normal, q), _TINY, 1 - 1e-16)
        low, high = np.zeros(len(first)), np.ones(len(first))
        piled = np.flatnonzero(first < 0.07)  # for all others x^a is less than 1e-20 at the least number
        if piled.size:
            none = evaluate(np.full(piled.size, _TINY), piled)[0] >= q
            x[piled[none]], piled = _TINY, piled[~none]
        if piled.size:  # and whether the quantile lies where one law piles up, and the next has not begun
            near = min(1e-3 / total, 1e-3)
            there = evaluate(np.full(piled.size, near), piled)[0] >= q
            x[piled] = np.where(there, near, np.maximum(x[piled], near))
            low[piled], high[piled] = np.where(there, 0.0, near), np.where(there, near, 1.0)
        todo = np.flatnonzero(x > _TINY)
        for _ in range(200):
            if not todo.size:
                break
            at = x[todo]
            below, slope = evaluate(at, todo)
            power = (q < 0.5) | (at < 1e-6)
            with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
                by_power = at * np.exp(-below * np.log(below / q) / slope)
                fresh = np.where(power, by_power, at * (1 - (below - q) / slope))
            low[todo] = np.where(below > q, low[todo], at)
            high[todo] = np.where(below > q, at, high[todo])
            ratio = np.sqrt(np.maximum(low[todo], _TINY)) * np.sqrt(high[todo])
            middle = np.where(power | (low[todo] > 0), ratio, (low[todo] + high[todo]) / 2)
            there = np.abs(fresh - at) <= 1e-10 * fresh  # the last digit may lie on the bracket's other side
            fresh = np.where(there | ((fresh > low[todo]) & (fresh < high[todo])), fresh, middle)
            fresh = np.clip(fresh, _TINY, 1 - 1e-16)
            x[todo] = fresh
            todo = todo[np.abs(fresh - at) > 1e-10 * fresh]
        return np.where(x < 1 - 2e-16, x, 1.0)

    # Next to one an upper quantile may be found a last digit below a lower one.
    return list(np.maximum.accumulate([quantile(q) for q in levels], axis=0))


def _log_norms(a: Floats, b: Floats, inside: Any) -> Floats:
    """Return log B(a, b), each from the one before it: B(a + 1, b - 1) = B(a, b) · a / (b - 1)."""
    norms = np.empty_like(a)
    norms[:, 0] = special.betaln(a[:, 0], b[:, 0])
    norms[:, 1:] = np.where(inside[:, :-1], np.log(a[:, :-1] / b[:, 1:]), 0.0)
    return np.asarray(np.cumsum(norms, axis=1, out=norms))


def _as_normals(weights: Floats, centres: Floats, total: float) -> tuple[Floats, Floats, Floats]:
    """Return weights, means and deviations of a few normal laws a row that are about its mixture of Beta laws."""
    spreads = centres * (1 - centres) / (total + 1)
    starts = np.arange(0, weights.shape[1], -(-weights.shape[1] // _FEW))
    several = np.add.reduceat(weights, starts, axis=1)
    safe = np.maximum(several, _TINY)
    means = np.add.reduceat(weights * centres, starts, axis=1) / safe
    squares = np.add.reduceat(weights * (spreads + centres**2), starts, axis=1) / safe
    return several, means, np.sqrt(np.maximum(squares - means**2, 1e-30))


def _normal_quantile(weights: Floats, means: Floats, deviations: Floats, q: float) -> Floats:
    """Return a quantile of each row's mixture of normal laws: cheap, and close enough to begin with."""
    mean = (weights * means).sum(axis=1)
    spread = np.sqrt(np.maximum((weights * (deviations**2 + means**2)).sum(axis=1) - mean**2, 0.0))
    # Cantelli's inequality: no law has its quantile farther from its mean.
    low, high = np.maximum(mean - spread * np.sqrt(1 / q - 1), 0.0), np.minimum(mean + spread / np.sqrt(1 / q - 1), 1.0)
    for _ in range(8):
        x = (low + high) / 2
        above = (weights * special.ndtr((x[:, None] - means) / deviations)).sum(axis=1) > q
        low, high = np.where(above, low, x), np.where(above, x, high)
    return np.asarray((low + high) / 2)
