"""The noise-aware posterior of how the original records were distributed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from sottovoce.mechanisms.intervals import to_the_ends
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import secure_rng
from sottovoce.theory.local.mechanism import ProfileMechanism
from sottovoce.theory.local.observation import Observation, observe

_CHAINS = 32  # NumPy takes hardly longer for them than for one, where profiles and outputs are few
_WARM_UP = 200
_LEAST_LENGTH = 150  # shorter chains could not be told from unsettled ones
_SETTLED = 1.03


@dataclass(frozen=True, eq=False)
class CategoryPosterior:
    """Draws from the posterior of the category distribution given the released records and the mechanism."""

    categories: tuple[Hashable, ...]
    draws: Floats
    """A row a draw, a column a category."""
    r_hat: float
    """The largest split R-hat of any category; near 1 when the chains agree."""
    ends: Floats
    """The least and the largest share that any mixture of the profiles gives each category, a row a category."""

    @property
    def mean(self) -> Floats:
        """The posterior mean of each category's share."""
        return np.asarray(self.draws.mean(axis=0))

    def interval(self, level: float = 0.95) -> Floats:
        """Return the central credible interval of each category's share, a row a category.

        Where the noise hides a share, the interval goes to the ends of what it may be.
        """
        return to_the_ends(self.draws, level, *self.ends.T)


