"""The experiment on per-record privacy runs, writes what it says and finds what it claims."""

import csv

from papers.registry import Setting, find


def test_per_record_privacy(tmp_path):
    seen = []
    outcome = find("per-record-privacy").run(Setting(tmp_path, quick=True, advance=seen.append))
    assert all(path.exists() for path in outcome.files)
    assert all(finding.holds for finding in outcome.findings)
    assert seen[-1] == 1.0
    assert "full solve" in outcome.notes
    with (tmp_path / "per-record-privacy.csv").open() as file:
        rows = list(csv.DictReader(file))
    mus = [float(row["mu"]) for row in rows]
    assert mus == sorted(mus)
    assert all(float(row["attack"]) <= float(row["mu"]) for row in rows if row["attack"])
    assert sum(bool(row["attack"]) for row in rows) == 3
