"""The oracles against closed forms and simulations, and what is kept of fits."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from benchmarks.__main__ import split
from benchmarks.sharpness import combinations, oracle, regressions, store
from benchmarks.sharpness.store import Cell, Fit, Store
from scipy import special, stats

from benchmarks import sharp
from sottovoce.mechanisms.calibrate import largest_keeping
from sottovoce.privacy.concentrated import ZeroConcentratedProfile
from sottovoce.privacy.promises import ApproxDP


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_rho_is_that_of_the_tight_conversion(epsilon: float) -> None:
    """The oracle's own conversion and the calibration of the library agree."""
    ours = largest_keeping(ZeroConcentratedProfile, ApproxDP(epsilon, 1e-6), high=1e4, name="rho")
    assert oracle.rho_of(epsilon, 1e-6) == pytest.approx(ours, rel=1e-6)


def test_the_oracle_of_a_level_alone_is_that_of_a_proportion() -> None:
    """With an intercept only, θ is the log-odds: its sd is the proportion's over p(1−p), noise of 2B included."""
    theta, n, rho = 0.4, 5_000, 0.01
    p = special.expit(theta)
    best, plain = oracle.coefficients(oracle.logistic(np.ones((50, 1)), np.array([theta]), p), n, rho)
    variance = p * (1 - p) / n
    assert plain[0] == pytest.approx(2 * oracle.Z * math.sqrt(variance) / (p * (1 - p)), rel=1e-9)
    noise = (2 * p) ** 2 / (2 * rho * n**2)
    assert best[0] == pytest.approx(2 * oracle.Z * math.sqrt(variance + noise) / (p * (1 - p)), rel=1e-9)


def test_without_noise_the_oracle_is_an_ordinary_regression() -> None:
    """With endless budget widths are those of the inverse Fisher information, in every family."""
    rng = np.random.default_rng(3)
    rows = np.column_stack([np.ones(4_000), rng.uniform(-1, 1, (4_000, 2))])
    theta = np.array([-0.5, 0.7, -0.3])
    for population, tolerance in (
        (oracle.logistic(rows, theta, 1.0), 1e-6),
        (oracle.gaussian(rows, 2.0), 1e-3),
        (oracle.poisson(rows, theta, 60), 1e-3),
    ):
        best, plain = oracle.coefficients(population, 1_000, 1e12)
        assert best == pytest.approx(plain, rel=tolerance)


def test_cut_normal_residuals_have_the_moments_that_simulation_gives() -> None:
    """Mean square of a clipped residual and the slope of its mean, against draws."""
    draws = 2.0 * np.random.default_rng(4).standard_normal(1_000_000)
    for cut in oracle.gaussian(np.ones((1, 1)), 2.0).cuts:
        clipped = np.clip(draws, -cut.cut, cut.cut)
        moved = np.clip(draws + 0.01, -cut.cut, cut.cut) - np.clip(draws - 0.01, -cut.cut, cut.cut)
        assert cut.square[0] == pytest.approx(float(np.mean(clipped**2)), rel=0.01)
        assert cut.slope[0] == pytest.approx(float(moved.mean()) / 0.02, rel=0.01)


def test_cut_poisson_residuals_have_the_moments_that_sums_give() -> None:
    """Variance and covariance of clipped counts against the Poisson law itself."""
    theta = np.array([0.8])
    mu, counts = math.exp(0.8), np.arange(61)
    law = stats.poisson.pmf(counts, mu)
    for cut in oracle.poisson(np.ones((3, 1)), theta, 60).cuts:
        clipped = np.clip(counts - mu, -cut.cut, cut.cut)
        mean = law @ clipped
        assert cut.square[0] == pytest.approx(law @ clipped**2 - mean**2, rel=1e-3)
        assert cut.slope[0] == pytest.approx(law @ (clipped * (counts - mu)), rel=1e-3)


def test_the_oracle_of_a_quantile_is_the_normal_one() -> None:
    """On a uniform column the width is 2·1.96·√(nq(1−q) + 1/(2ρ))/n."""
    values, n, rho = np.linspace(0, 1, 200_001), 4_000, 0.002
    width = 2 * oracle.Z * math.sqrt(n * 0.25 + 1 / (2 * rho)) / n
    assert oracle.quantile(values, 0.5, n, rho) == pytest.approx(width, rel=1e-3)
    assert oracle.quantile(values, 0.5, n, None) == pytest.approx(2 * oracle.Z * math.sqrt(0.25 / n), rel=1e-3)


