"""Naive Bayes: against scikit-learn without a promise, and what it promises with one."""

import itertools
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import CategoricalNB, GaussianNB

from sottovoce.faces.estimators.estimator_protocol import EveryFitSpends
from sottovoce.faces.estimators.naive_bayes import NaiveBayes
from sottovoce.inference.latent.count_tables import CountTables
from sottovoce.inference.latent.fields import Bounded, Field
from sottovoce.inference.latent.moment_posterior import moment_posterior
from sottovoce.inference.latent.naive_bayes import NaiveBayesModel
from sottovoce.mechanisms.block_noise import noise_profile
from sottovoce.mechanisms.integer_noise import IntegerNoise
from sottovoce.mechanisms.noisy_statistics import NoisyStatistics
from sottovoce.privacy.errors import InvalidData, InvalidValue, PromiseUnreachable
from sottovoce.privacy.promises import ApproxDP, PureDP, RenyiDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Block, ClassMoments

CLASSES = ("a", "b", "c")
FIELDS = [Field("u", (0, 1)), Field("v", (0, 1, 2, 3))]
NUMBERS = [Bounded("x", -2, 6), Bounded("z", 0, 10)]
MOVED = ClassMoments.example().blocks(1)[-1].movement


def class_sums(field, values, codes, classes):
    """The sums of one number by class, as they are read."""
    reading = ClassMoments(tuple(range(classes)), (), (0,), (field.bounds,))
    return reading.split(reading.read([codes, values]).total)[1][0]


def categorical(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    u = rng.random(n) < np.array([0.2, 0.5, 0.9])[y]
    v = (rng.random(n)[:, None] > np.cumsum([[0.7, 0.1, 0.1], [0.1, 0.6, 0.1], [0.1, 0.1, 0.1]], axis=1)[y]).sum(axis=1)
    return np.column_stack([u.astype(int), v]), np.array(CLASSES)[y]


@cache
def mixed(n, seed=0):
    X, y = categorical(n, seed)
    rng = np.random.default_rng(seed + 1)
    means = {"a": (0.0, 3.0), "b": (2.0, 5.0), "c": (4.0, 5.0)}
    draw = rng.normal([means[k] for k in y], [1.0, 1.5])
    return pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "x": draw[:, 0].clip(-2, 6), "z": draw[:, 1].clip(0, 10)}), y


def test_without_a_promise_it_is_scikit_learns():
    X, y = categorical(800)
    ours = NaiveBayes(mechanism="none", classes=CLASSES, features=FIELDS, alpha=1.0, class_alpha=1e-9).fit(X, y)
    peer = CategoricalNB(alpha=1.0, min_categories=[2, 4]).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-9)
    assert ours.profile_ is None
    frame, y = mixed(800)
    numbers = frame[["x", "z"]]
    ours = NaiveBayes(mechanism="none", classes=CLASSES, features=NUMBERS, class_alpha=1e-9).fit(numbers, y)
    peer = GaussianNB(var_smoothing=0).fit(numbers.to_numpy(), y)
    np.testing.assert_allclose(ours.predict_proba(numbers), peer.predict_proba(numbers.to_numpy()), atol=1e-4)
    np.testing.assert_allclose(ours.table("x")[:, 0], peer.theta_[:, 0], atol=1e-5)
    np.testing.assert_allclose(ours.table("x")[:, 1], peer.var_[:, 0], atol=1e-4)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "tempered"])
