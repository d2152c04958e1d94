"""Audit: draws a second beside the bare sampler in the same run, and how long it takes to audit everything."""

from __future__ import annotations

import os
import time

from audit.cases import find_case
from benchmarks.timing import show
from sottovoce.audit import audit, subject_of
from sottovoce.audit.survey import survey
from sottovoce.privacy.promises import PureDP
from sottovoce.privacy.randomness import seeded_rng


def noisy_sum(data, rng, draws):
    return sum(data) + rng.laplace(size=draws)


def one_noisy_sum(data, rng):
    return sum(data) + rng.laplace()


def throughput(quick: bool) -> None:
    """Time an audit to the end, and the draws alone that it makes."""
    size = 100_000 if quick else 1_000_000
    pair, claim = ([0, 1, 1], [0, 0, 1]), PureDP(1.0)
    subjects = [
        (find_case(name).build(), size, "auto")
        for name in ("diffused, beta-bernoulli", "diffused, dirichlet-categorical", "diffused, normal-mean")
    ]
    subjects += [
        (find_case("Langevin, worst quadratic, 12 steps").build(), size // 10, "auto"),
        (find_case("laplace, beta-bernoulli").build(), size // 100, "auto"),
        (subject_of(noisy_sum, pair, claim, name="a function with draws="), size, "scan"),
        (subject_of(noisy_sum, pair, claim, name="the same, a learned test"), size, "learned"),
        (subject_of(one_noisy_sum, pair, claim, name="a function, one draw a call"), size // 10, "scan"),
    ]
    rows = []
    for subject, draws, test in subjects:
        audit(subject, draws=1000, test=test)  # compile and import
        start = time.perf_counter()
        report = audit(subject, draws=draws, test=test, early_stop=False)
        ours = time.perf_counter() - start
        start = time.perf_counter()
        rng = seeded_rng(0)
        for side in (0, 1):
            for _ in range(0, draws, subject.block):
                subject.draw(side, min(subject.block, draws), rng)
        bare = time.perf_counter() - start
        speed, ratio = f"{2 * draws / ours:,.0f}", f"{ours / bare:.1f}"
        rows.append([subject.name, f"{draws:,}", f"{ours:.2f} s", speed, ratio, report.verdict])
    show(
        "Audits, all draws used",
        ["mechanism", "draws of each", "time", "draws/s", "ratio to the draws alone", "verdict"],
        rows,
    )


def everything(quick: bool) -> None:
    """Time `sottovoce audit --all --quick`."""
    jobs = min(2, os.cpu_count() or 1)
    start = time.perf_counter()
    found = survey(draws=10_000 if quick else 100_000, jobs=jobs)
    seconds = time.perf_counter() - start
    drawn = sum(2 * report.draws for _, report in found)
    holds = sum(report.verdict == "holds" for _, report in found)
    show(
        f"Every case, {jobs} processes" + (", a tenth of --quick" if quick else ", as --all --quick"),
        ["cases", "holds", "draws", "time", "wanted at most"],
        [[str(len(found)), str(holds), f"{drawn:,}", f"{seconds:.0f} s", "180 s"]],
    )


def main(quick: bool = False) -> None:
    """Run both."""
    throughput(quick)
    everything(quick)


if __name__ == "__main__":
    main()
