"""How many answers until two data sets can be told apart, against enumeration, linear programmes and adversaries."""

import itertools
import math
import sys

import mpmath
import numpy as np
import pytest
from scipy import optimize, special, stats

from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.filter import PrivacyFilter
from sottovoce.privacy.gaussian import GaussianProfile
from sottovoce.privacy.promises import ApproxDP, GaussianDP, PureDP, RenyiDP, ZeroConcentratedDP
from sottovoce.privacy.pure import BoundedRangeProfile, PureProfile
from sottovoce.theory.metric.distinguishability import (
    answers_left,
    answers_withstood,
    best_guess,
    guess_error,
    histogram_answers,
    histogram_cells,
    histogram_resolution,
    one_guess,
    theorem_three_answers,
)
from sottovoce.theory.metric.metric import MetricDP, absolute_distance
from sottovoce.theory.metric.posterior_pairs import BinomialProportion

FILTERS = [
    PrivacyFilter(PureDP(2.0)),
    PrivacyFilter(RenyiDP(3.0, 1.0)),
    PrivacyFilter(ApproxDP(1.0, 1e-6)),
    PrivacyFilter(ZeroConcentratedDP(0.5)),
    PrivacyFilter(GaussianDP(1.0)),
]


def coin_total_variation(level, count):
    """The total variation of `count` randomized responses, by the binomial law."""
    p = 1 / (1 + math.exp(-level))
    hits = np.arange(count + 1)
    return np.abs(stats.binom.pmf(hits, count, p) - stats.binom.pmf(hits, count, 1 - p)).sum() / 2


@pytest.mark.parametrize(("level", "error"), [(0.3, 0.05), (0.3, 0.25), (1.0, 0.01), (0.05, 0.4)])
def test_randomized_response_withstands_just_so_many_answers(level, error):
    count = int(answers_withstood(PureProfile(level), error))
    assert coin_total_variation(level, count) < 1 - 2 * error <= coin_total_variation(level, count + 1)


@pytest.mark.parametrize(("mu", "error"), [(0.5, 0.05), (0.1, 0.2), (3.0, 0.05)])
def test_gaussian_noise_withstands_just_so_many_answers(mu, error):
    needed = (-2 * stats.norm.ppf(error) / mu) ** 2
    assert answers_withstood(GaussianProfile(mu), error) == math.ceil(needed) - 1


def test_one_answer_may_be_one_too_many_and_no_leak_is_never_enough():
    assert answers_withstood(PureProfile(5.0), 0.05) == 0
    assert answers_withstood(PureProfile(0.0), 0.05) == math.inf
    assert answers_withstood(GaussianProfile(1e-5), 0.05) == math.inf


REAL, ERROR = BinomialProportion(6.0, 12.0).profile([1] + [0] * 99, [0] * 100), 0.2


@pytest.fixture(scope="module")
def withstood():
    """How many answers of real posteriors are withstood."""
    return answers_withstood(REAL, ERROR)


def test_no_adversary_beats_the_count_on_real_posteriors(withstood):
    """The likelihood-ratio test is the best there is: with the answers withstood, it is wrong too often."""
    profile, error, count = REAL, ERROR, int(withstood)
    rng = np.random.default_rng(5)
    wrong = []
    for truth, sign in (((7, 111), 1), ((6, 112), -1)):
        answers = rng.beta(*truth, size=(10_000, count))
        # log p/q = log x - log(1 - x) + log B(6, 112) - log B(7, 111), and B(7, 111) = B(6, 112)·6/111
        votes = (special.logit(answers) + math.log(111 / 6)).sum(axis=1)
        wrong.append(np.mean(sign * votes < 0))
    assert np.mean(wrong) > error - 3 * math.sqrt(0.25 / 20_000)
    assert np.mean(wrong) < error + 0.02  # and the bound is not far from the truth
    assert best_guess(count * profile) == pytest.approx(1 - np.mean(wrong), abs=0.01)


@pytest.mark.parametrize("purse", FILTERS, ids=lambda f: str(f.budget))
@pytest.mark.parametrize("error", [0.02, 0.2])
def test_no_test_of_this_error_is_cheaper_than_one_guess(purse, error):
    """Brute force over all pairs of errors (α, β) up to `error`, in every notion, both ways round."""
    price = purse.cost(one_guess(error))
    for alpha, beta in itertools.product(np.linspace(error / 20, error, 20), repeat=2):
        p, q = np.array([1 - alpha, alpha]), np.array([beta, 1 - beta])
        match purse.budget:
            case PureDP():
                cost = np.abs(np.log(p / q)).max()
            case RenyiDP(order, _):
                cost = max(renyi_of(p, q, order), renyi_of(q, p, order))
            case ApproxDP():
                cost = max(renyi_of(p, q, purse.order), renyi_of(q, p, purse.order))
            case ZeroConcentratedDP():
                cost = max(p @ np.log(p / q), q @ np.log(q / p))  # ρ is at least the divergence
            case GaussianDP():
                cost = (special.ndtri(alpha) + special.ndtri(beta)) ** 2
        assert cost >= price * (1 - 1e-9)


