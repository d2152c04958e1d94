"""No record can make a release fail, warn, turn into NaN or move further than claimed, whatever stands in it.

The oracle shares nothing with the code: exact fractions of what each look sums, over every pair of odd neighbours.
"""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sottovoce.faces.estimators import (
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegression,
    ProbitRegression,
)
from sottovoce.faces.estimators.sgd import SGDLogisticRegression
from sottovoce.inference.regression.design import Design
from sottovoce.inference.regression.device_placement import Placement, placed
from sottovoce.inference.regression.localised import LocalisedRegression
from sottovoce.inference.regression.losses import ComplementaryLogLog, Logistic, Poisson, Probit, Squared
from sottovoce.inference.regression.noisy_moments import NoisyMoments
from sottovoce.inference.regression.posterior import DiffusedRegression
from sottovoce.inference.regression.refined import RefinedRegression
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.promises import GaussianDP
from sottovoce.privacy.randomness import seeded_rng
from sottovoce.records.readings.cells import class_places, table_of
from sottovoce.records.readings.moments import joint_sensitivity
from sottovoce.theory.amplification import NoisyProjectedSGD
from support.concluding import concluded_once

__all__ = ["concluded_once"]

ODD = [0.0, 5e-324, -1e-310, 1e-40, 0.3, -1.0, 3.4e38, -3.5e38, 1e155, 1.7e308, -1.7e308, math.nan, math.inf, -math.inf]
ROWS = list(product(ODD, [0.0, 1.0, -3.5e38, 1.7e308, math.nan]))
LABELS = [1.0, -1.0, math.nan, math.inf, -1e308, 7.0]


def exactly(vector):
    return [Fraction(float(v)) for v in vector]


@pytest.mark.parametrize("norm", [1e-6, 1.0, 3.7, 1e9])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_odd_row_is_inside_its_bound_as_an_exact_fraction(norm, dtype):
    clipped = Design(Logistic(), 2, norm).clip(ROWS, dtype).astype(dtype)
    assert all(sum(v * v for v in exactly(row)) <= Fraction(norm) ** 2 for row in clipped)
    long = [k for k, row in enumerate(ROWS) if all(map(math.isfinite, row)) and max(map(abs, row)) > 2 * norm]
    lengths = np.linalg.norm(clipped[long].astype(float), axis=1)
    assert np.all(lengths > norm * (1 - 1e-5))


def test_moments_and_sums_of_odd_neighbours_move_no_further_than_claimed():
    design = Design(Squared(1.0), 2, 1.5, radius=2.0)
    mechanism = NoisyMoments(design, len(ROWS), 1.0, 1.0)
    x, y = design.clip(ROWS), design.responses(np.resize(LABELS, len(ROWS)))
    balance = mechanism.balance
    claim = joint_sensitivity(1.5, mechanism.fit.largest(design.loss), balance)
    looks = np.array(
        [[a * a, a * b, a * b, b * b, balance * a * t, balance * b * t] for (a, b), t in zip(x, y, strict=True)]
    )
    sums = np.column_stack([x, (x * x).sum(axis=1) / 1.5])
    for points, most in ((looks, claim), (sums, 2 * 1.5)):
        moved = np.linalg.norm(points[:, None] - points[None], axis=2)
        assert np.isfinite(moved).all()
        assert moved.max() <= most * (1 + 1e-12)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    "loss", [Logistic(), Squared(0.5), Probit(), ComplementaryLogLog(), Poisson(5.0)], ids=lambda loss: loss.name
)
def test_one_step_moves_odd_neighbours_no_further_than_hs(loss, precision):
    """Every record is its own data set of two; the chains run without noise, so that they show the gradient itself,
    from two centres."""

    class Silent:
        def standard_normal(self, shape):
            return np.zeros(shape)

    design = Design(loss, 2, 1.0, radius=1.6)
    one = DiffusedRegression(design, 2, 2.0, 0.5, n_steps=1)
    place, centres, ends = Placement(precision=precision), np.array([[0.0, 0.0], [1.2, -0.9]]), []
    for k, row in enumerate(ROWS):
        y = [1.0, LABELS[k % len(LABELS)]]
        ends.append(one.draw([[0.3, 0.1], row], y, centres, Silent(), placement=place))
    moved = np.linalg.norm(np.array(ends)[:, None] - np.array(ends)[None], axis=3).max()
    assert np.isfinite(moved)
    assert moved <= one.chain.step * one.chain.sensitivity + 4 * 2.0**-16 * math.sqrt(2 * one.chain.step)


