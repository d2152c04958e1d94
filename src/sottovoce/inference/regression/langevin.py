"""The sampler: many projected Langevin chains at once, on one device or on many."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sottovoce.inference.regression.certificate import Chain
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.device_placement import Placed, Placement, place, place_apart
from sottovoce.inference.regression.losses import Loss
from sottovoce.inference.regression.rounding import ball_of, rounded_normals
from sottovoce.mechanisms.exact_normals import CoupledNormals
from sottovoce.mechanisms.grid import to_grid
from sottovoce.mechanisms.jax_compilation import compiled
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import is_secure
from sottovoce.records.readings.design_rows import scale_down

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
        The records; rows are clipped to the design's `data_norm`, slopes to its Lipschitz constant. Of several releases
        whose rows are each their own, X has one table each, and `centre` too; y may.
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
        numbers = _Numbers(design, np.shape(y)[-1], chain, data_weight, placement.dtype)
        apart = centre.ndim == 3
        rows = place_apart(design, X, y, placement) if apart else place(design, X, y, placement, chains=len(centre))
        # The constants hold inside the ball only, so that a chain starts there too.
        radius = ball_of(design, chain.convexity)
        start = np.asarray(_held(centre, radius), placement.dtype)
        run = _stream if placement.stream and not apart else _resident
        exact = is_secure(rng)
        source = CoupledNormals(rng) if exact else rng
        last = run(design, rows, numbers, start, _Steps(chain.n_steps, exact), source, progress)
        if not np.all(np.isfinite(last)):
            raise InvalidValue("the chain left the range of its numbers; nothing is released. Use a finite radius")
        if exact:
            return _held(rounded_normals(np.asarray(last, dtype=np.float64), chain.step, rng), radius)
        return to_grid(last, math.sqrt(2 * chain.step))


def _held(parameters: Floats, radius: float) -> Floats:
    """Return parameters, one row each, within the ball."""
    return scale_down(parameters.reshape(-1, parameters.shape[-1]), radius).reshape(parameters.shape)


@dataclass(frozen=True)
class _Steps:
    """How many steps a chain takes, and whether the last one stays at its mean: its noise is added on the host."""

    count: int
    bare: bool

    @property
    def kicked(self) -> int:
        """How many steps have noise."""
        return self.count - self.bare


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


def _kicked(mean: jax.Array, noise: jax.Array, n: dict[str, jax.Array]) -> jax.Array:
    W = mean + n["kick"] * noise
    norm = jnp.sqrt(jnp.sum(W * W, axis=1, keepdims=True))
    return jnp.where(norm > n["radius"], W * (n["radius"] / norm), W)


def _total(loss: Loss, X: jax.Array, y: jax.Array, W: jax.Array, steepest: jax.Array) -> jax.Array:
    """Return Σ∇ℓ over all chunks, for each chain."""
    if X.shape[0] == 1:
        return _gradient(loss, X[0], y[0], W, steepest)

    def add(sum_: jax.Array, chunk: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        return sum_ + _gradient(loss, *chunk, W, steepest), None

    return jax.lax.scan(add, jnp.zeros_like(W), (X, y))[0]


def _run_block(
    loss: Loss,
    X: jax.Array,
    y: jax.Array,
    numbers: dict[str, jax.Array],
    centre: jax.Array,
    W: jax.Array,
    noise: jax.Array,
    count: int,
    kicked: int,
) -> jax.Array:
    """Take `count` steps, the first `kicked` of them with slices of `noise`."""

    def body(k: jax.Array, W: jax.Array) -> jax.Array:
        mean = _mean(W, _total(loss, X, y, W, numbers["steepest"]), centre, numbers)
        return jnp.where(k < kicked, _kicked(mean, noise[k], numbers), mean)

    moved: jax.Array = jax.lax.fori_loop(0, count, body, W)
    return moved


def _run_apart(loss: Loss, *parts: Any) -> jax.Array:
    """Take the steps of several releases as `_run_block` does, each with rows, chains and noise of its own."""
    axes = (0, 0, None, 0, 0, 1, None, None)  # of X, y, numbers, centre, W, noise, count, kicked
    moved: jax.Array = jax.vmap(partial(_run_block, loss), in_axes=axes)(*parts)
    return moved


_chunk_gradient = jax.jit(_gradient, static_argnums=0)
_jit_kicked, _jit_mean = jax.jit(_kicked), jax.jit(_mean)


def _stream_total(design: Design, rows: Placed, numbers: _Numbers, W: Any) -> Any:
    """Return Σ∇ℓ over all chunks, sent one after another, for each chain."""
    gradient = jnp.zeros_like(W)
    for X, y in rows.chunks():
        gradient += _chunk_gradient(design.loss, X, y, W, numbers["steepest"])
    return gradient


def _resident(
    design: Design,
    rows: Placed,
    numbers: _Numbers,
    start: Any,
    steps: _Steps,
    rng: np.random.Generator | CoupledNormals,
    progress: Any,
) -> Any:
    W, dtype = start, start.dtype
    block = max(1, min(1 << (steps.count - 1).bit_length(), _BLOCK // start.size))
    # Room for 32, 1024, … steps: chains of many lengths share a few compiled programs.
    room = max(block, min(32 ** -(-(block - 1).bit_length() // 5), _BLOCK // start.size))
    run = compiled(_run_block if start.ndim == 2 else _run_apart, rows.X.size * start.shape[-2] * room)
    for first in range(0, steps.count, block):
        count, kicked = min(block, steps.count - first), min(block, steps.kicked - first)
        noise = np.zeros((room, *start.shape), dtype)  # anew: what was sent may still be read
        noise[:kicked] = rng.standard_normal((kicked, *start.shape))
        W = run(design.loss, rows.X, rows.y, dict(numbers), start, W, noise, count, kicked)
        if progress:
            W.block_until_ready()
            progress((first + count) / steps.count)
    return W


def _stream(
    design: Design,
    rows: Placed,
    numbers: _Numbers,
    start: Any,
    steps: _Steps,
    rng: np.random.Generator | CoupledNormals,
    progress: Any,
) -> Any:
    W = start
    for k in range(steps.count):
        W = _jit_mean(W, _stream_total(design, rows, numbers, W), start, dict(numbers))
        if k < steps.kicked:
            noise = np.asarray(rng.standard_normal(start.shape), start.dtype)
            W = _jit_kicked(W, noise, dict(numbers))
        if progress:
            progress((k + 1) / steps.count)
    return W
