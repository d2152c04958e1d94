"""Rounding is part of what is claimed: how far doubles lead astray, measured, beside what claims allow for."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.audit.checks.result import check, verdict
from sottovoce.inference.regression import exact_sums, posterior
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.losses import Huber, Logistic
from sottovoce.inference.regression.noisy_moments import NoisyMoments
from sottovoce.inference.regression.row_maps import Flattening
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.privacy.shares import percent
from sottovoce.records.readings import ClippedSum
from sottovoce.theory.amplification.diffusion import BoundedMean, OrnsteinUhlenbeck
from sottovoce.theory.amplification.sgd import NoisyProjectedSGD, drift

__all__ = ["mapped_rows", "rounding_claimed"]

_N = 100_000
_STEEP = Design(Huber(largest=1e4, threshold=1.0), 3, 1.0, 5.0)
"""Far from its labels the slope of this loss never changes: steps can be followed in fractions."""


@check("rounding is part of the claim")
def rounding_claimed() -> tuple[bool, str]:
    """Sums of n records as doubles, a step of SGD and a step of a chain are off; every claim must allow for it."""
    design = Design(Logistic(), dimension=3, data_norm=1.0)
    moments, flat = NoisyMoments(design, _N, 1.0, 1.0), Flattening(design, 1.0)
    diffusion = OrnsteinUhlenbeck(BoundedMean(ClippedSum(1e6, 1e6 + 1)), _N, 1.0, 0.0)
    last, far = float(np.spacing(float(_N))), float(np.spacing(1e6))
    shown: list[tuple[str, float, float]] = [
        ("a diagonal of X'X", last, moments.rounding),
        ("a sum of rows", last, flat.noise(_N) * flat.mu - 2),
        ("a mean near a million", far, diffusion.sensitivity - diffusion.system.sensitivity(_N)),
        ("a step of SGD", *_sgd_step()),
        ("a step of a chain", *_chain_step()),
    ]
    problems = [
        f"{what} is off by {off:.3g} and {claimed:.3g} is allowed for"
        for what, off, claimed in shown
        if not 0 < off <= claimed
    ]
    most = max(off / claimed for _, off, claimed in shown if claimed > 0)
    return verdict(problems, f"{len(shown)} roundings, at most {percent(most, whole=True)} of what is allowed for")


def _sgd_step() -> tuple[float, float]:
    """Return how far a step of SGD before its noise lies from the step in fractions, and the bound."""
    sgd = NoisyProjectedSGD(_STEEP, 2, noise=1.0, learning_rate=0.3)
    start, row, steep = (0.7, 0.2, 0.1), (0.55, 0.1, 0.3), _STEEP.constants.lipschitz
    with jax.enable_x64(True):
        numbers = {
            "step": jnp.asarray(sgd.step),
            "pull": jnp.asarray(sgd.regularisation),
            "steepest": jnp.asarray(steep),
        }
        x, label = jnp.asarray(row), jnp.asarray(9e3)
        got = np.asarray(drift(_STEEP.loss, x, label, numbers, jnp.asarray([start])))[0].tolist()
    step, pull = Fraction(sgd.step), Fraction(sgd.regularisation)
    exact = [
        Fraction(w) - step * (-Fraction(steep) * Fraction(x) + pull * Fraction(w))
        for w, x in zip(start, row, strict=True)
    ]
    return float(sum((a - Fraction(b)) ** 2 for a, b in zip(exact, got, strict=True))) ** 0.5, sgd.rounding


def _chain_step() -> tuple[float, float]:
    """Return how far a step of a chain on many equal records lies from the step in fractions, and the bound."""
    mechanism = posterior.DiffusedRegression(_STEEP, 1000, 1.0, 0.5, n_steps=2)
    h, w, steep = mechanism.chain.step, 0.7, _STEEP.constants.lipschitz
    total = np.add.accumulate(np.full(1000, -steep * 0.55))[-1]
    exact = Fraction(w) - Fraction(h) * (Fraction(1, 2) * -1000 * Fraction(steep) * Fraction(0.55) + Fraction(w))
    return abs(float(Fraction(float(w - h * (0.5 * total + w))) - exact)), mechanism.chain.rounding


@check("mapped rows are added exactly")
def mapped_rows() -> tuple[bool, str]:
    """The statistics of mapped rows are the same in any order, and one row adds the same whatever the others are."""
    rng = seeded_rng(4)
    X = rng.standard_normal((5000, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(rng.random(5000) < 0.5, 1.0, -1.0)
    problems = []
    base = exact_sums.exact_moments(X, y, 1.0)
    for order in (np.arange(5000)[::-1], rng.permutation(5000)):
        if not all(
            np.array_equal(a, b) for a, b in zip(base, exact_sums.exact_moments(X[order], y[order], 1.0), strict=True)
        ):
            problems.append("another order of the rows gives another sum")
    lone = exact_sums.exact_moments(np.vstack([X[:1], np.zeros((4999, 3))]), y, 1.0)
    rest = exact_sums.exact_moments(np.vstack([np.zeros((1, 3)), X[1:]]), y, 1.0)
    if not all(np.array_equal(a, b + c) for a, b, c in zip(base, lone, rest, strict=True)):
        problems.append("a row adds more or less to others than to none")
    return verdict(problems, "5,000 rows in three orders, and one of them apart, to the last bit")