def posterior_categories(
    mechanism: ProfileMechanism,
    released: object,
    profiles: Iterable[Hashable] | None = None,
    *,
    concentration: float = 1.0,
    draws: int = 4000,
    rng: np.random.Generator | None = None,
) -> CategoryPosterior:
    r"""Sample the posterior of the category distribution θ = wD, the noise of the mechanism being known.

    .. math:: w \sim \mathrm{Dirichlet}(a, \dots, a), \qquad \text{outputs} \sim \mathrm{Multinomial}(n, wC)

    with `a` the `concentration`; see `Observation` for C and D. The weights are w_i ∝ e^{u_i} with independent Gamma(a)
    variables e^{u_i}; u is sampled by Hamiltonian Monte Carlo, scaled by the curvature at the mode, on counts only: the
    cost does not grow with the number of records.

    Intervals hold on average over this prior. Of many profiles it expects none to have most of the weight: where one
    may, use `estimate_categories`.

    Examples
    --------
    >>> from sottovoce.theory.local import ProfileGraph, RandomizedResponse
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> graph = ProfileGraph.bernoulli({"a": 0.4, "b": 0.6}, [("a", "b")])
    >>> mechanism = RandomizedResponse.calibrate(graph, epsilon=1.0)
    >>> posterior_categories(mechanism, {0: 400, 1: 600}, rng=seeded_rng(1)).mean.round(2)
    array([0.28, 0.72])
    """
    if not (np.isfinite(concentration) and concentration > 0):
        raise InvalidValue(f"concentration must be > 0. Got {concentration!r}")
    if draws < 1:
        raise InvalidValue(f"draws must be at least 1. Got {draws}")
    seen = observe(mechanism, released, profiles)
    if np.any((seen.C.max(axis=0) == 0) & (seen.counts > 0)):
        raise InvalidData("an output was seen that none of the profiles can give; check the profiles named")
    target = _Target(seen, concentration)
    ends = np.column_stack([seen.D.min(axis=0), seen.D.max(axis=0)])
    length = max(-(-draws // _CHAINS), _LEAST_LENGTH)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a step too far is not taken
        chain = _ProfileChains(target, secure_rng() if rng is None else rng)
        chain.run(_WARM_UP, adapt=True)
        shares = np.empty((_CHAINS, 0, len(seen.categories)))
        for _ in range(10):
            shares = np.concatenate([shares, _softmax(chain.run(length)) @ seen.D], axis=1)
            r_hat = _split_r_hat(shares)
            if r_hat <= _SETTLED:
                flat = shares.swapaxes(0, 1).reshape(-1, shares.shape[2])
                return CategoryPosterior(seen.categories, flat[-draws:], r_hat, ends)
    raise InvalidData(f"the chains disagree (R-hat {r_hat:.3f}); ask for more draws or name fewer profiles")


_Point = tuple[Floats, Floats, Floats, Floats]
"""u, e^u, the weights, and the chances of the outputs that were seen."""


class _Target:
    """The log density of u and its slope, for many chains at once."""

    def __init__(self, seen: Observation, concentration: float) -> None:
        used = seen.counts > 0
        self.counts, self.C, self.a = seen.counts[used], seen.C[:, used], concentration
        self.n, self._turned = self.counts.sum(), self.C.T.copy()

    def at(self, u: Floats) -> _Point:
        w = _softmax(u)
        return u, np.exp(u), w, w @ self.C

    def value(self, point: _Point) -> Floats:
        u, size, _, chances = point
        value = np.add.reduce(self.a * u - size, axis=-1) + np.log(chances) @ self.counts
        return np.where(np.isfinite(value), value, -np.inf)

    def slope(self, point: _Point) -> Floats:
        _, size, w, chances = point
        return np.asarray(self.a - size + w * ((self.counts / chances) @ self._turned - self.n))

    def curvature(self, u: Floats) -> Floats:
        """Return a scale at one u: the information in the counts plus the curvature of the log-Gamma prior.

        Where the counts push a weight towards zero, e^u vanishes and `a` is the true curvature at the mode.
        """
        w = _softmax(u)
        jacobian = (np.diag(w) - np.outer(w, w)) @ self.C
        fisher = (jacobian * (self.counts.sum() / (w @ self.C))) @ jacobian.T
        return np.asarray(fisher + np.diag(np.maximum(np.exp(u), self.a)))

    def mode(self) -> Floats:
        """Climb to the mode by Fisher scoring, halving steps that lose height."""
        u = np.full(len(self.C), np.log(self.a))
        value = self.value(self.at(u))
        for _ in range(100):
            step = np.linalg.solve(self.curvature(u), self.slope(self.at(u)))
            step /= max(1.0, np.abs(step).max())
            while np.abs(step).max() > 1e-10:
                higher = self.value(self.at(u + step))
                if higher >= value:
                    break
                step = step / 2
            else:
                break
            u, value = u + step, higher
        return u


class _ProfileChains:
    """Hamiltonian Monte Carlo chains in coordinates whitened by the curvature at the mode."""

    def __init__(self, target: _Target, rng: np.random.Generator) -> None:
        self.target, self.rng, self.step = target, rng, np.full((_CHAINS, 1), 0.3)
        self.centre = target.mode()
        root = np.linalg.cholesky(target.curvature(self.centre))
        self.scale = np.linalg.inv(root)  # u = centre + z @ scale has covariance about curvature^-1
        self.z = rng.standard_normal((_CHAINS, self.centre.size))

    def _at(self, z: Floats) -> _Point:
        return self.target.at(self.centre + z @ self.scale)

    def _slope(self, point: _Point) -> Floats:
        return np.asarray(self.target.slope(point) @ self.scale.T)

    def run(self, length: int, *, adapt: bool = False) -> Floats:
        """Advance every chain and return u, axes: chain, time, coordinate."""
        out = np.empty((_CHAINS, length, self.centre.size))
        here, stride = self._at(self.z), _median(self.step)
        value, slope = self.target.value(here), self._slope(here)
        for t in range(length):
            momentum = self.rng.standard_normal(self.z.shape)
            reach = self.rng.uniform(0.5, 1.0) * np.pi / 2
            z, p, s = self.z, momentum + self.step / 2 * slope, slope
            for _ in range(max(1, math.ceil(reach / stride))):
                z = z + self.step * p
                there = self._at(z)
                s = self._slope(there)
                p = p + self.step * s
            p = p - self.step / 2 * s  # the last is half a step
            v = self.target.value(there)
            gain = v - value + np.add.reduce(momentum**2 - p**2, axis=1) / 2
            gain = np.where(np.isnan(gain), -np.inf, gain)
            take = np.log(self.rng.random(_CHAINS)) < gain
            self.z = np.where(take[:, None], z, self.z)
            slope, value = np.where(take[:, None], s, slope), np.where(take, v, value)
            if adapt:
                accepted = np.exp(np.minimum(gain, 0.0))[:, None]
                self.step = np.clip(self.step * np.exp((accepted - 0.8) / np.sqrt(1 + t)), 0.02, 1.0)
                stride = _median(self.step)
            out[:, t] = self.z
        if adapt:  # each its own until here: one that starts where the density is steep would stay there for ever
            self.step = np.full_like(self.step, stride)
        return np.asarray(self.centre + out @ self.scale)


def _median(steps: Floats) -> float:
    """Return the median of as many steps as there are chains: NumPy's own takes a quarter of a chain's time."""
    ordered = np.sort(steps, axis=None)
    return float(ordered[_CHAINS // 2 - 1] + ordered[_CHAINS // 2]) / 2


def _softmax(u: Floats) -> Floats:
    size: Floats = np.exp(u - np.maximum.reduce(u, axis=-1, keepdims=True))
    return np.asarray(size / np.add.reduce(size, axis=-1, keepdims=True))


def _split_r_hat(shares: Floats) -> float:
    half = shares.shape[1] // 2
    parts = np.concatenate([shares[:, :half], shares[:, half : 2 * half]])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    ratio = np.divide(between, within, out=np.zeros_like(within), where=within > 1e-30)
    return float(np.sqrt((half - 1) / half + ratio.max()))
