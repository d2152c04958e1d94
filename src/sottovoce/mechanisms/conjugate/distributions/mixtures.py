"""Several mixtures of the same components: their quantiles, and how far they are from another law, all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from sottovoce.mechanisms.conjugate.distributions.base import check_level
from sottovoce.privacy.numbers import Floats

_LATTICE = np.array([0.7548776662466927, 0.5698402909980532])
"""The additive recurrence of the plastic number: points that fill the unit square evenly."""
_FAR = 1.0
"""From such a mean divergence of the components on, a mixture's is taken from theirs."""
_CLOSE = 1e-4
"""So near its level, beside the tail that it cuts off, an end of a width is left after one step more."""


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Mixtures Σ_k w_rk P_k, a row r each, of components P_k that stand side by side in one distribution.

    Examples
    --------
    >>> from sottovoce.mechanisms.conjugate.distributions import Beta
    >>> several = Mixtures(Beta([1.0, 3.0], [3.0, 1.0]), np.array([[0.5, 0.5], [1.0, 0.0]]))
    >>> [round(float(width), 3) for width in several.widths(0.9)]
    [0.931, 0.615]
    """

    components: Any
    weights: Floats

    def widths(self, level: float) -> Floats:
        """Return the width of each mixture's equal-tailed interval."""
        level, rows = check_level(level), len(self.weights)
        q = np.repeat([(1 - level) / 2, (1 + level) / 2], rows)
        low, high = mixed_quantiles(self.components, np.tile(self.weights, (2, 1)), q, _CLOSE).reshape(2, rows)
        return np.asarray(high - low)

    def mean_kl(self, other: Any, shares: Floats) -> float:
        """Return the Kullback–Leibler divergence from `other`, averaged over mixtures that have these shares.

        It is the integral of Σ_r share_r (p_r log(p_r/o) + o − p_r), by points spread over the plain average of the
        mixtures and of o: one set of them serves every row, and rows of a small share, which lie far off, are not
        passed over. The last two terms make up nothing, and leave where laws are alike what is of second order.

        Where they are far apart it is Σ_k w_rk KL(P_k‖o), in closed form, less what a draw tells of its component,
        which is the integral of Σ_k w_rk P_k log(P_k/p_r): that is small, and bounded beside a pole.
        """
        rows = len(self.weights)
        x, counted = spread_points(self.components, self.weights.mean(axis=0), 512)
        points, further = spread_points(other, None, 64)
        x, counted = np.append(x, points), np.append(counted * rows, further) / (rows + 1)
        logs, theirs = self.components.log_density(x[:, None]), other.log_density(x)
        top = np.maximum(logs.max(axis=1), theirs)
        parts, beside = np.exp(logs - top[:, None]), theirs - top
        heights, height = parts @ self.weights.T, np.exp(beside)
        counted = counted * (rows + 1) / (heights.sum(axis=1) + height)
        weights = shares @ self.weights
        apart = float(weights @ self.components.kl(other))
        if apart > _FAR:
            shown = special.xlogy(parts, parts) @ weights - special.xlogy(heights, heights) @ shares
            return apart - float(counted @ shown)
        inner = special.xlogy(heights, heights) - heights * (beside[:, None] + 1)
        return float(counted @ (inner @ shares + height))


def spread_points(components: Any, weights: Floats | None, count: int) -> tuple[Floats, Floats]:
    """Return points spread evenly over a mixture, or over one law alone, and their weights.

    Places within a component crowd at its ends, 3t² − 2t³ of evenly spread t: tails are then not cut off.
    """
    pick, t = (np.arange(1, count + 1)[:, None] * _LATTICE % 1.0).T
    subset = components
    if weights is not None:
        index = np.searchsorted(np.cumsum(weights), pick, side="right")
        subset = components.take(np.minimum(index, weights.size - 1))
    # A density may have a pole where its support ends: no point lies on it.
    first, last = np.nextafter(subset.ppf(0.0), np.inf), np.nextafter(subset.ppf(1.0), -np.inf)
    return np.clip(subset.ppf(t * t * (3 - 2 * t)), first, last), 6 * t * (1 - t) / count


def mixed_quantiles(components: Any, weights: Floats, q: Floats, close: float = 0.0) -> Floats:
    """Return a quantile of each mixture, a row of weights each or one for all; levels between none and all.

    Newton's steps inside brackets that Chebyshev's inequality gives, until they reach the last digits, or start from a
    level that is within the part `close` of the tail. (A short step says little where parts are far apart: it may end
    at the edge of a narrow one.)
    """
    centres, spreads = np.asarray(components.mean), np.sqrt(components.variance)
    mean = weights @ centres
    variance = np.einsum("rk,rk->r", weights, spreads**2 + (centres - mean[:, None]) ** 2)
    spread = np.broadcast_to(1.001 * np.sqrt(variance), q.shape)
    weights = np.broadcast_to(weights, (q.size, centres.size))
    least = np.maximum(mean - spread * np.sqrt((1 - q) / q), float(components.ppf(0.0).min()))
    most = np.minimum(mean + spread * np.sqrt(q / (1 - q)), float(components.ppf(1.0).max()))
    low, high = least, most
    for _ in range(10):  # as if every component were normal: cheap, and close
        x = (low + high) / 2
        above = np.einsum("rk,rk->r", special.ndtr((x[:, None] - centres) / spreads), weights) > q
        low, high = np.where(above, low, x), np.where(above, x, high)
    x, low, high, todo = (low + high) / 2, least.copy(), most.copy(), np.arange(q.size)
    reach = getattr(components, "reach", np.inf)
    for _ in range(120):
        if not todo.size:
            break
        at = x[todo, None]
        near = (np.abs(at - centres) <= reach).any(axis=0)
        subset, mine, others = components.take(near), weights[todo][:, near], weights[todo][:, ~near]
        below = np.einsum("rk,rk->r", centres[~near] < at, others) + np.einsum("rk,rk->r", subset.cdf(at), mine)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            step = (below - q[todo]) / np.einsum("rk,rk->r", np.exp(subset.log_density(at)), mine)
        low[todo], high[todo] = np.where(below > q[todo], (low[todo], x[todo]), (x[todo], high[todo]))
        fresh = x[todo] - step
        inside = (low[todo] < fresh) & (fresh < high[todo])
        close_by = inside & (np.abs(below - q[todo]) < close * np.minimum(q[todo], 1 - q[todo]))
        # The last digit may lie on the bracket's other side. A step is infinite where there is no density.
        last = np.abs(step) <= 1e-11 * np.abs(x[todo])
        fresh, there = np.where(last, np.clip(fresh, least[todo], most[todo]), fresh), last | close_by
        x[todo] = np.where(there | inside, fresh, (low[todo] + high[todo]) / 2)
        todo = todo[~there & (low[todo] < x[todo]) & (x[todo] < high[todo])]
    return np.asarray(x)