def test_the_oracle_of_a_mean_cuts_nothing_where_that_is_free() -> None:
    """With endless budget it is at most the ordinary width; with hardly any, c of the noise alone counts."""
    values = np.random.default_rng(5).exponential(size=100_000).clip(0, 8)
    assert oracle.mean(values, 0.0, 1_000, 1e9) <= oracle.plain_mean(values, 1_000) * 1.001
    # For an exponential law E[t 1(t<c)] = 1 − e^{−c}(1 + c); the noise is least where c over that is.
    c = np.linspace(0.5, 8, 4_000)
    noise = (c / (1 - np.exp(-c) * (1 + c))).min()
    rho = 1e-9
    expected = 2 * oracle.Z * noise / (math.sqrt(2 * rho) * 1_000)
    assert oracle.mean(values, 0.0, 1_000, rho) == pytest.approx(expected, rel=0.02)


def test_ordinary_coefficients_solve_the_score_equations() -> None:
    """Σ x(y − μ) = 0 in every family."""
    rng = np.random.default_rng(6)
    rows = np.column_stack([np.ones(500), rng.standard_normal((500, 2))])
    eta = rows @ np.array([0.2, 0.5, -0.4])
    for family, y, mean in (
        ("linear", eta + rng.standard_normal(500), lambda t: t),
        ("logistic", (rng.random(500) < special.expit(eta)).astype(float), special.expit),
        ("poisson", rng.poisson(np.exp(eta)).astype(float), np.exp),
    ):
        theta = regressions.ordinary(family, rows, y)
        assert rows.T @ (y - mean(rows @ theta)) == pytest.approx(np.zeros(3), abs=1e-6)


def _cell(name: str, hit: float) -> Cell:
    def fit(k: int) -> Fit:
        held = store.noise_rng(name, k).random(2) < hit
        low, high = np.where(held, -1.0, 0.5), np.ones(2)
        return Fit(low, high, np.full(2, 0.1), np.zeros(2), np.ones(2), np.full(2, 0.5), 0.01)

    return Cell("means", name, fit, "any")


def test_a_run_goes_on_where_it_was_stopped(tmp_path) -> None:
    """Fits are read back and not made again, and the summary is that of one run."""
    path, asked = tmp_path / "fits.jsonl", [_cell("one", 1.0), _cell("other", 0.5)]
    store.run(Store(path), asked, 5, 60.0, lambda _: None)
    calls: list[int] = []
    counting = [Cell(one.kind, one.name, lambda k, fit=one.fit: calls.append(k) or fit(k), one.group) for one in asked]
    resumed = Store(path)
    store.run(resumed, counting, 8, 60.0, lambda _: None)
    assert sorted(calls) == [5, 5, 6, 6, 7, 7]
    whole = Store(tmp_path / "whole.jsonl")
    store.run(whole, asked, 8, 60.0, lambda _: None)
    for cell in asked:
        assert store.summary(resumed.fits[cell.name]) == store.summary(whole.fits[cell.name])


def test_low_coverage_is_flagged_and_right_coverage_is_not(tmp_path) -> None:
    """Of two cells one holds .70: it alone is flagged, by both tests; a fit that failed is told of."""

    def failing(k: int) -> Fit:
        raise ValueError("no such verb")

    asked = [_cell("right", 0.95), _cell("low", 0.7), Cell("means", "failing", failing, "any")]
    kept = Store(tmp_path / "fits.jsonl")
    store.run(kept, asked, 200, 60.0, lambda _: None)
    found = store.save(tmp_path / "sharp.json", kept, asked, "here", "abc")
    assert store.screened(found) == store.significant(found) == ["low"]
    assert found["right"]["ratio"] == pytest.approx(2.0)
    assert found["right"]["price"] == pytest.approx(2.0)
    assert found["failing"]["fits"] == 0
    assert "no such verb" in found["failing"]["reason"]


def test_an_exact_binomial_decides(tmp_path) -> None:
    """The bar is 1 % over the number of cells, of the lower tail of a binomial of .93."""
    cells = {str(k): {"fits": 300, "targets": 1, "hits": 279, "rotating": 279} for k in range(9)}
    limit = int(stats.binom.ppf(0.01 / 10, 300, 0.93))
    for hits, flagged in ((limit - 1, True), (limit + 1, False)):
        cells["last"] = {"fits": 300, "targets": 1, "hits": hits, "rotating": hits}
        assert ("last" in store.significant(cells)) is flagged


