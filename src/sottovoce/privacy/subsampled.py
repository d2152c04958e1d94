r"""What a release costs that works on a random part of the records, drawn in secret.

A part of m of the n records is drawn without replacement, q = m/n, and neighbours replace one record; or each record is
kept by a coin of its own with probability q, and neighbours add or remove one. In both cases

.. math:: \delta'\big(\log(1 + q(e^\varepsilon - 1))\big) = q\,\delta(\varepsilon)

(Balle, Barthe and Gaboardi 2018, Theorems 8 and 9), and no smaller curve holds for every release. The Rényi curve
follows from the curve of δ (Sason and Verdú 2016, Proposition 3), and is never above q times as far: divergences are
jointly convex, and two parts that miss the record that was replaced are the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.losses import Losses, discretise
from sottovoce.privacy.numbers import Floats, real, shown
from sottovoce.privacy.profile import Basis, Profile
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.rounding import log_lifted
from sottovoce.privacy.subsampling import mixed_divergence, subsampled_epsilon

__all__ = ["SubsampledProfile"]

_NODES = 2500
"""Nodes of the grid on which the Rényi curve is computed."""
_FAR = -150.0
"""Where the grid ends: log δ there, unless the loss ends before."""
_LEAST_ORDER = 1.1
"""A Rényi curve never falls, so that below this order its value there stands; nearer to 1 rounding would drown it."""
_ROUND_UP = 1 + 1e-12
_AT_ONCE = 1 << 9
"""How many orders are worked out at a time."""
_BLOCK, _ROW, _STEEP = 64, 8, 100.0
"""How many masses are summed in one product, of how many powers these are made, and the largest exponent among them."""


@dataclass(frozen=True)
class SubsampledProfile(Profile):
    """A profile after subsampling: each record takes part with probability `rate`.

    Examples
    --------
    >>> from sottovoce.privacy.gaussian import GaussianProfile
    >>> minibatch = SubsampledProfile(GaussianProfile(1.0), 0.01)
    >>> round(GaussianProfile(1.0).epsilon(1e-6), 2), round(minibatch.epsilon(1e-6), 2)
    (4.89, 0.36)
    >>> round((1000 * minibatch).epsilon(1e-6), 2)
    2.51
    """

    word: ClassVar[str] = "subsampled"
    one: Profile
    rate: float

    def __post_init__(self) -> None:
        if not isinstance(self.one, Profile):
            raise InvalidValue(f"expected the profile of a release from a part. Got {shown(self.one)}")
        object.__setattr__(self, "relation", self.one.relation)
        object.__setattr__(self, "basis", Basis.weakest([self.one.basis, self.basis]))
        object.__setattr__(self, "rate", real("rate", self.rate))
        if not 0 < self.rate <= 1:
            raise InvalidValue(f"rate must be > 0 and at most 1. Got {self.rate:g}")

    @property
    def has_own_delta(self) -> bool:  # type: ignore[override]
        """Whether the profile of a part had one."""
        return self.one.has_own_delta

    def _before(self, epsilon: Floats) -> Floats:
        """Return the ε that shrinks to the given one, rounded down."""
        q, small = self.rate, np.minimum(epsilon, 30.0)
        with np.errstate(over="ignore"):
            ratio = np.expm1(small) / q
        # Beyond what a double holds the 1 is nothing beside it.
        near = np.where(np.isinf(ratio), np.log(np.maximum(np.expm1(small), q)) - math.log(q) - 1e-12, np.log1p(ratio))
        far = epsilon - math.log(q) + np.log1p(-(1 - q) * np.exp(-np.maximum(epsilon, 30.0)))
        found = np.where(epsilon <= 30, near, far)
        return np.asarray(np.maximum(np.maximum(found * (1 - 4e-15) - 1e-300, epsilon), 0.0))

    def _log_delta(self, epsilon: Floats) -> Floats:
        if self.rate == 1:
            return self.one._log_delta(epsilon)
        found = log_lifted(self.one._log_delta(self._before(epsilon)) + math.log(self.rate))
        return np.where(epsilon >= self.pure(), -np.inf, found)

    def pure(self) -> float:
        """Return log(1 + q(e^ε - 1))."""
        level = self.one.pure()
        return subsampled_epsilon(level, self.rate) if math.isfinite(level) else math.inf

    def zcdp(self) -> float:
        """Return the least known ρ: that of a part, or that of the pure level."""
        level = self.pure()
        return min(self.one.zcdp(), PureProfile(level).zcdp() if math.isfinite(level) else math.inf)

    def gdp(self) -> float:
        """Return the least known μ: that of a part, or that of the pure level."""
        level = self.pure()
        return min(self.one.gdp(), PureProfile(level).gdp() if math.isfinite(level) else math.inf)

    @property
    def pole(self) -> float:
        """That of a part."""
        return self.one.pole

    def _renyi(self, order: Floats) -> Floats:
        if self.rate == 1:
            return self.one._renyi(order)
        convex = mixed_divergence(self.one._renyi(order), order, self.rate)
        if not self.has_own_delta:
            return convex
        best = np.fmin(convex, self._by_losses(np.ravel(order)).reshape(np.shape(order)))
        level = self.pure()
        return np.asarray(np.minimum(best, PureProfile(level)._renyi(order)) if math.isfinite(level) else best)

    @cached_property
    def _losses(self) -> tuple[_Moments, float, float, float] | None:
        """The moments of a law of the privacy loss above the curve, its mass at infinity, its step, and its end."""
        reach = min(self.pure(), float(self._epsilon(np.array([_FAR]))[0]))
        if not 0 < reach < 600:
            return None
        step = reach / _NODES
        losses = discretise(self, step, reach)
        return _Moments(losses), losses.infinity, step, reach

    def _by_losses(self, order: Floats) -> Floats:
        """Return bounds from the curve of δ: the law on the grid, what lies beyond its end, and the end's own mass."""
        order = np.maximum(order, _LEAST_ORDER)
        out = np.full(order.shape, np.inf)
        if self._losses is None:
            return out
        moments, infinity, step, end = self._losses
        (below,) = np.nonzero(order < self.pole)
        for some in (below[i : i + _AT_ONCE] for i in range(0, len(below), _AT_ONCE)):
            gap = order[some] - 1
            total = moments(gap * step)
            if infinity > 0:
                # 1 + λ(λ-1)∫(e^((λ-1)ε) + e^(-λε))δ(ε)dε: up to the end δ is that of the grid and the end's; beyond
                # it, at most e^((λ'-1)(R(λ')-ε)) of the part's own curve at twice the order.
                double = np.minimum(2 * order[some], (order[some] + self.pole) / 2)
                beyond = (double - 1) * self.one._renyi(double) - (double - order[some]) * end
                tail = np.log(2 * self.rate * order[some] * gap / (double - order[some])) + beyond
                at_end = math.log(infinity) + np.log(2 * order[some]) + gap * end
                total = np.logaddexp(total, np.logaddexp(tail, at_end + 1e-12))
            found = np.maximum(total, 0.0) / gap * _ROUND_UP + 1e-13 / gap
            out[some] = np.where(np.isfinite(total), found, np.inf)
        return out