def renyi_of(p, q, order):
    return math.log(float(np.sum(p**order * q ** (1 - order)))) / (order - 1)


@pytest.mark.parametrize("purse", FILTERS, ids=lambda f: str(f.budget))
def test_answers_left_stop_just_short_of_the_price(purse):
    profile = PureProfile(0.01)
    price, cost = purse.cost(one_guess(0.05)), purse.cost(profile)
    fresh = answers_left(PrivacyFilter(purse.budget, purse.order), profile)
    assert fresh * cost < price <= (fresh + 1) * cost * (1 + 1e-12)
    half = answers_left(PrivacyFilter(purse.budget, purse.order, costs=[price / 2]), profile)
    assert half == pytest.approx(fresh / 2, abs=1)
    assert answers_left(PrivacyFilter(purse.budget, purse.order, costs=[price]), profile) == 0


@pytest.mark.parametrize("error", [1e-20, 0.01, 0.05, 0.3, 0.4999])
def test_answers_that_cost_as_much_as_one_guess_are_not_said_to_withstand_it(error):
    """The price, by mpmath to many digits, and answers that meet it by a last digit, in every number of them."""
    with mpmath.workdps(50):
        e = mpmath.mpf(error)
        level = mpmath.log((1 - e) / e)
        separation = -2 * mpmath.sqrt(2) * mpmath.erfinv(2 * e - 1)
        for purse, truth, made in (
            (PrivacyFilter(PureDP(1.0)), level, PureProfile),
            (PrivacyFilter(ZeroConcentratedDP(1.0)), level * mpmath.tanh(level / 2), ZeroConcentratedProfile),
            (PrivacyFilter(GaussianDP(1.0)), separation**2, lambda cost: GaussianProfile(math.sqrt(cost))),
        ):
            for count in (1, 3, 7, 64):
                cost = math.nextafter(float(truth / count), math.inf)
                while count * mpmath.mpf(purse.cost(made(cost))) < truth:
                    cost = math.nextafter(cost, math.inf)
                assert answers_left(purse, made(cost), error) < count
                assert answers_left(purse, made(cost * (1 - 1e-12)), error) == count


@pytest.mark.parametrize("cost", [5e-324, 1e-308, 1e-160, 1e-20, 3.3e-17, 7.1e-17])
def test_answers_that_are_more_than_doubles_count_are_rounded_down(cost):
    with mpmath.workdps(400):
        e = mpmath.mpf(0.05)
        count = mpmath.mpf(answers_left(PrivacyFilter(PureDP(1.0)), PureProfile(cost)))
        most = mpmath.log((1 - e) / e) / mpmath.mpf(cost)
        assert (1 - mpmath.mpf(2) ** -42) * min(most, sys.float_info.max) < count < most


def test_answers_left_never_promises_more_than_the_count_fixed_in_advance(withstood):
    for purse in (PrivacyFilter(RenyiDP(2.0, 1.0)), PrivacyFilter(ApproxDP(3.0, 1e-2), order=3.0)):
        assert 0 < answers_left(purse, REAL, ERROR) <= withstood


def test_answers_left_of_what_has_no_such_privacy_and_of_what_costs_nothing():
    assert answers_left(PrivacyFilter(PureDP(1.0)), GaussianProfile(1.0)) == 0
    assert answers_left(PrivacyFilter(PureDP(1.0)), PureProfile(0.0)) == math.inf
    assert answers_left(PrivacyFilter(GaussianDP(1.0)), ZeroConcentratedProfile(0.1)) == 0


@pytest.mark.parametrize(("count", "error", "p"), [(50, 0.05, 0.5), (200, 0.01, 0.3), (20, 0.06, 0.9)])
def test_lemma_2_holds_for_two_cells(count, error, p):
    """Enumerated: the L1 distance of the empirical law of a coin from its own is 2|hits/k - p|."""
    radius = histogram_resolution(count, error)
    hits = np.arange(count + 1)
    outside = 2 * np.abs(hits / count - p) >= radius
    assert stats.binom.pmf(hits, count, p)[outside].sum() <= error


def test_lemma_2_holds_for_three_cells():
    count, error, cells = 30, 0.015, (0.2, 0.3, 0.5)
    assert histogram_cells(error) == 3
    law, outside = stats.multinomial(count, cells), 0.0
    for a in range(count + 1):
        for b in range(count + 1 - a):
            seen = np.array([a, b, count - a - b])
            if np.abs(seen / count - cells).sum() >= histogram_resolution(count, error):
                outside += law.pmf(seen)
    assert 0 < outside <= error


