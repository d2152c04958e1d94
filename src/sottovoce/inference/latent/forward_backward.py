"""Hidden chains: the forward filter, and paths drawn backwards through it, many chains at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from sottovoce.inference.latent.array_backend import NUMPY, ArrayBackend, compiled, has_jax
from sottovoce.privacy.numbers import Floats, Integers

_TINY = 1e-300
_LONG, _MANY = 24, 4096
"""Steps, and numbers in all, from which a compiled filter is worth its compiling."""
_SMALL = 4096
"""Products in all up to which a sum of them takes less time than a product of matrices."""
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
    filtered, log_likelihood = _filtered(NUMPY, log_emission, initial, transition)
    return filtered, log_likelihood


def _filtered(engine: ArrayBackend, log_emission: Any, initial: Any, transition: Any) -> Any:
    """Return what `forward_filter` does."""
    xp, scan = engine
    emission = xp.moveaxis(log_emission, 2, 0)
    top = emission.max(axis=-1, keepdims=True)

    def forwards(predicted: object, seen: object) -> Any:
        # The likeliest state of a step has weight one, so the floor keeps the sum above zero.
        now = xp.maximum(predicted, _TINY) * seen
        norm = now.sum(axis=-1, keepdims=True)
        now = now / norm
        return _times(xp, now, transition), (now, norm)

    first = xp.broadcast_to(initial[:, None, :], emission.shape[1:])
    _, (filtered, norms) = scan(forwards, first, xp.exp(emission - top))
    return filtered, (top + xp.log(norms)).sum(axis=(0, -1))


def _times(xp: Any, rows: Any, matrices: Any) -> Any:
    """Return the products of rows (run, chain, from) and matrices (run, from, to)."""
    if xp is np or rows.size * rows.shape[-1] > _SMALL:
        return rows @ matrices
    return (rows[..., None] * matrices[:, None]).sum(axis=-2)  # compiled, a sum is part of what is done around it


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
    given = log_emission, initial, transition, uniform
    compile_it = often and has_jax() and steps >= _LONG and log_emission.size >= _MANY
    drawn, log_likelihood = compiled(paths)(*given) if compile_it else paths(NUMPY, *given)
    return np.asarray(drawn, dtype=np.int64), log_likelihood


def paths(engine: ArrayBackend, log_emission: Any, initial: Any, transition: Any, uniform: Any) -> Any:
    """Return what `sample_paths` does, given its uniform numbers (step, run, chain, 1)."""
    xp, scan = engine
    filtered, log_likelihood = _filtered(engine, log_emission, initial, transition)
    backwards = xp.swapaxes(transition, 1, 2)  # (run, to, from)
    each = xp.arange(len(initial))[:, None]

    def pick(weight: object, level: object) -> Any:
        below = xp.cumsum(weight, axis=-1)
        return (below[..., :-1] < level * below[..., -1:]).sum(axis=-1)

    def back(after: Any, at: Any) -> Any:
        state = pick(at[0] * backwards[each, after], at[1])
        return state, state

    last = pick(filtered[-1], uniform[-1])
    if len(uniform) == 1:
        return last[..., None], log_likelihood
    _, remainder = scan(back, last, (filtered[:-1], uniform[:-1]), reverse=True)
    return xp.moveaxis(xp.concatenate([remainder, last[None]]), 0, 2), log_likelihood
