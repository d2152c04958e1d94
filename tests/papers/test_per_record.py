"""The experiment on per-record privacy runs, writes what it says and finds what it claims."""

import csv


def test_per_record_privacy(quick_run):
    outcome, files = quick_run("per-record-privacy")
    assert all(path.exists() for path in files)
    assert all(finding.holds for finding in outcome.findings)
    assert "full solve" in outcome.notes
    (table,) = (path for path in files if path.name == "per-record-privacy.csv")
    with table.open() as file:
        rows = list(csv.DictReader(file))
    mus = [float(row["mu"]) for row in rows]
    assert mus == sorted(mus)
    assert all(float(row["attack"]) <= float(row["mu"]) for row in rows if row["attack"])
    assert sum(bool(row["attack"]) for row in rows) == 3
