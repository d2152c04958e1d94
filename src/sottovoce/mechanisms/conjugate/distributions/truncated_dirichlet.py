"""Dirichlet distributions with every probability above a floor, drawn exactly by rejection."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sottovoce.mechanisms.conjugate.distributions.base import Size, generator, positive
from sottovoce.mechanisms.conjugate.distributions.gamma import Gamma
from sottovoce.mechanisms.conjugate.distributions.truncated import Truncated
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats, any_floats

_TINY = 1e-280
"""A Gamma tail lighter than this has no digits left to invert; it is drawn by rejection instead."""
_AGAIN = 8
"""How often a Gamma draw below the floor is drawn again before its tail is inverted."""
_DEEP = 500.0
"""Up to here a Gamma tail with a shape below one keeps all its digits."""
_MOST = 1 << 20
"""How many numbers one round of proposals may hold."""


@dataclass(frozen=True, eq=False)
class TruncatedDirichlet:
    r"""Dirichlet(α) conditioned on θ_k >= floor for every k; for one α or a whole array of them.

    All but the category m with the largest α are proposed from independent Gamma(α_k, λ) tails above the floor;
    m takes the rest r. The proposal is kept with probability

    .. math:: e^{w(r)-\max w}, \qquad w(r) = (\alpha_m-1)\log r - \lambda r,

    which makes the draw exact for every λ > 0. λ is chosen where the proposals add up to one on average, so that about
    one in √d is kept however peaked α is, and wherever the floor lies. Where every α_k < 1, w would be largest at the
    floor, so m is drawn too, in proportion to its envelope, and has to turn out the largest probability.

    Parameters
    ----------
    alpha
        The parameters, categories last.
    floor
        The least probability, below 1/d.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> theta = TruncatedDirichlet([1.0, 40.0, 60.0], floor=0.05).sample(1000, seeded_rng(1))
    >>> bool(theta.min() >= 0.05), theta.shape
    (True, (1000, 3))
    >>> TruncatedDirichlet([[1.0, 1e5, 2.0], [0.5, 0.5, 0.5]], floor=0.01).sample(None, seeded_rng(2)).shape
    (2, 3)
    """

    alpha: Any
    floor: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", positive("alpha", self.alpha))
        size = np.shape(self.alpha)[-1] if np.ndim(self.alpha) else 1
        if size < 2:
            raise InvalidValue(f"a truncated Dirichlet takes at least 2 categories. Got {size}")
        if not 0 < self.floor < 1 / size:
            raise InvalidValue(f"floor must lie between 0 and 1/{size}. Got {self.floor!r}")

    def log_density(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density up to a constant; -inf below the floor."""
        x = any_floats("x", x)
        inside = np.all(x >= self.floor, axis=-1)
        return np.where(inside, special.xlogy(self.alpha - 1, np.maximum(x, self.floor)).sum(axis=-1), -np.inf)

    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one vector of probabilities for each α, or an array of `size` of them (draws first)."""
        rng = generator(rng)
        shape = () if size is None else tuple(np.atleast_1d(size).tolist())
        count = int(np.prod(shape, dtype=int))
        rows = np.tile(np.arange(len(self._rate)), count)
        theta = np.empty((rows.size, self._sorted.shape[-1]))
        open_, tries = np.arange(rows.size), 2
        while open_.size:
            tries = int(min(tries, max(_MOST // (open_.size * theta.shape[-1]), 1)))
            proposals, kept = self._propose(rows[open_], tries, rng)
            first = np.argmax(kept, axis=1)
            done = kept[np.arange(open_.size), first]
            theta[open_[done]] = proposals[np.flatnonzero(done), first[done]]
            open_, tries = open_[~done], 2 * tries
        out = np.empty_like(theta)
        np.put_along_axis(out, self._order[rows], theta, axis=1)
        return out.reshape((*shape, *np.shape(self.alpha)))

    def log_mass(self, count: int, rng: np.random.Generator | None = None) -> float:
        """Return the logarithm of the integral of one α's unnormalised density: accepted share times envelope."""
        if np.ndim(self.alpha) != 1:
            raise InvalidValue(f"the mass is that of one vector alpha. Got shape {np.shape(self.alpha)}")
        _, kept = self._propose(np.zeros(1, dtype=np.int64), count, generator(rng))
        full = np.log(max(kept.sum(), 1) / count) + self._rate[0]
        if self._flat[0]:
            return float(full + special.logsumexp(self._log_envelopes[0]) + self._log_tails[0].sum())
        for alpha in self._sorted[0, :-1]:
            tail = Truncated(Gamma(alpha, self._rate[0]), self.floor, np.inf)
            full += tail.base.log_partition + tail.log_mass
        return float(full + self._peak[0])

    @cached_property
    def _order(self) -> Any:
        """The categories of each α, the largest last."""
        return np.argsort(self.alpha.reshape(-1, self.alpha.shape[-1]), axis=1, kind="stable")

    @cached_property
    def _sorted(self) -> Floats:
        return np.asarray(np.take_along_axis(self.alpha.reshape(self._order.shape), self._order, axis=1))

    @cached_property
    def _rate(self) -> Floats:
        """λ of each α: where the approximate means of the Gamma tails add up to one, by bisection."""
        alpha, floor = self._sorted, self.floor
        low = np.full(len(alpha), 1e-3)
        high = 2 * np.maximum(alpha, 1.0).sum(axis=1) / (1 - alpha.shape[1] * floor)
        # Far nearer than the proposals' sum is wide, 1/√Σα of itself: beside many records no other λ keeps any.
        apart = np.log(high / low) * np.sqrt(alpha.sum(axis=1))
        for _ in range(max(12, math.ceil(math.log2(4 * apart.max())))):
            rate = np.sqrt(low * high)
            heavy = _tail_mean(alpha, rate[:, None], floor).sum(axis=1) > 1
            low, high = np.where(heavy, rate, low), np.where(heavy, high, rate)
        return np.asarray(np.sqrt(low * high))

    @cached_property
    def _peak(self) -> Floats:
        """The largest w of each α."""
        top = 1 - (self._sorted.shape[1] - 1) * self.floor
        at = np.clip((self._sorted[:, -1] - 1) / self._rate, self.floor, top)
        return np.asarray((self._sorted[:, -1] - 1) * np.log(at) - self._rate * at)

    @cached_property
    def _flat(self) -> Any:
        """Which rows have every α below one; with a floor deep in the tails the other scheme serves them as well."""
        return (self._sorted[:, -1] < 1) & (self._rate * self.floor < _DEEP)

    @cached_property
    def _log_tails(self) -> Floats:
        """The logarithm of ∫ x^(α_k - 1) e^(-λx) dx above the floor."""
        alpha, rate = self._sorted, self._rate[:, None]
        cut = np.minimum(rate * self.floor, _DEEP)
        with np.errstate(divide="ignore"):
            return np.asarray(special.gammaln(alpha) - alpha * np.log(rate) + np.log(special.gammaincc(alpha, cut)))

    @cached_property
    def _log_envelopes(self) -> Floats:
        """What each category weighs as the largest one: its peak at r = 1/d over its own tail."""
        d = self._sorted.shape[1]
        return np.asarray((1 - self._sorted) * np.log(d) - self._rate[:, None] / d - self._log_tails)

    def _propose(self, rows: Any, tries: int, rng: np.random.Generator) -> tuple[Floats, Any]:
        """Return `tries` proposals for each row, and which of them to keep."""
        alpha, rate, flat = self._sorted[rows], self._rate[rows][:, None], self._flat[rows]
        shape = np.broadcast_to(alpha[:, None, :], (rows.size, tries, alpha.shape[1]))
        cut = np.broadcast_to(rate[..., None] * self.floor, shape.shape)
        theta = np.maximum(_gamma_tails(shape, cut, rng) / rate[..., None], self.floor)
        largest = np.full((rows.size, tries), alpha.shape[1] - 1)
        if flat.any():
            scores = self._log_envelopes[rows[flat]][:, None, :] + rng.gumbel(size=(int(flat.sum()), *shape.shape[1:]))
            largest[flat] = np.argmax(scores, axis=-1)
        np.put_along_axis(theta, largest[..., None], 0.0, axis=-1)
        remainder = 1 - theta.sum(axis=-1)
        inside = remainder >= np.where(flat[:, None], theta.max(axis=-1), self.floor)
        remainder = np.where(inside, remainder, 1.0)
        np.put_along_axis(theta, largest[..., None], remainder[..., None], axis=-1)
        power = np.take_along_axis(alpha, largest, axis=1) - 1
        d = alpha.shape[1]
        peak = np.where(flat[:, None], -power * np.log(d) - rate / d, self._peak[rows][:, None])
        level = power * np.log(remainder) - rate * remainder - peak
        return theta, inside & (-rng.standard_exponential(level.shape) <= level)


