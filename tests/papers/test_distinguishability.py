"""The experiment on telling data sets apart runs, writes what it says and finds what it claims."""

import csv

import pytest


def test_no_adversary_beats_the_count(quick_run):
    pytest.importorskip("matplotlib", reason="the plots extra is not installed")
    outcome, files = quick_run("distinguishability")
    assert all(path.stat().st_size > 0 for path in files)
    assert all(finding.holds for finding in outcome.findings), outcome.findings
    (table,) = (path for path in files if path.suffix == ".csv")
    with table.open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        withstood, measured = float(row["any_adversary_exact"]), float(row["best_test_measured"])
        assert withstood * 0.9 <= measured <= 1.3 * withstood + 2
        assert float(row["theorem_3"]) <= float(row["any_adversary_by_metric"]) + 1 <= withstood + 1
