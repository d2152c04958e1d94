"""Shares of rare categories, as if each alone were asked for."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

from sottovoce.inference.latent import BayesianNetwork, Field, NaiveBayesModel
from sottovoce.inference.latent.network_posterior import NetworkPosterior
from sottovoce.mechanisms import NoisyStatistics
from sottovoce.mechanisms.category_marginals import lone_shares
from sottovoce.mechanisms.conjugate import DirichletCategorical
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.mechanisms.noisy_histogram import NoisyHistogram
from sottovoce.privacy.promises import PureDP
from sottovoce.privacy.randomness import seeded_rng

TWENTY = tuple(range(20))


def test_without_noise_a_lone_share_is_that_of_a_question_of_yes_or_no():
    counts = np.array([[0, 1, 7, 32]])
    draws = lone_shares(counts, IntegerNoise("laplace", 1e-3), np.full((20_000, 1), 40.0), seeded_rng(1))[:, 0]
    for k, count in enumerate(counts[0]):
        assert stats.kstest(draws[:, k], stats.beta(count + 0.5, 40.5 - count).cdf).statistic < 0.015


@pytest.mark.parametrize(("kind", "scale"), [("laplace", 0.3), ("laplace", 6.0), ("gaussian", 400.0)])
def test_over_their_prior_lone_shares_are_held_as_often_as_they_say(kind, scale):
    rng, n, noise = seeded_rng(2), 2000, IntegerNoise(kind, scale)
    truth = rng.beta(0.5, 0.5, 600)
    yes = rng.binomial(n, truth)
    others = rng.multinomial(n - yes, [0.7, 0.2, 0.1])
    noisy = noise.add(np.column_stack([yes, others]).ravel(), rng).reshape(600, 4)
    draws = lone_shares(noisy, noise, np.full((400, 600), float(n)), rng)[:, :, 0]
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    assert np.mean((low <= truth) & (truth <= high)) == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_of_wide_noise_an_empty_category_may_have_as_much_as_by_summing_over_every_count(kind):
    """A hundred counts stand for one another; each of them as likely as their first, ends were half as far out."""
    n, noise = 200_000, IntegerNoise(kind, 4000.0)
    noisy = np.array([[180_000, 20_000, *18 * [0]]])
    draws = lone_shares(noisy, noise, np.full((400, 1), float(n)), seeded_rng(1))[:, 0, 2:]
    count = np.arange(n + 1.0)
    log = special.gammaln(count + 0.5) - special.gammaln(count + 1)
    log += log[::-1] + noise.log_weight(count) - count**2 / (2 * 19 * noise.variance)
    chances = np.cumsum(np.exp(log - log.max()))
    for q in (0.5, 0.9, 0.975):
        assert np.quantile(draws, q) * n == pytest.approx(np.searchsorted(chances, q * chances[-1]), rel=0.1)


def test_of_thousands_of_categories_not_all_is_held_at_once():
    tracemalloc.start()
    lone_shares(np.zeros((1, 4000)), IntegerNoise("laplace", 2.0), np.full((64, 1), 900.0), seeded_rng(1))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 5e7


@pytest.mark.parametrize(
    "model",
    [
        DirichletCategorical(categories=TWENTY),
        BayesianNetwork((Field("a", TWENTY), Field("b", ("x", "y")))),
        NaiveBayesModel(Field("b", ("x", "y")), (Field("a", TWENTY),)),
    ],
    ids=lambda model: model.word,
)
def test_categories_that_a_record_or_two_have_are_held(model):
    """A prior worth one record in all held them 58 to 80 % of the time."""
    rng, n = seeded_rng(3), 200
    shares = np.array([0.6, 0.23, *18 * [1 / n], 0])[:20]
    shares[0] += 1 - shares.sum()
    mechanism = NoisyStatistics.calibrate(model, n=n, target=PureDP(10.0))
    held = []
    for _ in range(8):
        a = rng.choice(20, n, p=shares)
        records = (
            a if model.word.startswith("dirichlet") else {"a": a, "b": np.array(["x", "y"])[rng.integers(0, 2, n)]}
        )
        value = mechanism.release(records, rng).value
        ends = np.stack(value.interval(0.95), -1) if records is a else value.interval(0.95, "a")
        held.append((ends[..., 0] <= shares) & (shares <= ends[..., 1]))
    assert np.mean(np.array(held)[..., 2:]) > 0.93
    assert np.mean(np.array(held)[..., :2]) > 0.75


def test_queries_and_what_is_written_reach_as_far_as_intervals():
    network = BayesianNetwork((Field("a", TWENTY), Field("b", ("x", "y"))), {"b": ["a"]})
    records = {"a": np.arange(200) % 3, "b": np.array(["x", "y"])[np.arange(200) % 2]}
    mechanism = NoisyStatistics.calibrate(network, n=200, target=PureDP(10.0))
    value = mechanism.release(records, seeded_rng(4)).value
    ends = value.interval(0.95, "a")
    assert ends[3:, 1].min() > 0.007  # of none seen among 200, a truth of 1.4 records and more
    np.testing.assert_allclose(value.query_interval("a"), ends, rtol=1e-9)
    again = type(value).from_dict(value.to_dict())
    assert np.array_equal(again.interval(0.95, "a"), ends)
    old = {name: part for name, part in value.to_dict().items() if name != "lone"}  # as it was written before
    assert type(value).from_dict(old).interval(0.95, "a")[3:, 1].max() < ends[3:, 1].min()


def test_queries_draw_alone_what_is_given_and_each_answer_and_leave_the_rest_as_it_is():
    """Where every row was made to sum to one again, of a hundred categories common ones were told twice as widely."""
    rng, three = seeded_rng(5), (0, 1, 2)
    parents = (("a", ()), ("b", ("a",)), ("c", ("b",)))
    a, b, c = (rng.dirichlet(np.full(3, 0.3), (400, *rows)) for rows in ((), (3,), (3,)))
    b[0, 1] = [1.0, 1e-20, 1e-30]
    lone = {name: rng.random(table.shape) ** 2 for name, table in zip("abc", (a, b, c), strict=True)}
    value = NetworkPosterior(tuple(Field(name, three) for name in "abc"), parents, (a, b, c), lone=lone)
    found = value.asked_alone("b", {"c": 2})
    for k in three:
        others = np.delete(b, k, axis=2)
        others *= ((1 - lone["b"][..., k]) / others.sum(axis=2))[..., None]
        yes = np.einsum("ra,ra,r->r", a, lone["b"][..., k], lone["c"][:, k, 2])
        no = np.einsum("ra,rab,rb->r", a, others, np.delete(lone["c"][..., 2], k, axis=1))
        np.testing.assert_allclose(found[:, k], yes / (yes + no), rtol=1e-9)
    assert value.asked_alone("a", {}) == pytest.approx(lone["a"])
    assert NetworkPosterior(value.fields, parents, (a, b, c)).asked_alone("a", {}) is None


def test_a_query_of_a_hundred_categories_is_no_wider_for_common_ones():
    network = BayesianNetwork((Field("a", tuple(range(100))), Field("b", ("x", "y"))), {"b": ["a"]})
    records = {"a": np.arange(200) % 10 // 7, "b": np.array(["x", "y"])[np.arange(200) % 2]}
    value = NoisyStatistics.calibrate(network, n=200, target=PureDP(10.0)).release(records, seeded_rng(6)).value
    for given in ({}, {"b": "x"}):
        ends, plain = value.query_interval("a", given), replace(value, lone=None).query_interval("a", given)
        assert np.ptp(ends[:2], axis=1) == pytest.approx(np.ptp(plain[:2], axis=1), rel=0.15)
        assert ends[2:, 1].min() > 0.007


def test_lone_shares_of_two_tables_are_drawn_apart():
    """Drawn from one seed, shares of two nodes that are asked for at once rose and fell together."""
    three = (0, 1, 2)
    network = BayesianNetwork((Field("a", three), Field("b", three)))
    records = {"a": np.arange(60) % 3, "b": np.arange(60) % 3}
    value = NoisyStatistics.calibrate(network, n=60, target=PureDP(5.0)).release(records, seeded_rng(7)).value
    assert value.lone is not None
    assert abs(np.corrcoef(value.lone["a"][:, 0], value.lone["b"][:, 0])[0, 1]) < 0.25


def test_where_counts_range_too_widely_to_tabulate_intervals_reach_as_far():
    """A prior worth one record in all takes a share of twice the noise to be next to none, where it was not seen."""
    scale, n = 2000.0, 1_000_000
    noisy = np.array([600_000.0, 400_000.0, *18 * [0.0]])
    histogram = NoisyHistogram(np.full(20, 1 / 20), noisy, n, "laplace", scale)
    assert histogram._table.lattice > 1
    low, high = histogram.interval(0.95)
    assert high[2:].min() * n > 2.2 * scale
    plain = histogram.joint.interval(0.95)
    assert low == pytest.approx(plain[0])
    assert high[:2] == pytest.approx(plain[1][:2])
