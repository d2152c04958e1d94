"""The regression experiments run, write what they say and find what they claim."""

import csv
from pathlib import Path

import numpy as np
import pytest
from papers.glm_error import error_table
from papers.registry import Setting, find
from papers.regression_data import load_regression

from sottovoce.privacy.errors import InvalidData, InvalidValue
from sottovoce.privacy.promises import GaussianDP

PUBLISHED_TABLE = Path(__file__).parents[2] / "docs" / "figures" / "glm-error.csv"


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


def test_certificate_experiment(quick_run):
    outcome, files = quick_run("langevin-certificate")
    assert all(path.exists() for path in files)
    assert outcome.findings[0].holds
    (table,) = (path for path in files if path.suffix == ".csv")
    with table.open() as file:
        mus = [float(row["mu"]) for row in csv.DictReader(file)]
    assert mus == sorted(mus)


def test_error_table():
    data = load_regression("abalone")
    rows = error_table(data, GaussianDP(0.7), releases=3, seed=1)
    errors = {row.mechanism: row.mean for row in rows}
    assert errors["refined"] < 0.25 < errors["concentrated, β=1e-3 (Alg. 4)"]


def test_the_error_figure_is_drawn_again_from_its_table(tmp_path):
    outcome = find("glm-error").redraw(PUBLISHED_TABLE, Setting(tmp_path))
    assert {path.suffix for path in outcome.files} == {".png", ".svg", ".csv"}
    assert all(path.stat().st_size > 1000 for path in outcome.files)
    assert (tmp_path / "glm-error.csv").read_text() == PUBLISHED_TABLE.read_text()
    assert len(outcome.findings) == 6
    assert all(finding.holds for finding in outcome.findings)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidData, match="not a table of this experiment"):
        find("glm-error").redraw(tmp_path / "other.csv", Setting(tmp_path))
