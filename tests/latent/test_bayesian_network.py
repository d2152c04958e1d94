"""Bayesian networks: queries against enumeration, privacy against every pair of records, honest intervals."""

import itertools
import json

import numpy as np
import pytest
from scipy import integrate, stats

from sottovoce.inference.latent.fields import Field
from sottovoce.inference.latent.network import BayesianNetwork
from sottovoce.inference.latent.network_posterior import NetworkPosterior
from sottovoce.inference.latent.tempered_tables import TemperedNetwork
from sottovoce.inference.latent.variable_elimination import Factor, eliminate
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidData, InvalidValue, PromiseUnreachable
from sottovoce.privacy.promises import ApproxDP, PureDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Statistics

FIELDS = (
    Field("season", ("dry", "wet", "cold")),
    Field("rain", (0, 1)),
    Field("sprinkler", (0, 1)),
    Field("grass", ("dry", "damp", "soaked")),
    Field("slip", (False, True)),
)
PARENTS = {"rain": ["season"], "sprinkler": ["season"], "grass": ["rain", "sprinkler"], "slip": ["grass"]}
NETWORK = BayesianNetwork(FIELDS, PARENTS)


def random_posterior(draws=3, seed=0):
    rng = np.random.default_rng(seed)
    values = tuple(rng.dirichlet(np.ones(shape[-1]), (draws, *shape[:-1])) for shape in NETWORK.tables.shapes)
    return NetworkPosterior(NETWORK.fields, NETWORK.parents, values)


def joint(posterior):
    """Pr[every combination], by multiplying the tables out: (draws, 3, 2, 2, 3, 2)."""
    v = posterior.values
    return np.einsum("da,dab,dac,dbce,def->dabcef", *v)


def simulate(n, seed=1):
    truth = random_posterior(1, seed)
    return truth, truth.synthetic(n, seeded_rng(seed))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"slip": True},
        {"grass": "damp", "season": "wet"},
        {"rain": 1, "slip": False},
        {"slip": True, "sprinkler": 0},
    ],
    ids=str,
)
def test_queries_agree_with_enumeration(given):
    posterior = random_posterior()
    whole = joint(posterior)
    names = [f.name for f in FIELDS]
    for target in set(names) - set(given):
        index = [slice(None)] + [
            FIELDS[i].categories.index(given[name]) if name in given else slice(None) for i, name in enumerate(names)
        ]
        left = [name for name in names if name not in given]
        rest = whole[tuple(index)]
        other = tuple(i + 1 for i, name in enumerate(left) if name != target)
        by_hand = rest.sum(axis=other)
        by_hand /= by_hand.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(posterior.query_draws(target, given), by_hand, rtol=1e-10)
        np.testing.assert_allclose(posterior.query(target, given), by_hand.mean(axis=0), rtol=1e-10)


def test_elimination_of_a_loop_and_of_a_part_that_stands_alone():
    rng = np.random.default_rng(2)
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("e",)]
    factors = [Factor(p, rng.random((2, *(3 for _ in p)))) for p in pairs]
    by_hand = np.einsum("nab,nbc,ncd,nda,ne->nca", *(f.values for f in factors))
    np.testing.assert_allclose(eliminate(factors, ["c", "a"]).values, by_hand)


def test_a_long_chain_is_eliminated_node_by_node():
    """Sixty nodes: enumeration would need 2^60 cells."""
    fields = tuple(Field(f"x{i}", (0, 1)) for i in range(60))
    network = BayesianNetwork(fields, {f"x{i}": [f"x{i - 1}"] for i in range(1, 60)})
    flip = np.array([[0.9, 0.1], [0.2, 0.8]])
    values = (np.array([[0.5, 0.5]]), *(flip[None] for _ in range(59)))
    posterior = NetworkPosterior(network.fields, network.parents, values)
    by_hand = np.array([0.5, 0.5]) @ np.linalg.matrix_power(flip, 59)
    np.testing.assert_allclose(posterior.query("x59"), by_hand)
    np.testing.assert_allclose(
        posterior.query("x59", {"x50": 1}), np.array([0.0, 1.0]) @ np.linalg.matrix_power(flip, 9)
    )


def test_synthetic_records_follow_the_joint_law():
    posterior = random_posterior(1, seed=4)
    records = posterior.synthetic(60_000, seeded_rng(1))
    codes = [f.codes(records[f.name]) for f in FIELDS]
    counts = np.bincount(np.ravel_multi_index(codes, (3, 2, 2, 3, 2)), minlength=72)
    assert stats.chisquare(counts, 60_000 * joint(posterior).ravel()).pvalue > 1e-3