@pytest.mark.parametrize(("p", "q"), [(0.6, 0.4), (0.3, 0.2), (0.95, 0.9)])
@pytest.mark.parametrize("error", [0.0625, 0.01])
def test_the_histogram_adversary_does_tell_the_data_sets_apart(p, q, error):
    """Exact errors of the nearest-histogram rule on the two cells; fewer answers than withstood are never enough."""
    count = int(histogram_answers(p - q, error))
    hits = np.arange(count + 1)
    says_p = hits / count > (p + q) / 2
    assert stats.binom.pmf(hits, count, p)[~says_p].sum() <= error
    assert stats.binom.pmf(hits, count, q)[says_p].sum() <= error
    level = max(math.log(p / q), math.log((1 - q) / (1 - p)))
    assert answers_withstood(PureProfile(level), error) < count


@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("error", [1 / 16, 1e-3])
def test_theorem_3_read_as_a_lower_bound_is_below_what_is_withstood(scale, error):
    privacy = MetricDP(scale, absolute_distance)
    paper = theorem_three_answers(privacy, [0.0], [1.0], error)
    assert paper <= answers_withstood(privacy.profile([0.0], [1.0]), error) + 1


@pytest.mark.parametrize(("scale", "error"), [(0.2, 1 / 16), (3.0, 1e-3)])
def test_at_the_answers_of_theorem_3_the_resolution_is_as_fine_as_two_posteriors_lie_apart(scale, error):
    """Pinsker's √(2·2Lρ) in L1 beside Lemma 2's √(3 ln(1/error)/k): equal at the k of the theorem."""
    count = theorem_three_answers(MetricDP(scale, absolute_distance), [0.0, 1.0], [1.0, 1.5], error)
    apart = math.sqrt(2 * 2 * scale * 1.5)
    assert math.sqrt(3 * math.log(1 / error) / count) == pytest.approx(apart, rel=1e-12)


def test_theorem_3_as_stated_fails_where_two_data_sets_have_one_posterior():
    privacy = BinomialProportion(1.0, 1.0).bounded(0.2)
    x, y = [0, 1], [1, 0]
    assert math.isfinite(theorem_three_answers(privacy, x, y, 0.01))  # "can tell x from y" with so many answers
    assert BinomialProportion(1.0, 1.0).total_variation(x, y) == 0  # yet nobody can with any
    assert histogram_answers(0.0, 0.01) == math.inf


@pytest.mark.parametrize("seed", range(6))
def test_le_cam_bounds_the_best_estimator_there_is(seed):
    """The minimax expected distance over all randomized estimators, by linear programming on a finite answer space."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet([0.7] * 6, 2)
    places = np.linspace(0.0, 3.0, 13)  # where the estimator may point; the data sets lie at 0 and 3
    risks = [np.outer(p, np.abs(places - 0.0)).ravel(), np.outer(q, np.abs(places - 3.0)).ravel()]
    size = risks[0].size
    # minimise r subject to risk <= r for both data sets, each answer's row a distribution over places
    rows = np.kron(np.eye(6), np.ones(13))
    solved = optimize.linprog(
        np.append(np.zeros(size), 1.0),
        A_ub=np.column_stack([np.vstack(risks), -np.ones(2)]),
        b_ub=np.zeros(2),
        A_eq=np.column_stack([rows, np.zeros(6)]),
        b_eq=np.ones(6),
    )
    bound = guess_error(3.0, np.abs(p - q).sum() / 2)
    assert solved.fun >= bound - 1e-9
    average = 3.0 * np.minimum(p, q).sum() / 2  # the Bayes risk of the even mixture attains it
    assert bound == pytest.approx(average)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: one_guess(0.0), "error must be > 0"),
        (lambda: one_guess(0.5), "error must be < 0.5"),
        (lambda: one_guess(math.nan), "error must be finite"),
        (lambda: answers_withstood(PureProfile(1.0), -0.1), "error must be >= 0"),
        (lambda: histogram_cells(0.2), "at most 1/16"),
        (lambda: histogram_resolution(0, 0.01), "answers must be a whole number"),
        (lambda: histogram_answers(1.5, 0.01), "total_variation must be <= 1"),
        (lambda: guess_error(1.0, 1.5), "total_variation must be <= 1"),
        (lambda: guess_error(-1.0, 0.5), "distance must be >= 0"),
    ],
)
def test_what_makes_no_sense_is_refused(call, words):
    with pytest.raises(InvalidValue, match=words):
        call()


def test_a_window_withstands_more_than_its_pure_level():
    assert answers_withstood(BoundedRangeProfile(1.0)) > answers_withstood(PureProfile(1.0))
