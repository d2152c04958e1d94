"""How often the intervals of `PoissonRegression` hold: its release's, and those read off its 256 samples.

Fits go through the estimator's own `fit`, every truth is drawn anew, and rates vary by Poisson's law or more.

    python -m benchmarks.poisson_estimator --out poisson.csv --fits 200 --processes 16
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.regression_counts import LAWS
from sottovoce.faces.estimators import PoissonRegression

SIZES, EPSILONS, DIMENSIONS, RATES = (2_000, 20_000), (0.3, 1.0, 3.0), (3, 8), ("poisson", "exponential")
HIGH, NORM, DELTA = 30, 4.0, 1e-6
_FIELDS = ("rates", "columns", "n", "epsilon", "fits", "slopes", "error", "intercept", "samples", "width")


def one(job: tuple[str, int, int, float, int]) -> tuple[Any, ...]:
    """Return the cell of one fit, which terms its intervals hold, which its samples' do, and the slopes' width."""
    law, d, n, epsilon, seed = job
    rng = np.random.default_rng([seed, list(LAWS).index(law), d, n, int(10 * epsilon)])
    X = np.clip(rng.standard_normal((n, d)), -NORM, NORM)
    truth = np.array([*rng.normal(0.0, 0.5 / math.sqrt(d), d), rng.normal(-0.5, 0.3)])
    y = np.minimum(rng.poisson(np.exp(X @ truth[:-1] + truth[-1]) * LAWS[law](rng, n)), HIGH)
    asked = PoissonRegression(epsilon, DELTA, data_norm=NORM, response_bound=HIGH, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = asked.fit(X, y)
    low, high = np.roll(model.release_.value.interval(), -1, axis=0).T
    below, above = np.quantile(model.samples_, [0.025, 0.975], axis=0)
    held, sampled = (low <= truth) & (truth <= high), (below <= truth) & (truth <= above)
    return job[:4], held, sampled, float(np.median(high[:-1] - low[:-1]))


def write(path: Path, cells: dict[Any, list[Any]]) -> None:
    """Write one line a cell: how often slopes, the intercept and the samples' intervals hold, and the median width."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_FIELDS)
        for key in filter(cells.__contains__, itertools.product(RATES, DIMENSIONS, SIZES, EPSILONS)):
            held, sampled, widths = (np.array(part, dtype=float) for part in zip(*cells[key], strict=True))
            slopes = held[:, :-1].mean(axis=1)
            found = (slopes.mean(), slopes.std() / math.sqrt(len(held)), held[:, -1].mean(), sampled.mean())
            writer.writerow([*key, len(held), *(f"{number:.4f}" for number in (*found, np.median(widths)))])


def main(quick: bool = False) -> None:
    """Fit counts of every cell, and show how often their intervals hold."""
    from benchmarks.timing import show

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "poisson.csv"
        command(["--out", str(out), *(["--fits", "1"] if quick else [])])
        with out.open(newline="", encoding="utf-8") as file:
            rows = [[row[name] for name in _FIELDS] for row in csv.DictReader(file)]
    show("Intervals of the Poisson estimator", _FIELDS, rows)


def command(words: Sequence[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("poisson_estimator.csv"))
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=600.0, help="stop after so long")
    given = parser.parse_args(words)
    kinds = list(itertools.product(RATES, DIMENSIONS, SIZES, EPSILONS))
    jobs = [(*kind, seed) for seed in range(given.fits) for kind in kinds]
    cells: dict[Any, list[Any]] = {}
    started = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        for done, (key, *rest) in enumerate(pool.imap_unordered(one, jobs, chunksize=4), 1):
            cells.setdefault(key, []).append(rest)
            late = time.monotonic() - started > given.seconds
            if done % 400 == 0 or late or done == len(jobs):
                write(given.out, cells)
            if late:
                pool.terminate()
                break


if __name__ == "__main__":
    command()
