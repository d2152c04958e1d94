"""Estimates of the original distribution: unbiased ones by enumeration, posteriors against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.theory.local import (
    LocalMechanism,
    ProfileGraph,
    ProfileMechanism,
    RandomizedResponse,
    SmoothCategorical,
    SmoothOneBit,
    estimate_categories,
    posterior_categories,
)
from sottovoce.theory.local.exact import GRID

CHAIN = ProfileGraph.chain({"a": [0.2, 0.3, 0.5], "b": [0.3, 0.4, 0.3], "c": [0.6, 0.3, 0.1]}, "xyz")


def mixture_of_outputs(mechanism, weights):
    return np.asarray(weights) @ mechanism.output_distributions


@pytest.mark.parametrize("weights", [[1, 0, 0], [0.2, 0.5, 0.3], [0, 0, 1]])
@pytest.mark.parametrize("kind", [SmoothCategorical, RandomizedResponse])
def test_the_estimate_is_unbiased_for_every_mixture_of_profiles(kind, weights):
    mechanism = kind.calibrate(CHAIN, 0.8)
    truth = np.asarray(weights) @ CHAIN.matrix
    outputs = mixture_of_outputs(mechanism, weights)
    # The estimate is linear in the counts: its mean over two records is that over all pairs of outputs.
    mean = sum(
        outputs[y] * outputs[z] * estimate_categories(mechanism, [CHAIN.categories[y], CHAIN.categories[z]]).mean
        for y in range(3)
        for z in range(3)
    )
    assert mean == pytest.approx(truth, abs=1e-9)


def test_its_covariance_is_unbiased_too():
    mechanism = SmoothCategorical.calibrate(CHAIN, 0.8)
    outputs = mixture_of_outputs(mechanism, [0.2, 0.5, 0.3])
    pairs = [
        (outputs[y] * outputs[z], estimate_categories(mechanism, ["xyz"[y], "xyz"[z]]))
        for y in range(3)
        for z in range(3)
    ]
    centre = sum(p * e.mean for p, e in pairs)
    true = sum(p * np.outer(e.mean - centre, e.mean - centre) for p, e in pairs)
    assert sum(p * e.covariance for p, e in pairs) == pytest.approx(true, abs=1e-9)


def test_where_profiles_cannot_be_told_apart_it_says_so():
    graph = ProfileGraph.bernoulli({"a": 0.1, "b": 0.4, "c": 0.9}, [("a", "b"), ("b", "c")])
    mechanism = SmoothOneBit.calibrate(graph, 0.4)
    assert len(np.unique(mechanism.flips.round(6))) > 1
    with pytest.raises(InvalidValue, match="posterior_categories"):
        estimate_categories(mechanism, [0, 1, 1])
    assert estimate_categories(mechanism, [0, 1, 1], profiles=["a", "b"]).mean.sum() == pytest.approx(1.0)
    with pytest.raises(InvalidValue, match="do not determine"):
        estimate_categories(RandomizedResponse.calibrate(CHAIN, 0.0), ["x", "y"])


def by_quadrature_one_bit(mechanism, counts, a=1.0):
    """Posterior mean and 90% interval of the share of category 1, on a fine grid."""
    theta = (np.arange(200_000) + 0.5) / 200_000
    A = mechanism.matrices[0]
    q = theta * A[1, 1] + (1 - theta) * A[0, 1]
    log = counts[1] * np.log(q) + counts[0] * np.log1p(-q) + stats.beta.logpdf(theta, a, a)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    cdf = weight.cumsum()
    return weight @ theta, theta[np.searchsorted(cdf, [0.05, 0.95])]


@pytest.mark.parametrize(
    ("counts", "epsilon", "a", "reached"),
    [
        ((400, 600), 1.0, 1.0, (False, False)),
        ((5, 9), 2.0, 0.5, (False, True)),
        ((500, 500), 0.05, 1.0, (True, True)),
        ((90_000, 10), 1.5, 1.0, (True, False)),
        ((0, 40), 3.0, 2.0, (False, True)),
    ],
)
def test_the_posterior_equals_quadrature_for_one_bit(counts, epsilon, a, reached):
    graph = ProfileGraph.bernoulli({"a": 0.4, "b": 0.6}, [("a", "b")])
    mechanism = RandomizedResponse.calibrate(graph, epsilon)
    mean, interval = by_quadrature_one_bit(mechanism, counts, a)
    got = posterior_categories(mechanism, dict(enumerate(counts)), concentration=a, draws=16_000, rng=seeded_rng(3))
    spread = got.draws[:, 1].std()
    assert got.r_hat < 1.03
    assert got.mean[1] == pytest.approx(mean, abs=0.08 * spread)
    assert np.quantile(got.draws[:, 1], [0.05, 0.95]) == pytest.approx(interval, abs=0.15 * spread)
    told = got.interval(0.9)[1]
    at_end = told == got.ends[1]  # drawn out to an end of what the share may be
    assert told[~at_end] == pytest.approx(np.array(interval)[~at_end], abs=0.15 * spread)
    assert tuple(at_end) == reached


@pytest.mark.parametrize("seed", range(4))
def test_no_chain_stays_where_it_started(seed):
    """Counts beyond the simplex, a small prior: some of 32 chains start where the density is steep, and move on."""
    graph = ProfileGraph.bernoulli({"a": 0.4, "b": 0.6}, [("a", "b")])
    mechanism = RandomizedResponse.calibrate(graph, 1.0)
    mean, interval = by_quadrature_one_bit(mechanism, (3000, 0), 0.5)
    got = posterior_categories(mechanism, {0: 3000}, concentration=0.5, rng=seeded_rng(seed))
    spread = got.draws[:, 1].std()
    assert got.mean[1] == pytest.approx(mean, abs=0.12 * spread)
    assert np.quantile(got.draws[:, 1], [0.05, 0.95]) == pytest.approx(interval, abs=0.25 * spread)


def test_the_posterior_over_mixtures_equals_quadrature():
    mechanism = SmoothCategorical.calibrate(CHAIN, 0.8)
    counts = np.array([120, 70, 60])
    side = (np.arange(600) + 0.5) / 600
    u, v = np.meshgrid(side, side)
    inside = u + v < 1
    w = np.stack([u[inside], v[inside], 1 - u[inside] - v[inside]], axis=1)
    log = np.log(w @ mechanism.output_distributions) @ counts
    weight = np.exp(log - log.max())
    true = (weight / weight.sum()) @ (w @ CHAIN.matrix)
    got = posterior_categories(
        mechanism, dict(zip("xyz", counts.tolist(), strict=True)), draws=16_000, rng=seeded_rng(4)
    )
    assert got.mean == pytest.approx(true, abs=0.08 * got.draws.std(axis=0).min())


def test_intervals_cover_as_often_as_they_say():
    """Two shares of 24 data sets: of intervals half as wide, six in ten hold, and fewer than 37 of 48."""
    rng = seeded_rng(5)
    mechanism = SmoothCategorical.calibrate(CHAIN, 1.0)
    bayes, plain, total = 0, 0, 0
    for _ in range(24):
        weights = rng.dirichlet(np.ones(3))
        truth = weights @ CHAIN.matrix
        counts = rng.multinomial(3000, mixture_of_outputs(mechanism, weights))
        seen = dict(zip("xyz", counts.tolist(), strict=True))
        low, high = posterior_categories(mechanism, seen, draws=400, rng=rng).interval(0.9)[[0, 2]].T
        bayes += int(((low <= truth[[0, 2]]) & (truth[[0, 2]] <= high)).sum())
        low, high = estimate_categories(mechanism, seen).interval(0.9)[[0, 2]].T
        plain += int(((low <= truth[[0, 2]]) & (truth[[0, 2]] <= high)).sum())
        total += 2
    inside = stats.binom.ppf([0.0005, 0.9995], total, 0.9)
    assert inside[0] <= bayes <= inside[1]
    assert inside[0] <= plain <= inside[1]


def covered(answer, epsilon, records, share):
    """Return how often an interval of a rare category holds its share, over all counts that there are to speak of."""
    graph = ProfileGraph.complete({"a": [0.5, 0.5], "b": [0.5, 0.5]})
    mechanism = RandomizedResponse.calibrate(graph, epsilon)
    seen = np.arange(records + 1)
    chances = stats.binom.pmf(seen, records, [share, 1 - share] @ mechanism.matrices[0][:, 0])
    likely = seen[chances > 1e-3]
    ends = [answer(mechanism, {0: int(k), 1: int(records - k)}).interval()[0] for k in likely]
    return sum(chance for chance, (low, high) in zip(chances[likely], ends, strict=True) if low <= share <= high)


@pytest.mark.parametrize(("records", "share"), [(30, 0.01), (2000, 1e-4), (2000, 0.0), (2000, 0.0015), (20_000, 1e-4)])
def test_estimates_of_rare_categories_cover(records, share):
    """Of what was seen twice, or never, a normal interval alone held from none to 85 %."""
    assert covered(estimate_categories, 10.0, records, share) > 0.92


def test_a_share_that_the_noise_hides_may_be_at_its_ends():
    """An interval between two quantiles held one share in a hundred of thirty records one time in five."""

    def answer(mechanism, seen):
        return posterior_categories(mechanism, seen, draws=2000, rng=seeded_rng(1))

    assert covered(answer, 0.3, 30, 0.01) > 0.92
    assert covered(answer, 10.0, 30, 1e-4) > 0.92


def test_estimates_from_a_real_release_find_the_truth():
    rng = seeded_rng(6)
    mechanism = SmoothCategorical.calibrate(CHAIN, 1.0)
    source = rng.choice(3, size=200_000, p=[0.5, 0.3, 0.2])
    records = (rng.random(200_000)[:, None] > CHAIN.matrix[source].cumsum(axis=1)).sum(axis=1)
    released = mechanism.release_codes(records, source, rng)
    seen = dict(zip("xyz", np.bincount(released, minlength=3).tolist(), strict=True))
    truth = np.bincount(records, minlength=3) / 200_000
    for answer in (estimate_categories(mechanism, seen), posterior_categories(mechanism, seen, rng=rng)):
        assert np.all(np.abs(answer.mean - truth) < 0.03)
        assert np.all(np.diff(answer.interval()) > 0)


def test_a_mechanism_with_other_outputs_is_understood():
    graph = ProfileGraph.bernoulli({"a": 0.4, "b": 0.6}, [("a", "b")])
    mechanism = LocalMechanism.from_matrix(graph, 1.0, [[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], outputs=["no", "-", "yes"])
    estimate = estimate_categories(mechanism, {"no": 290, "-": 300, "yes": 410})
    assert estimate.mean == pytest.approx([0.3, 0.7])


def test_bad_questions_are_named():
    mechanism = RandomizedResponse.calibrate(CHAIN, 1.0)
    with pytest.raises(InvalidData, match="no released records"):
        estimate_categories(mechanism, [])
    with pytest.raises(InvalidData, match="two records"):
        estimate_categories(mechanism, ["x"])
    with pytest.raises(InvalidData, match="'q'"):
        estimate_categories(mechanism, {"q": 3})
    with pytest.raises(InvalidData, match="whole numbers"):
        estimate_categories(mechanism, {"x": 1.5})
    with pytest.raises(InvalidValue, match="level"):
        estimate_categories(mechanism, ["x", "y"]).interval(1.0)
    with pytest.raises(InvalidValue, match="concentration"):
        posterior_categories(mechanism, ["x"], concentration=0.0)
    with pytest.raises(InvalidValue, match="draws"):
        posterior_categories(mechanism, ["x"], draws=0)
    with pytest.raises(InvalidValue, match="level"):
        posterior_categories(mechanism, ["x"], draws=100, rng=seeded_rng(0)).interval(0.0)
    smooth = SmoothCategorical.calibrate(CHAIN, 1.0)
    with pytest.raises(InvalidData, match="at least one profile"):
        estimate_categories(smooth, ["x", "y"], profiles=[])
    with pytest.raises(InvalidValue, match="no profile is called 'zed'"):
        estimate_categories(smooth, ["x", "y"], profiles=["zed"])


def test_outputs_that_cannot_occur_are_refused():
    graph = ProfileGraph({"a": [0.5, 0.5, 0.0], "b": [0.5, 0.5, 0.0], "c": [0.0, 0.0, 1.0]}, [("a", "b")], "xyz")
    steps = np.tile(GRID * np.eye(3, dtype=np.int64), (3, 1, 1))
    steps[2, 2] = [0, GRID // 2, GRID // 2]
    mechanism = ProfileMechanism(graph, 0.1, steps)
    with pytest.raises(InvalidData, match="none of the profiles"):
        posterior_categories(mechanism, ["x", "z"], profiles=["a", "b"])
