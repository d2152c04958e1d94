"""Reading records from whatever holds them."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sottovoce.mechanisms import DirectPosterior, NoisyStatistics
from sottovoce.mechanisms.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
)
from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.records.facts import Flag, Number
from sottovoce.records.readings import Statistics
from sottovoce.records.tables import open_table

CATEGORIES = DirichletCategorical([1, 1], categories=("a", "b"))


def polars_series(values):
    import polars as pl

    return pl.Series(values)


def polars_frame(values):
    import polars as pl

    return pl.DataFrame(np.asarray(values))


HOLDERS = [list, np.array, pd.Series, polars_series, pa.array, lambda x: pa.chunked_array([x]), tuple]


@pytest.mark.parametrize("holder", HOLDERS)
def test_every_holder_gives_the_same_statistics(holder):
    assert BetaBernoulli(1, 1).statistics(holder([0, 1, 1, 0, 1])) == Statistics(5, [3.0])
    assert GammaPoisson(1, 1, high=4).statistics(holder([0, 9, -3, 2])) == Statistics(4, [6.0])
    assert GammaExponential(1, 1, high=2.0).statistics(holder([0.5, 7.0, -1.0])) == Statistics(3, [2.5])
    words = DirichletCategorical([1, 1, 1], categories=("a", "b", "c"))
    assert words.statistics(holder(["b", "a", "b"])) == Statistics(3, [1.0, 2.0, 0.0])
    assert DirichletCategorical([1, 1, 1]).statistics(holder([2, 0, 2])) == Statistics(3, [1.0, 0.0, 2.0])


def test_booleans_are_zeros_and_ones():
    assert BetaBernoulli(1, 1).statistics([True, False, True]) == Statistics(3, [2.0])


def test_records_outside_the_bounds_are_clipped_and_nobody_counts_them():
    clipped = NormalMean(1, 1, bounds=(-1, 1)).statistics([5.0, -9.0, 0.25])
    assert clipped == NormalMean(1, 1, bounds=(-1, 1)).statistics([1.0, -1.0, 0.25])
    assert set(vars(clipped)) == {"n", "total", "above", "exact"}


@pytest.mark.parametrize("frame", [np.array, pd.DataFrame, polars_frame])
def test_vectors_are_projected_onto_the_ball(frame):
    system = NormalMean(1, 1, radius=1.0, dimension=2)
    statistics = system.statistics(frame([[3.0, 4.0], [0.1, 0.2]]))
    np.testing.assert_allclose(statistics.total, [0.7, 1.0])


ODD = [
    None,
    "1",
    b"1",
    1 + 2j,
    np.nan,
    [1, 1],
    {"a": 1},
    object(),
    pd.NA,
    pd.Timestamp("2020-01-01"),
    np.timedelta64(1, "D"),
    np.ma.masked,
    Decimal("sNaN"),
    np.array([1.0]),
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_a_record_that_is_no_number_counts_as_the_missing_value_and_touches_no_other(odd):
    system = NormalMean(1, 1, bounds=(-1, 3))
    for records in ([0.5, odd, 2.0], (0.5, odd, 2.0), np.fromiter([0.5, odd, 2.0], dtype=object)):
        assert system.statistics(records) == Statistics(3, [2.5])
        assert system.statistics(records, missing=1.5) == Statistics(3, [4.0])
    assert system.statistics([odd]) == Statistics(1, [0.0])
    assert NormalMean(1, 1, bounds=(1, 3)).statistics([odd, 2.0]) == Statistics(2, [3.0])  # 0 cut to the bounds
    assert DirichletCategorical([1, 1], categories=("a", "b")).statistics(["b", odd]) == Statistics(2, [1.0, 1.0])
    assert CATEGORIES.statistics([odd, "b"], missing="b") == Statistics(2, [0.0, 2.0])


@pytest.mark.parametrize(
    ("huge", "total"),
    [(10**400, 3.0), (-(10**400), -1.0), (Decimal("1e999"), 3.0), (np.inf, 3.0), (Fraction(10**400), 3.0), (True, 1.0)],
    ids=lambda v: type(v).__name__,
)
def test_a_number_however_large_is_clipped(huge, total):
    assert NormalMean(1, 1, bounds=(-1, 3)).statistics([huge]) == Statistics(1, [total])


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([0, None, 1]),
        pd.Series([0, pd.NA, 1], dtype="Int64"),
        pa.array([0, None, 1]),
        np.ma.masked_array([0, 1, 1], [False, True, False]),
        np.ma.masked_array([0.0, np.nan, 1.0], [False, True, False]),
    ],
    ids=lambda c: type(c).__name__,
)
def test_missing_values_of_every_holder_count_as_missing(column):
    assert_one_is_missing(column)


def test_missing_values_of_polars_count_as_missing():
    assert_one_is_missing(polars_series([0, None, 1]))


def assert_one_is_missing(column):
    assert BetaBernoulli(1, 1).statistics(column) == Statistics(3, [1.0])
    assert BetaBernoulli(1, 1).statistics(column, missing=1) == Statistics(3, [2.0])
    assert DirichletCategorical([1, 1]).statistics(column) == Statistics(3, [2.0, 1.0])


def test_columns_of_another_kind_are_all_missing():
    for column in (np.array(["7", "8"]), np.array(["2020-01-01"] * 2, dtype="datetime64[D]"), np.array([1j, 2j])):
        assert NormalMean(1, 1, bounds=(-1, 3)).statistics(column) == Statistics(2, [0.0])


@pytest.mark.parametrize(
    "records", ["10", 3, {"a": 1}, {1, 2}, (x for x in (0, 1)), np.zeros((2, 2))], ids=lambda r: type(r).__name__
)
def test_what_is_no_column_raises_without_saying_what_it_held(records):
    for system in (BetaBernoulli(1, 1), DirichletCategorical([1, 1])):
        with pytest.raises(InvalidData, match="column"):
            system.statistics(records)


@pytest.mark.parametrize("records", [[0, 3], [0, -1], [0, "x"], [0, None], [0, np.nan], [0, 0.5], [0, [0]]], ids=str)
def test_unknown_categories_count_as_the_first(records):
    system = DirichletCategorical([1, 1, 1])
    assert system.statistics(records) == Statistics(2, [2.0, 0.0, 0.0])
    assert system.statistics(records, missing=2) == Statistics(2, [1.0, 0.0, 1.0])
    with pytest.raises(InvalidData, match="public record"):
        system.with_public(records)


@pytest.mark.parametrize("row", [None, "ab", [1.0], [1.0, 2.0, 3.0], [None, "x"], [np.nan, np.nan], 7, [[1], [2]]])
def test_a_row_that_is_no_vector_counts_as_the_origin(row):
    system = NormalMean(1, 1, radius=10.0, dimension=2)
    assert system.statistics([[1.0, 2.0], row, [0.5, 0.25]]) == Statistics(3, [1.5, 2.25])


def test_a_missing_coordinate_is_zero_and_an_infinite_one_points_away():
    system = NormalMean(1, 1, radius=1.0, dimension=2)
    assert system.statistics([[0.5, None]]) == Statistics(1, [0.5, 0.0])
    np.testing.assert_allclose(system.statistics([[np.inf, 1.0]]).total, [1.0, 0.0], atol=1e-12)


def test_a_missing_value_must_lie_within_the_facts():
    for system, missing in ((BetaBernoulli(1, 1), 2), (BetaBernoulli(1, 1), "0"), (CATEGORIES, "c")):
        with pytest.raises(InvalidValue, match="a missing value must count as"):
            system.statistics([0], missing=missing)


FAR_OFF = [(1e9, 1e9 + 1), (-1e12, -1e12 + 0.5), (1e15, 1e15 + 2), (0.0, 1e-120), (-1e119, 1e119), (0.1, 0.3)]


@pytest.mark.parametrize("bounds", FAR_OFF, ids=str)
def test_a_sum_is_exact_in_any_order_and_moves_no_more_than_a_record(bounds):
    """Against sums of fractions: each record within a step of its clipped value, added without any rounding."""
    low, high = map(Fraction, bounds)
    rng = np.random.default_rng(1)
    column = bounds[0] + rng.uniform(-0.1, 1.1, 1000) * (bounds[1] - bounds[0])
    system = NormalMean(1, 1, bounds=bounds)
    read = system.statistics(column)
    shuffled = system.statistics(rng.permutation(column).tolist())
    assert (read.total.tobytes(), read.above) == (shuffled.total.tobytes(), shuffled.above)
    exact = sum(min(max(Fraction(x), low), high) - low for x in column.tolist())
    step = max(abs(low), abs(high)) / 2**50
    assert abs(Fraction(read.above) - exact) <= 1000 * step / 2 + exact / 2**53
    for other in (bounds[0], bounds[1], np.nan, np.inf, -np.inf, None):
        neighbour = system.statistics([other, *column[1:].tolist()])
        assert abs(Fraction(neighbour.above) - Fraction(read.above)) <= (high - low) * (1 + Fraction(1000, 2**52))


@pytest.mark.parametrize(
    ("reading", "bounds"),
    [(NormalMean(1, 1, bounds=b), b) for b in [(1e9, 1e9 + 1), (0.1, 0.3), (-3, 17), (1e15, 1e15 + 2)]]
    + [(GammaPoisson(1, 1, 9), (0, 9)), (GammaExponential(1, 1, 0.7), (0, 0.7)), (BetaBernoulli(1, 1), (0, 1))],
    ids=lambda v: str(v) if isinstance(v, tuple) else v.word,
)
def test_memory_and_tables_read_the_same_bits(reading, bounds):
    rng = np.random.default_rng(4)
    x, y = bounds[0] + rng.uniform(-0.5, 1.5, 500) * (bounds[1] - bounds[0]), rng.standard_normal(500)
    x[:4] = [np.nan, np.inf, -np.inf, 1e300]
    ball = NormalMean(1, 1, radius=bounds[1], dimension=2)
    with open_table(pa.table({"x": x, "y": y})) as table:
        there, vectors = table.read(reading, "x"), table.read(ball, ["x", "y"])
    here = reading.statistics(x)
    assert (there.total.tobytes(), there.above) == (here.total.tobytes(), here.above)
    assert vectors.total.tobytes() == ball.statistics(np.column_stack([x, y])).total.tobytes()


@pytest.mark.parametrize("radius", [1e-120, 1e-3, 1.0, 3.7, 1e119])
def test_no_row_leaves_the_ball(radius):
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((300, 5)) * radius * 10.0 ** rng.uniform(-3, 3, (300, 1))
    system = NormalMean(1, 1, radius=radius, dimension=5)
    for row in rows:
        read = [Fraction(x) for x in system.statistics([row]).total.tolist()]
        assert sum(x * x for x in read) <= Fraction(radius) ** 2
    whole, mixed = system.statistics(rows), system.statistics(rng.permutation(rows))
    assert whole.total.tobytes() == mixed.total.tobytes()


@pytest.mark.parametrize(
    "system",
    [
        BetaBernoulli(2, 3),
        DirichletCategorical([1, 2, 3]),
        GammaPoisson(1, 2, 3),
        GammaExponential(1, 2, 3),
        NormalMean(1, 2, bounds=(0, 1)),
        NormalMean(1, 2, radius=1, dimension=3),
    ],
    ids=lambda s: s.word,
)
def test_empty_data_gives_the_prior(system):
    statistics = system.statistics([])
    assert statistics.n == 0
    assert system.posterior(statistics) == system.posterior(statistics, data_weight=0.3)
    assert system.profile(0).delta(0.0) == 0
    assert system.worst_pairs(0) == ()


@pytest.mark.parametrize(
    ("system", "statistics"),
    [
        (BetaBernoulli(1, 1), Statistics(3, [4.0])),
        (BetaBernoulli(1, 1), Statistics(3, [1.0, 2.0])),
        (BetaBernoulli(1, 1), Statistics(3, [np.nan])),
        (DirichletCategorical([1, 1, 1]), Statistics(3, [1.0, 1.0, 2.0])),
        (DirichletCategorical([1, 1, 1]), Statistics(3, [-1.0, 2.0, 2.0])),
        (GammaExponential(1, 1, 2.0), Statistics(3, [-0.1])),
        (NormalMean(1, 1, radius=1, dimension=2), Statistics(2, [2.0, 2.0])),
    ],
)
def test_impossible_statistics_raise(system, statistics):
    with pytest.raises(InvalidData):
        system.posterior(statistics)


@pytest.mark.parametrize(
    ("bounds", "statistics"),
    [
        ((1e9, 1e9 + 1), Statistics(100, [1e11 + 150.0])),  # 50 whole records beyond what can happen
        ((1e9, 1e9 + 1), Statistics(100, [1e11 + 50.0])),  # a double near 10¹¹ does not hold such a sum
        ((1e9, 1e9 + 1), Statistics(100, [1e11 + 50.0], 150.0)),
        ((1e9, 1e9 + 1), Statistics(100, [1e11 + 50.0], -0.01)),
        ((-1, 1), Statistics(100, [0.0], 50.0)),
        ((-1, 1), Statistics(100, [100.001])),
    ],
)
def test_statistics_by_hand_lie_within_far_off_bounds_too(bounds, statistics):
    with pytest.raises(InvalidData):
        NormalMean(1, 1, bounds=bounds).posterior(statistics)


def test_a_sum_that_no_double_holds_is_refused_by_public_numbers():
    for build in (
        lambda: NormalMean(1, 1, bounds=(1e16, 1e16 + 2)),
        lambda: NormalMean(1, 1, bounds=(0, 5e-324)),
        lambda: NormalMean(1, 1, bounds=(-1e308, 1e308)),
        lambda: DirectPosterior(GammaPoisson(1, 1, 10**15), 100),
        lambda: NoisyStatistics(GammaPoisson(1, 1, 10**18), 100, "laplace", 1.0),
        lambda: DirectPosterior(GammaExponential(1, 1, 1e308), 100),
        lambda: GammaExponential(1, 1, 1e308).statistics([0.0] * 100),
        lambda: NoisyStatistics(BetaBernoulli(1, 1), 10, "laplace", 1e30),
        lambda: DirectPosterior("beta", 10),
    ):
        with pytest.raises(InvalidValue):
            build()


def test_a_proportion_is_asked_of_a_flag_or_of_a_condition_alone():
    assert BetaBernoulli.usual(None) == BetaBernoulli.usual(Flag()) == {"alpha": 1.0, "beta": 1.0}
    assert BetaBernoulli.usual(Number(0, 1)) is None
