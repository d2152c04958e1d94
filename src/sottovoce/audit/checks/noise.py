"""The noise on the integers: its law, both generators, and what noisy statistics claim of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from sottovoce.audit.checks.fits import ALARM, chi_square, independence, kolmogorov
from sottovoce.audit.checks.quadrature import hockey_stick
from sottovoce.audit.checks.result import check, verdict
from sottovoce.mechanisms import IntegerNoise, NoisyStatistics
from sottovoce.mechanisms.integer_noise import NoiseKind
from sottovoce.privacy.numbers import Floats
from sottovoce.privacy.randomness import secure_rng, seeded_rng
from sottovoce.systems import BetaBernoulli, DirichletCategorical, GammaExponential, GammaPoisson, NormalMean

__all__ = ["afterwards", "generators", "hockey_sticks", "law", "noisy_claims", "noisy_releases"]

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
    problems, worst = [], 1.0
    for kind in _KINDS:
        k, probability = law(kind, _SCALE, 400)
        for word, rng, count in (("secure", secure_rng(), 10_000), ("seeded", seeded_rng(5), 1500)):
            draws = IntegerNoise(kind, _SCALE).add(np.zeros(count, dtype=np.int64), rng)
            p = min(chi_square(draws, k, probability), independence(draws[::2], draws[1::2]))
            worst = min(worst, p)
            if p < ALARM:
                problems.append(f"{word} discrete {kind} noise of scale {_SCALE}: p = {p:.2g}")
    return verdict(problems, f"two kinds and two generators, least p = {worst:.2g}")


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
        found = np.zeros(len(_EPSILONS))
        for rest, (x, y) in itertools.product(values, itertools.permutations(values, 2)):
            totals = [np.rint(mechanism.see([rest, z]).total / mechanism.grid) for z in (x, y)]
            found = np.maximum(found, hockey_sticks(probability, (totals[1] - totals[0]).astype(int), _EPSILONS))
            pairs += 1
        claims = mechanism.profile.delta(np.array(_EPSILONS))
        for epsilon, value, claim in zip(_EPSILONS, found.tolist(), claims.tolist(), strict=True):
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
    return np.array([hockey_stick(log_p, log_q, epsilon) for epsilon in epsilons])


class _Bare(NoisyStatistics):
    """Noisy statistics that stop at the noisy statistic, before the posterior made of it."""

    def posterior_from(self, noisy: Any, rng: np.random.Generator | None = None) -> Any:
        del rng
        return noisy


@check("noisy releases carry the noise they claim")
def noisy_releases() -> tuple[bool, str]:
    """Chi-square of what noisy statistics let out, coordinate by coordinate, less the true statistics."""
    problems, worst = [], 1.0
    cells = 10_000
    for kind in _KINDS:
        mechanism = _Bare(DirichletCategorical(np.ones(cells)), cells, kind, _SCALE)
        noise = np.rint(mechanism.release(np.arange(cells)).value - 1.0).astype(int)
        p = min(chi_square(noise, *law(kind, _SCALE, 300)), independence(noise[::2], noise[1::2]))
        worst = min(worst, p)
        if p < ALARM:
            problems.append(f"{kind} noise on {cells} categories: p = {p:.2g}")
        together = _Bare(BetaBernoulli(1, 1), 1, kind, _SCALE).releases([1], cells)
        noise = np.rint([release.value[0] - 1.0 for release in together]).astype(int)
        p = min(chi_square(noise, *law(kind, _SCALE, 300)), independence(noise[::2], noise[1::2]))
        worst = min(worst, p)
        if p < ALARM:
            problems.append(f"{kind} noise of {cells} releases made together: p = {p:.2g}")
    mechanism = _Bare(NormalMean(1.0, 1.0, radius=1.0, dimension=cells), 1, "gaussian", 2.0)
    p = kolmogorov(stats.norm.cdf(mechanism.release(np.zeros((1, cells))).value, scale=2.0))
    if p < ALARM:
        problems.append(f"gaussian noise on a vector: p = {p:.2g}")
    return verdict(problems, f"{cells} coordinates of each kind, least p = {min(worst, p):.2g}")


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
    return verdict(problems, f"{2 * len(systems)} releases follow from their noisy statistic")
