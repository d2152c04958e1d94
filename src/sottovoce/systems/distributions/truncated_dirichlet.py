"""A Dirichlet distribution with every probability above a floor, drawn exactly by rejection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.systems.distributions.base import Size, generator, positive
from sottovoce.systems.distributions.gamma import Gamma
from sottovoce.systems.distributions.truncated import Truncated

__all__ = ["TruncatedDirichlet"]

_PILOT = 128
_MOST = 64


@dataclass(frozen=True, eq=False)
class TruncatedDirichlet:
    """Dirichlet(α) conditioned on θ_k >= floor for every k.

    Three exact rejection schemes stand ready, and a short pilot picks the one that accepts most; which one
    is picked
    changes the time a draw takes, never its law.

    - *plain*: draw the Dirichlet, keep it if nothing is below the floor;
    - *uniform*: draw uniformly on the shrunken simplex, keep with probability density / largest density;
    - *t smallest first*: the t smallest categories come from Gamma tails above the floor, the others share
    the
      rest as a Dirichlet. With N the sum of their α and r the rest, r^(N-1) lies below its log-tangent at
      the largest r.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> theta = TruncatedDirichlet([1.0, 40.0, 60.0], floor=0.05).sample(1000, seeded_rng(1))
    >>> bool(theta.min() >= 0.05), theta.shape
    (True, (1000, 3))
    """

    alpha: Any
    floor: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", positive("alpha", self.alpha))
        size = np.size(self.alpha)
        if np.ndim(self.alpha) != 1 or not 2 <= size <= _MOST:
            raise InvalidValue(f"a truncated Dirichlet takes 2 to {_MOST} categories. Got {size}")
        if not 0 < self.floor < 1 / size:
            raise InvalidValue(f"floor must lie between 0 and 1/{size}. Got {self.floor!r}")

    def log_density(self, x: ArrayLike) -> Any:
        """Return the logarithm of the density up to a constant; -inf below the floor."""
        x = np.asarray(x, dtype=np.float64)
        inside = np.all(x >= self.floor, axis=-1)
        return np.where(inside, special.xlogy(self.alpha - 1, np.maximum(x, self.floor)).sum(axis=-1), -np.inf)

    def sample(self, size: Size = None, rng: np.random.Generator | None = None) -> Any:
        """Return one vector of probabilities, or an array of `size` of them (draws first)."""
        rng = generator(rng)
        shape = () if size is None else tuple(np.atleast_1d(size).tolist())
        count = int(np.prod(shape, dtype=int))
        scheme, accepted = self._best_scheme(rng)
        batch = min(max(int(1.2 * count * _PILOT / accepted), _PILOT), 200_000)
        kept: list[Floats] = []
        while sum(map(len, kept)) < count:
            kept.append(self._propose(scheme, batch, rng))
        return np.concatenate(kept)[:count].reshape((*shape, self.alpha.size))

    def _best_scheme(self, rng: np.random.Generator) -> tuple[int, float]:
        """Return the scheme that accepts most of a pilot, and how many of `_PILOT` proposals it takes."""
        size = self.alpha.size
        tails = np.sort(self.alpha)[::-1].cumsum()[::-1]  # the sum of all but the t smallest, by t
        schemes = [-1, *(t for t in range(size) if t == 0 or tails[t] > 1.0)]
        count = _PILOT
        while True:
            accepted = [len(self._propose(scheme, count, rng)) for scheme in schemes]
            if max(accepted):
                return schemes[int(np.argmax(accepted))], max(accepted) * _PILOT / count
            count = min(4 * count, 10**6)

    def _propose(self, scheme: int, count: int, rng: np.random.Generator) -> Floats:
        if scheme < 0:
            return self._uniform(count, rng)
        return self._smallest_first(scheme, count, rng)

    def log_mass(self, count: int, rng: np.random.Generator | None = None) -> float:
        """Return the logarithm of the integral of the unnormalised density: accepted share times envelope."""
        rng = generator(rng)
        scheme, _ = self._best_scheme(rng)
        share = max(len(self._propose(scheme, count, rng)), 1) / count
        size, floor = self.alpha.size, self.floor
        if scheme < 0:
            volume = (size - 1) * np.log1p(-size * floor) - special.gammaln(size)
            return float(np.log(share) + self._log_height() + volume)
        order = np.argsort(self.alpha, kind="stable")
        others, most = self.alpha[order[scheme:]], 1 - scheme * floor
        whole = special.gammaln(others).sum() - special.gammaln(others.sum())
        whole += (others.sum() - 1) * np.log(most)
        rate = (others.sum() - 1) / most
        for alpha in self.alpha[order[:scheme]]:
            tail = Truncated(Gamma(alpha, rate), floor, 1 - (size - 1) * floor)
            whole += rate * floor + tail.base.log_partition + tail.log_mass
        return float(np.log(share) + whole)

    def _uniform(self, count: int, rng: np.random.Generator) -> Floats:
        size = self.alpha.size
        theta = self.floor + (1 - size * self.floor) * rng.dirichlet(np.ones(size), count)
        level = self.log_density(theta) - self._log_height()
        return np.asarray(theta[np.log(rng.random(count)) <= level])

    def _log_height(self) -> float:
        """Return a bound on the log-density: the peak of its concave terms plus the ceiling of the others."""
        up = np.maximum(self.alpha - 1, 0.0)
        ceiling = float(np.minimum(self.alpha - 1, 0.0).sum() * np.log(self.floor))
        if not up.any():
            return ceiling

        def spare(scale: float) -> float:  # water-filling: θ_k = max(floor, scale·(α_k - 1))
            return float(np.maximum(self.floor, scale * up).sum() - 1)

        scale = optimize.brentq(spare, 0.0, 1 / up.max(), xtol=1e-300)
        peak = np.maximum(self.floor, scale * up)
        return float(up @ np.log(peak)) + ceiling + 1e-9

    def _smallest_first(self, t: int, count: int, rng: np.random.Generator) -> Floats:
        order = np.argsort(self.alpha, kind="stable")
        theta = np.empty((count, self.alpha.size))
        rest, keep = np.ones(count), np.ones(count, dtype=bool)
        if t:
            most, total = 1 - t * self.floor, float(self.alpha[order[t:]].sum())
            rate = (total - 1) / most
            ceiling = 1 - (self.alpha.size - 1) * self.floor
            for k in order[:t]:
                theta[:, k] = Truncated(Gamma(self.alpha[k], rate), self.floor, ceiling).sample(count, rng)
            rest = 1 - theta[:, order[:t]].sum(axis=1)
            keep = rest > 0
            gap = np.where(keep, rest, 1.0) / most
            keep &= np.log(rng.random(count)) <= (total - 1) * (np.log(gap) - (gap - 1))
        others = order[t:]
        share = rng.dirichlet(self.alpha[others], count) if others.size > 1 else np.ones((count, 1))
        theta[:, others] = rest[:, None] * share
        return np.asarray(theta[keep & np.all(theta >= self.floor, axis=1)])
