"""Markov random fields: sums against every assignment, posteriors against every table, widths that are refused."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy import special, stats

from sottovoce.inference.latent import Field, MarkovRandomField, NoisyTables, RandomFieldPosterior
from sottovoce.inference.latent import junction_tree as junction_module
from sottovoce.inference.latent.diagnostics import Convergence, NotConverged
from sottovoce.inference.latent.junction_tree import BucketTree
from sottovoce.inference.latent.log_linear import LogLinear
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.mechanisms.noisy_statistics import NoisyStatistics
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.promises import PureDP
from sottovoce.privacy.randomness import seeded_rng

GRAPHS = {
    "a pair": ((2, 3), ((0, 1),)),
    "a chain": ((2, 3, 2, 2), ((0, 1), (1, 2), (2, 3))),
    "a ring": ((3, 2, 2, 3, 2), ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))),
    "cliques that overlap": ((2, 2, 3, 2, 2), ((0, 1, 2), (2, 1, 3), (4,))),
    "alone": ((2, 4), ((0,), (1,))),
}
FLAGS = tuple(Field(name, ("no", "yes"), other="no") for name in "abcd")
RING = MarkovRandomField(FLAGS, [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")])
PAIR = MarkovRandomField(FLAGS[:2], [("a", "b")])


def by_hand(sizes, cliques, potentials):
    """Log-normalizer, mean and covariance by listing every assignment."""
    cells = []
    for x in itertools.product(*map(range, sizes)):
        row = []
        for clique in cliques:
            table = np.zeros([sizes[v] for v in clique])
            table[tuple(x[v] for v in clique)] = 1
            row.append(table.ravel())
        cells.append(np.concatenate(row))
    cells = np.array(cells)
    logs = potentials @ cells.T
    total = special.logsumexp(logs, axis=1)
    p = np.exp(logs - total[:, None])
    mean = p @ cells
    return total, mean, np.einsum("rj,ja,jb->rab", p, cells, cells) - mean[:, :, None] * mean[:, None, :]


@pytest.mark.parametrize("few", [0, 256], ids=["bucket by bucket", "listed"])
@pytest.mark.parametrize("scale", [1.0, 200.0])
@pytest.mark.parametrize(("sizes", "cliques"), GRAPHS.values(), ids=GRAPHS)
def test_sums_agree_with_every_assignment(sizes, cliques, scale, few, monkeypatch):
    monkeypatch.setattr(junction_module, "_FEW", few)
    tree = BucketTree.of(sizes, cliques)
    cells = sum(int(np.prod([sizes[v] for v in c])) for c in cliques)
    potentials = scale * np.random.default_rng(1).normal(size=(4, cells))
    total, mean, covariance = by_hand(sizes, cliques, potentials)
    np.testing.assert_allclose(tree.log_normalizer(potentials), total, rtol=1e-12)
    np.testing.assert_allclose(tree.marginals(potentials)[0], mean, atol=1e-12)
    found = tree.moments(potentials)
    np.testing.assert_allclose(found[0], mean, atol=1e-12)
    np.testing.assert_allclose(found[1], covariance, atol=1e-12)


def test_a_long_chain_is_summed_variable_by_variable():
    """Sixty variables in a row: enumeration would need 2^60 cells; the transfer matrix needs one product each."""
    tree = BucketTree.of((2,) * 60, tuple((i, i + 1) for i in range(59)))
    table = np.array([[0.3, -0.2], [0.1, 0.7]])
    by_product = np.log(np.linalg.matrix_power(np.exp(table), 59).sum())
    assert tree.width == 1
    square = [(i * 9 + j, k) for i in range(9) for j in range(9) for k in (i * 9 + j + 1,) if j < 8]
    square += [(v, v + 9) for v in range(72)]
    assert BucketTree.of((2,) * 81, square).width == 9
    assert tree.log_normalizer(np.tile(table.ravel(), 59)[None])[0] == pytest.approx(by_product, rel=1e-12)


@pytest.mark.parametrize(("sizes", "cliques"), GRAPHS.values(), ids=GRAPHS)
def test_effects_are_all_a_field_can_say_and_no_more(sizes, cliques):
    """The basis spans, up to a constant, all log-probabilities that potentials can make, and no direction twice."""
    family = LogLinear(BucketTree.of(sizes, cliques))
    assignments = family.tree._assignments
    spanned = np.column_stack([np.ones(len(assignments)), assignments @ family.basis])
    assert np.linalg.matrix_rank(spanned) == spanned.shape[1] == np.linalg.matrix_rank(assignments)
    for table in family.effects(np.random.default_rng(1).normal(size=(2, family.basis.shape[1]))):
        for axis in range(1, table.ndim):
            np.testing.assert_allclose(table.sum(axis=axis), 0, atol=1e-12)


def test_effects_rebuild_the_law():
    posterior = RandomFieldPosterior(RING.fields, RING.cliques, np.random.default_rng(3).normal(size=(2, 8)))
    named = posterior.named
    assert list(named) == ["a", "b", "c", "d", "a × b", "a × d", "b × c", "c × d"]
    records = dict(zip("abcd", zip(*itertools.product(("no", "yes"), repeat=4), strict=True), strict=True))
    logs = np.zeros((2, 16))
    for j, x in enumerate(itertools.product((0, 1), repeat=4)):
        for name, table in named.items():
            logs[:, j] += table[(slice(None), *(x["abcd".index(v)] for v in name.split(" × ")))]
    by_effects = logs - special.logsumexp(logs, axis=1, keepdims=True)
    np.testing.assert_allclose(posterior.log_probability(records), by_effects, atol=1e-12)
    whole = np.exp(by_effects).reshape(2, 2, 2, 2, 2)
    joint = whole[:, :, 1, :, 0].sum(axis=2)
    np.testing.assert_allclose(
        posterior.query_draws("a", {"b": "yes", "d": "no"}), joint / joint.sum(axis=1, keepdims=True), rtol=1e-10
    )
    np.testing.assert_allclose(posterior.clique_draws("d", "c"), whole.sum(axis=(1, 2)).transpose(0, 2, 1), rtol=1e-10)
    assert posterior.log_probability({**records, "a": ["?"] * 16}).shape == (2, 16)
    drawn = RandomFieldPosterior(RING.fields, RING.cliques, posterior.coefficients[:1]).synthetic(40_000, seeded_rng(1))
    codes = np.array([f.codes(drawn[f.name]) for f in RING.fields])
    counts = np.bincount(np.ravel_multi_index(tuple(codes), (2,) * 4), minlength=16)
    assert stats.chisquare(counts, 40_000 * whole[0].ravel()).pvalue > 1e-3


@pytest.mark.parametrize("noise", [IntegerNoise("laplace", 3.0), IntegerNoise("gaussian", 2.0), None], ids=str)
def test_the_posterior_is_that_of_every_table_that_may_lie_behind(noise):
    """A pair of flags, n = 24: all 2,925 tables by their multinomial law, cell by cell, times draws of the prior."""
    seen, n = np.array([[9, 2], [6, 8]]), 24
    rng = np.random.default_rng(5)
    prior = PAIR.spread * rng.normal(size=(8000, 3))
    logs = prior @ PAIR.family.basis.T
    logs -= special.logsumexp(logs, axis=1, keepdims=True)
    if noise is None:
        weight = logs @ (seen.ravel() + np.array([0, -1, 0, 0]))
        found = PAIR.fit(PAIR.tables.statistics(_records([[9, 1], [6, 8]])), draws=4000, rng=seeded_rng(1))
    else:
        k = np.arange(n + 1)
        each = [
            np.exp(np.outer(cell, k) - special.gammaln(k + 1) + noise.log_weight(noisy - k))
            for cell, noisy in zip(logs.T, seen.ravel(), strict=True)
        ]
        # So many records in either half of the cells, and n in both.
        halves = [
            np.stack([(one[:, : m + 1] * two[:, m::-1]).sum(axis=1) for m in k], axis=1)
            for one, two in (each[:2], each[2:])
        ]
        weight = np.log((halves[0] * halves[1][:, ::-1]).sum(axis=1))
        noisy = NoisyTables(PAIR.tables, n, (seen,), (noise,))
        found = PAIR.fit(noisy, draws=4000, rng=seeded_rng(1))
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    for exact, mine in ((prior, found.coefficients), (np.exp(logs), found.clique_draws("a", "b").reshape(-1, 4))):
        mean = weight @ exact
        sd = np.sqrt(weight @ (exact - mean) ** 2)
        assert np.all(np.abs(mine.mean(axis=0) - mean) < 0.15 * sd)
        np.testing.assert_allclose(mine.std(axis=0), sd, rtol=0.12)


def _records(table):
    pairs = [(a, b) for a in (0, 1) for b in (0, 1) for _ in range(table[a][b])]
    return {name: [("no", "yes")[pair[i]] for pair in pairs] for i, name in enumerate("ab")}


def test_intervals_hold_the_truth_as_often_as_they_say():
    """Truths drawn from the prior, three flags in a row: 95 % intervals of effects, and of one conditional query."""
    field = MarkovRandomField(FLAGS[:3], [("a", "b"), ("b", "c")])
    rng, held = seeded_rng(11), []
    mech = field.noisy_counts(400, PureDP(0.8))
    for _ in range(6):  # 36 intervals; of counts taken at their word six in ten hold, Pr[Bin(36, 0.6) > 30] < 1e-3
        truth = RandomFieldPosterior(field.fields, field.cliques, field.spread * rng.normal(size=(1, 5)))
        posterior = field.fit(mech.release(truth.synthetic(400, rng), rng).value, rng=rng)
        low, high = np.quantile(posterior.coefficients, [0.025, 0.975], axis=0)
        held.extend((low < truth.coefficients[0]) & (truth.coefficients[0] < high))
        low, high = posterior.query_interval("c", {"a": "yes"})[1]
        held.append(low < truth.query("c", {"a": "yes"})[1] < high)
    assert np.mean(held) > 0.85


def test_a_rare_pair_that_noise_hides_is_not_ruled_out():
    """Three in a hundred of 15 among 300 records, every noise nought: a narrower prior drew the interval above it."""
    field = MarkovRandomField(FLAGS[:3], [("a", "b"), ("b", "c")])
    first, second = np.array([[200, 85], [15, 0]]), np.array([[129, 86], [25, 60]])
    noisy = NoisyTables(field.tables, 300, (first, second), (IntegerNoise("laplace", 4.0),) * 2)
    low, high = field.fit(noisy, draws=1000, rng=seeded_rng(1)).query_interval("b", {"a": "yes"})[1]
    assert low < 0.03 < high


def test_records_outside_of_every_list_are_one_more_unknown():
    """A fifth of the records hold no known value: where that may be, the law of the others is found all the same."""
    fields = tuple(Field(name, ("no", "yes")) for name in "ab")
    rng = seeded_rng(2)
    a = rng.random(4000) < 0.3
    b = np.where(rng.random(4000) < 0.2, "?", np.where(rng.random(4000) < np.where(a, 0.8, 0.4), "yes", "no"))
    records = {"a": np.where(a, "yes", "no"), "b": b}
    inside = MarkovRandomField(fields, [("a", "b")])
    told = inside.noisy_counts(4000, PureDP(1.0)).release(records, seeded_rng(3)).value
    low, high = inside.fit(told, rng=seeded_rng(4)).query_interval("a")[1]
    assert low < 0.3 < high
    assert high - low < 0.06


@pytest.mark.parametrize("n", [0, 1])
def test_nobody_or_one_record_says_next_to_nothing(n):
    noisy = NoisyTables(PAIR.tables, n, (np.array([[2, -3], [0, 1]]),), (IntegerNoise("laplace", 20.0),))
    posterior = PAIR.fit(noisy, draws=1000, rng=seeded_rng(1))
    np.testing.assert_allclose(posterior.coefficients.std(axis=0), PAIR.spread, rtol=0.12)


@pytest.mark.parametrize("value", [10**9, -(10**9)])
@pytest.mark.filterwarnings("ignore")  # such a table may well be called unbelievable
def test_no_noise_is_too_odd_to_be_fitted(value):
    noisy = NoisyTables(PAIR.tables, 50, (np.array([[value, 3], [0, -value]]),), (IntegerNoise("laplace", 2.0),))
    assert np.all(np.isfinite(PAIR.fit(noisy, draws=20, rng=seeded_rng(1)).coefficients))


def test_everything_is_read_back():
    posterior = PAIR.fit(_records([[5, 2], [1, 9]]), draws=30, rng=seeded_rng(1))
    release = Release(posterior, NoisyStatistics(PAIR, 17, "laplace", 1.0).profile, {"mechanism": "x"})
    assert Release.from_json(release.to_json()).value == posterior
    assert MarkovRandomField.from_dict(json.loads(json.dumps(RING.to_dict()))) == RING
    assert posterior.interval(0.9, "a × b").shape == (2, 2, 2)
    assert "a × b[yes, yes]" in posterior.summary()
    assert Release.from_json(release.to_json()).value.convergence == posterior.convergence
    assert posterior.summary().splitlines()[-1] == f"chains: {posterior.convergence.describe()}"
    before = posterior.to_dict()
    del before["convergence"]  # as older releases have it
    assert RandomFieldPosterior.from_dict(before).convergence is None
    with pytest.raises(InvalidValue, match="no clique of a, c"):
        posterior.clique_draws("a", "c")
    with pytest.raises(InvalidValue, match="cannot read"):
        RandomFieldPosterior.from_dict({"fields": []})


def test_chains_that_disagree_by_a_little_are_told_of(monkeypatch):
    """R-hat of 1.07 went without a word."""
    monkeypatch.setattr("sottovoce.inference.latent.random_field._MOST", 32)
    short = Convergence(1.07, 400.0, "the effects")
    monkeypatch.setattr("sottovoce.inference.latent.random_field.Convergence.of", lambda draws: short)
    with pytest.warns(NotConverged, match=r"R-hat is 1\.07 \(of the effects; at most 1\.05 is wanted\)"):
        posterior = PAIR.fit(_records([[5, 2], [1, 9]]), draws=30, rng=seeded_rng(1))
    assert posterior.summary().endswith("chains: 400 independent draws' worth, R-hat 1.07 of the effects")
    kept = Convergence.from_dict(json.loads(json.dumps(Convergence(math.inf, 4.0, "x").to_dict(), allow_nan=False)))
    assert kept == Convergence(math.inf, 4.0, "x")


def test_shares_of_tables_that_end_alike_go_by_all_their_names():
    mech = RING.noisy_counts(100, PureDP(1.0), shares={"a × b": 1, "b × c": 1, "c × d": 1, "a × d": 5})
    assert mech.scales[3] == pytest.approx(mech.scales[0] / 5)


def test_a_field_too_wide_to_sum_is_refused_with_its_width():
    grid = [(i, j) for i in range(13) for j in range(13)]
    fields = tuple(Field(f"x{i}-{j}", (0, 1)) for i, j in grid)
    right = [(f"x{i}-{j}", f"x{i}-{j + 1}") for i, j in grid if j < 12]
    down = [(f"x{i}-{j}", f"x{i + 1}-{j}") for i, j in grid if i < 12]
    with pytest.raises(InvalidValue, match=r"the field is 1\d wide.*over 1\d variables, and 4,096 are summed at most"):
        MarkovRandomField(fields, right + down)
    wide = tuple(Field(name, tuple(range(26))) for name in "ab")
    with pytest.raises(InvalidValue, match="676 cells together, and 600"):
        MarkovRandomField(wide, [("a", "b")])


@pytest.mark.parametrize(
    ("cliques", "said"),
    [
        ([("a", "b"), ("b",), ("c", "d")], "lies inside another"),
        ([("a", "b"), ("a", "b"), ("c", "d")], "lies inside another"),
        ([("a", "b", "c")], "'d' is in no clique"),
        ([("a", "x")], "no variable is called 'x'"),
        ([("a", "a")], "different variables"),
        (["ab", "cd"], "list of lists"),
        ("abcd", "list of lists"),
        ([()], "different variables"),
    ],
)
def test_cliques_that_make_no_sense_are_refused(cliques, said):
    with pytest.raises(InvalidValue, match=said):
        MarkovRandomField(FLAGS, cliques)


@pytest.mark.parametrize("spread", [0, -1, np.nan, 11, True, "x"])
def test_a_spread_that_is_none_is_refused(spread):
    with pytest.raises(InvalidValue, match="spread"):
        MarkovRandomField(FLAGS[:2], [("a", "b")], spread)


def test_tables_of_another_field_are_refused():
    noisy = PAIR.noisy_counts(17, PureDP(1.0)).release(_records([[5, 2], [1, 9]]), seeded_rng(1)).value
    with pytest.raises(InvalidData, match="other cliques"):
        RING.fit(noisy)
