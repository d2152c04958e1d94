"""Filtered regressions: every sum moves by at most 1, the belief is right, and predictions are worth having."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from sottovoce.faces.estimators import LinearRegression, LogisticRegression, ProbitRegression
from sottovoce.inference.regression import (
    Design,
    DiffusedRegression,
    FilteredRegression,
    Logistic,
    Poisson,
    Softmax,
    SoftmaxPosterior,
    Squared,
)
from sottovoce.inference.regression.filter_settings import Rule
from sottovoce.inference.regression.kalman_filter import FilteredGaussian, denoised, effective
from sottovoce.inference.regression.residuals import Classes, Line, Probits
from sottovoce.inference.regression.softmax import contrasts, softmax
from sottovoce.inference.regression.sums import ask
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.mechanisms.release import Release
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP, GaussianDP, RenyiDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.facts import Category, Facts, Number
from sottovoce.records.readings import Rows

DESIGNS = {
    "two classes": Design(Logistic(), 3, 2.0),
    "five classes": Design(Softmax(5), 3, 2.0),
    "a line": Design(Squared(1.0), 3, 2.0, radius=3.0),
}


def records(design, n, rng):
    X = rng.standard_normal((n, 3)) * rng.choice([0.0, 1e-6, 0.5, 2.0, 1e9], (n, 1))
    low, high = design.loss.labels
    return X, rng.integers(0, round(high - low) + 1, n) + low


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("room", [0.0, 1.2])
def test_no_replaced_record_moves_any_sum_by_more_than_one(name, room):
    """Brute force over replaced records, odd ones among them, with answers that lead anywhere."""
    design, rng = DESIGNS[name], seeded_rng(5)
    mechanism = FilteredRegression(design, 6, 1.0, looks=4, unbiased=2, shape_room=room)
    farthest = 0.0
    for _ in range(25):
        X, y = records(design, 6, rng)
        Z, t = records(design, 6, rng)
        Z[:-1], t[:-1] = X[:-1], y[:-1]
        if rng.random() < 0.5:
            Z[-1], t[-1] = -X[-1], y[-1]
        pair = [mechanism._within(mechanism.see((rows, labels))) for rows, labels in ((X, y), (Z, t))]
        steps = mechanism.steps()
        question = next(steps)
        try:
            while True:
                first, second = (question.moved(seen) for seen in pair)
                farthest = max(farthest, float(np.linalg.norm(first - second)))
                answer = first + rng.standard_normal(first.shape) * rng.choice([0.1, 10.0, 1e6])
                question = steps.send(answer)
        except StopIteration as end:
            assert np.all(np.isfinite(end.value.mean))
    assert 0.9 < farthest <= 1


def test_the_log_ratio_is_that_of_the_answers():
    """A sum of Gaussian log-densities, taken apart here by hand for a mechanism of one look."""
    mechanism = replace(FilteredRegression.example(), looks=1)
    pair = mechanism.worst_pair()
    heard = mechanism.outputs(pair[0], seeded_rng(2), 4)
    none = mechanism.outputs(pair[0], seeded_rng(2), 0)
    assert none.shape == (0, heard.shape[1]) and mechanism.log_ratio(pair)(none).shape == (0,)
    expected = []
    for answers in heard:
        total = 0.0
        for sign, seen in zip((1, -1), pair, strict=True):
            steps, place = mechanism.steps(), 0
            question = next(steps)
            while True:
                exact = question.moved(mechanism._within(seen))
                answer = answers[place : place + exact.size]
                place += exact.size
                total += sign * stats.norm.logpdf(answer, exact, 1 / question.mu).sum()
                try:
                    question = steps.send(answer)
                except StopIteration:
                    break
        expected.append(total)
    assert mechanism.log_ratio(pair)(heard) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("flatten", [0.0, 0.1])
@pytest.mark.parametrize("room", [0.0, 1.2, 2.0])
def test_the_worst_pair_comes_near_the_claim(name, flatten, room):
    """What the pair moves all looks by, noise and all, is nine tenths of what is claimed or more, and never above."""
    mechanism = FilteredRegression(DESIGNS[name], 400, 1.0, flatten=flatten, shape_room=room, unbiased=4)
    pair = [mechanism._within(seen) for seen in mechanism.worst_pair()]
    rng, spent = seeded_rng(3), []

    def listening():
        steps = mechanism.steps()
        question = next(steps)
        while True:
            spent[-1] += (question.mu * np.linalg.norm(question.moved(pair[0]) - question.moved(pair[1]))) ** 2
            answer = yield question
            try:
                question = steps.send(answer)
            except StopIteration:
                return

    for _ in range(10):
        spent.append(0.0)
        ask(listening(), pair[0], rng)
    assert 0.9 * mechanism.profile.mu < np.mean(np.sqrt(spent)) <= np.sqrt(max(spent)) <= mechanism.profile.mu


def test_no_two_records_move_a_look_beyond_the_lemma():
    """Brute force over norms, angles and residuals: score, information and squares together stay within 1."""
    rng = seeded_rng(12)
    u, v = rng.standard_normal((2, 200_000, 3))
    for one in (u, v):
        one /= np.linalg.norm(one, axis=1, keepdims=True)
        one *= rng.choice([0.0, 0.3, 0.8, 0.97, 1.0], (len(one), 1))
    v[: len(v) // 2] = u[: len(v) // 2] * rng.choice([-1.0, -0.9, 0.9, 1.0], (len(v) // 2, 1))
    r, t = rng.choice([-1.0, -0.9, -0.5, 0.0, 0.3, 1.0], (2, len(u)))
    score = np.sum((u * r[:, None] - v * t[:, None]) ** 2, axis=1) / 4
    grams = np.einsum("ni,nj->nij", u, u) - np.einsum("ni,nj->nij", v, v)
    whole = score + np.sum(grams**2, axis=(1, 2)) / 8 + (r**2 - t**2) ** 2 / 4
    assert 0.999 < whole.max() <= 1 + 1e-12


@pytest.mark.parametrize("target", [ApproxDP(1.0, 1e-6), GaussianDP(0.3), RenyiDP(8.0, 0.5), ApproxDP(1e-3, 1e-9)])
def test_it_keeps_its_promise_and_reads_back(target):
    mechanism = FilteredRegression.calibrate(DESIGNS["five classes"], 500, target)
    assert mechanism.profile.satisfies(target)
    assert math.hypot(mechanism.mus[0], mechanism.mus[1], *[mechanism.mus[2]] * mechanism.looks) == pytest.approx(
        mechanism.mu
    )
    again = Mechanism.from_dict(json.loads(json.dumps(mechanism.to_dict())))
    assert again.to_dict() == mechanism.to_dict()
    X, y = records(DESIGNS["five classes"], 500, seeded_rng(1))
    release = mechanism.release((X, y), seeded_rng(1))
    assert Release.from_json(release.to_json()).value.mean.shape == (5, 3)


def test_shares_are_by_public_numbers_and_shaping_starts_where_the_information_shows():
    rule = Rule()
    none, few, many = (rule.shares(n, 10, mu, Classes(2)) for n, mu in ((100, 0.1), (500, 0.04), (30_000, 0.5)))
    assert none["flatten"] == 0
    assert few["flatten"] == 0.4
    assert none["shape_room"] == few["shape_room"] == 0
    assert many["flatten"] == 0.05
    assert many["shape_room"] > 1
    assert many["full"] and many["unbiased"] == 0
    assert not few["full"] and few["unbiased"] == 4
    several = rule.shares(30_000, 10, 0.5, Classes(3))
    assert not several["full"] and several["unbiased"] == 18
    assert rule.shares(1000, 10, 0.1, Line())["shape_room"] == rule.shares(1000, 10, 0.1, Classes(2))["shape_room"] > 0


def test_shaped_rows_are_as_long_as_was_asked_for():
    """The information is of weighed rows, which are shorter than the rows are: that must not pass for their length."""
    rng, n, d = seeded_rng(31), 20_000, 4
    z = rng.standard_normal((n, d)) * [2.0, 1.0, 0.5, 0.25]
    length = math.sqrt(np.mean(np.sum(z * z, axis=1)))
    u = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1.0)
    gram, mu = u.T @ u, 1e6
    answer = np.concatenate([np.zeros(d), np.diag(gram), math.sqrt(2) * gram[np.triu_indices(d, 1)]])
    answer[d:] /= math.sqrt(8)
    for known, asked in ((length, True), (0.0, False)):
        belief = FilteredGaussian(Classes(2), n, np.eye(d), np.zeros(d), 0.3, known)
        belief.first_look(answer, mu)
        shaped = z @ belief.directions * belief.shape(1.5)
        found = 1.5 * math.sqrt(np.mean(np.sum(shaped**2, axis=1)))
        assert (0.8 < found < 1.2) == asked


def test_hidden_directions_are_moved_by_those_that_make_the_score():
    """One direction of fifty holds most of the rows and noise hides all: the common gain is that of the one."""
    rng, d, noise = seeded_rng(14), 50, 100.0
    truth = np.diag([600.0, *[5.0] * (d - 1)])
    found = []
    for _ in range(20):
        rough = np.triu(rng.standard_normal((d, d)), 1) / math.sqrt(2)
        rough = truth + noise * (rough + rough.T + np.diag(rng.standard_normal(d)))
        values, _ = denoised(rough, noise, (845.0, 200.0))
        found.append(effective(rough, values, noise, 2e5)[0])
    assert values.max() < 30
    assert 200 < np.mean(found) < 600
    assert np.array_equal(effective(truth, np.full(d, 1e6), noise, 1.0), np.full(d, 1e6))


def test_noise_passes_for_nothing_and_spikes_stand():
    rng, d, noise = seeded_rng(4), 120, 2.0
    rough = np.triu(rng.standard_normal((d, d)), 1) / math.sqrt(2)
    rough = noise * (rough + rough.T + np.diag(rng.standard_normal(d)))
    values, _ = denoised(rough, noise)
    assert np.sum(values != values[0]) <= 2  # all but the edge's own wobble is given the common mean
    assert values[0] == pytest.approx(0.0, abs=1.5)
    spiked = rough + np.diag([200.0, *[0.0] * (d - 1)])
    values, vectors = denoised(spiked, noise)
    assert values[-1] == pytest.approx(200.0, rel=0.05)
    assert abs(vectors[0, -1]) > 0.9
    assert np.median(values) == pytest.approx(0.0, abs=1.5)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_residuals_never_exceed_their_bound_and_weighing_leaves_no_bias(classes):
    family, rng = Classes(classes), seeded_rng(6)
    t = 3 * rng.standard_normal((2000, family.width))
    p = softmax(t @ contrasts(classes).T)
    mean = np.zeros((2000, family.width))
    for label in range(classes):
        for consistent in (False, True):
            found = family.residuals(t, np.full(2000, float(label)), family.bound, consistent=consistent)
            assert np.linalg.norm(found, axis=1).max() <= family.bound * (1 + 1e-12)
        mean += p[:, [label]] * found
    assert np.abs(mean).max() < 1e-12
    assert family.factor(np.zeros(family.width), 0.0, consistent=True) == pytest.approx(1.0)
    assert family.factor(np.zeros(family.width), 50.0, consistent=True) < 0.4


def test_contrasts_are_orthonormal_and_draws_have_the_stated_spread():
    Q = contrasts(6)
    assert pytest.approx(np.eye(5), abs=1e-12) == Q.T @ Q
    assert pytest.approx(np.zeros(5), abs=1e-12) == Q.sum(axis=0)
    posterior = SoftmaxPosterior(np.arange(12.0).reshape(4, 3), np.diag([1.0, 4.0, 9.0]))
    drawn = posterior.sample(40_000, seeded_rng(1))
    assert drawn.mean(axis=0) == pytest.approx(posterior.mean, abs=0.08)
    assert drawn.std(axis=0) == pytest.approx(posterior.sd, rel=0.03)
    with pytest.raises(InvalidValue, match="no interval"):
        posterior.interval()
    assert SoftmaxPosterior.from_dict(posterior.to_dict()).mean.tolist() == posterior.mean.tolist()


def made(n, rng, slopes=(6.0, -6.0), base=0.0):
    X = rng.uniform(-0.5, 0.5, (n, 2))
    return X, (rng.random(n) < 1 / (1 + np.exp(-(X @ slopes) - base))).astype(int)


def loss_of(model, X, y):
    return -np.mean(np.log(model.predict_proba(X)[np.arange(len(y)), y]))


def test_with_much_data_it_finds_the_coefficients():
    rng = seeded_rng(8)
    X, y = made(60_000, rng, base=-1.0)
    model = LogisticRegression(1.0, 1e-6, data_norm=1.0, classes=[0, 1], random_state=1).fit(X, y)
    assert model.coef_[0] == pytest.approx([6.0, -6.0], rel=0.12)
    assert model.intercept_[0] == pytest.approx(-1.0, abs=0.15)
    assert model.samples_.shape == (256, 3)
    with pytest.raises(InvalidValue, match="no interval"):
        model.release_.value.interval()


@pytest.mark.parametrize(("epsilon", "base"), [(0.1, -3.5), (1.0, -3.5), (0.1, 0.0)])
def test_rare_classes_and_weak_promises_do_not_lose_to_the_base_rate(epsilon, base):
    rng = seeded_rng(9)
    X, y = made(8000, rng, base=base)
    Z, t = made(8000, rng, base=base)
    rate = y.mean()
    bare = -np.mean(np.where(t == 1, np.log(rate), np.log(1 - rate)))
    fits = [
        LogisticRegression(epsilon, 1e-5, data_norm=0.8, classes=[0, 1], random_state=seed).fit(X, y)
        for seed in range(4)
    ]
    assert np.mean([loss_of(model, Z, t) for model in fits]) < bare + 0.005


def test_several_classes_in_memory_and_through_facts():
    rng = seeded_rng(10)
    centres = np.array([[0.3, 0.0], [-0.3, 0.2], [0.0, -0.3]])
    y = rng.integers(0, 3, 6000)
    X = centres[y] + 0.12 * rng.standard_normal((6000, 2))
    names = np.array(["ash", "elm", "oak"])
    model = LogisticRegression(1.0, 1e-6, data_norm=1.0, classes=names, random_state=3).fit(X, names[y])
    assert model.score(X, names[y]) > 0.9
    assert model.coef_.shape == (3, 2)
    assert model.samples_.shape == (256, 3, 3)
    p = model.predict_proba(X)
    assert p.sum(axis=1) == pytest.approx(np.ones(6000))
    assert np.array_equal(model.decision_function(X).argmax(axis=1), p.argmax(axis=1))
    assert model.to_arviz().posterior["w"].shape[-1] == 9
    facts = Facts(a=Number(-1, 1), b=Number(-1, 1), tree=Category(["ash", "elm", "oak"]))
    mechanism = LogisticRegression().mechanism_for(6000, ApproxDP(1.0, 1e-6), facts, ["a", "b"], "tree")
    assert mechanism.system.loss == Softmax(3)
    kept = LogisticRegression().keep(mechanism.release((X, names[y]), seeded_rng(4)))
    assert kept.score(pd.DataFrame(X, columns=["a", "b"]), names[y]) > 0.9


def test_odd_class_labels_count_as_the_first():
    X = np.tile(np.linspace(-0.5, 0.5, 60)[:, None], (1, 2))
    model = LogisticRegression(1.0, 1e-6, data_norm=1.0, classes=["a", "b", "c"], random_state=3)
    odd = np.array([None, 3.5, "?", math.nan, "a", "b"] * 10, dtype=object)
    plain = np.array(["a", "a", "a", "a", "a", "b"] * 10, dtype=object)
    assert np.array_equal(model.fit(X, odd).coef_, LogisticRegression(**model.get_params()).fit(X, plain).coef_)


def test_lines_are_found_and_their_residuals_held_closer():
    rng = seeded_rng(11)
    X = rng.uniform(-0.5, 0.5, (20_000, 2))
    y = 3 + X @ [2.0, -1.0] + 0.2 * rng.standard_normal(20_000)
    model = LinearRegression(1.0, 1e-6, data_norm=1.0, response_bound=(0, 10), random_state=1).fit(X, y)
    assert model.coef_ == pytest.approx([2.0, -1.0], abs=0.1)
    assert model.intercept_ == pytest.approx(3.0, abs=0.05)


def test_other_losses_and_other_mechanisms_refuse():
    with pytest.raises(InvalidValue, match="refined"):
        FilteredRegression(Design(Poisson(3.0), 2, 1.0, radius=1.0), 10, 1.0)
    with pytest.raises(InvalidValue, match="filtered"):
        DiffusedRegression(Design(Softmax(3), 2, 1.0), 10, 1.0, 0.5)
    with pytest.raises(InvalidValue, match="share"):
        FilteredRegression(DESIGNS["a line"], 10, 1.0, flatten=1.0)
    for shares in ({"first": 1e-300}, {"flatten": 1e-300}):
        with pytest.raises(InvalidValue, match="sees nothing"):
            FilteredRegression(DESIGNS["two classes"], 100, 1.0, **shares)
    with pytest.raises(InvalidValue, match="prior"):
        FilteredRegression.calibrate(DESIGNS["a line"], 10, GaussianDP(1.0), prior_scale=1.0, prior_precision=1.0)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("mu", [1e-9, 1.0, 19.0])
def test_one_record_and_any_budget(n, mu):
    for design in DESIGNS.values():
        value = FilteredRegression(design, n, mu).release((np.zeros((n, 3)), np.zeros(n)), seeded_rng(1)).value
        assert np.all(np.isfinite(value.mean))
        assert np.all(np.isfinite(value.covariance))


def test_rows_seen_are_cut_to_their_bound_whoever_hands_them_in():
    mechanism = FilteredRegression.example()
    wild = Rows(100, np.full((100, 2), 1e300), np.full(100, 7.0))
    assert np.linalg.norm(mechanism._within(wild).X, axis=1).max() <= 1
    assert set(mechanism._within(wild).y) == {0.0}


def test_probits_pull_as_far_as_the_truth_is_off() -> None:
    """What a residual y − Φ(t) moves by, per step of the truth, is what the filter counts on; and none is too long."""
    family, h = Probits(), 1e-5
    for t in (-3.0, -0.4, 0.0, 1.2, 8.0):
        ends = family.residuals(np.array([[t], [t]]), np.array([0.0, 1.0]), family.bound, consistent=True)[:, 0]
        pulls = [ends @ [special.ndtr(-truth), special.ndtr(truth)] for truth in (t - h, t + h)]
        slope = (pulls[1] - pulls[0]) / (2 * h) / family.curvature
        assert family.factor(np.array([t]), 0.0, consistent=True) == pytest.approx(max(slope, 1e-3), rel=1e-6)
        for consistent in (True, False):
            held = family.residuals(np.array([[t], [t]]), np.array([0.0, 1.0]), family.bound, consistent=consistent)
            assert np.abs(held).max() <= family.bound * (1 + 1e-12)


def test_a_probit_regression_is_a_whole_posterior_near_the_truth() -> None:
    rng = seeded_rng(8)
    X = rng.uniform(-0.5, 0.5, (20_000, 3))
    w = np.array([2.0, -1.0, 0.5])
    y = (X @ w + 0.3 + rng.standard_normal(20_000) > 0).astype(int)
    model = ProbitRegression(1.0, 1e-6, data_norm=1.0, classes=[0, 1], random_state=2).fit(X, y)
    assert model.mechanism_.word == "filtered regression"
    assert model.samples_.shape == (256, 4)
    assert np.abs(model.coef_[0] - w).max() < 0.15  # shortened residuals alone lead a seventh too far
    assert model.profile_.delta(1.0) <= 1e-6