def test_at_a_boundless_budget_the_promise_changes_nothing(mechanism):
    X, y = categorical(3000)
    plain = NaiveBayes(mechanism="none", classes=CLASSES, features=FIELDS).fit(X, y)
    target = ZeroConcentratedDP(1e4) if mechanism == "gaussian" else PureDP(1e3 if mechanism == "laplace" else 1e6)
    private = NaiveBayes(
        target=target, mechanism=mechanism, classes=CLASSES, features=FIELDS, random_state=3, floor=1e-4,
        draws=200,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(private.predict_proba(X), plain.predict_proba(X), atol=0.015)


@cache
def without_a_promise():
    """Return other records, and how many of them a fit without noise predicts."""
    test, truth = mixed(1000, seed=9)
    free = NaiveBayes(mechanism="none", classes=CLASSES, features=[*FIELDS, *NUMBERS]).fit(*mixed(4000))
    return test, truth, free.score(test, truth)


@pytest.mark.parametrize(
    ("target", "aware"),
    [
        (PureDP(2.0), True),  # Laplace noise
        (ApproxDP(2.0, 1e-5), True),  # Gaussian noise, as under the next two
        (PureDP(2.0), False),
        (ZeroConcentratedDP(0.3), False),
        (RenyiDP(8.0, 1.0), False),
    ],
    ids=str,
)
def test_a_private_fit_keeps_its_promise_and_predicts(target, aware):
    frame, y = mixed(4000)
    test, truth, free = without_a_promise()
    model = NaiveBayes(
        target=target, classes=CLASSES, features=[*FIELDS, *NUMBERS], random_state=1, noise_aware=aware
    ).fit(frame, y)
    assert model.profile_.satisfies(target)
    assert model.release_.reproducible
    assert model.score(test, truth) > free - 0.05
    proba = model.predict_proba(test)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    ends = model.predict_interval(test.head(20), 0.9)
    assert ends.shape == (20, 3, 2)
    assert np.all(ends[..., 0] <= ends[..., 1])
    assert model.table("x").shape == (3, 2)
    assert np.all(np.diff(model.interval("v")) >= 0)


def test_tempered_fit_costs_what_its_updates_compose_to():
    X, y = categorical(2000)
    model = NaiveBayes(epsilon=30.0, mechanism="tempered", classes=CLASSES, features=FIELDS, random_state=1).fit(X, y)
    a = [0.02 / k for k in (3, 2, 4)]
    width = sum(2 * np.log((1 - (k - 1) * f) / f) for k, f in zip((3, 2, 4), a, strict=True))
    temperature = model.release_.mechanism["temperature"]
    assert temperature == pytest.approx(max(width / 30.0, 1.0))
    assert model.profile_.pure() == pytest.approx(width / temperature)
    assert all(theta.min() >= f * (1 - 1e-6) for theta, f in zip(model.model_.features, a[1:], strict=True))
    two = NaiveBayes(
        target=ZeroConcentratedDP(0.5), mechanism="tempered", classes=CLASSES, features=FIELDS, random_state=1, draws=2
    ).fit(X, y)
    assert two.model_.classes.shape == (2, 3)
    assert two.profile_.zcdp() == pytest.approx(0.5)


def test_one_record_moves_tables_and_moments_no_further_than_claimed():
    """Brute force: every pair of records on a coarse lattice, in tables and in moments."""
    number = Bounded("x", 0, 1)
    lattice = np.linspace(0, 1, 33)
    sums = [class_sums(number, [v], [k], 2) for k, v in itertools.product((0, 1), lattice)]
    for p, q in itertools.product(sums, repeat=2):
        assert np.abs(p - q).sum() <= MOVED.total
        assert ((p - q) ** 2).sum() <= MOVED.squares
    tables = CountTables((Field("class", CLASSES), *FIELDS), (("class", "u"), ("class", "v")))
    records = list(itertools.product(CLASSES, (0, 1), (0, 1, 2, 3)))
    totals = [tables.statistics({"class": [r[0]], "u": [r[1]], "v": [r[2]]}).total for r in records]
    worst = max(np.abs(one - other).sum() for one, other in itertools.product(totals, repeat=2))
    assert worst == 4.0  # two a table
    mechanism = NoisyStatistics.calibrate(NaiveBayesModel(Field("class", CLASSES), FIELDS), 10, PureDP(1.0), "laplace")
    assert worst / mechanism.scales[0] == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_moments_with_noise_are_as_private_as_claimed(kind):
    """The worst pair's exact divergence on the integers, against the profile."""
    noise = IntegerNoise(kind, 3.0 * MOVED.total if kind == "laplace" else 3 * 2.0**21)
    profile = noise_profile([noise], [Block(4, MOVED)])
    number = Bounded("x", 0, 1)
    pairs = [((0, 0.0), (0, 1.0)), ((0, 1.0), (1, 0.0)), ((0, 0.5), (1, 1.0))]
    for (c, x), (d, z) in pairs:
        gap = np.abs(class_sums(number, [x], [c], 2) - class_sums(number, [z], [d], 2)).ravel() / noise.scale
        if kind == "laplace":
            assert gap.sum() <= profile.pure() + 1e-12
        else:
            assert (gap**2).sum() / 2 <= profile.zcdp() + 1e-12


def test_shares_move_the_noise():
    model = NaiveBayesModel(Field("class", CLASSES), (*FIELDS, NUMBERS[0]))
    even = NoisyStatistics.calibrate(model, 100, PureDP(1.0), "laplace")
    tilted = NoisyStatistics.calibrate(model, 100, PureDP(1.0), "laplace", {"u": 2, "v": 1, "x": 1})
    assert even.profile.pure() == pytest.approx(1.0)
    assert tilted.profile.pure() == pytest.approx(1.0)
    assert tilted.scales[0] < even.scales[0] < tilted.scales[1]
    assert tilted.scales[2] > even.scales[2]
    for target in (ApproxDP(1.0, 1e-6), ZeroConcentratedDP(0.2)):
        assert NoisyStatistics.calibrate(model, 100, target).profile.satisfies(target)


def test_intervals_know_of_the_noise():
    X, y = categorical(300)
    widths = {}
    for aware in (True, False):
        model = with_(epsilon=0.2, mechanism="laplace", noise_aware=aware).fit(X, y)
        widths[aware] = np.mean(np.diff(model.interval("v", 0.9)))
    assert widths[True] > 1.5 * widths[False]


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("seen", [(0.3, -0.3), (-1.3, 0.55), (-0.5, -0.6)])  # possible, beyond a corner, below σ = 0
def test_moments_follow_their_law_summed_over_the_noise(kind: str, seen: tuple[float, float]) -> None:
    """Both sums of 40 records: the law of mean and deviation on a grid; one sum's noise on another, the second's in
    closed form."""
    m, b = 40.0, 6.0
    y = m * np.array(seen)
    places = (np.arange(size := 200 if kind == "gaussian" else 48) + 0.5) / size
    mean, sd = np.meshgrid(2 * places - 1, places, indexing="ij")
    whole, half = np.minimum(mean**2 + sd**2, 1 - 1e-9), (1 + mean) / 2
    both = np.maximum((1 - mean**2) / sd**2 - 1, 1e-9)  # the Beta law's two shapes together
    third = sd**3 * stats.beta.stats(half * both, (1 - half) * both, moments="s")
    fourth = sd**4 * (3 + stats.gamma.stats(((1 - np.abs(mean)) / sd) ** 2, moments="k"))
    d = m * np.minimum(fourth - sd**4 + 4 * mean * third + 4 * mean**2 * sd**2, whole * (1 - whole))
    a, c = m * sd**2, m * (2 * mean * sd**2 + third)
    weight = np.zeros(mean.shape)
    if kind == "gaussian":
        a, d, noise = a + b * b, d + b * b, [(0.0, 1.0)]
    else:
        noise = [(x, np.exp(-abs(x) / b)) for x in np.linspace(-12 * b, 12 * b, 289) + 1e-3]
        a = a + 0.06  # narrower than a step of the noise's grid, which would else miss sharp peaks
    left = np.sqrt(np.maximum(d - c * c / a, 1e-9))  # the deviation of the second sum given the first
    for x, often in noise:
        first = y[0] - x - m * mean
        second = y[1] - m * (mean**2 + sd**2 - 0.5) - c / a * first
        if kind == "gaussian":
            height = stats.norm.pdf(second, scale=left)
        else:  # a normal number and a Laplace one: ∫ e^(-|z|/b) N(second - z) dz, side by side
            sides = (special.log_ndtr(s * second / left - left / b) - s * second / b for s in (1, -1))
            height = sum(np.exp(left**2 / (2 * b * b) + side) for side in sides)
        weight += often * np.exp(-(first**2) / (2 * a)) / np.sqrt(a) * height
    weight = np.where(mean**2 + sd**2 <= 1, weight, 0.0)
    weight /= weight.sum()
    found = moment_posterior(
        y[None] * 2.0**10, IntegerNoise(kind, b * 2**10), 2.0**10, np.full((1500, 1), m), seeded_rng(3)
    )
    ours = np.stack([found.values[:, 0, 0], np.sqrt(found.values[:, 0, 1])])
    for drawn, at in zip(ours, (mean, sd), strict=True):
        middle = (weight * at).sum()
        spread = np.sqrt((weight * (at - middle) ** 2).sum())
        assert drawn.mean() == pytest.approx(middle, abs=0.1 * spread)
        assert drawn.std() == pytest.approx(spread, rel=0.1)
    assert found.convergence.r_hat < 1.1


@pytest.mark.parametrize(("kind", "scale"), [("gaussian", 20.0), ("laplace", 40.0), ("laplace", 1.0)])
def test_moments_cover_the_truth_through_noise(kind, scale):
    """Fifty data sets, as many chains each as a fit runs at least: means and variances both."""
    rng, number, sets = seeded_rng(8), Bounded("x", -1, 1), 50
    noise = IntegerNoise(kind, scale * 2**20)
    mean, sd = rng.uniform(-0.4, 0.4, sets), rng.uniform(0.05, 0.3, sets)
    x = np.clip(rng.normal(mean, sd, (300, sets)), -1, 1)
    sums = np.concatenate([class_sums(number, column, np.zeros(300, dtype=int), 1) for column in x.T])
    draw = rng.laplace if kind == "laplace" else rng.normal
    found = moment_posterior(sums + draw(0, noise.scale, sums.shape), noise, 2.0**20, np.full((64, sets), 300.0), rng)
    low, high = np.quantile(found.values, [0.025, 0.975], axis=0)
    inside = (low <= np.column_stack([mean, sd**2])) & (np.column_stack([mean, sd**2]) <= high)
    assert np.all(inside.mean(axis=0) > 0.87)
    assert found.convergence.r_hat < 1.1


def test_variances_of_columns_crowded_against_a_bound_cover_the_truth():
    """Exponential columns, whose fourth moment is three times a normal one's: by that, six in ten intervals held."""
    rng, number, sets = seeded_rng(9), Bounded("x", 0, 1), 60
    noise, scale = IntegerNoise("gaussian", 2.0**20), 0.12
    x = np.minimum(rng.exponential(scale, (800, sets)), 1.0)
    sums = np.concatenate([class_sums(number, column, np.zeros(800, dtype=int), 1) for column in x.T])
    noisy = sums + rng.normal(0, noise.scale, sums.shape)
    found = moment_posterior(noisy, noise, 2.0**20, np.full((64, sets), 800.0), rng)
    low, high = np.quantile(found.values, [0.025, 0.975], axis=0)
    rest = np.exp(-1 / scale)  # of the column cut at 1: E[x] = s(1 - r), E[x²] = 2s²(1 - r) - 2sr
    mean, square = scale * (1 - rest), 2 * scale**2 * (1 - rest) - 2 * scale * rest
    truth = np.array([2 * mean - 1, 4 * (square - mean**2)])
    assert np.all(((low <= truth) & (truth <= high)).mean(axis=0) > 0.85)


def test_scikit_learn_manners():
    X, y = categorical(500)
    model = NaiveBayes(epsilon=1.0, classes=CLASSES, features=FIELDS, random_state=1)
    assert model.get_params()["epsilon"] == 1.0
    twin = clone(model.set_params(epsilon=2.0))
    assert twin.epsilon == 2.0
    assert twin.features == FIELDS
    with pytest.warns(EveryFitSpends, match="spends"):
        twin.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    free = NaiveBayes(mechanism="none", classes=CLASSES, features=FIELDS)
    assert cross_val_score(free, X, y, cv=3).mean() > 0.5
    np.testing.assert_array_equal(model.fit(X, y).predict(X), NaiveBayes(**model.get_params()).fit(X, y).predict(X))
    assert not NaiveBayes(epsilon=1.0, classes=CLASSES, features=FIELDS, draws=16).fit(X, y).release_.reproducible


def test_draws_follow_the_posterior_without_noise():
    X, y = categorical(300)
    model = NaiveBayes(mechanism="none", classes=CLASSES, features=FIELDS, random_state=2, draws=4000).fit(X, y)
    count = np.array([(y == k).sum() for k in CLASSES]) + 1 / 3
    law = stats.beta(count[0], count[1:].sum())
    assert stats.kstest(model.draws_.classes[:, 0], law.cdf).pvalue > 1e-3


def with_(**changes):
    return NaiveBayes(**({"epsilon": 1.0, "classes": CLASSES, "features": FIELDS, "random_state": 0} | changes))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (with_(epsilon=None), "promise is missing"),
        (with_(target=PureDP(1.0)), "once"),
        (with_(mechanism="none"), "keeps no promise"),
        (with_(mechanism="magic"), "one of auto"),
        (with_(classes=None), "missing"),
        (with_(classes=("a",)), "at least 2"),
        (with_(features=[]), "list of Field"),
        (with_(features=[Field("u", (0, 1)), Field("u", (0, 1))]), "different names"),
        (with_(features=[Field("u", (0, 1)), Field("v", (0,))]), "at least 2"),
        (with_(alpha=0.0), "alpha"),
        (with_(floor=1.0), "floor"),
        (with_(draws=0), "draws"),
        (with_(shares={"u": 1.0}), "shares"),
        (with_(shares={"u": 1.0, "v": -1.0}), "shares"),
        (with_(mechanism="tempered", shares={"u": 1.0, "v": 1.0}), "shares"),
        (with_(mechanism="tempered", features=[FIELDS[0], NUMBERS[0]]), "categories only"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_bad_arguments_raise_before_anything_is_read(model, message):
    with pytest.raises(InvalidValue, match=message):
        model.fit([[object(), object()]], ["a"])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((0, 2)), [], "no record"),
        ([[0, 1]], ["a", "b"], "one class a row"),
        ([[0, 1, 1]], ["a"], "2 columns"),
        (pd.DataFrame({"u": [0]}), ["a"], "no column 'v'"),
        ({"u": [0], "v": [0, 1]}, ["a"], "different lengths"),
    ],
    ids=str,
)
def test_bad_records_raise(X, y, message):
    with pytest.raises(InvalidData, match=message):
        with_().fit(X, y)


