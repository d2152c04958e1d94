r"""How likely noisy counts of cells are under cell probabilities: the true counts summed out, exactly or as normal.

.. math:: p(\tilde n \mid \pi) = \sum_{N_1 + \dots + N_K = n} \frac{n!}{\prod_k N_k!}\prod_k \pi_k^{N_k}
    \Pr[\text{noise} = \tilde n_k - N_k].

Needs the `models` extra (JAX). Everything here is a function of what was released: post-processing, free of cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln, logsumexp, xlog1py, xlogy

from sottovoce.inference.custom.observation import Observed
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy.numbers import Floats

Form = Literal["exact", "normal"]

_REACH = {"gaussian": 7.5, "laplace": 27.0}
"""Beyond this many scales noise has less than e^-27 of its weight in the middle."""
_SPREADS = 7.5
"""How many standard deviations of a true count, to either side, are summed over."""
_FEW = 260
"""Below this modulus every term of the series is taken."""
_WORK = 400_000
"""The most terms of all cells together that the exact form is chosen for unasked."""
_NARROW = 100
"""Sums over no more counts than this are made anew each time; longer ones are kept in a table."""
_PIECE, _TABLE = 0.2, 1_000_000
"""How long, in standard deviations of a Poisson count, the pieces of a table are, and its most numbers, in twelves."""
_STEEPEST = 300.0
"""Laplace noise that falls off faster than e^-300 a step is as good as none, and no double overflows."""
_ROUNDING = 1 / 12
"""The variance of a number rounded to a whole one (Sheppard 1898)."""
_NEXT_TO_NONE = 1e-3
"""Gaussian noise of this scale is none: another count than the noisy one has e^-500,000 of its chance."""
_OMEGA_STEPS = 6
"""An error below .74 squared so often is far below what a double tells."""
LEAST = 1e-30
"""No cell is less likely: a count that a model rules out is then nearly impossible, and has a slope that leads back."""


@dataclass(frozen=True)
class LikelihoodPlan:
    """How the exact form is computed: public sizes, of which a compiled program is made.

    Attributes
    ----------
    width
        How many counts of each cell are summed over, about the likeliest of them.
    modulus, terms
        That the counts sum to n is asked modulo an odd `modulus`, far wider than the sum is uncertain, by so many
        terms of a Fourier series.
    pieces
        Of how many pieces the table of each cell is (`tabulated`); none where sums are made anew each time.
    """

    width: int
    modulus: int
    terms: int
    pieces: int = 0

    def wider(self, other: LikelihoodPlan) -> LikelihoodPlan:
        """Return a plan that serves both."""
        modulus = max(self.modulus, other.modulus)
        reach = max(self.terms / self.modulus, other.terms / other.modulus)
        terms = min(math.ceil(reach * modulus), (modulus - 1) // 2)
        return LikelihoodPlan(max(self.width, other.width), modulus, terms, max(self.pieces, other.pieces))


def plan_for(counts: object, n: int, noise: IntegerNoise) -> LikelihoodPlan:
    """Return the plan for noisy counts of cells that share n records."""
    noisy = np.asarray(counts, dtype=np.float64)
    deviation, reach = math.sqrt(noise.variance), _REACH[noise.kind] * noise.scale + 2
    likely = np.clip(noisy, 1.0, max(n, 1.0))
    highest = min(float(likely.max()) + 3 * deviation, float(max(n, 1)))
    width = min(2 * _SPREADS * math.sqrt(1.3 * highest + 9.0) + 2, 2 * reach + 2, n + 1)
    width = min(_rounded(width), n + 1)
    variance = max(noise.variance, 1e-6)
    held = likely * min(1.0, max(n, 1) / float(likely.sum()))  # wide noise may show many more records than there are
    least = float(np.sum(1 / (1 / held + 1 / variance)))
    most = float(np.sum(np.minimum(1.5 * likely + deviation, 2 * variance + 0.25)))
    full = noisy.size * (width - 1) + 1
    modulus = _smooth(min(_rounded(12 * math.sqrt(1.5 * most) + 32), full))
    # Among K cells held by Laplace noise the series falls off no faster than (1 + c²/2K)^-K at c deviations.
    reached = max(6.5, math.sqrt(2 * noisy.size * math.expm1(21 / noisy.size))) if noise.kind == "laplace" else 6.5
    terms, most_terms = _rounded(1.3 * reached / math.sqrt(least) * modulus / (2 * math.pi)), (modulus - 1) // 2
    if modulus < _FEW or noisy.size <= 8 or 3 * terms > most_terms:
        terms = most_terms
    pieces = 0
    if noise.kind == "laplace" and width > _NARROW and n > 0:
        first, last = two_sided(noisy, noise)
        pieces = _rounded(float(np.max(last - first)) / _PIECE)
        pieces = pieces if noisy.size * pieces * terms <= _TABLE else 0
    return LikelihoodPlan(width, modulus, terms, pieces)


def two_sided(counts: object, noise: IntegerNoise) -> tuple[Any, Any]:
    """Return from where to where, in 2√λ, Laplace noise has two sides that matter to a cell of rate λ.

    Beyond it true counts are Poisson(λe^(±1/b)), with the noisy count at least 6.5 standard deviations away.
    """
    root, held = math.exp(0.5 / noise.scale), np.maximum(np.asarray(counts, dtype=np.float64), 0.0)
    return np.maximum((2 * np.sqrt(held + 0.5) - 6.5) / root, 1e-4), (2 * np.sqrt(held + 1) + 6.5) * root


def _smooth(size: int) -> int:
    """Return the least odd number from `size` on that is a product of 3, 5 and 7: transforms of such are fast."""
    odd = size | 1
    while True:
        remaining = odd
        for prime in (3, 5, 7):
            while remaining % prime == 0:
                remaining //= prime
        if remaining == 1:
            return odd
        odd += 2


def _rounded(size: float) -> int:
    """Return a size rounded up to one of few, so that programs are compiled once for many releases."""
    power = math.floor(math.log2(max(size, 1.0)) * 2) / 2
    while 2**power < size:
        power += 0.5
    return math.ceil(2**power)


def choose_form(counts: object, n: int, noise: IntegerNoise) -> tuple[Form, str]:
    """Return the form that noisy counts call for, and why.

    The normal form stands where a noisy count is nearly normal whatever the cell's probability: under Gaussian noise
    that is wide, or under any noise where every count is large and far wider than its noise.
    """
    noisy = np.asarray(counts, dtype=np.float64)
    deviation = math.sqrt(noise.variance)
    surely = np.maximum(noisy - 3 * deviation, 0.0)
    if noise.kind == "gaussian" and deviation >= 8:
        return "normal", "the noise is Gaussian and wide beside one record"
    if np.all(surely >= np.maximum(400.0, 10 * noise.variance)):
        return "normal", "every count is large, and far wider than its noise"
    if noisy.size * plan_for(noisy, n, noise).width > _WORK:
        return "normal", "there are too many cells and counts to sum over; form='exact' does so all the same"
    return "exact", "some counts are small, or the noise is not normal"


def log_normaliser(noise: IntegerNoise) -> float:
    """Return log of the sum of e^log_weight over the whole numbers: minus log of the likeliest noise's probability."""
    if noise.kind == "laplace":
        return -math.log(math.tanh(0.5 / noise.scale))
    if noise.scale > 10:  # up to e^(-2π²σ²)
        return math.log(noise.scale * math.sqrt(2 * math.pi))
    k = np.arange(-400, 401)
    return float(np.log(np.sum(np.exp(noise.log_weight(k)))))


