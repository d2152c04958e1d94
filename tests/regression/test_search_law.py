"""An attack on private search: the exact law of a whole search on four records, against its claim and its draws."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy import special, stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sottovoce.faces.estimators import (
    EveryFitSpends,
    LinearRegression,
    LogisticRegression,
    PrivateSearchCV,
    PublicScaler,
)
from sottovoce.inference.regression import BestRegression, Design, FilteredRegression, Logistic, Softmax
from sottovoce.privacy.best_of import TRIES, RandomStopping
from sottovoce.privacy.errors import InvalidValue, SottovoceError
from sottovoce.privacy.promises import ApproxDP, RenyiDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Rows

STEEP = 5.0
MU = 1.0


class Coin(FilteredRegression):
    """The side most of its labels are on, told wrong as often as leaves it μ-Gaussian private and no more."""

    def _value(self, seen, rng, draws):
        del draws
        right = 1.0 if np.sum(seen.y) > 0 else -1.0
        return np.array([[STEEP * (right if rng.random() < special.ndtr(MU / 2) else -right)]])


def search_of(tries):
    design = Design(Logistic(), 1, 1.0)
    return BestRegression(design, 4, (Coin(design, 3, MU, looks=1),), MU * (1 + 1e-6), tries, share=0.25)


def law_of(labels, tries, s):
    """Return the density of (side, noisy score) of a whole search of records x = 1 with these labels, in two rows."""
    p = special.expit(STEEP)
    density, below = np.zeros((2, s.size)), np.zeros(s.size)
    for out, side in itertools.product(range(4), (1, -1)):
        rest = sum(labels) - labels[out]
        weight = special.ndtr(MU / 2) if (side > 0) == (rest > 0) else special.ndtr(-MU / 2)
        mean = 1 - ((p if side > 0 else 1 - p) - (labels[out] > 0)) ** 2
        density[int(side > 0)] += weight / 4 * stats.norm.pdf(s, mean, 1 / MU)
        below += weight / 4 * stats.norm.cdf(s, mean, 1 / MU)
    k = np.arange(1, 400)
    return density * np.polyval((tries.probability(k) * k)[::-1], below)


@pytest.mark.parametrize("law", sorted(TRIES))
@pytest.mark.parametrize("mean", [1.0, 3.0, 10.0])
def test_no_pair_of_tables_is_told_apart_better_than_claimed(law, mean):
    tries, s = RandomStopping(mean, law), np.linspace(-9.0, 11.0, 4001)
    claim, step, worst = search_of(tries).profile, s[1] - s[0], 0.0
    # The order of records says nothing: a table is how many of its labels are 1, its neighbours have one more or less.
    laws = [law_of([1] * ones + [-1] * (4 - ones), tries, s) for ones in range(5)]
    assert all(found.sum() * step == pytest.approx(1.0, abs=1e-6) for found in laws)
    for pair in [*itertools.pairwise(laws), *itertools.pairwise(laws[::-1])]:
        for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
            exact = float(np.sum(np.maximum(pair[0] - math.exp(epsilon) * pair[1], 0.0)) * step)
            worst = max(worst, exact / float(claim.delta(epsilon)))
    assert 0.05 < worst <= 1


@pytest.mark.parametrize("law", sorted(TRIES))
def test_draws_of_a_search_follow_that_law(law):
    tries, rng = RandomStopping(3.0, law), seeded_rng(17)
    search, labels = search_of(tries), (1, 1, -1, 1)
    rows = Rows(4, np.ones((4, 1)), np.array(labels, dtype=float))
    one_by_one = ((one.score, one.mean[0]) for one in (search._value(rows, rng, 1) for _ in range(300)))
    scores, means = np.array([*one_by_one, *search.outputs(rows, rng, 300)[:, 1:]]).T
    s = np.linspace(-9.0, 11.0, 4001)
    expected = law_of(labels, tries, s) * (s[1] - s[0])
    edges = np.searchsorted(np.cumsum(expected.sum(axis=0)), [0.25, 0.5, 0.75])
    cells = np.array([[part.sum() for part in np.split(side, edges)] for side in expected]).ravel()
    place = np.searchsorted(s[edges], scores)
    found = np.bincount(4 * (means > 0) + place, minlength=8)
    assert stats.chisquare(found, 600 * cells / cells.sum()).pvalue > 1e-4


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308])
def test_a_score_is_a_number_whatever_was_released(value):
    class Odd(Coin):
        def _value(self, seen, rng, draws):
            del seen, rng, draws
            return np.array([[value]])

    design = Design(Logistic(), 1, 1.0)
    search = BestRegression(design, 4, (Odd(design, 3, MU, looks=1),), 1.1, RandomStopping(2.0))
    with np.errstate(all="ignore"):
        assert math.isfinite(search._tries(Rows(4, np.zeros((4, 1)), np.ones(4)), seeded_rng(1), 1)[0].score)


@pytest.mark.parametrize("tries", [1.0, 1 + 1e-9, 1e6])
@pytest.mark.parametrize("target", [RenyiDP(8.0, 3.0), ApproxDP(0.01, 1e-9), ApproxDP(1e4, 0.5)])
def test_a_search_can_be_had_at_the_extremes_and_keeps_its_promise(tries, target):
    design = Design(Softmax(3), 2, 1.0)
    build = [lambda n, promise: FilteredRegression.calibrate(design, n, promise)]
    for n in (2, 10**7):
        search = BestRegression.calibrate(design, n, target, candidates=build, tries=RandomStopping(tries))
        assert search.profile.satisfies(target)
        assert search.candidates[0].profile.gdp() <= search.mu
    if tries < 2:
        odd = np.array([[math.nan, 1e300], [-math.inf, 0.0]])
        small = BestRegression.calibrate(design, 2, target, candidates=build, tries=RandomStopping(tries))
        assert math.isfinite(small.release((odd, [0, 2]), seeded_rng(1)).value.score)


def three(n=1500):
    rng = seeded_rng(3)
    place = rng.integers(0, 3, n)
    X = np.array([[0.4, 0.0], [-0.3, 0.3], [0.0, -0.4]])[place] + 0.1 * rng.standard_normal((n, 2))
    return X, np.array(["ash", "elm", "oak"])[place]


@pytest.mark.parametrize("scoring", ["square", "accuracy"])
def test_several_classes_are_searched_and_clones_start_anew(scoring):
    X, y = three()
    model = LogisticRegression(data_norm=1.0, classes=["ash", "elm", "oak"])
    search = PrivateSearchCV(
        model,
        {"prior_scale": [0.01, 10.0]},
        epsilon=8.0,
        delta=1e-6,
        scoring=scoring,
        tries=20,
        law="geometric",
        random_state=4,
    )
    twin = clone(search.fit(X, y))
    assert search.best_params_ == {"prior_scale": 10.0} or scoring == "accuracy"  # which minds no scale
    assert search.score(X, y) > 0.85
    assert search.predict_proba(X[:5]).shape == (5, 3)
    assert not hasattr(twin, "best_estimator_")
    with pytest.warns(EveryFitSpends, match="clone"):
        twin.fit(X, y)
    assert np.array_equal(twin.best_estimator_.coef_, search.best_estimator_.coef_)


def test_pipelines_may_end_in_a_search_and_are_not_searched_over():
    X, y = three(600)
    model = LogisticRegression(data_norm=1.0, classes=["ash", "elm", "oak"])
    search = PrivateSearchCV(model, {"prior_scale": [10.0]}, epsilon=2.0, delta=1e-6, random_state=1)
    fitted = make_pipeline(PublicScaler([(-2, 2)] * 2), search).fit(X, y)
    assert fitted.score(X, y) > 0.7
    with pytest.raises(SottovoceError, match="standardscaler"):
        make_pipeline(StandardScaler(), clone(search)).fit(X, y)
    with pytest.raises(InvalidValue, match="Pipeline"):
        PrivateSearchCV(make_pipeline(model), {}, epsilon=1.0, delta=1e-6).fit(X, y)


def test_a_search_within_a_search_warns_at_every_fit():
    X, y = three(300)
    model = LogisticRegression(data_norm=1.0, classes=["ash", "elm", "oak"])
    search = PrivateSearchCV(model, {"prior_scale": [10.0]}, epsilon=2.0, delta=1e-6, tries=1, random_state=1)
    grid = GridSearchCV(search, {"held_out": [0.2]}, cv=2)
    grid.learns_nothing = True  # these records are nobody's
    for nested in (lambda: grid.fit(X, y), lambda: cross_val_score(search, X, y)):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            nested()
        assert sum(issubclass(one.category, EveryFitSpends) for one in seen) >= 2


def test_weights_of_records_are_refused_by_name():
    """A weight would let one record count for many; no fit takes one, and a score on public records may."""
    X, y = three(300)
    model = LogisticRegression(data_norm=1.0, classes=["ash", "elm", "oak"])
    search = PrivateSearchCV(model, {"prior_scale": [10.0]}, epsilon=2.0, delta=1e-6, tries=1, random_state=1)
    for one in (search, model, LinearRegression(1.0, 1e-6, data_norm=1.0, response_bound=1.0)):
        with pytest.raises(TypeError, match="sample_weight"):
            one.fit(X, y, sample_weight=np.ones(300))
    fitted = search.fit(X, y)
    ash = y == "ash"
    right = np.mean(fitted.predict(X[ash]) == "ash")
    assert fitted.score(X, y, sample_weight=ash.astype(float)) == pytest.approx(right)
