"""The noise on the integers: its law, both generators, and what noisy statistics claim of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import stats

from sottovoce.audit.checks.fits import ALARM, chi_square, independence, kolmogorov
from sottovoce.audit.checks.quadrature import hockey_stick
from sottovoce.audit.checks.result import check, verdict
from sottovoce.mechanisms import IntegerNoise, NoisyStatistics
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
)
from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import secure_rng, seeded_rng

_KINDS: tuple[NoiseKind, ...] = ("laplace", "gaussian")
_SCALE = 0.75
"""Small, where noise on the integers differs most from rounded noise."""
_EPSILONS = (0.0, 0.2, 0.5, 1.0, 1.9)


def law(kind: NoiseKind, scale: float, reach: int) -> tuple[Any, Floats]:
    """Return the whole numbers up to `reach` and their probabilities, by the definition."""
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(k) / scale) if kind == "laplace" else np.exp(-(k**2) / (2 * scale**2))
    return k, weights / weights.sum()


@check("noise generators follow their law")
def generators() -> tuple[bool, str]:
    """Chi-square of discrete Laplace and Gaussian noise, from the secure and from the seeded generator."""
    return _all_fit(_generated(), "two kinds and two generators")


def _generated() -> Iterator[tuple[str, float]]:
    for kind in _KINDS:
        for word, rng, count in (("seeded", seeded_rng(5), 1500), ("secure", secure_rng(), 10_000)):
            draws = IntegerNoise(kind, _SCALE).add(np.zeros(count, dtype=np.int64), rng)
            yield f"{word} discrete {kind} noise of scale {_SCALE}", _fit(kind, draws, 400)


def _fit(kind: NoiseKind, noise: Any, reach: int) -> float:
    """Return the lesser p: that noise follows its law, and that one draw says nothing of the next."""
    return min(chi_square(noise, *law(kind, _SCALE, reach)), independence(noise[::2], noise[1::2]))


def _all_fit(fits: Iterator[tuple[str, float]], evidence: str) -> tuple[bool, str]:
    """Return what a check says of tests of fit, with the p of each; the first that fails ends it."""
    worst = 1.0
    for what, p in fits:
        worst = min(worst, p)
        if p < ALARM:
            return False, f"{what}: p = {p:.2g}"
    return True, f"{evidence}, least p = {worst:.2g}"


def _small() -> list[tuple[str, Any, tuple[Any, ...]]]:
    """Return systems with whole statistics, and the values of a record, some outside the bounds."""
    return [
        ("proportion", BetaBernoulli(1, 1), (-3, 0, 1, 8)),
        ("categories", DirichletCategorical([1.0, 1.0, 1.0]), (0, 1, 2)),
        ("counts", GammaPoisson(2, 1, high=4), (-9, 0, 2, 70)),
    ]


@check("noisy statistics claim no less than they cost")
def noisy_claims() -> tuple[bool, str]:
    """Sum the hockey sticks of the noise at the statistics of real neighbours; none may exceed the claim."""
    problems, pairs = [], 0
    for (name, system, values), kind in itertools.product(_small(), _KINDS):
        mechanism = NoisyStatistics(system, 2, kind, 1.7)
        _, probability = law(kind, mechanism.scale / mechanism.grid, 60)
        result = np.zeros(len(_EPSILONS))
        for remainder, (x, y) in itertools.product(values, itertools.permutations(values, 2)):
            totals = [np.rint(mechanism.see([remainder, z]).total / mechanism.grid) for z in (x, y)]
            result = np.maximum(result, hockey_sticks(probability, (totals[1] - totals[0]).astype(int), _EPSILONS))
            pairs += 1
        claims = mechanism.profile.delta(np.array(_EPSILONS))
        for epsilon, value, claim in zip(_EPSILONS, result.tolist(), claims.tolist(), strict=True):
            if value > claim * (1 + 1e-6) + 1e-12:
                problems.append(f"{kind} noise on {name}: δ({epsilon}) is {value:.6g} and {claim:.6g} is claimed")
    return verdict(problems, f"{pairs} neighbouring pairs, none above its claim")


def hockey_sticks(probability: Floats, shift: Any, epsilons: Sequence[float]) -> Floats:
    """Return δ(ε) of independent noise on each coordinate against the same noise moved by `shift`."""
    log_p, log_q = np.zeros(1), np.zeros(1)
    with np.errstate(divide="ignore"):
        for step in shift[shift != 0].tolist():
            # Both laws on one range that holds them both.
            still = np.log(np.pad(probability, (max(-step, 0), max(step, 0))))
            moved = np.log(np.pad(probability, (max(step, 0), max(-step, 0))))
            log_p, log_q = np.add.outer(log_p, still).ravel(), np.add.outer(log_q, moved).ravel()
    return hockey_stick(log_p, log_q, epsilons)


class _Bare(NoisyStatistics):
    """Noisy statistics that stop at the noisy statistic, before the posterior made of it."""

    def posterior_from(self, noisy: object, rng: np.random.Generator | None = None) -> Any:
        del rng
        return noisy


@check("noisy releases carry the noise they claim")
def noisy_releases() -> tuple[bool, str]:
    """Chi-square of what noisy statistics let out, coordinate by coordinate, less the true statistics."""
    return _all_fit(_released(10_000), "10000 coordinates of each kind")


def _released(cells: int) -> Iterator[tuple[str, float]]:
    for kind in _KINDS:
        mechanism = _Bare(DirichletCategorical(np.ones(cells)), cells, kind, _SCALE)
        noise = np.rint(mechanism.release(np.arange(cells)).value - 1.0).astype(int)
        yield f"{kind} noise on {cells} categories", _fit(kind, noise, 300)
        together = _Bare(BetaBernoulli(1, 1), 1, kind, _SCALE).releases([1], cells)
        noise = np.rint([release.value[0] - 1.0 for release in together]).astype(int)
        yield f"{kind} noise of {cells} releases made together", _fit(kind, noise, 300)
    mechanism = _Bare(NormalMean(1.0, 1.0, radius=1.0, dimension=cells), 1, "gaussian", 2.0)
    value = mechanism.release(np.zeros((1, cells))).value
    yield "gaussian noise on a vector", kolmogorov(stats.norm.cdf(value, scale=2.0))


@check("nothing is read after the noise")
def afterwards() -> tuple[bool, str]:
    """What a noisy release lets out must follow from its noisy statistic alone, on the public grid."""
    problems = []
    systems: list[tuple[Any, list[float]]] = [
        (BetaBernoulli(1, 1), [1, 0, 1, 1]),
        (GammaPoisson(2, 1, high=4), [0, 4, 2, 9]),
        (GammaExponential(2, 1, high=3.0), [0.1, 2.0, 7.0, 0.4]),
        (NormalMean(1.0, 1.0, bounds=(-1.0, 1.0)), [0.3, -0.2, 5.0, 0.1]),
    ]
    for (system, records), kind in itertools.product(systems, _KINDS):
        mechanism = NoisyStatistics(system, len(records), kind, 2.0)
        value = mechanism.release(records, seeded_rng(3)).value
        steps = value.noisy / mechanism.grid
        if value.to_dict() != mechanism.posterior_from(value.noisy).to_dict():
            problems.append(f"{type(system).__name__}: the posterior knows more than the noisy statistic")
        if not np.array_equal(steps, np.rint(steps)):
            problems.append(f"{type(system).__name__}: the noisy statistic lies off its grid")
        if problems:
            break
    return verdict(problems, f"{2 * len(systems)} releases follow from their noisy statistic")