@partial(jax.jit, static_argnames=("n", "noise", "plan"))
def exact(probabilities: Any, counts: Any, n: int, noise: IntegerNoise, plan: LikelihoodPlan) -> Any:
    r"""Return log p(ñ | π), the true counts summed out.

    With c = n eᵗ, :math:`n!\,c^{-n}\prod_k (c\pi_k)^{N_k}/N_k!` is the multinomial for every t. Cell by cell the sum
    over N_k is a short one; that the counts sum to n is the n-th Fourier coefficient of the product of the cells'
    characteristic functions. t is set where the sum is expected to be n, so that nothing cancels; the result does
    not depend on it.
    """
    pi = jnp.maximum(jnp.asarray(probabilities), LEAST)
    noisy = jnp.asarray(counts, dtype=pi.dtype)
    if n == 0:
        return jnp.sum(_log_weight(noise, noisy)) - noisy.size * log_normaliser(noise)
    log_rate = jnp.log(pi) + math.log(n)
    tilt, centre = _balanced(noise, noisy, jax.lax.stop_gradient(pi) * n, n)
    low = jnp.clip(jnp.floor(centre) - plan.width // 2, 0, n + 1 - plan.width)
    steps = jnp.arange(plan.width, dtype=pi.dtype)
    values = jax.lax.stop_gradient(low[:, None] + steps)
    base = _log_weight(noise, noisy[:, None] - values) - _log_factorial(values)

    def weights(tilt: Any, rate: Any) -> tuple[Any, Any]:
        logs = base + values * (rate + tilt)[:, None]
        top = jax.lax.stop_gradient(jnp.max(logs, axis=1))
        return jnp.exp(logs - top[:, None]), top

    def mean_of(tilt: object) -> tuple[Any, Any]:
        w = weights(tilt, jax.lax.stop_gradient(log_rate))[0]
        w = w / jnp.sum(w, axis=1, keepdims=True)
        means = w @ steps
        return jnp.sum(low + means), jnp.sum(w @ steps**2 - means**2)

    def newton(_: Any, tilt: Any) -> Any:
        mean, variance = mean_of(tilt)
        return tilt + jnp.clip((n - mean) / jnp.maximum(variance, 1e-3), -1.0, 1.0)

    tilt = jax.lax.stop_gradient(jax.lax.fori_loop(0, 2, newton, tilt))
    w, top = weights(tilt, log_rate)
    sums = jnp.sum(w, axis=1)
    angles = 2 * math.pi / plan.modulus * np.arange(1, plan.terms + 1)
    table = np.arange(plan.width)[:, None] * angles
    real, imaginary = w @ np.cos(table) / sums[:, None], w @ np.sin(table) / sums[:, None]
    size = 0.5 * jnp.sum(jnp.log(real**2 + imaginary**2 + 1e-280), axis=0)
    turn = jnp.sum(jnp.arctan2(imaginary, real + 1e-140), axis=0) + angles * (jnp.sum(low) - n)
    chance = (1 + 2 * jnp.sum(jnp.exp(size) * jnp.cos(turn))) / plan.modulus
    free = math.lgamma(n + 1) - n * (math.log(n) + tilt) - noisy.size * log_normaliser(noise)
    return free + jnp.sum(jnp.log(sums) + top) + jnp.log(jnp.maximum(chance, 1e-290))


def _log_weight(noise: IntegerNoise, gap: Any) -> Any:
    x = gap / noise.scale
    return -jnp.abs(x) if noise.kind == "laplace" else -x * x / 2


def _log_factorial(values: Any) -> Any:
    """Return log N! by Stirling's series at N + 8, to twelve digits: three times as fast as the general function."""
    z, square = values + 8.0, 1 / (values + 8.0) ** 2
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / z
    product = values + 1.0
    for k in range(2, 8):
        product = product * (values + k)
    return (z - 0.5) * jnp.log(z) - z + 0.5 * math.log(2 * math.pi) + series - jnp.log(product)


def _balanced(noise: IntegerNoise, noisy: Any, rate: Any, n: int) -> tuple[Any, Any]:
    """Return the tilt at which the likeliest counts sum to n, by halving, and those counts."""

    def centre(tilt: Any) -> jax.Array:
        return jnp.clip(_mode(noise, noisy, rate * jnp.exp(tilt)), 0, n)

    def half(_: Any, ends: Any) -> Any:
        low, high = ends
        middle = (low + high) / 2
        short = jnp.sum(centre(middle)) < n
        return jnp.where(short, middle, low), jnp.where(short, high, middle)

    widest = jnp.asarray(80.0, dtype=rate.dtype)
    low, high = jax.lax.fori_loop(0, 44, half, (-widest, widest))
    return (low + high) / 2, centre((low + high) / 2)


def _mode(noise: IntegerNoise, noisy: Any, rate: Any) -> Any:
    """Return about where Poisson(rate) times the noise is highest."""
    if noise.kind == "laplace":
        slope = math.exp(min(1 / noise.scale, _STEEPEST))
        return jnp.clip(noisy, rate / slope, rate * slope)
    # log rate - log N + (ñ - N)/σ² = 0: N/σ² is Wright's omega function of log(rate/σ²) + ñ/σ².
    variance = max(noise.scale, _NEXT_TO_NONE) ** 2
    return variance * _wright_omega(jnp.log(jnp.maximum(rate, 1e-300) / variance) + noisy / variance)


def _wright_omega(y: Any) -> jax.Array:
    """Return w with w + log w = y, by Newton's rule in u = log w.

    u + eᵘ is convex and rises, so that from above no step leads past the root: w ≤ y where y ≥ 1, and w ≤ eʸ anywhere
    (Corless and Jeffrey 2002). The first step is then shorter than .74, and every other squares the error.
    """

    def step(_: Any, u: Any) -> Any:
        w = jnp.exp(u)
        return u - (u + w - y) / (1 + w)

    start = jnp.where(y >= 1, jnp.log(jnp.maximum(y, 1.0)), y)
    return jnp.exp(jax.lax.fori_loop(0, _OMEGA_STEPS, step, start))


def normal(probabilities: Any, counts: Any, n: int, variance: Any) -> jax.Array:
    """Return the log density of ñ ~ N(nπ, n(diag π - ππ′) + σ²I): Woodbury's rule, one pass over the cells.

    Noise below that of rounding to whole numbers is taken for as much: without any, the law lies on Σñ = n and has no
    density.
    """
    pi = jnp.asarray(probabilities)
    variance = jnp.maximum(variance, _ROUNDING)
    noisy = jnp.asarray(counts, dtype=pi.dtype)
    gap, spread = noisy - n * pi, n * pi + variance
    remaining = jnp.sum(pi * variance / spread)  # 1 - Σ nπ²/(nπ + σ²), without cancelling
    squares = jnp.sum(gap**2 / spread) + n * jnp.sum(pi * gap / spread) ** 2 / remaining
    logs = jnp.sum(jnp.log(spread)) + jnp.log(remaining)
    return -0.5 * (squares + logs + noisy.size * math.log(2 * math.pi))


def cell_log_likelihood(shares: Floats, seen: Observed) -> Floats:
    """Return log p(ñ_k | π) of every noisy count alone, (draws, counts): a binomial count and its noise, summed."""
    pi, noise, n = np.clip(np.atleast_2d(shares), 1e-30, 1 - 1e-12), seen.law, seen.n
    result = np.empty(pi.shape)
    for k, noisy in enumerate(seen.all.astype(np.float64)):
        p = pi[:, k, None]
        mean, variance = n * p, n * p * (1 - p)
        if noise.kind == "laplace":
            slope = math.exp(min(1 / noise.scale, _STEEPEST))
            centre = np.clip(noisy, mean / slope, mean * slope)
        else:
            centre = (mean * noise.variance + noisy * variance) / (noise.variance + variance)
        half = min(7.5 * math.sqrt(float(variance.max())) + 12, n)
        step = max(1.0, math.floor(half / 250))
        values = np.clip(np.rint(centre), 0, n) + step * np.arange(-math.ceil(half / step), math.ceil(half / step) + 1)
        inside = (values >= 0) & (values <= n)
        held = np.clip(values, 0, n)
        logs = gammaln(n + 1) - gammaln(held + 1) - gammaln(n - held + 1) + xlogy(held, p) + xlog1py(n - held, -p)
        logs = logs + noise.log_weight(noisy - held) - log_normaliser(noise) + math.log(step)
        result[:, k] = logsumexp(np.where(inside, logs, -np.inf), axis=1)
    return result
