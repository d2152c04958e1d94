"""The race at a small size: every method is fitted, and settings are chosen on the other sets alone."""

import numpy as np
import pytest
from benchmarks.racing import sets
from benchmarks.racing.family import FAMILY
from benchmarks.racing.measure import jobs, line_jobs, measure
from benchmarks.racing.rivals import CLASSIFIERS
from scipy import stats

from benchmarks import race


def test_a_small_race_fits_every_method():
    found = measure([*jobs(["pima"], [1.0], 2), *line_jobs([1.0], 1)], processes=1)
    scores = found["classes", "pima", 1.0]
    assert {name.partition("|")[0] for name in scores} == {"ours", "majority", "not private", *CLASSIFIERS}
    assert {name.partition("|")[2] for name in scores if name.startswith("ours|")} == set(FAMILY)
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


def test_our_rule_is_one_for_all_and_chosen_without_the_set():
    """On x the first rule is far better; without x the second is, and the others keep the first."""
    first, second, *rest = FAMILY
    found = {}
    for name, good in (("x", 0.0), ("y", 0.3), ("z", 0.3)):
        for epsilon in (0.1, 1.0):
            scores = {f"ours|{rule}": [(0.9, 0.9)] for rule in rest}
            found["classes", name, epsilon] = scores | {f"ours|{first}": [(good, good)], f"ours|{second}": [(0.2, 0.2)]}
    found["classes", "held", 1.0] = {f"ours|{rule}": [(k, k)] for k, rule in enumerate(FAMILY)}
    rules = race.settle(found, ["x", "y", "z"], [0.1, 1.0])
    assert rules["x"] == second
    assert rules["y"] == rules["z"] == first
    assert found["classes", "x", 1.0]["ours"] == [(0.2, 0.2)]
    assert found["classes", "held", 1.0]["ours"] == [(list(FAMILY).index(rules[""]),) * 2]


def test_a_difference_counts_where_ours_is_worse_and_is_corrected_for_all_comparisons():
    rise = 0.01 * np.arange(8)
    gap, p = race.worse_by(0.1 + rise, np.zeros(20))
    assert gap == pytest.approx(0.135)
    assert p == pytest.approx(stats.ttest_rel(0.1 + rise, np.zeros(8)).pvalue)
    assert race.worse_by(-0.1 - rise, np.zeros(8))[1] == race.worse_by(np.zeros(8), np.zeros(8))[1] == 1.0
    assert race.corrected([0.02, 0.9, 0.01, 0.019]) == pytest.approx([0.057, 0.9, 0.04, 0.057])


@pytest.mark.parametrize("name", [*sets.HELD, "housing"])
def test_rows_have_norm_one(name):
    data = sets.load(name)
    assert np.linalg.norm(data.X, axis=1).max() <= 1 + 1e-9
    assert set(np.unique(data.y)) == {0.0, 1.0}