def test_without_noise_the_tables_have_their_dirichlet_posterior():
    _, records = simulate(400)
    posterior = NETWORK.fit(records, draws=4000, rng=seeded_rng(2))
    counts = NETWORK.counts(records)[3]
    law = stats.beta(counts[1, 0, 2] + 1 / 3, counts[1, 0].sum() - counts[1, 0, 2] + 2 / 3)
    assert stats.kstest(posterior.values[3][:, 1, 0, 2], law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("route", ["laplace", "gaussian", "tempered"])
def test_at_a_boundless_budget_the_promise_changes_nothing(route):
    truth, records = simulate(20_000)
    plain = NETWORK.fit(records, draws=400, rng=seeded_rng(3))
    if route == "tempered":
        mech = TemperedNetwork.calibrate(NETWORK, 20_000, PureDP(1e4), floor=1e-3)
        assert mech.temperature == 1.0
        private = mech.release(records, seeded_rng(4), draws=200).value
    else:
        mech = NETWORK.noisy_counts(20_000, PureDP(400.0) if route == "laplace" else ZeroConcentratedDP(400.0), route)
        private = NETWORK.fit(mech.release(records, seeded_rng(4)).value, draws=400, rng=seeded_rng(5))
    for name in PARENTS:
        np.testing.assert_allclose(private.table(name), plain.table(name), atol=0.02)
    np.testing.assert_allclose(private.table("grass"), truth.table("grass"), atol=0.08)


@pytest.mark.parametrize("target", [PureDP(1.0), ApproxDP(1.0, 1e-6), ZeroConcentratedDP(0.1)], ids=str)
def test_every_route_keeps_its_promise(target):
    assert NETWORK.noisy_counts(100, target).profile.satisfies(target)
    assert TemperedNetwork.calibrate(NETWORK, 100, target).profile.satisfies(target)


def test_one_record_moves_the_tables_by_two_a_node():
    cells = list(itertools.product(*(f.categories for f in FIELDS)))
    totals = np.array([NETWORK.statistics({f.name: [r[i]] for i, f in enumerate(FIELDS)}).total for r in cells])
    moved = np.abs(totals[:, None, :] - totals[None, :, :]).sum(axis=-1)
    assert moved.max() == 2 * len(FIELDS)
    mech = NETWORK.noisy_counts(50, PureDP(1.0), "laplace")
    assert moved.max() / mech.scales[0] == pytest.approx(mech.profile.pure()) == pytest.approx(1.0)


def test_shares_split_the_budget_by_node():
    shares = {"season": 4.0, "rain": 1.0, "sprinkler": 1.0, "grass": 1.0, "slip": 1.0}
    mech = NETWORK.noisy_counts(50, PureDP(1.0), "laplace", shares)
    assert mech.scales[0] == pytest.approx(4.0)
    assert mech.scales[1] == pytest.approx(16.0)


def test_the_tempered_sample_keeps_its_claim_for_every_pair_of_neighbours():
    """Two binary nodes, n = 2: the exact density of all three rows, over every pair of neighbouring data sets."""
    network = BayesianNetwork((Field("a", (0, 1)), Field("b", (0, 1))), {"b": ["a"]})
    mech = TemperedNetwork(network, 2, temperature=3.0, floor=0.2)
    grid = np.linspace(0.1, 0.9, 4001)

    def row(ones, zeros):
        height = (ones * np.log(grid) + zeros * np.log1p(-grid)) / mech.temperature
        return height - np.log(integrate.simpson(np.exp(height), x=grid))

    def rows(records):
        a, b = np.array(records).T
        cells = [(a.sum(), (1 - a).sum())] + [(b[a == k].sum(), (1 - b)[a == k].sum()) for k in (0, 1)]
        return [row(*cell) for cell in cells]

    records = list(itertools.product((0, 1), repeat=2))
    worst = 0.0
    for kept, one, other in itertools.product(records, repeat=3):
        p, q = rows([kept, one]), rows([kept, other])
        worst = max(worst, sum(float(np.max(x - y)) for x, y in zip(p, q, strict=True)))
        for order in (2.0, 6.0):
            moments = [
                integrate.simpson(np.exp(order * x + (1 - order) * y), x=grid) for x, y in zip(p, q, strict=True)
            ]
            assert np.sum(np.log(moments)) / (order - 1) <= mech.profile.renyi(order) + 1e-9
    assert 0.4 * mech.profile.pure() < worst <= mech.profile.pure() + 1e-9
    assert mech.profile.pure() < mech.lemma_epsilon


def test_the_tempered_cost_is_the_composition_stated():
    mech = TemperedNetwork(NETWORK, 100, temperature=5.0, floor=0.1)
    bounds = np.array([np.log((1 - (f.size - 1) * 0.1 / f.size) / (0.1 / f.size)) for f in FIELDS])
    assert mech.profile.pure() == pytest.approx(2 * bounds.sum() / 5.0)
    assert mech.profile.zcdp() == pytest.approx(np.sum(bounds**2) / (2 * 5.0**2))
    assert mech.cost(3).zcdp() == pytest.approx(3 * mech.profile.zcdp())
    _, records = simulate(100)
    release = mech.release(records, seeded_rng(1), draws=3)
    assert release.profile.zcdp() == pytest.approx(3 * mech.profile.zcdp())
    assert all(v.min() >= 0.1 / v.shape[-1] * (1 - 1e-6) for v in release.value.values)


def test_more_budget_brings_the_tables_nearer():
    truth, records = simulate(3000)
    gaps = []
    for epsilon in (0.1, 1.0, 20.0):
        mech = NETWORK.noisy_counts(3000, PureDP(epsilon))
        posterior = NETWORK.fit(mech.release(records, seeded_rng(1)).value, noise_aware=False, rng=seeded_rng(2))
        gaps.append(sum(np.abs(posterior.table(f.name) - truth.table(f.name)).mean() for f in FIELDS))
    assert gaps[0] > gaps[1] > gaps[2]
    assert posterior.log_likelihood(records).shape == (len(posterior),)


def test_log_likelihood_sums_the_records():
    posterior, records = simulate(50)
    whole = np.log(joint(posterior)[0])
    codes = [f.codes(records[f.name]) for f in FIELDS]
    assert posterior.log_likelihood(records)[0] == pytest.approx(whole[tuple(codes)].sum())
    with pytest.raises(InvalidValue, match="no column"):
        posterior.log_likelihood({"rain": [1]})


def test_releases_read_back():
    _, records = simulate(80)
    release = TemperedNetwork(NETWORK, 80, 10.0).release(records, seeded_rng(1))
    back = Release.from_json(release.to_json())
    assert back.value == release.value
    assert back.value.query("slip", {"rain": 1}).shape == (2,)
    assert json.loads(release.to_json())["mechanism"]["mechanism"] == "tempered network"
    assert not TemperedNetwork(NETWORK, 80, 10.0).release(records).reproducible


A, B = Field("a", (0, 1)), Field("b", (0, 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BayesianNetwork((A, B), {"a": ["b"], "b": ["a"]}), "own ancestor"),
        (lambda: BayesianNetwork((A, B), {"a": ["a"]}), "different fields"),
        (lambda: BayesianNetwork((A, B), {"a": ["c"]}), "no node is called 'c'"),
        (lambda: BayesianNetwork((A, B), {"c": ["a"]}), "no node is called 'c'"),
        (lambda: BayesianNetwork((A, B), {"a": "b"}), "list of names"),
        (lambda: BayesianNetwork((A, B), {"a": ["b", "b"]}), "different nodes"),
        (lambda: BayesianNetwork((A, A)), "different names"),
        (lambda: BayesianNetwork(()), "at least one"),
        (lambda: BayesianNetwork((A, Field("c", (1,)))), "single category"),
        (lambda: BayesianNetwork((A, B), prior=0.0), "prior"),
        (lambda: BayesianNetwork((A, B)).fit({"a": [0], "b": [1]}, draws=0), "draws"),
        (lambda: TemperedNetwork(BayesianNetwork((A, B)), 5, 0.5), "temperature"),
        (lambda: TemperedNetwork(BayesianNetwork((A, B)), 5, 2.0, floor=1.0), "floor"),
        (lambda: TemperedNetwork(BayesianNetwork((A, B)), 0, 2.0), "at least one record"),
        (lambda: TemperedNetwork(A, 5, 2.0), "BayesianNetwork"),
        (lambda: TemperedNetwork(BayesianNetwork((A, B)), 5, 2.0).forecast(0.5), "closed form"),
        (lambda: random_posterior().query("colour"), "no node"),
        (lambda: random_posterior().query("rain", {"rain": 1}), "at once"),
        (lambda: random_posterior().query("rain", {"slip": "maybe"}), "no category"),
        (lambda: random_posterior().interval(1.5, "rain"), "level"),
        (lambda: random_posterior().synthetic(0), "count"),
    ],
)
def test_bad_arguments_raise(make, message):
    with pytest.raises(InvalidValue, match=message):
        make()


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ({"a": [0, 1]}, "no column 'b'"),
        ({"a": [], "b": []}, "no record"),
        ({"a": [0, 1], "b": [0]}, "different lengths"),
    ],
    ids=str,
)
def test_bad_records_raise(records, message):
    with pytest.raises(InvalidData, match=message):
        BayesianNetwork((A, B), {"b": ["a"]}).fit(records)


