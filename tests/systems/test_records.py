"""Reading records from whatever holds them."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sottovoce.privacy.errors import InvalidData
from sottovoce.systems import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalMean,
    Statistics,
)

HOLDERS = [list, np.array, pd.Series, pl.Series, pa.array, lambda x: pa.chunked_array([x]), tuple]


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
    assert set(vars(clipped)) == {"n", "total"}


@pytest.mark.parametrize("frame", [np.array, pd.DataFrame, lambda x: pl.DataFrame(np.asarray(x))])
def test_vectors_are_projected_onto_the_ball(frame):
    system = NormalMean(1, 1, radius=1.0, dimension=2)
    statistics = system.statistics(frame([[3.0, 4.0], [0.1, 0.2]]))
    np.testing.assert_allclose(statistics.total, [0.7, 1.0])


@pytest.mark.parametrize(
    "records",
    [
        [0, 1, np.nan],
        [0, None, 1],
        ["0", "1"],
        [0, "1"],
        [1, np.inf],
        "10",
        3,
        [[0, 1], [1, 0]],
        pd.Series([0, None, 1]),
        pd.Series([0, pd.NA, 1], dtype="Int64"),
        pl.Series([0, None, 1]),
        pa.array([0, None, 1]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        [1 + 2j],
        np.ma.masked_array([0, 1, 1], [False, True, False]),
        {"a": 1},
        (x for x in (0, 1)),
        [[0], [1, 1]],
    ],
    ids=lambda records: type(records).__name__,
)
def test_what_is_no_number_raises_without_saying_what_it_was(records):
    with pytest.raises(InvalidData) as error:
        BetaBernoulli(1, 1).statistics(records)
    assert "2020" not in str(error.value)


@pytest.mark.parametrize("records", [[0, 3], [-1, 0], ["x"], [None], [np.nan], [0.5], [[0]]])
def test_unknown_categories_raise(records):
    with pytest.raises(InvalidData):
        DirichletCategorical([1, 1, 1]).statistics(records)


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