DESIGN = Design(Logistic(), 2, 1.0)


@pytest.mark.parametrize(
    "mechanism",
    [
        DiffusedRegression.calibrate(DESIGN, 20, GaussianDP(1.0), prior_scale=2.0, n_steps=5),
        LocalisedRegression.calibrate(DESIGN, 20, GaussianDP(1.0), scales=(2.0, 1.0), n_steps=5),
        RefinedRegression.calibrate(DESIGN, 20, GaussianDP(1.0), n_steps=5),
        RefinedRegression.calibrate(DESIGN, 20, GaussianDP(1.0), statistics=0.0, n_steps=5),
    ],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.parametrize("stream", [False, True])
def test_releases_of_odd_records_are_numbers(mechanism, stream):
    X = np.full((20, 2), 0.1)
    X[:4] = [[3.5e38, 1.0], [math.nan, math.inf], [5e-324, -1.7e308], [-3.5e38, 3.5e38]]
    with placed(Placement(stream=stream)):
        value = mechanism.release((X, np.ones(20)), seeded_rng(1)).value
    assert np.isfinite(value).all()


def test_a_chain_that_its_numbers_cannot_hold_is_refused_by_public_numbers_alone():
    class Untouchable:
        def __array__(self, *_, **__):
            raise AssertionError("a record was read")

    mechanism = DiffusedRegression(Design(Logistic(), 2, 1e12), 20, 1e-9, 1.0, n_steps=5, precision="float32")
    with pytest.raises(InvalidValue, match="float32 cannot hold this chain"):
        mechanism.release((Untouchable(), Untouchable()), accept_unproven=True)


class Awkward:
    """An object that answers every question with an error."""

    def __float__(self):
        raise RuntimeError("no")

    def __str__(self):
        raise RuntimeError("no")

    def __eq__(self, other):
        raise RuntimeError("no")

    __hash__ = None


NOTHING = [
    *(None, "text", "", b"\xff", math.nan, Decimal("sNaN"), 1j, (), {"a": 1}, np.datetime64("2020-01-01")),
    *(object(), Awkward()),
]
SOMETHING = [math.inf, -math.inf, 1e308, -1e308, 5e-324, 10**400, True, [1, 2], np.array([1.0, 2.0])]
PUBLIC = {"target": GaussianDP(2.0), "data_norm": 1.0, "random_state": 1}
MODELS = [
    *(kind(**PUBLIC, classes=[0, 1], n_steps=3) for kind in (LogisticRegression, ProbitRegression, LinearSVC)),
    LogisticRegression(**PUBLIC, classes=["no", "yes"], mechanism="noisy-moments", missing=[0.1, -0.1]),
    LinearRegression(**PUBLIC, response_bound=1e-5),
    LinearRegression(**PUBLIC, response_bound=(3.0, 9.0)),
    PoissonRegression(**PUBLIC, response_bound=3.0, radius=0.5, n_steps=3),
    PoissonRegression(3.0, 1e-6, data_norm=1.0, random_state=1, response_bound=3.0),
    SGDLogisticRegression(**PUBLIC, classes=[0, 1]),
]


@pytest.mark.usefixtures("concluded_once")
@pytest.mark.filterwarnings("ignore::sottovoce.faces.estimators.estimator_protocol.EveryFitSpends")
@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_an_odd_cell_an_odd_label_and_a_ragged_row_change_no_other_record(model):
    """A fit with any odd value is the fit with one fixed value in its place: warnings are errors here."""
    rng = seeded_rng(3)
    table = rng.uniform(-0.5, 0.5, (12, 2)).tolist()
    names = getattr(model, "classes", None) or [0.0, 2.0]
    labels = [names[k % 2] for k in range(12)]

    def fitted(cell):
        X, y = [list(row) for row in table], list(labels)
        X[3][1] = y[5] = X[7] = cell
        model.fit(X, y)
        assert np.isfinite(np.append(model.coef_, model.intercept_)).all()
        return tuple(np.ravel(model.coef_))

    missing = {fitted(cell) for cell in NOTHING}
    assert len(missing) == 1
    assert len(missing | {fitted(cell) for cell in SOMETHING}) <= 7  # the few that are numbers, and those that are rows


@pytest.mark.filterwarnings("ignore::sottovoce.faces.estimators.estimator_protocol.EveryFitSpends")
@pytest.mark.parametrize(
    ("kind", "classes"),
    [
        (LogisticRegression, ["yes", "no"]),
        (LogisticRegression, ["perhaps", "no", "yes"]),
        *((kind, ["no", "yes"]) for kind in (ProbitRegression, LinearSVC, SGDLogisticRegression)),
    ],
)
def test_a_label_that_is_none_of_the_classes_counts_as_the_first_in_order(kind, classes):
    X = seeded_rng(5).uniform(-0.5, 0.5, (12, 2))  # as many as above: their programs are compiled by now
    model = kind(**PUBLIC, classes=classes, **({} if kind is SGDLogisticRegression else {"n_steps": 3}))
    known = [classes[k % len(classes)] for k in range(12)]
    fits = [model.fit(X, [*known[:-1], odd]).coef_ for odd in ("no", 0, "No", None)]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit, fits[0])
    assert model.classes_[0] == "no"
    assert not np.array_equal(model.fit(X, [*known[:-1], "yes"]).coef_, fits[0])


