"""The floating-point experiment in its quick form finds what it claims."""

import pytest
from papers.registry import Setting, find


def test_the_experiment_runs_and_finds_what_it_claims(tmp_path):
    pytest.importorskip("matplotlib", reason="the plots extra is not installed")
    seen = []
    outcome = find("floating-point").run(Setting(output=tmp_path, quick=True, seed=3, advance=seen.append))
    assert all(path.stat().st_size > 0 for path in outcome.files)
    assert all(finding.holds for finding in outcome.findings), outcome.findings
    assert seen[-1] == 1
