"""Answers: a mean and a histogram of the ages in Adult, beside OpenDP and diffprivlib: error and time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
from papers.data import adult

from benchmarks.peers.environment import PeerUnavailable, ask, pins_of
from benchmarks.timing import best, show
from sottovoce.mechanisms import NoisyStatistics
from sottovoce.mechanisms.conjugate import DirichletCategorical, NormalMean
from sottovoce.privacy.promises import PureDP
from sottovoce.records.readings import Statistics

EDGES = np.arange(0, 101, 5)
EPSILON = 0.1


def error(call: Callable[[], Any], truth: Any, repeats: int) -> float:
    """Return the root mean squared error of an answer."""
    return float(np.sqrt(np.mean([np.square(call() - truth) for _ in range(repeats)])))


def opendp_sum(epsilon: float, n: int) -> Callable[[np.ndarray], float]:
    """Return OpenDP's private mean of integers in [0, 100], n known."""
    space = dp.vector_domain(dp.atom_domain(bounds=(0, 100), T="i64"), size=n), dp.symmetric_distance()
    total = space >> dp.t.then_sum()
    measurement = dp.binary_search_chain(lambda b: total >> dp.m.then_laplace(scale=b), d_in=2, d_out=epsilon)
    return lambda ages: measurement(ages) / n


def opendp_counts(epsilon: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return OpenDP's noise on a vector of counts, one record replaced."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    measurement = dp.binary_search_chain(lambda b: dp.m.make_laplace(*space, scale=b), d_in=2, d_out=epsilon)
    return lambda counts: np.array(measurement(counts))


def main(quick: bool = False) -> None:
    """Print the table."""
    dp.enable_features("contrib")
    repeats = {"mean": 400, "histogram": 5 if quick else 20}  # every histogram has twenty cells
    ages = adult().column("age").to_numpy().astype(np.int64)
    n, counts = ages.size, np.histogram(ages, EDGES)[0]
    truth = {"mean": ages.mean(), "histogram": counts}
    mean = NoisyStatistics.calibrate(NormalMean(100.0, 1e4, bounds=(0, 100)), n, PureDP(EPSILON))
    shares = NoisyStatistics.calibrate(DirichletCategorical(np.ones(20)), n, PureDP(EPSILON))
    total = Statistics(n, np.array([float(ages.sum())]))
    tally = Statistics(n, counts.astype(float))
    ours: dict[str, Callable[[], Any]] = {
        "mean": lambda: mean.release(total).value.noisy[0] / n,
        "histogram": lambda: shares.release(tally).value.noisy,
    }
    private_sum, private_counts = opendp_sum(EPSILON, n), opendp_counts(EPSILON)
    theirs: dict[str, Callable[[], Any]] = {
        "mean": lambda: private_sum(ages),
        "histogram": lambda: private_counts(counts),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ages.npz"
        np.savez(path, ages=ages)
        try:
            peer = ask("diffprivlib", {"answers": {"path": str(path), "epsilon": EPSILON, "repeats": 400}})
            note = f"diffprivlib ran in an environment of its own ({pins_of('diffprivlib')})."
        except PeerUnavailable as reason:
            peer, note = {}, f"Without diffprivlib: {reason}."
    rows = []
    for name in ("mean", "histogram"):
        seconds = best(ours[name], 3, 0.3)
        row = [name, f"{error(ours[name], truth[name], repeats[name]):.3g}", f"{1e3 * seconds:.2f} ms"]
        row += [f"{error(theirs[name], truth[name], repeats[name]):.3g}", f"{seconds / best(theirs[name], 3, 0.3):.2f}"]
        row += [f"{peer[name][0]:.3g}", f"{seconds / peer[name][1]:.2f}"] if peer else ["–", "–"]
        rows.append(row)
    show(
        f"Ages of {n:,} people at pure ε = {EPSILON}",
        [
            "",
            "our error",
            "our time",
            "OpenDP's error",
            "our time / theirs",
            "diffprivlib's error",
            "our time / theirs",
        ],
        rows,
        "Root mean squared error over many answers; of the histogram, per cell. Ours is a whole posterior; its time "
        "starts from the sums, OpenDP's mean from the records. diffprivlib's histogram protects the presence of one "
        "record, not its replacement, so it has half the noise for a weaker promise. " + note,
    )


if __name__ == "__main__":
    main()
