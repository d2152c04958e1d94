"""From a release to what is answered: the query's numbers, or what a whole posterior says of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from sottovoce.faces.server.queries import evaluate
from sottovoce.faces.server.queries.evaluation import dimension
from sottovoce.faces.server.queries.tree import Query
from sottovoce.mechanisms import NoisyPosterior, Release
from sottovoce.mechanisms.conjugate.conjugate import Conjugate
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import secure_rng

__all__ = ["LEVELS", "answering"]

LEVELS = tuple(round(0.01 * k, 2) for k in range(1, 100))
_DRAWS = 4000
"""Draws of a released posterior, which are free, to say what a query makes of it."""
_KEPT = 256
"""Of how many noisy statistics it is kept what was said of them."""


def answering(query: Query, text: str, system: Conjugate) -> Callable[[Release], Release]:
    """Return the post-processing of a release into the answer to a query; its value alone is kept.

    Of samples, the value is ``{"query", "answer"}``. Of a whole posterior it is ``{"query", "noisy", "mean", "sd",
    "levels", "quantiles"}``: the noisy statistic, from which the posterior can be made again, and what the
    posterior says of the query; or ``{"query", "noisy", "shares"}`` where the query draws categories.
    """
    shown: dict[bytes, Release] = {}

    def answer(release: Release) -> Release:
        if isinstance(release.value, NoisyPosterior):
            # It follows from the noisy statistic: whoever is told the same one again is told the same of it.
            key = np.asarray(release.value.noisy).tobytes()
            if (known := shown.get(key)) is not None:
                return known
            value = _of_posterior(query, system, release.value)
        else:
            result = evaluate(query, system, _rows(release.value, system), secure_rng())
            value = {"answer": plain(result[0] if np.ndim(release.value) == np.ndim(_one(system)) else result)}
        answered = dataclasses.replace(release, value={"query": text} | value)
        if isinstance(release.value, NoisyPosterior) and len(shown) < _KEPT:
            shown[key] = answered
        return answered

    return answer


def _of_posterior(query: Query, system: Conjugate, posterior: NoisyPosterior) -> dict[str, Any]:
    noisy = {"noisy": np.asarray(posterior.noisy).tolist()}
    rng = secure_rng()
    result = evaluate(query, system, _rows(posterior.sample(_DRAWS, rng), system), rng)
    if result.dtype == object:
        names, counts = np.unique(result.astype(str), return_counts=True)
        return noisy | {"shares": dict(zip(names.tolist(), (counts / _DRAWS).tolist(), strict=True))}
    with np.errstate(all="ignore"):
        return noisy | {
            "mean": plain(np.mean(result, axis=0)),
            "sd": plain(np.std(result, axis=0)),
            "levels": list(LEVELS),
            "quantiles": plain(np.quantile(result, LEVELS, axis=0)),
        }


def _one(system: Conjugate) -> Floats:
    return np.zeros(()) if dimension(system) is None else np.zeros(1)


def _rows(value: object, system: Conjugate) -> Floats:
    size = dimension(system)
    return np.asarray(value, dtype=np.float64).reshape((-1,) if size is None else (-1, size))


def plain(value: object) -> Any:
    """Return numbers for JSON; what is not finite, such as the logarithm of a negative number, becomes null.

    >>> plain(np.array([0.5, np.inf]))
    [0.5, None]
    """
    if isinstance(value, np.ndarray | np.generic):
        finite = value.dtype.kind == "f" and bool(np.isfinite(value).all())
        value = value.tolist()
        if finite:  # as nearly always: nothing is looked at one by one
            return value
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
