r"""The exact likelihood under wide Laplace noise, from a table made once for a release.

While a model is fitted the noisy counts stay as they are, and a cell enters the likelihood by its rate λ alone: by
:math:`M(\lambda) = \sum_N \lambda^N/N!\; e^{-|\tilde n - N|/b}` and by the Fourier transform of the law of N that is
summed there. Both are smooth in :math:`u = 2\sqrt\lambda`, on whose scale a Poisson count has a standard deviation of
one: polynomials of degree five that meet both and two derivatives every fifth of that hold them to eight digits. Far
from ñ they are Poisson's, in closed form, with λe^(1/b) below and λe^(-1/b) above.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

from sottovoce.inference.custom.likelihood import LEAST, LikelihoodPlan, log_normaliser, two_sided
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats

_CHUNK = 1 << 21
"""So many weights are held at a time while a table is made."""
_HERMITE = np.array(
    [
        [1, 0, 0, -10, 15, -6],
        [0, 1, 0, -6, 8, -3],
        [0, 0, 0.5, -1.5, 1.5, -0.5],
        [0, 0, 0, 10, -15, 6],
        [0, 0, 0, -4, 7, -3],
        [0, 0, 0, 0.5, -1, 0.5],
    ]
)
"""The powers of x in the polynomials that value, slope and bend at 0, then at 1, are multiplied by."""


class LikelihoodTable(NamedTuple):
    """What the likelihood has to know of a release's cells.

    Attributes
    ----------
    counts
        The noisy counts.
    first, step
        Where the pieces of each cell begin, and how long they are, in u.
    heights
        (cells, pieces, 6): the polynomials of log M.
    waves
        (cells, pieces, 6, 2, terms): those of the Fourier transform of N - ñ, its real and imaginary part.
    """

    counts: Any
    first: Any
    step: Any
    heights: Any
    waves: Any


def table_for(counts: object, noise: IntegerNoise, plan: LikelihoodPlan) -> LikelihoodTable:
    """Return the table of noisy counts: at every place sums over all true counts that have weight."""
    noisy = np.asarray(counts, dtype=np.float64)
    first, last = two_sided(noisy, noise)
    step = (last - first) / plan.pieces
    heights = np.empty((noisy.size, plan.pieces, 6))
    waves = np.empty((noisy.size, plan.pieces, 6, 2, plan.terms))
    for cell, count in enumerate(noisy):
        at = first[cell] + step[cell] * np.arange(plan.pieces + 1)
        width = math.ceil(16 * math.sqrt(max(count, at[-1] ** 2 / 4 * math.exp(-1 / noise.scale))) + 60)
        parts = np.array_split(at, -(-at.size * width // _CHUNK))
        result = [_entries(count, part, float(step[cell]), width, noise, plan) for part in parts]
        for built, full in zip(zip(*result, strict=True), (heights, waves), strict=True):
            ends = np.concatenate(built)
            full[cell] = np.einsum("cp,mc...->mp...", _HERMITE, np.concatenate([ends[:-1], ends[1:]], axis=1))
    return LikelihoodTable(noisy, first, step, heights, waves)


def _entries(
    count: float, at: Floats, step: float, width: int, noise: IntegerNoise, plan: LikelihoodPlan
) -> tuple[Any, Any]:
    """Return log M and the transform at places `at`, each with two derivatives by u, in steps."""
    u = at[:, None]
    rate, side = u**2 / 4, math.exp(1 / noise.scale)
    low = np.maximum(np.floor(np.clip(count, rate / side, rate * side)) - width // 2, 0.0)
    values = low + np.arange(width)
    logs = noise.log_weight(count - values) - gammaln(values + 1) + values * np.log(rate)
    top = logs.max(axis=1, keepdims=True)
    weights = np.exp(logs - top)
    total = weights.sum(axis=1, keepdims=True)
    weights /= total
    mean = (weights * values).sum(axis=1, keepdims=True)
    gap = values - mean
    variance = (weights * gap**2).sum(axis=1, keepdims=True)
    angles = 2 * math.pi / plan.modulus * np.arange(1, plan.terms + 1)
    shift = np.exp(1j * angles * (low - count))
    wave, once, twice = (shift * _transformed(weights * part, plan) for part in (1.0, gap, gap**2))

    def by_u(value: Any, once: Any, twice: Any) -> Any:  # derivatives by log λ are given
        return np.stack([value, once * (2 * step / u), (4 * twice - 2 * once) * (step / u) ** 2], axis=1)

    waves = by_u(wave, once, twice - variance * wave)
    return by_u(top + np.log(total), mean, variance)[..., 0], np.stack([waves.real, waves.imag], axis=2)


def _transformed(weights: Floats, plan: LikelihoodPlan) -> Any:
    """Return Σ_j w_j e^(iθj) at the angles of the plan: wrapped around the modulus, then Fourier."""
    rows, width = weights.shape
    turns = -(-width // plan.modulus)
    wrapped = np.pad(weights, ((0, 0), (0, turns * plan.modulus - width))).reshape(rows, turns, -1).sum(axis=1)
    return np.conj(np.fft.rfft(wrapped, axis=1)[:, 1 : plan.terms + 1])


@partial(jax.jit, static_argnames=("n", "noise", "plan"))
def tabulated(probabilities: object, table: LikelihoodTable, n: int, noise: IntegerNoise, plan: LikelihoodPlan) -> Any:
    """Return log p(ñ | π), the true counts summed out: what `likelihood.exact` returns, from a table."""
    pi = jnp.maximum(jnp.asarray(probabilities), LEAST)
    root = 2 * jnp.sqrt(n * pi)
    tilt = _balanced(jax.lax.stop_gradient(root), table, n, noise)
    free = math.lgamma(n + 1) - n * (math.log(n) + tilt) - pi.size * log_normaliser(noise)
    return free + _joint(root * jnp.exp(tilt / 2), table, n, noise, plan)


def _balanced(root: Any, table: LikelihoodTable, n: int, noise: IntegerNoise) -> jax.Array:
    """Return the tilt at which the counts are expected to sum to n, about: the likelihood does not depend on it."""

    def gap(tilt: Any) -> tuple[Any, Any]:
        u = root * jnp.exp(tilt / 2)
        _, slope, bend = _heights(u, table, noise)
        return n - jnp.sum(u * slope) / 2, jnp.maximum(jnp.sum(u * (slope + u * bend)) / 4, 1e-9)

    def far(state: Any) -> Any:
        _, move, turn = state
        return (move != 0) & (turn < 200)

    def newton(state: Any) -> Any:
        tilt, move, turn = state
        off, variance = gap(tilt + move)
        return tilt + move, jnp.where(off**2 > 0.01 * variance, jnp.clip(off / variance, -1.0, 1.0), 0.0), turn + 1

    # The first turn moves by nothing worth it: so the loop holds the one place where the table is read.
    zero = jnp.zeros((), root.dtype)
    return jax.lax.while_loop(far, newton, (zero, zero + 1e-30, 0))[0]


@partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4))
def _joint(u: object, table: LikelihoodTable, n: int, noise: IntegerNoise, plan: LikelihoodPlan) -> Any:
    """Return log of Π M(λ_k) times the chance that the counts sum to n."""
    return _joint_and_slopes(u, table, n, noise, plan)[0]


@_joint.defjvp
def _joint_jvp(n: int, noise: IntegerNoise, plan: LikelihoodPlan, given: Any, change: Any) -> Any:
    u, table = given
    value, slopes = _joint_and_slopes(u, table, n, noise, plan)
    return value, jnp.sum(slopes * change[0])


def _joint_and_slopes(
    u: Any, table: LikelihoodTable, n: int, noise: IntegerNoise, plan: LikelihoodPlan
) -> tuple[Any, Any]:
    """Return the same with its derivative by every u: in a fit both are always wanted."""
    height, slope, _ = _heights(u, table, noise)
    angles = jnp.asarray(2 * math.pi / plan.modulus * np.arange(1, plan.terms + 1))
    place, powers, out = _found(u, table)
    wave = jnp.einsum("dkp,kprt->drkt", powers[:2], table.waves[jnp.arange(u.size), place])
    wave = jax.lax.cond(
        jnp.any(out), lambda w: jnp.where(out[:, None], _poisson(u, table, noise, angles), w), lambda w: w, wave
    )
    (a, b), (da, db) = wave
    turn = angles * (jnp.sum(table.counts) - n)
    real, imaginary = _product(jnp.vstack([a, jnp.cos(turn)]), jnp.vstack([b, jnp.sin(turn)]))
    chance = jnp.maximum(1 + 2 * jnp.sum(real), 1e-280)
    size = a * a + b * b + 1e-290
    more = jnp.sum(((da * a + db * b) * real - (db * a - da * b) * imaginary) / size, axis=1)
    return jnp.sum(height) + jnp.log(chance / plan.modulus), slope + 2 * more / chance


def _product(real: Any, imaginary: Any) -> tuple[Any, Any]:
    """Return the product of complex numbers along the first axis."""
    while (size := real.shape[0]) > 1:
        a, b, c, d = real[: size // 2], imaginary[: size // 2], real[-(size // 2) :], imaginary[-(size // 2) :]
        odd = slice(size // 2, size // 2 + size % 2)
        first, second = jnp.vstack([a * c - b * d, real[odd]]), jnp.vstack([a * d + b * c, imaginary[odd]])
        real, imaginary = first, second
    return real[0], imaginary[0]


def _found(u: object, table: LikelihoodTable) -> tuple[Any, Any, Any]:
    """Return the piece of every u, (orders, cells, 6) powers of where in it u is and their derivatives, and which u
    are in no piece.
    """
    along = (u - table.first) / table.step
    place = jnp.clip(jnp.floor(along), 0, table.heights.shape[1] - 1)
    x, ones = jnp.clip(along - place, 0.0, 1.0), jnp.ones_like(along)
    by, zero = ones / table.step, jnp.zeros_like(ones)
    powers = [
        jnp.stack([ones, x, x**2, x**3, x**4, x**5], axis=1),
        jnp.stack([zero, ones, 2 * x, 3 * x**2, 4 * x**3, 5 * x**4], axis=1) * by[:, None],
        jnp.stack([zero, zero, 2 * ones, 6 * x, 12 * x**2, 20 * x**3], axis=1) * by[:, None] ** 2,
    ]
    return place.astype(int), jnp.stack(powers), (along < 0) | (along > table.heights.shape[1])


def _heights(u: Any, table: LikelihoodTable, noise: IntegerNoise) -> jax.Array:
    """Return log M of every cell and its first two derivatives by u."""
    place, powers, out = _found(u, table)
    inside = jnp.einsum("dkp,kp->dk", powers, table.heights[jnp.arange(u.size), place])
    side, shift = _side(u, table, noise)
    return jnp.where(out, jnp.stack([side * u**2 / 4 + shift, side * u / 2, side / 2]), inside)


def _side(u: object, table: LikelihoodTable, noise: IntegerNoise) -> tuple[Any, Any]:
    """Return what the one side of the noise that matters outside the table does to λ, and to log M."""
    sign = jnp.where((u < table.first) & (table.counts > 0), 1.0, -1.0)
    return jnp.exp(sign / noise.scale), -sign * table.counts / noise.scale


def _poisson(u: Any, table: LikelihoodTable, noise: IntegerNoise, angles: Any) -> jax.Array:
    """Return the transform and its derivative by u where the noise has but one side."""
    side = _side(u, table, noise)[0][:, None]
    real, imaginary = -2 * jnp.sin(angles / 2) ** 2, jnp.sin(angles)  # of e^(iθ) - 1
    rate = side * u[:, None] ** 2 / 4
    size, turn = jnp.exp(rate * real), rate * imaginary - table.counts[:, None] * angles
    a, b = size * jnp.cos(turn), size * jnp.sin(turn)
    by_u = side * u[:, None] / 2
    return jnp.stack([jnp.stack([a, b]), jnp.stack([a * real - b * imaginary, a * imaginary + b * real]) * by_u])
