"""Two cells of the coverage table, and the experiment as a whole in its quick form."""

import pytest
from papers.coverage import cover


@pytest.mark.parametrize(("n", "epsilon", "plug_in_at_most"), [(10, 0.5, 0.85), (100, 0.1, 0.6)])
def test_noise_aware_intervals_keep_their_level_and_plug_in_ones_do_not(n, epsilon, plug_in_at_most):
    aware, plug_in = cover(n, epsilon, repeats=1500, seed=1)
    assert 0.93 <= aware <= 0.97
    assert plug_in < plug_in_at_most


@pytest.mark.parametrize("name", ["coverage", "which-mechanism", "six-ways", "public-data"])
def test_the_experiment_runs_and_finds_what_it_claims(name, quick_run):
    pytest.importorskip("matplotlib", reason="the plots extra is not installed")
    outcome, files = quick_run(name)
    assert all(path.stat().st_size > 0 for path in files)
    assert all(finding.holds for finding in outcome.findings), outcome.findings
