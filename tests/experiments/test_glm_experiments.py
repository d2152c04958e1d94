"""The regression experiments run, write what they say and find what they claim."""

import csv

import numpy as np
import pytest

from sottovoce.experiments.glm_error import Row, draw, error_table
from sottovoce.experiments.registry import Setting, find
from sottovoce.experiments.regression_data import load_regression
from sottovoce.privacy.errors import InvalidValue
from sottovoce.privacy.promises import GaussianDP


@pytest.mark.parametrize(("name", "shape"), [("abalone", (2784, 9)), ("adult", (32561, 104)), ("mnist", (7988, 784))])
def test_rows_are_prepared_within_their_public_bound(name, shape):
    data = load_regression(name)
    assert data.X.shape == shape
    assert data.X_test.shape == (len(data.y_test), shape[1])
    for rows in (data.X, data.X_test):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    assert set(data.y) == set(data.y_test) == {-1.0, 1.0}


def test_unknown_data_are_refused():
    with pytest.raises(InvalidValue, match="known: abalone"):
        load_regression("iris")


def test_certificate_experiment(tmp_path):
    seen = []
    outcome = find("langevin-certificate").run(Setting(tmp_path, quick=True, advance=seen.append))
    assert all(path.exists() for path in outcome.files)
    assert outcome.findings[0].holds
    assert seen[-1] == 1.0
    with (tmp_path / "langevin-certificate.csv").open() as file:
        mus = [float(row["mu"]) for row in csv.DictReader(file)]
    assert mus == sorted(mus)


def test_error_table_and_its_figure(tmp_path):
    data = load_regression("abalone")
    rows = error_table(data, GaussianDP(0.7), releases=3, seed=1)
    errors = {row.mechanism: row.mean for row in rows}
    assert errors["auto"] < 0.25 < errors["concentrated, β=1e-3 (Alg. 4)"]
    drawn = [
        Row("abalone", "approx:1,1e-05", "auto", 0.23, 0.01, 3),
        Row("abalone", "none", "no privacy", 0.22, 0.0, 1),
    ]
    draw(tmp_path / "figure.png", drawn)
    assert (tmp_path / "figure.png").stat().st_size > 1000
