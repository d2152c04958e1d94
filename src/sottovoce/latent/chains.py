"""Hidden chains: the forward filter, and paths drawn backwards through it, many chains at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.numbers import Floats

__all__ = ["forward_filter", "sample_paths"]

Integers = NDArray[np.int64]

_TINY = 1e-300


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
    log_emission: Floats, initial: Floats, transition: Floats, rng: np.random.Generator
) -> tuple[Integers, Floats]:
    """Draw the states of every chain from their joint conditional law; return them with log p(x) of every chain.

    The filter runs forwards, then each state is drawn given the one after it.

    Examples
    --------
    >>> from sottovoce.privacy.randomness import seeded_rng
    >>> sure = np.log([[[[0.99, 1e-9], [1e-9, 0.99], [0.5, 0.5]]]])
    >>> start, change = np.array([[0.5, 0.5]]), np.array([[[0.5, 0.5], [1e-9, 1.0]]])
    >>> sample_paths(sure, start, change, seeded_rng(1))[0]
    array([[[0, 1, 1]]])
    """
    filtered, log_likelihood = forward_filter(log_emission, initial, transition)
    steps, runs, chains, _ = filtered.shape
    backwards = np.ascontiguousarray(np.swapaxes(transition, 1, 2))  # (run, to, from)
    uniform = rng.random((steps, runs, chains, 1))
    run = np.arange(runs)[:, None]
    paths = np.empty((steps, runs, chains), dtype=np.int64)
    weight = filtered[-1]
    for t in range(steps - 1, -1, -1):
        if t < steps - 1:
            weight = filtered[t] * backwards[run, paths[t + 1]]
        below = np.cumsum(weight, axis=-1)
        paths[t] = (below[..., :-1] < uniform[t] * below[..., -1:]).sum(axis=-1)
    return np.moveaxis(paths, 0, 2), log_likelihood
