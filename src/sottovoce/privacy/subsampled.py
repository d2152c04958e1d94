r"""What a release costs that works on a random part of the records, drawn in secret.

A part of m of the n records is drawn without replacement, q = m/n, and neighbours replace one record; or each record is
kept by a coin of its own with probability q, and neighbours add or remove one. In both cases

.. math:: \delta'\big(\log(1 + q(e^\varepsilon - 1))\big) = q\,\delta(\varepsilon)

(Balle, Barthe and Gaboardi 2018, Theorems 8 and 9), and no smaller curve holds for every release. The Rényi curve is
the integral of that curve (Sason and Verdú 2016, Proposition 3), and is never above q times as far: divergences are
jointly convex, and two parts that miss the record that was replaced are the same. With a coin for each record, a data
set with one more lies a different way from one without it than back (Zhu, Dong and Wang 2022): the two ways compose
apart, and the larger sum is what counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from sottovoce.privacy.derived_profile import DerivedProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, real
from sottovoce.privacy.pure import PureProfile
from sottovoce.privacy.renyi_integral import RenyiIntegral, chord, divergence, renyi_orders, spaced_by_log_delta
from sottovoce.privacy.rounding import log_lifted
from sottovoce.privacy.subsampling import mixed_divergence, subsampled_epsilon

_DEEPEST = -1e5
"""Where the integral of the curve ends: log δ of a part there, unless the loss ends before; the rest is bounded."""
_BEYOND = np.geomspace(1e-4, 16.0, 25)
"""How far beyond an order, relative to it, those lie whose divergences bound what is past the end; all bounds hold."""
_APPROACH = np.append(np.geomspace(1e-4, 0.5, 16), 1 - np.geomspace(0.4, 1e-4, 8))
"""The same where there is a pole: how far they lie of the way there."""


@dataclass(frozen=True)
class SubsampledProfile(DerivedProfile):
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
    source: ClassVar[str] = "a release from a part"
    rate: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rate", real("rate", self.rate))
        if not 0 < self.rate <= 1:
            raise InvalidValue(f"rate must be > 0 and at most 1. Got {self.rate:g}")

    def _before(self, epsilon: Floats) -> Floats:
        """Return the ε that shrinks to the given one, rounded down."""
        q, small = self.rate, np.minimum(epsilon, 30.0)
        with np.errstate(over="ignore"):
            ratio = np.expm1(small) / q
        # Beyond what a double holds the 1 is nothing beside it.
        near = np.where(np.isinf(ratio), np.log(np.maximum(np.expm1(small), q)) - math.log(q) - 1e-12, np.log1p(ratio))
        far = epsilon - math.log(q) + np.log1p(-(1 - q) * np.exp(-np.maximum(epsilon, 30.0)))
        result = np.where(epsilon <= 30, near, far)
        return np.asarray(np.maximum(np.maximum(result * (1 - 4e-15) - 1e-300, epsilon), 0.0))

    def _log_delta(self, epsilon: Floats) -> Floats:
        if self.rate == 1:
            return self.one._log_delta(epsilon)
        result = log_lifted(self.one._log_delta(self._before(epsilon)) + math.log(self.rate))
        return np.where(epsilon >= self.pure(), -np.inf, result)

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

    def _log_delta_back(self, epsilon: Floats) -> Floats:
        r"""Return log δ of a data set without a record against one with it, where that is known apart.

        Where each record is kept by a coin of its own, the law with the record is (1-q)A + qB and that without it A, so
        :math:`\delta(A \Vert (1-q)A + qB)(\varepsilon) = (1 - (1-q)e^\varepsilon)\,\delta(A \Vert B)(\varepsilon'),\;
        e^{-\varepsilon'} = 1 - (1 - e^{-\varepsilon})/q`: nothing is more than 1/(1-q) times as likely without it.
        """
        forward = self._log_delta(epsilon)
        if self.rate == 1 or not self.ordered:
            return forward
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            gone = -np.expm1(-epsilon) / self.rate * (1 - 2.0**-50)
            inside = gone < 1
            share = np.log1p(-np.where(inside, gone, 0.0))
            result = math.log(self.rate) + epsilon + share + self.one._log_delta(np.maximum(-share * (1 - 1e-15), 0.0))
            result = np.where(inside, log_lifted(np.minimum(result, 0.0) + 1e-15 * (epsilon + np.abs(share))), -np.inf)
        return np.minimum(result, forward)

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        """Whether one with the record and one without it are told apart."""
        return self.relation.hides_n and self.rate < 1 and self.has_own_delta

    def _renyi(self, order: Floats) -> Floats:
        if self.rate == 1:
            return self.one._renyi(order)
        best = mixed_divergence(self.one._renyi(order), order, self.rate)
        if self.has_own_delta and self._table is not None:
            best = np.fmin(best, divergence(order, chord(*self._table, order)))
        level = self.pure()
        return np.asarray(np.minimum(best, PureProfile(level)._renyi(order)) if math.isfinite(level) else best)

    @cached_property
    def _table(self) -> tuple[Floats, Floats] | None:
        """Orders, and the logarithm of the integral of the curve of δ at each; None where no order is finite."""
        full = min(self.one.pure(), float(self.one._epsilon(np.array([_DEEPEST]))[0]))
        if not 0 < full < math.inf:
            return None
        inner = spaced_by_log_delta(self.one._log_delta, full)
        nodes = np.unique(self._after(inner))
        if math.isfinite(self.pure()):
            nodes[-1] = self.pure()  # where δ is zero, and nothing is left
        ahead, back = self._log_delta(nodes), self._log_delta_back(nodes)
        orders = renyi_orders(self.pole)
        log_moment = RenyiIntegral(nodes, ahead, back).log_moment(orders)
        if ahead[-1] > -np.inf:
            log_moment = np.logaddexp(log_moment, self._log_beyond(orders, float(nodes[-1])))
        return orders, log_moment

    def _after(self, epsilon: Floats) -> Floats:
        """Return log(1 + q(e^ε - 1)), about: any node is a valid one."""
        near = np.log1p(self.rate * np.expm1(np.minimum(epsilon, 500.0)))
        return np.asarray(np.where(epsilon > 500, epsilon + math.log(self.rate), near))

    def _log_beyond(self, order: Floats, end: float) -> Floats:
        r"""Return the logarithm of a bound on the integral beyond `end`, which is ε of a part.

        There :math:`\delta(\varepsilon) \le e^{(\lambda'-1)(R(\lambda')-\varepsilon)}(1-1/\lambda')^{\lambda'-1}
        /\lambda'` for every order λ' > λ, and 1 + q(e^ε - 1) is no more than q·e^ε(1 + (1-q)/q·e^{-end}).
        """
        start = float(self._before(np.array([end]))[0])
        log_q = math.log(self.rate)
        above = np.logaddexp(0.0, math.log1p(-self.rate) - log_q - start)
        column = order[:, None]
        further = column * (1 + _BEYOND) if math.isinf(self.pole) else column + (self.pole - column) * _APPROACH
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            part = self.one._renyi(further.ravel()).reshape(further.shape)
            step = further - column
            exponents = [
                (further - 1) * part,
                (further - 1) * np.log1p(-1 / further) - np.log(further),
                column * log_q + np.maximum(column - 2, 0.0) * above,
                -step * start,
                -np.log(step) + np.log1p(np.exp(-(2 * column - 1) * end)),
            ]
            bounds = sum(exponents) + 1e-15 * sum(map(np.abs, exponents))
        return np.asarray(np.where(np.isnan(bounds), np.inf, bounds).min(axis=1))
