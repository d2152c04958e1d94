"""The survey of column spreads: its parameters against closed forms and simulated laws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks import spreads


@pytest.mark.parametrize("kappa", [-0.9, -0.2, 0.05, 0.4, 1.3])
def test_the_skew_parameter_is_that_of_the_log_normal(kappa: float) -> None:
    """SciPy's skewness of a log-normal is turned back into its parameter."""
    skewness = np.sign(kappa) * float(stats.lognorm.stats(abs(kappa), moments="s"))
    assert spreads.skew_parameter(skewness) == pytest.approx(kappa, rel=1e-6)


@pytest.mark.parametrize("eta", [1.0, 4.0])
def test_the_shape_of_correlations_is_estimated(eta: float) -> None:
    """Correlations of two columns drawn from LKJ(η) are 2·Beta(η, η) − 1."""
    r = 2 * np.random.default_rng(1).beta(eta, eta, 4000) - 1
    (fitted,) = spreads.fit_shape(pd.DataFrame({"dimension": 2, "r": r}))
    assert fitted == pytest.approx(eta, rel=0.1)


def test_spreads_and_means_are_estimated() -> None:
    """Columns drawn from the laws give back their parameters."""
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"sd": np.exp(rng.normal(-2, 0.7, 4000)), "mean": 2 * rng.beta(1.0, 3.0, 4000) - 1})
    assert spreads.fit_spread(rows) == pytest.approx((-2, 0.7), abs=0.05)
    assert spreads.fit_mean(rows) == pytest.approx((1.0, 3.0), rel=0.1)


def test_every_measured_column_has_stated_bounds() -> None:
    """The committed figures are of the committed bounds, and of no table that is reported on."""
    bounds = {
        (f"{package}/{table}", column): tuple(map(float, ends))
        for package, tables in spreads.stated().items()
        for table, columns in tables.items()
        for column, ends in columns.items()
    }
    rows = pd.read_csv(spreads.FOLDER / "columns.csv")
    assert len(rows) > 300
    for row in rows.itertuples():
        assert bounds[row.table, row.column] == pytest.approx((row.low, row.high))
        assert -1 <= row.mean <= 1
        assert 0 < row.sd <= 1
    reported = {
        "breast_cancer",
        "digits",
        "Boston",
        "Pima.tr",
        "Pima.te",
        "randhie",
        "mdvis",
        "MedExp",
        "abalone",
        "Adult",
    }
    assert not reported & {table.split("/")[1] for table in rows["table"]}
