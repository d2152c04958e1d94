"""The floating-point experiment in its quick form finds what it claims."""

import pytest


def test_the_experiment_runs_and_finds_what_it_claims(quick_run):
    pytest.importorskip("matplotlib", reason="the plots extra is not installed")
    outcome, files = quick_run("floating-point")
    assert all(path.stat().st_size > 0 for path in files)
    assert all(finding.holds for finding in outcome.findings), outcome.findings
