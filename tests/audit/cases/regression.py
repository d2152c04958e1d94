"""Audited cases: certified Langevin chains, noisy quadratic statistics, noisy SGD and diffusions.

With a loss that is linear in the predictor the potential is quadratic, every iterate is Gaussian, and the certificates
of Langevin chains and of amplification by iteration hold with equality: the worst case, so that an attack must come
near.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.audit.cases import case
from sottovoce.audit.subject import Subject
from sottovoce.inference.regression import Design, DiffusedRegression, Logistic, Loss, NoisyMoments
from sottovoce.inference.regression.device_placement import Placement
from sottovoce.inference.regression.losses import Constants
from sottovoce.privacy.promises import ApproxDP
from sottovoce.records.readings import ClippedSum
from sottovoce.theory.amplification import BoundedMean, NoisyProjectedSGD, OrnsteinUhlenbeck, brownian

__all__ = ["ODD", "ODD_CASES", "Linear", "chain_moments", "langevin_subject"]

_N = 4
_ROWS = np.array([[1.0, 0.0]] * _N)
_LABELS = tuple(np.array([1.0] * (_N - 1) + [last]) for last in (1.0, -1.0))


@dataclass(frozen=True)
class Linear(Loss):
    """ℓ = -yt: the loss whose gradient never changes, which hides a record least."""

    def value(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return -yt."""
        return -y * t

    def slope(self, t: jax.Array, y: jax.Array) -> jax.Array:
        """Return -y."""
        return jnp.broadcast_to(-y, jnp.broadcast_shapes(t.shape, y.shape))

    def constants(self, reach: float) -> Constants:
        """Return slope 1, curvature 0."""
        return Constants(1.0, 0.0, 2 * reach)


def _shifted(gap: float, variance: float) -> Callable[[Any], Any]:
    """Return the log-ratio, up to a constant, of two Gaussians that lie `gap` apart in their first coordinate."""
    return lambda outputs: gap / variance * np.asarray(outputs)[:, 0]


_CHAINS = 4096
"""Chains run at once: always as many, so that one compiled program serves all."""