@pytest.fixture
def short_chains(monkeypatch):
    """Stop chains early, whether they agree or not: however short, the same ones end at the same place."""
    for room, bound in itertools.product(("moment_posterior", "latent_classes"), ("_LEAST", "_MOST")):
        monkeypatch.setattr(f"sottovoce.inference.latent.{room}.{bound}", 40)


@cache
def kept_fit(mechanism):
    """Return the features, how to fit three records and one more, and the fit where that is of the first of all."""
    features = FIELDS if mechanism == "tempered" else [*FIELDS, Bounded("t", -1, 3)]
    rows, y = [[0, 1, 0.5], [1, 1, 2.0], [0, 0, 1.0]], ["a", "b", "a"]
    first = [f.categories[0] for f in FIELDS]

    def fitted(row, label):
        model = NaiveBayes(5.0, mechanism=mechanism, classes=CLASSES, features=features, random_state=1, draws=2)
        model.epsilon = None if mechanism == "none" else 5.0
        return model.fit([r[: len(features)] for r in [*rows, row]], [*y, label])

    return features, first, fitted, fitted([*first, 0.0], CLASSES[0])


@pytest.mark.parametrize("odd", [9, "x", None, [1], 10**400, np.nan, object()], ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("mechanism", ["laplace", "tempered", "none"])
def test_an_odd_record_counts_as_the_first_category_and_class(odd, mechanism, short_chains):
    features, first, fitted, two = kept_fit(mechanism)
    one = fitted([odd, odd, np.nan], odd)
    np.testing.assert_array_equal(one.model_.classes, two.model_.classes)
    for left, right in zip(one.model_.features, two.model_.features, strict=True):
        np.testing.assert_array_equal(left, right)
    assert one.predict([[odd, odd, 0.0][: len(features)]]) == one.predict([[*first, 0.0][: len(features)]])


def test_numbers_that_are_none_count_as_zero_cut_to_the_bounds():
    odd = [np.nan, None, "7", [1.0], 1j]
    np.testing.assert_array_equal(Bounded("x", -1, 3).centred(odd), [-0.5] * 5)
    np.testing.assert_array_equal(Bounded("x", 2, 4).centred(odd), [-1.0] * 5)
    np.testing.assert_array_equal(Bounded("x", -1, 3).centred([10**400, -np.inf, np.inf]), [1.0, -1.0, 1.0])
    with pytest.raises(InvalidData, match="one column"):
        Bounded("x", 0, 1).centred(np.zeros((2, 2)))


FAR_OFF = [(1e16, 1e16 + 2), (1e9, 1e9 + 1), (-1e100, 1e100), (0.1, 0.3), (-1e-100, 1e-100), (1e15, 1e15 + 0.125)]


@pytest.mark.parametrize("bounds", FAR_OFF, ids=str)
def test_one_record_moves_the_moments_by_no_more_than_is_claimed(bounds):
    """Every pair of values and of classes, against the claimed sensitivity in whole numbers."""
    field = Bounded("t", *bounds)
    inner = bounds[0] + np.linspace(0, 1, 17) * (bounds[1] - bounds[0])
    values = np.unique([*inner, *np.nextafter(bounds, [np.inf, -np.inf])])
    assert np.all(np.abs(field.centred(values)) <= 1)
    sums = [class_sums(field, [v], [k], 2).ravel().tolist() for v in values for k in (0, 1)]
    gaps = [[int(a) - int(b) for a, b in zip(p, q, strict=True)] for p in sums for q in sums]
    assert max(sum(map(abs, gap)) for gap in gaps) <= MOVED.total
    assert max(sum(g * g for g in gap) for gap in gaps) <= MOVED.squares


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bounded("x", 1, 1),
        lambda: Bounded("x", 0, np.inf),
        lambda: Bounded("", 0, 1),
        lambda: Bounded("x", 0, 5e-324),
        lambda: Bounded("x", -1e308, 1e308),
        lambda: Bounded("x", None, 1),
        lambda: Bounded("x", 0, 10**400),
    ],
)
def test_bad_bounds_raise(make):
    with pytest.raises(InvalidValue):
        make()


