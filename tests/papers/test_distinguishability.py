"""The experiment on telling data sets apart runs, writes what it says and finds what it claims."""

import csv

import pytest
from papers.registry import Setting, find


def test_no_adversary_beats_the_count(tmp_path):
    pytest.importorskip("matplotlib", reason="the plots extra is not installed")
    seen = []
    outcome = find("distinguishability").run(Setting(tmp_path, quick=True, seed=3, advance=seen.append))
    assert all(path.stat().st_size > 0 for path in outcome.files)
    assert all(finding.holds for finding in outcome.findings), outcome.findings
    assert seen[-1] == 1.0
    with (tmp_path / "distinguishability.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        withstood, measured = float(row["any_adversary_exact"]), float(row["best_test_measured"])
        assert withstood * 0.9 <= measured <= 1.3 * withstood + 2
        assert float(row["theorem_3"]) <= float(row["any_adversary_by_metric"]) + 1 <= withstood + 1