def _gamma_tails(shape: Floats, cut: Floats, rng: np.random.Generator) -> Floats:
    """Return a Gamma(shape, 1) draw above `cut` for each entry: drawn again, inverted, or rejected in the far tail."""
    draws = rng.standard_gamma(shape)
    short = draws < cut
    for _ in range(_AGAIN):  # a draw takes a fiftieth of the time of an inversion
        draws[short] = rng.standard_gamma(shape[short])
        short = draws < cut
    if short.any():
        alpha, start = shape[short], cut[short]
        mass = special.gammaincc(alpha, start)
        far = mass < _TINY
        again = np.empty(alpha.size)
        uniform = 1 - rng.random(alpha.size - int(far.sum()))
        again[~far] = np.maximum(special.gammainccinv(alpha[~far], uniform * mass[~far]), start[~far])
        if far.any():
            again[far] = _far_tails(alpha[far], start[far], rng)
        draws[short] = again
    return draws


def _far_tails(alpha: Floats, cut: Floats, rng: np.random.Generator) -> Floats:
    """Return Gamma draws above `cut`, far above the mode: exponentials under the tangent of the log-density."""
    up = np.maximum(alpha - 1, 0.0)
    slope = 1 - up / cut
    out, open_ = np.empty(alpha.size), np.arange(alpha.size)
    while open_.size:
        step = rng.standard_exponential(open_.size) / slope[open_]
        relative = step / cut[open_]
        level = (alpha[open_] - 1) * np.log1p(relative) - up[open_] * relative
        kept = -rng.standard_exponential(open_.size) <= level
        out[open_[kept]] = cut[open_[kept]] + step[kept]
        open_ = open_[~kept]
    return out


def _tail_mean(alpha: Floats, rate: Floats, floor: float) -> Floats:
    """Return roughly the mean of Gamma(alpha, rate) above the floor; it guides proposals and no more."""
    beyond = rate - (alpha - 1) / floor
    wide = np.sqrt(alpha) / rate
    excess = np.where(beyond > 0, np.minimum(1 / np.where(beyond > 0, beyond, 1.0), wide), 0.0)
    out = np.maximum(alpha / rate, floor + excess)
    small = (alpha < 1) & (rate * floor < _DEEP)
    if small.any():  # the heavy head near zero makes the rough mean useless
        a, c = alpha[small], np.broadcast_to(rate, alpha.shape)[small] * floor
        ratio = special.gammaincc(a + 1, c) / special.gammaincc(a, c)
        out[small] = a * ratio * floor / c
    return np.asarray(out)