def test_questions_that_have_no_answer():
    X, y = categorical(60)
    model = NaiveBayes(mechanism="none", classes=CLASSES, features=FIELDS).fit(X, y)
    with pytest.raises(InvalidValue, match="nothing here is called 'w'"):
        model.table("w")
    with pytest.raises(InvalidValue, match="level"):
        model.interval("u", 1.0)
    with pytest.raises(PromiseUnreachable):
        NaiveBayes(target=PureDP(1.0), mechanism="gaussian", classes=CLASSES, features=[*FIELDS, *NUMBERS]).fit(
            *mixed(10)
        )


def test_a_class_without_records_and_one_record_give_sensible_models(short_chains):
    X, y = categorical(50)
    X, y = X[y != "c"], y[y != "c"]
    model = with_(features=FIELDS).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    one = with_(target=None).fit(X[:1], y[:1])
    assert np.isfinite(one.predict_proba(X)).all()
    frame, y = mixed(1)
    numeric = with_(features=NUMBERS).fit(frame, y)
    assert np.isfinite(numeric.predict_proba(frame)).all()


def test_chances_of_classes_that_were_hardly_seen_come_with_a_warning():
    """Of two records in two hundred, 95 % intervals of a chance of one in five held 70 % of the time."""
    rng = seeded_rng(8)
    labels = np.repeat(["a", "b", "r"], [120, 78, 2])
    table = {"f": rng.integers(0, 3, 200), "x": rng.random(200)}
    public = {"classes": ("a", "b", "r"), "features": [Field("f", (0, 1, 2)), Bounded("x", 0, 1)], "random_state": 1}
    rare = NaiveBayes(epsilon=10.0, **public).fit(table, labels)
    with pytest.warns(UserWarning, match="few records tell of .* r: intervals of its chances"):
        ends = rare.predict_interval({"f": [0], "x": [0.5]})
    assert "few records tell of" in rare.draws_.summary()
    plain = np.moveaxis(
        rare.draws_.quantiles(rare.draws_.coded([np.array([0]), np.array([0.5])]), [0.025, 0.975]), 0, -1
    )
    assert np.diff(ends)[0, 2, 0] > 1.05 * np.diff(plain)[0, 2, 0]  # as far as each share reaches by itself
    common = NaiveBayes(epsilon=10.0, **public).fit(table, np.repeat(["a", "b", "r"], [80, 60, 60]))
    common.predict_interval({"f": [0], "x": [0.5]})  # a warning would be an error
