"""The sampler: many projected Langevin chains at once, on one device or on many."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.mechanisms.exact_normals import CoupledNormals
from sottovoce.mechanisms.grid import to_grid
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import is_secure
from sottovoce.readings.rows import scale_down
from sottovoce.regression.certificate import Chain
from sottovoce.regression.design import Design
from sottovoce.regression.losses import Loss
from sottovoce.regression.placement import Placed, Placement, place
from sottovoce.regression.rounding import ball_of, rounded_normals

__all__ = ["check_range", "run_chains"]

_BLOCK = 1 << 21
"""Normal draws made on the host at a time."""


def run_chains(
    design: Design,
    chain: Chain,
    X: Any,
    y: Any,
    *,
    data_weight: float,
    centre: Floats,
    rng: np.random.Generator,
    placement: Placement = Placement(),  # noqa: B008 - a frozen value
    progress: Callable[[float], None] | None = None,
) -> Floats:
    """Return the last iterate of every chain, from U(w) = ρΣℓ(w·xᵢ, yᵢ) + (m/2)‖w − centre‖².

    The last step adds an exactly rounded normal, on cells that are fine beside its noise √(2h); what the steps before
    it round off is part of the certificate. (Seeded chains, for experiments, take all steps in floating point and are
    rounded to a grid.)

    Parameters
    ----------
    design, chain
        The public bounds, and the certified numbers m, h and t.
    X, y
        The records; rows are clipped to the design's `data_norm`, slopes to its Lipschitz constant.
    data_weight
        ρ, the power of the likelihood.
    centre
        Start and prior mean of each chain, one row a chain, brought into the ball. Never a function of the records.
    rng
        Draws every normal on the host. `secure_rng()` is ChaCha20; JAX's own generators have 64-bit keys
        and serve no release.
    placement
        Devices, precision, chunks.
    progress
        Called with the fraction done.
    """
    with jax.enable_x64(placement.precision == "float64"):
        numbers = _Numbers(design, len(y), chain, data_weight, placement.dtype)
        rows = place(design, X, y, placement, chains=centre.shape[0])
        # The constants hold inside the ball only, so that a chain starts there too.
        radius = ball_of(design, chain.convexity)
        start = np.asarray(scale_down(centre, radius), placement.dtype)
        run = _stream if placement.stream else _resident
        exact = is_secure(rng)
        steps, source = (chain.n_steps - 1, CoupledNormals(rng)) if exact else (chain.n_steps, rng)
        last = run(design, rows, numbers, start, steps, source, progress)
        if exact:
            mean = _stream_mean if placement.stream else _resident_mean
            last = mean(design, rows, numbers, start, last)
        if not np.all(np.isfinite(last)):
            raise InvalidValue("the chain left the range of its numbers; nothing is released. Use a finite radius")
        if exact:
            return scale_down(rounded_normals(np.asarray(last, dtype=np.float64), chain.step, rng), radius)
        return to_grid(last, math.sqrt(2 * chain.step))


class _Numbers(dict[str, Any]):
    """The scalars of a chain as values of its precision, so that changing them compiles nothing anew."""

    def __init__(self, design: Design, n: int, chain: Chain, data_weight: float, dtype: Any) -> None:
        check_range(design, n, chain, data_weight, dtype)
        values = _scalars(design, chain, data_weight)
        super().__init__({name: np.asarray(value, dtype) for name, value in values.items()})


def _scalars(design: Design, chain: Chain, data_weight: float) -> dict[str, float]:
    return {
        "step": chain.step,
        "kick": math.sqrt(2 * chain.step),
        "weight": data_weight,
        "pull": chain.convexity,
        "steepest": design.constants.lipschitz,
        "radius": ball_of(design, chain.convexity),
    }


def check_range(design: Design, n: int, chain: Chain, data_weight: float, dtype: Any) -> None:
    """Raise unless public numbers alone assure that no data set can drive the chain out of the numbers' range.

    Products of two of them occur, so that each must be below max^0.45, and none may vanish.
    """
    values = _scalars(design, chain, data_weight) | {"data_norm": design.data_norm}
    most = float(np.finfo(dtype).max) ** 0.45
    pull = values["weight"] * n * values["steepest"] * design.data_norm  # the longest gradient there is
    reach = min(pull / values["pull"], design.radius)
    sizes = {"the sum of n gradients": pull, "how far they can pull the parameters": reach}
    sizes |= {name: value for name, value in values.items() if name not in ("weight", "radius")}
    for name, size in sizes.items():
        if not size <= most or not values["step"] * most >= 1:
            raise InvalidValue(
                f"{np.dtype(dtype).name} cannot hold this chain: {name} is {size:.3g}, the step {values['step']:.3g}. "
                "Use double precision, or scale the columns by public numbers"
            )


def _gradient(loss: Loss, X: jax.Array, y: jax.Array, W: jax.Array, steepest: jax.Array) -> jax.Array:
    """Return Σ∇ℓ for each chain."""
    return loss.gradients(X, y, W, steepest)


def _mean(W: jax.Array, gradient: jax.Array, centre: jax.Array, n: dict[str, jax.Array]) -> jax.Array:
    return W - n["step"] * (n["weight"] * gradient + n["pull"] * (W - centre))


def _move(W: jax.Array, gradient: jax.Array, noise: jax.Array, centre: jax.Array, n: dict[str, jax.Array]) -> jax.Array:
    W = _mean(W, gradient, centre, n) + n["kick"] * noise
    norm = jnp.sqrt(jnp.sum(W * W, axis=1, keepdims=True))
    return jnp.where(norm > n["radius"], W * (n["radius"] / norm), W)


def _total(loss: Loss, X: jax.Array, y: jax.Array, W: jax.Array, steepest: jax.Array) -> jax.Array:
    """Return Σ∇ℓ over all chunks, for each chain."""
    if X.shape[0] == 1:
        return _gradient(loss, X[0], y[0], W, steepest)

    def add(sum_: jax.Array, chunk: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        return sum_ + _gradient(loss, *chunk, W, steepest), None

    return jax.lax.scan(add, jnp.zeros_like(W), (X, y))[0]


@partial(jax.jit, static_argnames=("loss",))
def _run_block(
    loss: Loss,
    X: jax.Array,
    y: jax.Array,
    numbers: dict[str, jax.Array],
    centre: jax.Array,
    W: jax.Array,
    noise: jax.Array,
    count: jax.Array,
) -> jax.Array:
    """Take `count` steps with the first `count` slices of `noise`."""

    def body(k: jax.Array, W: jax.Array) -> jax.Array:
        return _move(W, _total(loss, X, y, W, numbers["steepest"]), noise[k], centre, numbers)

    moved: jax.Array = jax.lax.fori_loop(0, count, body, W)
    return moved


@partial(jax.jit, static_argnames=("loss",))
def _last_mean(
    loss: Loss, X: jax.Array, y: jax.Array, numbers: dict[str, jax.Array], centre: jax.Array, W: jax.Array
) -> jax.Array:
    """Return where one more step would go without its noise."""
    return _mean(W, _total(loss, X, y, W, numbers["steepest"]), centre, numbers)


_chunk_gradient = jax.jit(_gradient, static_argnums=0)
_jit_move, _jit_mean = jax.jit(_move), jax.jit(_mean)


def _stream_total(design: Design, rows: Placed, numbers: _Numbers, W: Any) -> Any:
    """Return Σ∇ℓ over all chunks, sent one after another, for each chain."""
    gradient = jnp.zeros_like(W)
    for X, y in rows.chunks():
        gradient += _chunk_gradient(design.loss, X, y, W, numbers["steepest"])
    return gradient


def _stream_mean(design: Design, rows: Placed, numbers: _Numbers, start: Any, W: Any) -> Any:
    return _jit_mean(W, _stream_total(design, rows, numbers, W), start, dict(numbers))


def _resident_mean(design: Design, rows: Placed, numbers: _Numbers, start: Any, W: Any) -> Any:
    return _last_mean(design.loss, rows.X, rows.y, dict(numbers), start, W)


def _resident(
    design: Design,
    rows: Placed,
    numbers: _Numbers,
    start: Any,
    n_steps: int,
    rng: np.random.Generator | CoupledNormals,
    progress: Any,
) -> Any:
    W, dtype = start, start.dtype
    if n_steps == 0:
        return W
    block = max(1, min(1 << (n_steps - 1).bit_length(), _BLOCK // start.size))
    # Room for 32, 1024, … steps: chains of many lengths share a few compiled programs.
    room = max(block, min(32 ** -(-(block - 1).bit_length() // 5), _BLOCK // start.size))
    for first in range(0, n_steps, block):
        noise = np.zeros((room, *start.shape), dtype)  # anew: what was sent may still be read
        noise[:block] = rng.standard_normal((block, *start.shape))
        W = _run_block(design.loss, rows.X, rows.y, dict(numbers), start, W, noise, min(block, n_steps - first))
        if progress:
            W.block_until_ready()
            progress(min(1.0, (first + block) / n_steps))
    return W


def _stream(
    design: Design,
    rows: Placed,
    numbers: _Numbers,
    start: Any,
    n_steps: int,
    rng: np.random.Generator | CoupledNormals,
    progress: Any,
) -> Any:
    W = start
    for k in range(n_steps):
        gradient = _stream_total(design, rows, numbers, W)
        noise = np.asarray(rng.standard_normal(start.shape), start.dtype)
        W = _jit_move(W, gradient, noise, start, dict(numbers))
        if progress:
            progress((k + 1) / n_steps)
    return W