def test_records_outside_of_the_lists_are_left_out():
    network = BayesianNetwork((A, B), {"b": ["a"]})
    odd = {"a": [0, 1, None, 1], "b": [0, 1, 1, 5]}
    assert network.statistics(odd) == Statistics(4, network.statistics({"a": [0, 1], "b": [0, 1]}).total)
    posterior = network.fit({"a": [0, 1], "b": [0, 1]}, draws=3, rng=seeded_rng(1))
    assert posterior.log_likelihood(odd) == pytest.approx(posterior.log_likelihood({"a": [0, 1], "b": [0, 1]}))


def test_tables_of_another_network_are_refused():
    mech = BayesianNetwork((A, B)).noisy_counts(3, PureDP(1.0))
    noisy = mech.release({"a": [0, 1, 1], "b": [0, 0, 1]}, seeded_rng(0)).value
    with pytest.raises(InvalidData, match="other parents"):
        BayesianNetwork((A, B), {"b": ["a"]}).fit(noisy)
    with pytest.raises(InvalidData, match="n=3"):
        TemperedNetwork(BayesianNetwork((A, B)), 3, 1.0).release({"a": [0], "b": [0]})
    with pytest.raises(PromiseUnreachable):
        TemperedNetwork.calibrate(BayesianNetwork((A, B)), 3, PureDP(0.0))
