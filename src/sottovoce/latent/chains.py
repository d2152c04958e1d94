"""Hidden chains: the forward filter, and paths drawn backwards through it, many chains at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.numbers import Floats

__all__ = ["OFTEN", "compiled_paths", "forward_filter", "sample_paths"]

Integers = NDArray[np.int64]

_TINY = 1e-300
_LONG, _MANY = 24, 4096
"""Steps, and numbers in all, from which a compiled filter is worth its compiling."""
OFTEN = 150
"""Sweeps from which it is: compiling takes as long."""


def forward_filter(log_emission: Floats, initial: Floats, transition: Floats) -> tuple[Floats, Floats]:
    r"""Return Pr[z_t | x_1..x_t] for every step, and log p(x) of every chain.

    Parameters
    ----------
    log_emission
        log p(x_t | z_t = s), with axes (run, chain, step, state); zero where a step is missing.
    initial, transition
        Probabilities of the first state (run, state) and of the next one (run, from, to).

    Returns
    -------
    tuple
        The filtered probabilities with axes (step, run, chain, state), and the log-likelihoods (run, chain).

    Examples
    --------
    >>> coin = np.log([[[[0.9, 0.2], [0.9, 0.2]]]])
    >>> start, change = np.array([[0.5, 0.5]]), np.array([[[0.8, 0.2], [0.2, 0.8]]])
    >>> round(float(np.exp(forward_filter(coin, start, change)[1][0, 0])), 4)
    0.376
    """
    emission = np.moveaxis(log_emission, 2, 0)
    top = emission.max(axis=-1, keepdims=True)
    weight = np.exp(emission - top)
    log_likelihood = top.sum(axis=(0, -1))
    filtered = np.empty_like(weight)
    norms = np.empty(weight.shape[:-1])
    predicted = np.broadcast_to(initial[:, None, :], weight.shape[1:])
    for t, seen in enumerate(weight):
        # The likeliest state of a step has weight one, so the floor keeps the sum above zero.
        now = np.maximum(predicted, _TINY) * seen
        norms[t] = now.sum(axis=-1)
        now /= norms[t][..., None]
        filtered[t] = now
        predicted = now @ transition
    return filtered, log_likelihood + np.log(norms).sum(axis=0)


def sample_paths(
    log_emission: Floats, initial: Floats, transition: Floats, rng: np.random.Generator, *, often: bool = True
) -> tuple[Integers, Floats]:
    """Draw the states of every chain from their joint conditional law; return them with log p(x) of every chain.

    The filter runs forwards, then each state is drawn given the one after it. Where that is asked `often`, for arrays
    of the same shapes, it is compiled.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> sure = np.log([[[[0.99, 1e-9], [1e-9, 0.99], [0.5, 0.5]]]])
    >>> start, change = np.array([[0.5, 0.5]]), np.array([[[0.5, 0.5], [1e-9, 1.0]]])
    >>> sample_paths(sure, start, change, seeded_rng(1))[0]
    array([[[0, 1, 1]]])
    """
    runs, chains, steps, _ = log_emission.shape
    uniform = rng.random((steps, runs, chains, 1))
    if often and steps >= _LONG and log_emission.size >= _MANY and (compiled := compiled_paths()) is not None:
        return compiled(log_emission, initial, transition, uniform)
    filtered, log_likelihood = forward_filter(log_emission, initial, transition)
    backwards = np.ascontiguousarray(np.swapaxes(transition, 1, 2))  # (run, to, from)
    run = np.arange(runs)[:, None]
    paths = np.empty((steps, runs, chains), dtype=np.int64)
    weight = filtered[-1]
    for t in range(steps - 1, -1, -1):
        if t < steps - 1:
            weight = filtered[t] * backwards[run, paths[t + 1]]
        below = np.cumsum(weight, axis=-1)
        paths[t] = (below[..., :-1] < uniform[t] * below[..., -1:]).sum(axis=-1)
    return np.moveaxis(paths, 0, 2), log_likelihood


@cache
def compiled_paths() -> Callable[..., tuple[Integers, Floats]] | None:
    """Return `sample_paths` as one compiled program, given its uniform numbers (step, run, chain, 1); None without JAX.

    The same steps in the same precision, six times as fast for a few chains: what takes time is to ask for each step.
    """
    if find_spec("jax") is None:
        return None
    import jax  # noqa: PLC0415 - an extra
    import jax.numpy as jnp  # noqa: PLC0415

    def pick(weight: Any, uniform: Any) -> Any:
        below = jnp.cumsum(weight, axis=-1)
        return (below[..., :-1] < uniform * below[..., -1:]).sum(axis=-1)

    @jax.jit
    def program(log_emission: Any, initial: Any, transition: Any, uniform: Any) -> Any:
        emission = jnp.moveaxis(log_emission, 2, 0)
        top = emission.max(axis=-1, keepdims=True)
        run = jnp.arange(log_emission.shape[0])[:, None]
        backwards = jnp.swapaxes(transition, 1, 2)

        def forwards(predicted: Any, seen: Any) -> Any:
            now = jnp.maximum(predicted, _TINY) * seen
            norm = now.sum(axis=-1)
            now = now / norm[..., None]
            return now @ transition, (now, jnp.log(norm))

        def back(after: Any, at: Any) -> Any:
            state = pick(at[0] * backwards[run, after], at[1])
            return state, state

        first = jnp.broadcast_to(initial[:, None, :], emission.shape[1:])
        _, (filtered, norms) = jax.lax.scan(forwards, first, jnp.exp(emission - top))
        last = pick(filtered[-1], uniform[-1])
        _, rest = jax.lax.scan(back, last, (filtered[:-1], uniform[:-1]), reverse=True)
        paths = jnp.moveaxis(jnp.concatenate([rest, last[None]]), 0, 2)
        return paths, top.sum(axis=(0, -1)) + norms.sum(axis=0)

    def run(*arguments: Floats) -> tuple[Integers, Floats]:
        with jax.enable_x64(True):
            paths, logs = program(*arguments)
            return np.asarray(paths, dtype=np.int64), np.asarray(logs)

    return run
