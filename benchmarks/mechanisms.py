"""Mechanisms: calibration, exact curves at scale, and releases beside the raw generator in the same run."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.timing import best, show
from sottovoce.mechanisms import ConcentratedPosterior, DiffusedPosterior, DirectPosterior, NoisyStatistics
from sottovoce.mechanisms.conjugate import BetaBernoulli, DirichletCategorical, GammaPoisson, NormalMean
from sottovoce.mechanisms.exact_sampling import draw
from sottovoce.privacy.promises import ApproxDP, PureDP, ZeroConcentratedDP
from sottovoce.privacy.randomness import secure_rng
from sottovoce.records.readings import Statistics


def calibration() -> None:
    """Time calibration to every kind of promise, beside one evaluation of the profile it searches."""
    system = BetaBernoulli(6, 12)
    cases = [
        (DiffusedPosterior, ApproxDP(1, 1e-6)),
        (ConcentratedPosterior, ApproxDP(1, 1e-6)),
        (NoisyStatistics, PureDP(0.5)),
        (NoisyStatistics, ZeroConcentratedDP(0.05)),
    ]
    rows = []
    for kind, target in cases:
        mechanism = kind.calibrate(system, 100, target)
        ours = best(lambda kind=kind, target=target: kind.calibrate(system, 100, target))
        once = best(lambda m=mechanism, target=target: type(m.profile).from_dict(m.profile.to_dict()).excess(target))
        rows.append([f"{kind.word}, {target}", f"{ours * 1e3:.2f} ms", f"{once * 1e3:.3f} ms", f"{ours / once:.0f}"])
    show(
        "Calibrate BetaBernoulli(6, 12), n = 100", ["mechanism, promise", "calibrate", "one evaluation", "ratio"], rows
    )


def scale(quick: bool) -> None:
    """Time the large cases: many categories, many records."""
    size = 10**5 if quick else 10**6
    alpha = np.random.default_rng(0).uniform(0.5, 2.0, size)
    start = time.perf_counter()
    DiffusedPosterior.calibrate(DirichletCategorical(alpha), 1000, ApproxDP(1, 1e-6))
    dirichlet = time.perf_counter() - start
    rows = [[f"Dirichlet, d = {size:,}: build and calibrate to approx:1,1e-6", f"{dirichlet * 1e3:.0f} ms", "1 s"]]
    for n in (10**6, 10**9):
        seconds = best(lambda n=n: BetaBernoulli(6, 12).profile(n).delta(0.1), repeats=3)
        rows.append([f"exact δ(0.1) of a Beta posterior, n = {n:,}", f"{seconds * 1e3:.2f} ms", "500 ms"])
    for n, wanted in ((100, "1 ms"), (10**6, "30 ms")):
        diffused = DiffusedPosterior(BetaBernoulli(6, 12), n, 0.2278734087)
        law = diffused.law(diffused.reading.imagined(n, 0.4))
        seconds = best(lambda law=law: draw(law, secure_rng()), repeats=8)
        rows.append([f"one exactly rounded draw, n = {n:,}", f"{seconds * 1e3:.2f} ms", wanted])
    mechanism = NoisyStatistics(BetaBernoulli(1, 1), 10**6, "laplace", 10.0)
    seconds = best(lambda: mechanism.posterior_from(300_000.0).interval(0.95), repeats=3)
    rows.append(["noise-aware posterior and interval, n = 1,000,000", f"{seconds * 1e3:.0f} ms", ""])
    show("Large cases", ["case", "time", "wanted at most"], rows)


def sampling(quick: bool) -> None:
    """Time releases of many draws beside the bare generator doing the same draws."""
    draws = 10**4 if quick else 10**5
    rng = secure_rng()
    beta = DirectPosterior(BetaBernoulli(6, 12), 100)
    gamma = DirectPosterior(GammaPoisson(6, 12, 3), 100)
    normal = DirectPosterior(NormalMean(1, 1, bounds=(0, 1)), 100)
    dirichlet = DirectPosterior(DirichletCategorical([1.0] * 10), 100)
    counts = np.full(10, 10.0)
    cases = [
        ("Beta", beta, Statistics(100, np.array([30.0])), lambda: rng.beta(36, 82, draws)),
        ("Gamma", gamma, Statistics(100, np.array([30.0])), lambda: rng.standard_gamma(36, draws) / 112),
        ("Normal", normal, Statistics(100, np.array([30.0])), lambda: rng.normal(0.3, 0.1, draws)),
        ("Dirichlet, d = 10", dirichlet, Statistics(100, counts), lambda: rng.dirichlet(1 + counts, draws)),
    ]
    rows = []
    for name, mechanism, statistics, raw in cases:
        ours = best(lambda m=mechanism, s=statistics: m.release(s, rng, draws=draws), repeats=5)
        theirs = best(raw, repeats=5)
        rows.append([name, f"{ours * 1e3:.2f} ms", f"{theirs * 1e3:.2f} ms", f"{ours / theirs:.2f}"])
    show(f"{draws:,} draws", ["posterior", "release", "raw generator", "ratio (wanted <= 1.5)"], rows)


def main(quick: bool = False) -> None:
    """Run all of them."""
    calibration()
    scale(quick)
    sampling(quick)


if __name__ == "__main__":
    main()