def test_the_same_table_in_any_container_is_read_alike():
    pandas = pytest.importorskip("pandas", reason="needs the data extra")
    rows = [[True, 1.5], [None, "2"], [0, math.nan]]
    want = [[1.0, 1.5], [math.nan, 2.0], [0.0, math.nan]]
    masked = np.ma.array([[1.0, 1.5], [9.0, 2.0], [0.0, 9.0]], mask=[[0, 0], [1, 0], [0, 1]])
    for given in (rows, tuple(rows), np.array(rows, dtype=object), pandas.DataFrame(rows), masked):
        np.testing.assert_array_equal(table_of(given).astype(float), want)
    with pytest.raises(InvalidData, match="sparse"):
        table_of(pytest.importorskip("scipy.sparse").eye(2))


def test_one_odd_label_that_turns_a_column_into_text_changes_no_other():
    labels = [0, 1, 1, 0, "x"]
    for given in (labels, np.array(labels), np.array(labels, dtype=object)):
        assert class_places(given, [0, 1]).tolist() == [0, 1, 1, 0, 0]
    assert class_places([True, False, "maybe"], [False, True]).tolist() == [1, 0, 0]
    assert class_places([1.0, "1", b"1", 2], [1, 2]).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("missing", [math.nan, "x", [0.0, 1.0, 2.0], None])
def test_a_missing_value_must_be_a_public_number(missing):
    with pytest.raises(InvalidValue, match="missing must be"):
        LogisticRegression(**PUBLIC, classes=[0, 1], missing=missing).fit(np.zeros((4, 2)), [0, 1, 0, 1])


def test_sgd_of_odd_neighbours_moves_no_further_than_its_step():
    class Silent:
        def standard_normal(self, shape):
            return np.zeros(shape)

    sgd = NoisyProjectedSGD(Design(Logistic(), 2, 1.0), 2, noise=1.0, learning_rate=0.5)
    ends = np.array(
        [sgd.run([[0.2, 0.2], row], [1.0, LABELS[k % 6]], Silent())[0] for k, row in enumerate(ROWS)]  # type: ignore[arg-type]
    )
    moved = np.linalg.norm(ends[:, None] - ends[None], axis=2).max()
    assert moved <= 2 * 0.5 * 1.0 + 2.0**-14
