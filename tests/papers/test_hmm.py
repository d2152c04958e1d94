"""The hidden Markov study: what it counts, holds out and finds, on few sweeps."""

import csv

import numpy as np
import pytest
from papers.event_logs import HONG_KONG, PORTUGAL
from papers.event_scores import Study, converged_temperature, noisy_tables
from papers.hmm_printed import HEADS, LOGS, score_findings, scores_of
from papers.printed_chains import FLOORS, PrintedChains, temperature
from papers.registry import Setting, find
from papers.war_logs import AFGHANISTAN, IRAQ

from sottovoce.inference.figures import write_csv
from sottovoce.privacy.randomness import seeded_rng


@pytest.mark.parametrize(("log", "shape", "n"), [(HONG_KONG, (18, 72), 95_821), (PORTUGAL, (18, 84), 200_419)])
def test_every_event_is_counted_once_a_field(log, shape, n):
    counts = log.counts()
    assert all(table.shape[:2] == shape for table in counts)
    for table in counts:
        np.testing.assert_array_equal(table.sum(axis=-1), counts[0].sum(axis=-1))
    assert counts[0].sum() == n


def test_seeded_noise_has_the_law_it_says():
    counts = HONG_KONG.counts()
    noisy = noisy_tables(HONG_KONG, counts, "laplace", 1.2, seeded_rng(1))
    for law, table, true in zip(noisy.noises, noisy.counts, counts, strict=True):
        assert law.scale == pytest.approx(2 * 6 / 1.2)
        spread = (table.ravel() - true.ravel()).astype(float)
        assert spread.var() == pytest.approx(law.variance, rel=0.1)
        assert abs(spread.mean()) < 4 * np.sqrt(law.variance / spread.size)


def test_held_out_scores_see_only_the_cells_held_out():
    study = Study(HONG_KONG, 2, 12, 6, seed=1)
    assert 0.06 < study.held.mean() < 0.14
    assert all(table[study.held].sum() == 0 for table in study._training())
    plain, private = study.naive_bayes("none", 1.0), study.naive_bayes("laplace", 5.0)
    assert private == pytest.approx(plain, abs=0.001)
    assert study.naive_bayes("tempered", 0.1) < plain
    assert converged_temperature(HONG_KONG, 1e9) == 1.0


def test_the_study_draws_its_figures_and_shows_the_papers_claims(quick_run):
    outcome, files = quick_run("hmm")
    assert sorted(p.name for p in files if p.suffix == ".png") == [
        "hmm-held-out.png",
        "hmm-profiles.png",
        "hmm-states.png",
    ]
    held = {finding.claim: finding.holds for finding in outcome.findings}
    assert held["naive Bayes: Laplace noise beats tempered sampling at every ε"]
    assert held["a map from Laplace noise shows the states that a map without a promise shows"]


def test_logs_of_the_thesis_size_have_its_numbers():
    for log, median, total in ((IRAQ, 972, 390_000), (AFGHANISTAN, 58, 75_000)):
        sizes = log.counts()[0].sum(axis=-1)
        assert sizes.shape == log.truth.shape == (5, 72)
        assert np.median(sizes) == pytest.approx(median, rel=0.03)
        assert sizes.sum() == pytest.approx(total, rel=0.15)
        for table in log.counts():
            np.testing.assert_array_equal(table.sum(axis=-1), sizes)
    early, late = (AFGHANISTAN.counts()[0].sum(axis=-1)[:, years] for years in (slice(12), slice(-12, None)))
    assert late.sum() > 5 * early.sum()


def test_the_printed_study_keeps_its_floors_and_its_temperature(tmp_path):
    held = np.zeros(AFGHANISTAN.grid.shape, dtype=bool)
    held[2, 10:20] = True
    routes = (("none", 0.0), ("laplace", 5.0), ("M = 10", 5.0), ("M = 100", 5.0))
    chains = PrintedChains(AFGHANISTAN, 3, routes, held)
    posteriors = chains.run(8, 1)
    for (name, _), posterior in zip(routes, posteriors, strict=True):
        assert len(posterior) == 4
        for theta in posterior.emissions:
            assert name not in FLOORS or theta.min() >= FLOORS[name] / theta.shape[-1] * (1 - 1e-9)
    assert np.all(np.isfinite(chains.scores(posteriors)))
    # T = 2 Σ log((1 - (K-1)a)/a)/ε, a = 1/(MK): written out
    bounds = [np.log((1 - (k - 1) / (100 * k)) * 100 * k) for k in (12, 100, 2, 2, 2)]
    assert temperature(AFGHANISTAN, FLOORS["M = 100"], 5.0) == pytest.approx(2 * sum(bounds) / 5)


def table_of(folder, ops):
    """A table in which Laplace noise scores ε - 8, OPS as told, in every log, with states that all routes agree on."""
    rows = [[log, model, "none", 0.0, 0, -7.0, ""] for log in LOGS for model in ("naive Bayes", "hidden Markov")]
    for log in LOGS:
        for model in ("naive Bayes", "hidden Markov"):
            rows += [[log, model, "laplace", e, 0, -8 + e / 10, ""] for e in (0.1, 10.0)]
            rows += [[log, model, m, e, 0, ops + e / 10, ""] for m in FLOORS for e in (0.1, 5.0)]
    for log in list(LOGS)[:2]:
        even, odd = "/".join(["000111"] * 5), "/".join(["010101"] * 5)
        for route in ("truth", "none", "laplace", "M = 100"):
            rows.append([log, "maps", route, 0.0, 0, "", even])
        rows.append([log, "maps", "M = 100, last draw", 5.0, 0, "", odd])
        rows += [[log, "states in use", "none", 0.0, 0, 10, ""], [log, "states in use", "laplace", 5.0, 0, 3, ""]]
    return write_csv(folder / "table.csv", HEADS, [[*row, 40] for row in rows])


def test_the_printed_study_is_drawn_again_from_its_table(tmp_path):
    outcome = find("hmm-printed").redraw(table_of(tmp_path, ops=-9.0), Setting(tmp_path, quick=True))
    assert sorted(p.name for p in outcome.files if p.suffix == ".png") == ["hmm-printed-maps.png", "hmm-printed.png"]
    held = {finding.claim: finding.holds for finding in outcome.findings}
    assert len(held) == 14
    told = [
        holds for claim, holds in held.items() if "naive Bayes" in claim or "regimes" in claim or "coherent" in claim
    ]
    assert all(told) and len(told) == 8
    competitive = [holds for claim, holds in held.items() if "competitive" in claim]
    assert not any(competitive) and len(competitive) == 3
    assert "a median of 972" in outcome.notes and "27 a cell" in outcome.notes and "sweeps: 40" in outcome.notes
    with table_of(tmp_path, ops=-7.5).open() as file:
        held = {finding.claim: finding.holds for finding in score_findings(scores_of(list(csv.DictReader(file))))}
    assert all(holds for claim, holds in held.items() if "competitive" in claim)
    assert not any(holds for claim, holds in held.items() if "naive Bayes" in claim)