class _Moments:
    """Of each tilt t, log Σ mass·e^(t·index) or a hair more.

    Blocks of masses are products of matrices; where a tilt is too steep for that, every mass is a term of its own.
    """

    def __init__(self, losses: Losses) -> None:
        self._index, self._logs = np.asarray(losses.index, dtype=np.float64), losses.log_mass
        self._even = bool(np.all(np.diff(self._index) == 1))

    @cached_property
    def _blocks(self) -> tuple[Floats, Floats]:
        """The largest logarithm of each block, and the masses beside it."""
        masses = np.append(self._logs, np.full(-len(self._index) % _BLOCK, -np.inf)).reshape(-1, _BLOCK)
        top = masses.max(axis=1)
        # Masses too small for a double beside their block's largest are taken for larger ones.
        with np.errstate(invalid="ignore"):
            return top, np.exp(np.where(masses == -np.inf, -np.inf, np.maximum(masses - top[:, None], -3 * _STEEP)))

    def __call__(self, tilts: Floats) -> Floats:
        out = np.full(tilts.shape, -np.inf)
        if not len(self._index):
            return out
        gentle = (tilts * (_BLOCK - 1) <= _STEEP) & self._even
        if not gentle.all():
            out[~gentle] = _log_sums(1.0, self._logs + tilts[~gentle, None] * self._index)
        if gentle.any():
            (top, part), some = self._blocks, tilts[gentle, None]
            coarse, fine = np.exp(some * np.arange(0, _BLOCK, _ROW)), np.exp(some * np.arange(_ROW))
            powers = (coarse[:, :, None] * fine[:, None, :]).reshape(-1, _BLOCK)  # e^(t·k), k < _BLOCK
            out[gentle] = _log_sums(powers @ part.T, top + some * self._index[::_BLOCK])
        return out


def _log_sums(factors: Floats | float, exponents: Floats) -> Floats:
    """Return log Σ factor·e^exponent, row by row."""
    most = exponents.max(axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(most + np.log((factors * np.exp(exponents - most[:, None])).sum(axis=1)))
