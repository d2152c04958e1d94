r"""The privacy loss of k equal randomized responses: a binomial law, however large k is.

Of k truthful-or-not answers, h truthful ones have the loss (2h - k)·ε, and h is binomial with
:math:`p = e^\varepsilon/(1+e^\varepsilon)`. They dominate every composition of k ε-private releases (Kairouz, Oh and
Viswanath 2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from sottovoce.privacy.numbers import Floats, log1pmx
from sottovoce.privacy.rounding import log_lifted

_CELLS = 1 << 18
"""How many cells the likely numbers of hits are put into; a cell's loss is its largest."""
_REACH = 42.0
"""How many standard deviations, and how much beside, may be likelier than the least double: Bennett's inequality."""
_LEAST = -730.0
"""The logarithm of what is told of anything smaller, sums of what lies outside among it."""
_ROUNDING = 2e-15
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
_LARGE = 15.0
"""From here on Stirling's series is right to the last digits."""


@dataclass(frozen=True)
class BinomialLoss:
    """The summed loss of `count` responses of one `level`.

    >>> print(f"{np.exp(BinomialLoss(0.5, 1).log_delta(np.zeros(1)))[0]:.4f} {np.tanh(0.25):.4f}")
    0.2449 0.2449
    """

    level: float
    count: int

    @cached_property
    def _law(self) -> tuple[Floats, Floats]:
        """Losses and their probabilities, both rounded up."""
        miss, n = float(special.expit(-self.level)), float(self.count)
        mean, deviation = n * miss, np.sqrt(n * miss * (1 - miss))
        # Misses are counted, few of them where the level is large.
        reach = _REACH * deviation + _REACH**2
        first, last = max(0.0, np.floor(mean - reach)), min(n, np.ceil(mean + reach))
        width = np.ceil((last - first + 1) / _CELLS)
        starts = np.arange(first, last + 1, width)
        ends = np.minimum(starts + width - 1, last)
        likeliest = np.clip(np.floor((n + 1) * miss), starts, ends)  # one of a cell's ends, or the mode
        logs = np.max([_log_binomial(n, at, miss) for at in (starts, likeliest, ends)], axis=0)
        losses = self.level * (n - 2 * starts)
        kept = np.flatnonzero(logs > 2 * _LEAST)[::-1]  # the smallest loss first
        chances = np.exp(logs[kept] + np.log((ends - starts + 1)[kept]))
        return losses[kept] + 4e-16 * np.abs(losses[kept]), chances

    def log_delta(self, epsilon: Floats) -> Floats:
        """Return log δ(ε) for ε >= 0, rounded up."""
        losses, chances = self._law
        places = zip(epsilon.ravel().tolist(), np.searchsorted(losses, epsilon.ravel()).tolist(), strict=True)
        flat = [float(-np.expm1(e - losses[k:]) @ chances[k:]) for e, k in places]  # lower losses add nothing
        with np.errstate(divide="ignore"):
            return log_lifted(np.logaddexp(np.log(flat), _LEAST)).reshape(epsilon.shape)


def _log_binomial(n: float, k: Floats, p: float) -> Floats:
    """Return the logarithm of the chance of k hits among n, rounded up: its saddle point (Loader 2000).

    >>> print(f"{np.exp(_log_binomial(10.0, np.array([3.0]), 0.5))[0]:.7f}")
    0.1171875
    """
    inner = np.clip(k, 1.0, n - 1.0) if n > 1 else np.ones_like(k)
    remainder = np.maximum(n - inner, 1.0)
    mean, other = n * p, n * (1 - p)
    gap = inner - mean
    deviance = _deviance(gap, mean) + _deviance(-gap, other)
    stirling = _stirling(np.asarray(n)) - _stirling(inner) - _stirling(remainder)
    value = stirling - deviance + 0.5 * np.log(n / (2 * np.pi * inner) / remainder)
    ends = np.where(k == 0, n * np.log1p(-p), n * np.log(p))
    value = np.where((k == 0) | (k == n), ends, value)
    # What rounding p does moves the mean, and what rounding the mean does moves the deviance.
    lost = 400 + np.abs(value) + 4 * np.abs(k - mean) / (1 - p)
    return np.asarray(value + _ROUNDING * lost)


def _deviance(gap: Floats, mean: float) -> Floats:
    """Return x·log(x/mean) - gap for x = mean + gap, which loses no digits near the mean."""
    share = gap / mean
    near = mean * (share * share + (1 + share) * log1pmx(np.clip(share, -0.5, 0.5)))
    return np.where(np.abs(share) < 0.5, near, special.xlogy(mean + gap, (mean + gap) / mean) - gap)


def _stirling(n: Floats) -> Floats:
    """Return log n! - log(√(2πn)(n/e)^n)."""
    large = np.maximum(n, _LARGE)
    square, series = 1 / (large * large), np.zeros_like(large)
    for coefficient in reversed(_STIRLING):
        series = series * square + coefficient
    small = np.minimum(n, _LARGE)
    plain = special.gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    return np.where(n >= _LARGE, series / large, plain)
