"""Answers where the number of records is a secret: n is latent in every posterior, and its intervals still cover."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.special import gammaln

from sottovoce.inference.cells.cells_posterior import CellsPosterior
from sottovoce.inference.cells.latent_cells import cell_draws
from sottovoce.inference.cells.noisy_cells import NoisyCells
from sottovoce.inference.cells.questions import Question
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.privacy import ADD_REMOVE, PureDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Count, Facts, Flag, Number

FACTS = Facts(y=Flag(), g=Category(["A", "B"]), x=Number(0, 10), k=Count(20), c=Category(list("abcd")))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("alpha", [(1.0, 1.0, 0.5), (0.5, 0.25, 0.5)])
def test_counts_of_an_unknown_number_by_enumeration(kind, alpha) -> None:
    """All counts up to 40 in three cells, each weighed by its prior, a flat prior of the sum, and its noise."""
    noise, noisy = IntegerNoise(kind, 2.0), np.array([3.0, 9.0, -1.0])
    places = np.array(list(itertools.product(range(40), repeat=3)))
    sums = places.sum(axis=1)
    logs = gammaln(sums + 1) - gammaln(sums + sum(alpha)) + (gammaln(places + alpha) - gammaln(places + 1)).sum(axis=1)
    away = noisy - places
    logs -= (np.abs(away) / 2.0 if kind == "laplace" else away**2 / 8.0).sum(axis=1)
    masses = np.exp(logs)
    masses /= masses.sum()
    truth = masses @ places
    spread = np.sqrt(masses @ (places - truth) ** 2)
    drawn = cell_draws(noisy, noise, None, np.array(alpha), 40_000, np.random.default_rng(1))
    assert np.all(np.abs(drawn.mean(axis=0) - truth) < 5 * spread / math.sqrt(40_000))
    assert drawn.std(axis=0) == pytest.approx(spread, rel=0.03)
    assert drawn.sum(axis=1).mean() == pytest.approx(truth.sum(), rel=0.02)


def test_many_cells_do_not_expect_many_records() -> None:
    """Two hundred cells that are nearly empty: without a prior of the sum, each would be cut at zero and add some."""
    rng = np.random.default_rng(2)
    noise = IntegerNoise("gaussian", 3.0)
    for n in (0, 30, 3000):
        truth = rng.multinomial(n, rng.dirichlet(np.full(200, 0.5)))
        noisy = truth + np.rint(rng.normal(0, 3.0, 200))
        drawn = cell_draws(noisy, noise, None, np.full(200, 1.0), 400, rng).sum(axis=1)
        assert abs(drawn.mean() - n) < 5 * 3.0 * math.sqrt(200)


@pytest.mark.parametrize("verb", ["proportion", "mean", "rate", "counts", "quantiles"])
@pytest.mark.parametrize("n", [0, 1, 2, 300])
def test_every_verb_answers_any_number_of_records_in_one_kind(verb, n) -> None:
    column = {"proportion": "y", "mean": "x", "rate": "k", "counts": "c", "quantiles": "x"}[verb]
    extra = {"at": (0.5,)} if verb == "quantiles" else {}
    question = Question(verb, (column,), FACTS, by=("g",), **extra)
    made = NoisyCells.calibrate(question, None, PureDP(1.0).under(ADD_REMOVE))
    rng = np.random.default_rng(n)
    records = {"y": rng.random(n) < 0.3, "g": ["AB"[i % 2] for i in range(n)], "x": rng.uniform(0, 10, n)}
    records |= {"k": rng.poisson(2, n), "c": ["abcd"[i % 4] for i in range(n)]}
    posterior = made.release(records, seeded_rng(3)).value
    ends = posterior.interval(0.95)
    assert np.all(np.isfinite(ends))
    assert np.all(ends[:, 0] <= ends[:, 1])
    again = CellsPosterior.from_dict(posterior.to_dict())
    assert again.n is None
    assert np.array_equal(again.interval(0.95), ends)


def test_pooled_groups_of_an_unknown_number() -> None:
    question = Question("counts", ("c",), FACTS, pool=True)
    made = NoisyCells.calibrate(question, None, PureDP(1.0).under(ADD_REMOVE))
    posterior = made.release({"c": list("abcd") * 50}, seeded_rng(1)).value
    assert np.all(np.abs(posterior.mean - 50) < 10)


@functools.cache
def calibrated(verb: str, epsilon: float) -> NoisyCells:
    column = {"proportion": "y", "mean": "x", "counts": "c"}[verb]
    return NoisyCells.calibrate(Question(verb, (column,), FACTS), None, PureDP(epsilon).under(ADD_REMOVE))


def covered(verb: str, n: int, epsilon: float, seed: int) -> tuple[int, int]:
    rng = np.random.default_rng(seed)
    if verb == "proportion":
        truth = rng.beta(1, 1, 1)
        records = {"y": rng.random(n) < truth}
    elif verb == "mean":
        truth = rng.uniform(3, 7, 1)
        records = {"x": rng.normal(truth, rng.uniform(0.5, 1.0), n)}
    else:
        codes = rng.choice(4, n, p=rng.dirichlet(np.ones(4)))
        truth, records = np.bincount(codes, minlength=4), {"c": np.array(list("abcd"))[codes]}
    low, high = calibrated(verb, epsilon).release(records, seeded_rng(seed)).value.interval(0.95).T
    return int(np.sum((low <= truth) & (truth <= high))), truth.size


@pytest.mark.parametrize(
    ("verb", "epsilon", "sizes"),
    [("proportion", 0.3, (100, 2000)), ("mean", 0.3, (100,)), ("mean", 1.0, (100, 2000)), ("counts", 0.3, (100, 2000))],
)
def test_intervals_cover_where_n_is_a_secret(verb, epsilon, sizes) -> None:
    """A small part of the coverage study, as wide as its own error: 80 answers are told to ±5 points."""
    found = [covered(verb, n, epsilon, 1000 * n + seed) for n in sizes for seed in range(40)]
    hits, rows = (sum(part) for part in zip(*found, strict=True))
    assert 0.89 <= hits / rows <= 0.998