@pytest.mark.parametrize("kind", sharp.KINDS)
def test_cells_have_names_of_their_own(kind: str) -> None:
    """No two cells share a name, and words pick among them."""
    names = [cell.name for cell in sharp.cells(kind, [])]
    assert len(names) == len(set(names)) > 20
    assert [cell.name for cell in sharp.cells(kind, [names[0]])] == [names[0]]


@pytest.mark.parametrize(
    "name",
    [
        "linear, exponential, n = 20,000, ε = 0.3, d = 3",
        "patients, eleven terms, n = 7,000, ε = 1",
        "abalone, rings, n = 4,000, ε = 1",
        "age in whole years, 0.5, n = 10,000, 10%",
        "stays by eight wards, bound 365, quartiles, n = 8,000, 50%",
        "casualties by 18 districts, 20%, any tail",
        "proportion, 92%, n = 10,000, 2%, persons, grouped",
        "counts, even, n = 1,000, 10%, secret",
    ],
)
def test_a_cell_is_answered(name: str) -> None:
    """Truths lie near what is answered, and targets, oracle and no privacy go together."""
    (cell,) = [one for one in sharp.cells(None, [name]) if one.name == name]
    fit = cell.fit(0)
    assert len(fit.low) == len(fit.high) == len(fit.truth) == len(fit.oracle) == len(fit.plain)
    assert np.all(fit.low <= fit.high)
    assert not np.any(fit.oracle < fit.plain * 0.3)
    held = (fit.low - 1e-9 <= fit.truth) & (fit.truth <= fit.high + 1e-9)
    assert held.mean() > 0.6


def test_words_of_one_area_are_its_own() -> None:
    """What follows the first option that is not for all areas goes to the area."""
    assert split(["sharp", "--cells", "age", "stays", "--write"]) == (["sharp", "--write"], ["--cells", "age", "stays"])
    assert split(["--quick", "ledger"]) == (["--quick", "ledger"], [])


def test_the_oracle_can_be_had() -> None:
    """Its estimator, a noisy score of residuals cut at r solved with H known, is as wide as it says and no narrower."""
    rng, n, rho, sd = np.random.default_rng(8), 400, 0.05, 2.0
    design = np.array([[1.0, a, b] for a in (-1, 1) for b in (-1, 1)])  # of one length, however it is whitened
    population = oracle.gaussian(design, sd)
    best, _ = oracle.coefficients(population, n, rho)
    widths = []
    for cut in population.cuts:
        rows = np.tile(design, (n // 4, 1))
        h = rows.T @ (rows * cut.slope[0])
        off = []
        for _ in range(3_000):
            score = rows.T @ np.clip(sd * rng.standard_normal(n), -cut.cut, cut.cut)
            # Whitened rows z = x/√n have length √(3/n): a record replaced moves Σzψ by 2√(3/n)r at most, Σxψ by 2√3 r.
            noise = 2 * math.sqrt(3) * cut.cut / math.sqrt(2 * rho) * rng.standard_normal(3)
            off.append(np.linalg.solve(h, score + noise))
        widths.append(2 * oracle.Z * np.std(off, axis=0))
    assert min(np.max(width) for width in widths) == pytest.approx(best.max(), rel=0.05)


@pytest.mark.parametrize("verb", ["mean", "rate", "proportion", "quantiles"])
def test_tables_of_combinations_have_the_truth_they_say(verb: str) -> None:
    """Over a large table, persons weighed alike, averages and quantiles are those that count as true."""

    shape = {"mean": "Gumbel", "rate": "Zipf", "proportion": "20%", "quantiles": "triangle"}[verb]
    cell = combinations.Combination(verb, shape, 40_000, 0.1, persons=True, secret=False, grouped=True)
    columns, group, whose = cell.table(np.random.default_rng(1))
    persons = pd.Series(columns["x"].astype(float)).groupby(whose).mean().to_numpy()
    places = len(combinations.AT) if verb == "quantiles" else 1
    rows = pd.DataFrame({"g": np.repeat(combinations.GROUPS, places)})
    truth = cell.truth(rows, columns, group, whose).reshape(-1, places)
    for g, expected in enumerate(truth):
        its = persons[group == g]
        seen = np.quantile(its, combinations.AT) if verb == "quantiles" else its.mean()
        assert seen == pytest.approx(expected, rel=0.1)
