"""The race at a small size: every method is fitted, and settings are chosen on the other sets alone."""

import numpy as np
import pytest
from benchmarks.racing import sets
from benchmarks.racing.measure import jobs, line_jobs, measure

from benchmarks import race


def test_a_small_race_fits_every_method():
    found = measure([*jobs(["pima"], [1.0], 2), *line_jobs([1.0], 1)], processes=1)
    scores = found["classes", "pima", 1.0]
    assert {name.partition("|")[0] for name in scores} == {"ours", "majority", "not private", *race.CLASSIFIERS}
    assert all(len(cuts) == 2 and np.all(np.isfinite(cuts)) for cuts in scores.values())
    assert {name.partition("|")[0] for name in found["line", "wine", 1.0]} == {
        "ours",
        "mean",
        "not private",
        *race.LINES,
    }


def test_a_setting_is_chosen_without_the_set_it_is_used_on():
    found = {
        ("classes", name, 1.0): {"rival|a": [(a, a)], "rival|b": [(b, b)]}
        for name, a, b in (("x", 0.0, 0.5), ("y", 0.5, 0.1), ("z", 0.5, 0.2))
    }
    picked = race.chosen(found, "classes", ["x", "y", "z"], 1.0, "rival", 0)
    assert picked["x"].tolist() == [0.5]  # a would be better on x itself


def test_a_paired_difference_is_told_of_only_where_ours_is_worse():
    theirs = {"x": np.zeros(8), "y": np.zeros(8)}
    ours = {"x": 0.1 + 0.01 * np.arange(8), "y": -0.1 - 0.01 * np.arange(8)}
    assert race.worse_on(ours, theirs) == ["x"]


@pytest.mark.parametrize("name", [*sets.HELD, "housing"])
def test_rows_have_norm_one(name):
    data = sets.load(name)
    assert np.linalg.norm(data.X, axis=1).max() <= 1 + 1e-9
    assert set(np.unique(data.y)) == {0.0, 1.0}