def _in_lots(count: int, run: Callable[[], Any]) -> Any:
    return np.concatenate([run() for _ in range(-(-count // _CHAINS))])[:count]


@dataclass(frozen=True, eq=False)
class _ChainDraws:
    """The last iterates of independent Langevin chains."""

    mechanism: DiffusedRegression

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        start = np.zeros((_CHAINS, self.mechanism.design.dimension))
        return _in_lots(count, lambda: self.mechanism.draw(_ROWS, _LABELS[side], start, rng))


def langevin_subject(name: str, mechanism: DiffusedRegression) -> Subject:
    """Return the audit of a Langevin chain on n equal rows of which one label is turned."""
    draws = _ChainDraws(mechanism)
    if not isinstance(mechanism.design.loss, Linear):
        return Subject(name, draws, mechanism.profile)
    return Subject(name, draws, mechanism.profile, _shifted(*chain_moments(mechanism)))


def chain_moments(mechanism: DiffusedRegression) -> tuple[float, float]:
    """Return how far apart the last iterates of two neighbours lie under the linear loss, and their variance."""
    chain = mechanism.chain
    kept = (1 - chain.step * chain.convexity) ** np.arange(chain.n_steps)
    return float(chain.step * chain.sensitivity * kept.sum()), float(2 * chain.step * (kept**2).sum())


def _design(loss: Loss) -> Design:
    return Design(loss, dimension=2, data_norm=1.0)


@case("Langevin, worst quadratic, 12 steps", tight=True)
def short_chain() -> Subject:
    """Return a chain stopped long before it has converged."""
    mechanism = DiffusedRegression(_design(Linear()), _N, prior_precision=4.0, data_weight=0.7, n_steps=12, step=0.02)
    return langevin_subject("Langevin, worst quadratic, 12 steps", mechanism)


@case("Langevin, worst quadratic, 60 steps", tight=True)
def long_chain() -> Subject:
    """Return a chain that has all but converged."""
    mechanism = DiffusedRegression(_design(Linear()), _N, prior_precision=4.0, data_weight=0.5, n_steps=60, step=0.02)
    return langevin_subject("Langevin, worst quadratic, 60 steps", mechanism)


@case("Langevin, logistic loss")
def logistic_chain() -> Subject:
    """Return a chain on the logistic loss, whose gradients differ by half of what any Lipschitz loss may do."""
    mechanism = DiffusedRegression(_design(Logistic()), _N, prior_precision=4.0, data_weight=0.7, n_steps=20)
    return langevin_subject("Langevin, logistic loss", mechanism)


@dataclass(frozen=True, eq=False)
class _OddDraws:
    """The last iterates of chains on a table whose last record is odd, in one way or in another."""

    mechanism: DiffusedRegression
    records: tuple[Any, Any]
    precision: str

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        row, label = self.records[side]
        X, y = np.vstack([_ROWS[:-1], row]), np.append(np.ones(_N - 1), label)
        start, place = np.zeros((_CHAINS, 2)), Placement(precision=self.precision)
        return _in_lots(count, lambda: self.mechanism.draw(X, y, start, rng, placement=place))


ODD = {
    "a row of 3.5e38 and its opposite": (([3.5e38, 0.0], 1.0), ([-3.5e38, 0.0], 1.0)),
    "the largest numbers and no number": (([1.7e308, -1.7e308], 1.0), ([math.nan, math.inf], math.nan)),
    "the smallest number and one far off": (([5e-324, 0.0], 1.0), ([1e155, 0.0], -1.0)),
}
"""Pairs of records that no table should hold, and any may."""


def _odd(pair: str, precision: str) -> Callable[[], Subject]:
    name = f"Langevin in {precision}, {pair}"

    @case(name)
    def build() -> Subject:
        mechanism = DiffusedRegression(
            _design(Linear()), _N, prior_precision=4.0, data_weight=0.7, n_steps=12, step=0.02
        )
        return Subject(name, _OddDraws(mechanism, ODD[pair], precision), mechanism.profile)

    return build


ODD_CASES = [_odd(pair, precision) for pair in ODD for precision in ("float64", "float32")]


@dataclass(frozen=True, eq=False)
class _OddSgdDraws:
    """The last iterates of runs of SGD whose last record is odd."""

    mechanism: NoisyProjectedSGD
    records: tuple[Any, Any]

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        row, label = self.records[side]
        X, y = np.vstack([_ROWS[:-1], row]), np.append(np.ones(_N - 1), label)
        return _in_lots(count, lambda: self.mechanism.run(X, y, rng, chains=_CHAINS))


@case("noisy SGD, the largest numbers and no number")
def odd_sgd() -> Subject:
    """Return one pass of noisy SGD, held to what it promises the last record."""
    name = "noisy SGD, the largest numbers and no number"
    mechanism = NoisyProjectedSGD(_design(Linear()), _N, noise=1.5, learning_rate=0.5, regularisation=0.4)
    return Subject(name, _OddSgdDraws(mechanism, ODD["the largest numbers and no number"]), mechanism.profile)


@dataclass(frozen=True, eq=False)
class _SgdDraws:
    """The last iterates of independent runs; the first record differs."""

    mechanism: NoisyProjectedSGD

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        labels = _LABELS[side][::-1].copy()
        return _in_lots(count, lambda: self.mechanism.run(_ROWS, labels, rng, chains=_CHAINS))


@case("noisy SGD, first record, 3 steps later", tight=True)
def sgd() -> Subject:
    """Return one pass of noisy SGD, held to what it promises the first record (amplification by iteration)."""
    mechanism = NoisyProjectedSGD(_design(Linear()), _N, noise=1.5, learning_rate=0.5, regularisation=0.4)
    kept = mechanism.contraction ** np.arange(_N)
    gap, variance = 2 * mechanism.step * kept[-1], (mechanism.step * mechanism.noise) ** 2 * (kept**2).sum()
    ratio = _shifted(float(gap), float(variance))
    return Subject("noisy SGD, first record, 3 steps later", _SgdDraws(mechanism), mechanism.profile_at(1), ratio)


@dataclass(frozen=True, eq=False)
class _DiffusionDraws:
    """Independent values of a diffusion."""

    mechanism: OrnsteinUhlenbeck

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        return self.mechanism.outputs(self.mechanism.worst_pair()[side], rng, count)


_ONE = BoundedMean(ClippedSum(0, 1, integer=True))


def _diffusion(name: str, mechanism: OrnsteinUhlenbeck) -> Subject:
    ratio = mechanism.log_ratio(mechanism.worst_pair())
    return Subject(name, _DiffusionDraws(mechanism), mechanism.profile, ratio)


@case("Ornstein-Uhlenbeck diffusion", tight=True)
def pulled() -> Subject:
    """Return a diffusion that is pulled towards zero."""
    return _diffusion("Ornstein-Uhlenbeck diffusion", OrnsteinUhlenbeck(_ONE, 1, time=1.0, rate=0.8, diffusion=0.9))


@case("Brownian diffusion", tight=True)
def free() -> Subject:
    """Return a diffusion that is not."""
    return _diffusion("Brownian diffusion", brownian(_ONE, 1, 4.0))


@dataclass(frozen=True, eq=False)
class _MomentDraws:
    """Noisy X'X and X'y of a table of one record, flat."""

    mechanism: NoisyMoments

    def __call__(self, side: int, count: int, rng: np.random.Generator) -> Any:
        return self.mechanism.outputs(self.mechanism.worst_pair()[side], rng, count)


@case("noisy quadratic statistics", tight=True, slow=True)
def quadratic() -> Subject:
    """Return X'X and X'y with noise, for the two records that are farthest apart (see `joint_sensitivity`)."""
    mechanism = NoisyMoments.calibrate(
        Design(Logistic(), dimension=2, data_norm=1.0), 1, ApproxDP(1.0, 1e-3), prior_precision=1.0
    )
    return Subject(
        "noisy quadratic statistics",
        _MomentDraws(mechanism),
        mechanism.profile,
        mechanism.log_ratio(mechanism.worst_pair()),
        block=1 << 12,
    )
