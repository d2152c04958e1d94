"""Full looks: score and information at one centre move by at most 1, and Newton's steps end where scikit-learn's do."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import LogisticRegression as Open

from sottovoce.faces.estimators import LogisticRegression
from sottovoce.inference.regression import Design, FilteredRegression, Logistic, Softmax, Squared
from sottovoce.inference.regression.kalman_filter import FilteredGaussian
from sottovoce.inference.regression.newton_filter import NewtonBelief
from sottovoce.inference.regression.sums import ask
from sottovoce.inference.regression.unit_rows import FULL_REACH, LONGEST, UnitRows
from sottovoce.mechanisms.mechanism import Mechanism
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import ApproxDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings import Rows

DESIGN = Design(Logistic(), 3, 2.0)


def matrices(rng, n, d, lengths):
    u = rng.standard_normal((n, d))
    return u / np.linalg.norm(u, axis=1, keepdims=True) * rng.choice(lengths, (n, 1))


def test_no_two_records_move_a_full_look_beyond_the_lemma():
    """Brute force over norms, angles and residuals, with whole matrices."""
    rng, n = seeded_rng(21), 200_000
    u = matrices(rng, n, 2, [0.0, 0.5, 0.9, 1.0])
    v = matrices(rng, n, 2, [0.0, 0.5, 0.9, 1.0])
    v[: n // 2] = -u[: n // 2]
    rho, sigma = rng.choice([0.0, 0.3, 0.5, 0.6, 0.64, 0.7, 0.9, 0.99, 1.0], (2, n))
    signs = rng.choice([-1.0, 1.0], (2, n))
    score = u * (signs[0] * rho)[:, None] - v * (signs[1] * sigma)[:, None]
    info = [4 * (r * (1 - r))[:, None, None] * np.einsum("ni,nj->nij", w, w) for r, w in ((rho, u), (sigma, v))]
    found = np.sum(score**2, axis=1) / 4 + np.sum((info[0] - info[1]) ** 2, axis=(1, 2)) / FULL_REACH**2
    assert 0.999 < found.max() <= 1 + 1e-12


def test_the_constant_of_the_lemma_cannot_be_much_better():
    """With a reach shorter by a fiftieth some pair moves a look by more than 1."""
    rho = np.linspace(0.0, 1.0, 2001)
    found = (1 + rho) ** 2 / 4 + (4 * rho * (1 - rho)) ** 2 / (0.98 * FULL_REACH) ** 2
    assert np.max(found) > 1
    assert np.max((1 + rho) ** 2 / 4 + (4 * rho * (1 - rho)) ** 2 / FULL_REACH**2) <= 1


@pytest.mark.parametrize("room", [0.0, 1.2, 3.0])
@pytest.mark.parametrize("dimension", [1, 3])
def test_no_replaced_record_moves_a_full_look_by_more_than_one(room, dimension):
    """Brute force over replaced records, odd ones among them, with answers that lead anywhere."""
    rng = seeded_rng(22)
    design = Design(Logistic(), dimension, 2.0)
    mechanism = FilteredRegression(design, 6, 1.0, looks=4, shape_room=room, full=True)
    farthest = 0.0
    for _ in range(40):
        X = rng.standard_normal((6, dimension)) * rng.choice([0.0, 1e-6, 0.5, 2.0, 1e9], (6, 1))
        Z, y = X.copy(), rng.choice([-1.0, 1.0], 6)
        Z[-1], t = (-X[-1], y.copy()) if rng.random() < 0.7 else (2 * rng.standard_normal(dimension), y.copy())
        t[-1] = rng.choice([-1.0, 1.0])
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
            assert np.all(np.isfinite(end.value.covariance))
    assert 0.9 < farthest <= 1


@pytest.mark.parametrize("flatten", [0.0, 0.1])
@pytest.mark.parametrize("room", [1.2, 2.0, 3.0])
def test_the_worst_pair_comes_near_the_claim(flatten, room):
    """What the pair moves all looks by, noise and all, is nine tenths of what is claimed or more, and never above."""
    mechanism = FilteredRegression(
        DESIGN, 3000, 1.0, flatten=flatten, first=0.15, looks=16, shape_room=room, full=True, room=0.7
    )
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

    for _ in range(5):
        spent.append(0.0)
        ask(listening(), pair[0], rng)
    assert 0.9 * mechanism.profile.mu < np.mean(np.sqrt(spent)) <= np.sqrt(max(spent)) <= mechanism.profile.mu


def test_the_information_is_what_the_score_falls_by():
    """Differences of the score, for rows of every length, whatever the weight."""
    rng, steps = seeded_rng(23), 2.0**16
    X, y = rng.standard_normal((400, 3)) * rng.choice([0.1, 0.5, 1.0, 3.0], (400, 1)), rng.integers(0, 2, 400)
    rows, seen, centre, h = UnitRows(np.eye(3), steps), Rows(400, X, y.astype(float)), np.array([0.5, -1.0, 0.2]), 1e-2

    def told(at):
        found = rows.full_look(at, 1.0).of(seen) / steps**2
        return found[:3], found[3:6], found[6:]

    _, diagonal, above = told(centre)
    info = np.diag(diagonal)
    info[np.triu_indices(3, 1)] = above
    info = (info + np.triu(info, 1).T) * LONGEST / 4
    slope = np.array([(told(centre + h * e)[0] - told(centre - h * e)[0]) / (2 * h) for e in np.eye(3)])
    assert -slope == pytest.approx(info, abs=0.01 * np.abs(info).max())


def test_noiseless_looks_end_where_scikit_learn_does():
    """Short rows are not weighed, and a rare class is far from where the first look led."""
    rng = seeded_rng(24)
    X = np.column_stack([rng.uniform(-0.4, 0.4, (4000, 2)), np.full(4000, 0.5)])
    y = (rng.random(4000) < special.expit(X @ [6.0, -3.0, -6.0])).astype(float)
    rows, seen, belief = UnitRows(np.eye(3), 2.0**16), Rows(4000, X, y), NewtonBelief(np.zeros(3), np.full(3, 1e-9))
    for _ in range(8):
        look = rows.full_look(belief.t, 1e4)
        belief.learn(look.moved(seen), 1e4)
    expected = Open(C=np.inf, fit_intercept=False, tol=1e-10).fit(X, y).coef_[0]
    assert belief.t == pytest.approx(expected, rel=1e-4)


def test_a_wrong_model_is_fitted_as_well_as_without_privacy():
    """The labels follow no logistic law: shortened residuals would answer another question than the log loss asks."""
    rng = seeded_rng(25)

    def made(n):
        X = np.clip(np.column_stack([rng.standard_normal(n) / 3, rng.exponential(0.25, n) - 0.25]), -0.7, 0.7)
        t = 12 * X[:, 0] + 10 * np.abs(X[:, 0]) - 8 * (X[:, 1] > 0.3)
        return X, (rng.random(n) < special.expit(t)).astype(int)

    (X, y), (Z, t) = made(20_000), made(20_000)

    def loss(p):
        return -np.mean(np.log(np.where(t == 1, p, 1 - p)))

    model = LogisticRegression(1.0, 1e-5, data_norm=1.0, classes=[0, 1], random_state=1).fit(X, y)
    made_by = Mechanism.from_dict(model.release_.mechanism)
    assert made_by.full
    best = loss(Open(C=np.inf).fit(X, y).predict_proba(Z)[:, 1])
    held = replace(made_by, full=False, unbiased=0).release((X, y), seeded_rng(1))
    other = LogisticRegression(data_norm=1.0, classes=[0, 1]).keep(held)
    ours = loss(model.predict_proba(Z)[:, 1])
    assert ours < best + 0.0005
    assert loss(other.predict_proba(Z)[:, 1]) > best + 0.001


def test_long_rows_that_say_another_thing_than_short_ones_are_heard():
    """A quarter of the rows are four times as long and follow another law: weighing them down would cost .005."""
    rng = seeded_rng(26)

    def made(n):
        wide = rng.random(n) < 0.25
        X = rng.standard_normal((n, 4)) * np.where(wide, 0.2, 0.05)[:, None]
        X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True) / 0.95, 1.0)
        t = np.where(wide, 4.0, 40.0) * X[:, 0] + np.where(wide, 4.0, -10.0) * X[:, 1] - np.where(wide, 1.5, 0.0)
        return X, (rng.random(n) < special.expit(t)).astype(int)

    (X, y), (Z, t) = made(12_000), made(12_000)

    def loss(model):
        return -np.mean(np.log(model.fit(X, y).predict_proba(Z)[range(len(t)), t]))

    ours = loss(LogisticRegression(1.0, 1e-5, data_norm=1.0, classes=[0, 1], random_state=1))
    assert ours < loss(Open(C=np.inf)) + 0.002


def rare(n, rng):
    """One record in twenty is of the second class, and rows have long tails."""
    X = np.clip(rng.standard_t(5, (n, 6)) / 6, -0.5, 0.5)
    y = rng.random(n) < special.expit(8 * X @ [1.0, -1.0, 0.5, 0.0, 0.0, 0.5] - 5.3)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y.astype(int)


def test_a_rare_class_is_told_by_the_first_look_and_gives_rows_less_room(monkeypatch):
    """Rows hold a sixth of the usual information: with the usual room the noise would cost twice as much."""
    rng, rooms = seeded_rng(27), []
    (X, y), (Z, t) = rare(8000, rng), rare(20_000, rng)

    def excess():
        fits = [
            LogisticRegression(3.0, 1e-5, data_norm=1.0, classes=[0, 1], random_state=k).fit(X, y) for k in range(4)
        ]
        best = Open(C=np.inf).fit(X, y)
        losses = [-np.mean(np.log(one.predict_proba(Z)[range(len(t)), t])) for one in (best, *fits)]
        return np.mean(losses[1:]) - losses[0]

    honest = FilteredGaussian.room
    monkeypatch.setattr(
        FilteredGaussian, "room", lambda self, room: rooms.append((self.told, room)) or honest(self, room)
    )
    ours = excess()
    assert all(0.02 <= told < 0.25 and room > 1.5 for told, room in rooms)
    monkeypatch.setattr(FilteredGaussian, "room", lambda self, room: room)
    assert ours < 0.7 * excess()


def test_full_looks_are_of_two_classes_and_read_back():
    for loss in (Softmax(3), Squared(1.0)):
        with pytest.raises(InvalidValue, match="two classes"):
            FilteredRegression(Design(loss, 3, 2.0, radius=3.0), 10, 1.0, full=True)
    mechanism = FilteredRegression.calibrate(DESIGN, 30_000, ApproxDP(1.0, 1e-6))
    assert mechanism.full
    assert mechanism.profile.satisfies(ApproxDP(1.0, 1e-6))
    assert math.hypot(*mechanism.mus[:2], *[mechanism.mus[2]] * mechanism.looks) == pytest.approx(mechanism.mu)
    assert Mechanism.from_dict(json.loads(json.dumps(mechanism.to_dict()))).to_dict() == mechanism.to_dict()


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("mu", [1e-9, 1.0, 19.0])
def test_one_record_and_any_budget(n, mu):
    mechanism = FilteredRegression(DESIGN, n, mu, looks=16, full=True, shape_room=3.0)
    for label in (-1.0, 1.0):
        value = mechanism.release((np.full((n, 3), 9.0), np.full(n, label)), seeded_rng(1)).value
        assert np.all(np.isfinite(value.mean))
        assert np.all(np.isfinite(value.covariance))
