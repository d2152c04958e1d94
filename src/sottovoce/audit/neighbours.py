"""Neighbouring data sets to audit with: the worst ones of a mechanism, and a check of those a user gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sottovoce.mechanisms import Mechanism, NoisyStatistics, TemperedPosterior
from sottovoce.mechanisms.posterior_sample import PosteriorSample
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.systems.statistics import BallSum, CategoryCounts, ClippedSum, Statistics

__all__ = ["check_pair", "likelihood_ratio", "worst_pair"]

_LOOK = 40_000
"""Draws by which pairs that may be worst are compared."""


def worst_pair(mechanism: Mechanism) -> tuple[Statistics, Statistics]:
    """Return the pair of neighbouring statistics that a release of this mechanism tells apart most easily.

    The systems know where the supremum can sit (`System.worst_pairs`); where that leaves several places, a few
    seeded draws say which is worst at ε(0.01). Nothing rests on the answer: an audit with a lesser pair is only weaker.
    """
    found = _extremes(mechanism)
    if len(found) == 1 or isinstance(mechanism, NoisyStatistics):
        return found[0]
    epsilon = float(min(mechanism.profile.epsilon(0.01), 20.0))
    return max(found, key=lambda pair: _leak(mechanism, pair, epsilon))


def _extremes(mechanism: Mechanism) -> list[tuple[Statistics, Statistics]]:
    n, system = mechanism.n, mechanism.system
    if n == 0:
        raise InvalidValue("a mechanism for n=0 records has no neighbouring data sets to audit with")
    match system.reading:
        case ClippedSum(low, high):
            width = high - low
            ends = [(0.0, width), (n * width - width, n * width)]
            pairs = [tuple(Statistics(n, np.array([n * low + end]), end) for end in pair) for pair in ends]
            return [(a, b) for a, b in pairs[: 1 if n == 1 else 2]]
        case CategoryCounts(categories):
            prior: Any = system.posterior(Statistics(0, np.zeros(len(categories))))
            worst: Any = system.worst_pairs(n)
            counts = [tuple(np.rint(end.alpha - prior.alpha) for end in pair) for pair in worst[::2]]
            return [(Statistics(n, a), Statistics(n, b)) for a, b in counts]
        case BallSum(dimension, radius):
            end = np.eye(dimension)[0] * radius
            return [(Statistics(n, -end), Statistics(n, end))]
        case _:
            raise InvalidValue(f"no worst pair is known of a {mechanism.word}; give pair=(data, neighbour)")


def _leak(mechanism: Mechanism, pair: tuple[Statistics, Statistics], epsilon: float) -> float:
    """Return an estimate of δ(ε) of this pair: the mean of (1 - e^(ε - loss))₊, both ways."""
    ratio = likelihood_ratio(mechanism, pair)
    if ratio is None:
        return 0.0
    rng = seeded_rng(0)
    leaks = []
    for sign, data in zip((1, -1), pair, strict=True):
        outputs = mechanism.release(data, rng, draws=_LOOK, accept_unproven=True).value
        leaks.append(float(np.mean(-np.expm1(np.minimum(epsilon - sign * ratio(outputs), 0.0)))))
    return max(leaks)


def likelihood_ratio(mechanism: Mechanism, pair: tuple[Any, Any]) -> Callable[[Any], Floats] | None:
    """Return log of the density of an output under the first data set over that under the second; None if unknown."""
    first, second = (mechanism._read(data) for data in pair)
    if isinstance(mechanism, NoisyStatistics):
        steps, grid = mechanism._steps, mechanism.grid
        centres = [np.rint(data.total / grid) for data in (first, second)]

        def of_noise(outputs: Any) -> Floats:
            whole = np.rint(np.asarray(outputs) / grid)
            weights = [steps.log_weight(whole - centre).sum(axis=-1) for centre in centres]
            return np.asarray(weights[0] - weights[1])

        return of_noise
    laws: list[Any]
    if isinstance(mechanism, TemperedPosterior):
        laws = [mechanism.system.tempered(d, mechanism.temperature, mechanism.truncation) for d in (first, second)]
    elif isinstance(mechanism, PosteriorSample):
        laws = [mechanism.system.posterior(d, *mechanism._weights) for d in (first, second)]
    else:
        return None

    def of_density(outputs: Any) -> Floats:
        return np.asarray(laws[0].log_density(outputs) - laws[1].log_density(outputs))

    return of_density


def check_pair(mechanism: Mechanism | None, pair: Any) -> tuple[Any, Any]:
    """Return a pair of data sets if they can be neighbours, else raise `InvalidData`."""
    try:
        first, second = pair
    except (TypeError, ValueError):
        raise InvalidData("pair must be two data sets, (data, neighbour)") from None
    if mechanism is not None:
        first, second = mechanism._read(first), mechanism._read(second)  # also says where n is wrong
        if not _one_record_apart(mechanism.system.reading, np.abs(first.total - second.total)):
            raise InvalidData("neighbouring data sets differ in one record. These statistics lie farther apart")
        return first, second
    try:
        sizes = len(first), len(second)
    except TypeError:
        return first, second  # a data set of the user's own kind
    if sizes[0] != sizes[1]:
        raise InvalidData(
            "neighbouring data sets have the same number of records, one of them replaced. "
            f"Got {sizes[0]} and {sizes[1]}"
        )
    changed = _changed(first, second)
    if changed is not None and changed > 1:
        raise InvalidData(f"neighbouring data sets differ in one record. These differ in {changed}")
    return first, second


def _one_record_apart(reading: Any, gap: Floats) -> bool:
    """Say whether replacing one record can move statistics this far."""
    match reading:
        case ClippedSum(low, high):
            return bool(gap[0] <= (high - low) * (1 + 1e-9))
        case CategoryCounts():
            return bool(gap.sum() <= 2)
        case BallSum(_, radius):
            return bool(np.linalg.norm(gap) <= 2 * radius * (1 + 1e-9))
        case _:
            return True


def _changed(first: Any, second: Any) -> int | None:
    """Return in how many places two columns of records differ; None where that cannot be told."""
    try:
        a, b = np.asarray(first), np.asarray(second)
        if a.ndim == 0 or a.shape != b.shape or object in (a.dtype, b.dtype):
            return None
        return int(np.count_nonzero((a != b).reshape(len(a), -1).any(axis=1)))
    except (TypeError, ValueError):
        return None
